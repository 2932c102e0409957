"""Cycles of a block of fft_conv in each of its phases, by a build with clocks in it."""

import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch

from kernels import registry
from kernels.cuda import nvrtc
from kernels.fft import fft_call, fft_tiles
from kernels.fft.fft_tiles import FftConfig
from kernels.measure.timing import StoppingRule, interleaved
from kernels.ops import FftConvCase
from kernels.proof import inputs

PHASES = ("global loads", "rest of load", "tiles", "store")
MARK = "if (threadIdx.x == 0) {{ const long now = clock64(); marks[{0}] += now - last; last = now; }}"


def patched(folder: Path) -> Path:
    for file in Path(fft_tiles.__file__).parent.glob("*.cu*"):
        shutil.copy(file, folder)
    path = folder / "fft_conv.cu"
    text = path.read_text()
    
    text = text.replace('#include "tiles16.cuh"', '#include "tiles16.cuh"\n__shared__ long marks[4], last;', 1)
    text = text.replace(
        "largest);\n  __syncthreads();\n", "largest);\n  __syncthreads();\n  " + MARK.format(0) + "\n", 1
    )
    text = text.replace("load(shared, first, turn % 2, p);\n", "load(shared, first, turn % 2, p);\n    " + MARK.format(1) + "\n")
    text = text.replace("    store(shared, first, turn % 2, p);", "    __syncthreads();\n    " + MARK.format(2) + "\n    store(shared, first, turn % 2, p);\n    " + MARK.format(3))
    text = text.replace(
        "  shared.make();\n", "  shared.make();\n  if (threadIdx.x < 4) marks[threadIdx.x] = 0;\n  if (threadIdx.x == 0) last = clock64();\n"
    )
    at = text.rindex("}")
    text = text[:at] + "  if (threadIdx.x < 4) ((long*)p.workspace)[blockIdx.x * 4 + threadIdx.x] = marks[threadIdx.x];\n}\n"
    path.write_text(text)
    return path


def measured(case: FftConvCase, config: FftConfig, source: Path) -> None:
    given = inputs.draw(case, "cuda", 1)
    variant = registry.variant("monarch")
    params = {"threads": config.threads, "blocks": config.blocks, "runs": config.runs}
    packed = variant.pack(case, params, given.pop("w"))
    out = torch.empty_like(given["u"])
    call = fft_call.FftConv(case, config)
    call.builds = [nvrtc.Build.of(source, config.macros(case))]
    marks = torch.zeros(132 * config.blocks, 4, dtype=torch.int64, device="cuda")
    original = fft_call.packed_params

    def with_marks(*arguments: Any) -> Any:
        made = original(*arguments)
        made["workspace"] = marks.data_ptr()
        return made

    fft_call.packed_params = with_marks
    once = partial(call, w=packed, out=out, **given)
    once()
    torch.cuda.synchronize()
    fft_call.packed_params = original
    plain = partial(fft_call.FftConv(case, config), w=packed, out=torch.empty_like(out), **given)
    times = interleaved({"marked": once, "plain": plain}, "cuda", StoppingRule(seconds=0.3, least=3, warmup_seconds=0.01))
    blocks = min(132 * config.blocks, -(-case.batch * case.width // config.sequences))
    each = case.batch * case.width / config.sequences / blocks
    mean = (marks[:blocks].double().mean(0) / each).tolist()
    words = ", ".join(f"{name} {cycles:,.0f}" for name, cycles in zip(PHASES, mean, strict=True))
    print(f"{config.points} {config.threads}x{config.blocks} runs={config.runs}: {words} cycles a turn; {times['plain'].ms:.4f} ms, {times['marked'].ms:.4f} with clocks", flush=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = patched(Path(folder))
        for length in (256, 1024, 4096, 8192, 16_384, 32_768):
            case = FftConvCase(batch=64, width=768, length=length, filter=length)
            for config in fft_tiles.configs(case):
                try:
                    measured(case, config, source)
                except Exception as failure:
                    print(length, config, type(failure).__name__, str(failure)[:1500], flush=True)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    with torch.no_grad():
        main()
