"""Steps of the int8 megakernel with other macros and layouts, in turns in one process. Temporary."""

import json
import os
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from kernels.cuda import nvrtc
from kernels.megakernel.host import device
from kernels.megakernel.program import build_program
from kernels.megakernel.program.layout import default_layout
from kernels.megakernel.program.shape import shape_of
from kernels.model_files import catalogue

CAPACITY = 192
VARIANTS = json.loads(os.environ["VARIANTS"])  # name: [macros, layout]
plain = device.defines
extra = {}
device.defines = lambda program, tuning: plain(program, tuning) | extra


def layout_of(shape, change, batch):
    return replace(default_layout(shape, batch, CAPACITY, "int8", 132), **change)


def compiled(config, macros, change, batch):
    shape = shape_of(config)
    extra.clear()
    extra.update(macros)
    constants = device.defines(build_program(shape, layout_of(shape, change, batch)), device.Tuning())
    nvrtc.Build.of(device.SOURCES / "decode.cu", constants).binary()


def main(model_name, layers, batch, rounds):
    import torch

    from kernels import runners
    from kernels.megakernel.host.machine import DecodeRequest, SingleGpuMegakernel
    from kernels.megakernel.host.rank_models import rank_models
    from kernels.megakernel.runner import pinned
    from kernels.model.rounding import Rounding

    config = catalogue.entry(model_name)[0]
    if layers:
        config |= {"num_hidden_layers": layers}
    began = time.monotonic()
    with ProcessPoolExecutor(8, mp_context=get_context("spawn")) as pool:
        jobs = [pool.submit(compiled, config, *each, batch) for each in VARIANTS.values()]
        model = runners.load(None, config, seed=0, generated=True, dtype="bf16", device="cuda")
        own = rank_models(model, [torch.device("cuda", 0)], "int8", Rounding())[0]
        torch.cuda.synchronize()
        print(f"model after {time.monotonic() - began:.1f} s", flush=True)
        wrong = {}
        for name, job in zip(VARIANTS, jobs):
            try:
                job.result()
            except Exception as error:
                wrong[name] = str(error)[:300]
    print(f"compiled after {time.monotonic() - began:.1f} s; {wrong}", flush=True)
    shape, first_logits, rows = shape_of(config), None, {}
    first = torch.arange(batch, dtype=torch.int64, device="cuda") + 7
    count = CAPACITY - 129
    forced = torch.randint(shape.vocab, (count + 1, batch), device="cuda", generator=torch.Generator("cuda").manual_seed(1))
    forced[0] = first
    for name, (macros, change) in VARIANTS.items():
        if name in wrong:
            continue
        extra.clear()
        extra.update(macros)
        try:
            machine = SingleGpuMegakernel(
                own.model, shape, layout_of(shape, change, batch), CAPACITY, device.Tuning(), own.rounded
            )
            memory, tokens = pinned(count * batch, -1)
            cancel_memory, cancel = pinned(1, 0)
            logits = torch.zeros(count, batch, shape.vocab, device="cuda")
            machine.launch(DecodeRequest(first, 128, count, forced=forced, logits=logits), tokens, cancel)
            torch.cuda.synchronize()
            machine.check()
            first_logits = logits.clone() if first_logits is None else first_logits
            off = float((logits - first_logits).norm() / first_logits.norm())
            times = []
            for _ in range(rounds):
                begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                begin.record()
                machine.launch(DecodeRequest(first, 128, count), tokens, cancel)
                end.record()
                end.synchronize()
                times.append(begin.elapsed_time(end) / count)
            machine.check()
            stages = machine.constants["STAGES"]
            rows[name] = statistics.median(times[3:])
            print(f"{model_name} b{batch} {name:28} {rows[name]:.4f} ms/token ({min(times):.4f}), logits off {off:.2e}, {stages} stages, {time.monotonic() - began:.0f} s", flush=True)
            del machine, logits
        except Exception as error:
            print(f"{name}: {error!r}"[:300], flush=True)
    Path(os.environ.get("OUT", "/tmp"), f"int8-{model_name}-{batch}.json").write_text(json.dumps(rows))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
