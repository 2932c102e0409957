"""A token's time of a mixture in the megakernel by compile-time choices, on one GPU, weights from a seed:

    python -m benchmarks.experts_tuning qwen3-30b-a3b --json FILE [--batch 1 --batch 8] [--compile FOLDER]

With --compile it compiles and proves what these runs ask for, without a GPU.
"""

import argparse
import json
import time
from pathlib import Path
from statistics import median
from typing import Any

from kernels.megakernel.host import device
from kernels.megakernel.host.device import Tuning
from kernels.megakernel.program.layout import default_layout
from kernels.megakernel.program.ranks import programs
from kernels.megakernel.program.shape import shape_of
from kernels.megakernel.proof.validate import Proof
from kernels.model.prompts import room_for
from kernels.model_files import catalogue

PROMPT, TOKENS, ROUNDS = 128, 64, 7
VARIANTS: dict[str, dict[str, Any]] = {
    "no prefetch": {},
    "64 KB": {"prefetch_bytes": 65536},
    "4 and 8 in flight": {"in_flight": 4, "long_in_flight": 8},
}


def program_of(name: str, batch: int) -> Any:
    shape = shape_of(catalogue.entry(name)[0])
    return programs(shape, default_layout(shape, batch, room_for(PROMPT, TOKENS)))[0]


def builds(name: str, batch: int) -> dict[str, dict[str, Any]]:
    """The constants of each variant; of several sequences the first two."""
    program = program_of(name, batch)
    chosen = VARIANTS if batch == 1 else dict(list(VARIANTS.items())[:2])
    return {label: device.defines(program, Tuning(**choice)) for label, choice in chosen.items()}


def compile_all(names: list[str], batches: list[int], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        for batch in batches:
            program = program_of(name, batch)
            for constants in builds(name, batch).values():
                device.build_of(constants).make_into(folder)
            device.traced_build(program, Tuning()).make_into(folder)
            Proof(program.shape, program.layout).make_into(folder)


def token_ms(runner: Any, ids: Any) -> float:
    """The median over rounds of the time of a token after the first."""
    rounds = []
    for _ in range(ROUNDS):
        times = runner.generate(ids, TOKENS).times_ns
        rounds.append((times[-1] - times[0]) / (len(times) - 1) / 1e6)
    return median(rounds)


def measure(name: str, batches: list[int]) -> list[dict[str, Any]]:
    import torch

    from kernels import runners
    from kernels.megakernel.host import trace

    began, rows = time.monotonic(), []

    def say(**row: Any) -> None:
        rows.append({"model": name, **row})
        print(f"{time.monotonic() - began:5.1f} s", json.dumps(row), flush=True)

    model = runners.load(None, catalogue.entry(name)[0], seed=0, generated=True, dtype="bf16", device="cuda")
    say(loaded=round(torch.cuda.memory_allocated() / 1e9, 2))
    for batch in batches:
        ids = torch.randint(0, model.config.vocab_size, (batch, PROMPT), device="cuda")
        runner = runners.runner("megakernel", model)
        runner.prepare(batch, PROMPT, TOKENS)
        machine = runner.ranks[0]
        say(prepared=round(torch.cuda.memory_allocated() / 1e9, 2), batch=batch, sms=machine.layout.sms)
        for label, constants in builds(name, batch).items():
            machine.kernel, machine.constants = device.compile_kernel(constants), constants
            ms = token_ms(runner, ids)
            say(batch=batch, variant=label, token_ms=round(ms, 4), tokens_s=round(1000 * batch / ms, 1))
        usual = builds(name, batch)["no prefetch"]
        machine.kernel, machine.constants = device.compile_kernel(usual), usual
        with machine.traced():
            runner.generate(ids, 8)
        timeline = trace.timeline_of([(machine.program, machine.trace.cpu().numpy().astype("uint64"))])
        spent = {op: [round(us, 1) for us in each] for op, each in trace.summary(timeline).items()}
        say(batch=batch, us_of_the_mean_sm=spent)
        print("\n".join(trace.drawing(timeline, timeline.layers // 2, range(0, 128, 11))))
        runner.close()
        del runner, machine
        runners.free()
    for batch in batches:
        ids = torch.randint(0, model.config.vocab_size, (batch, PROMPT), device="cuda")
        runner = runners.runner("kernels", model)
        runner.prepare(batch, PROMPT, TOKENS)
        ms = token_ms(runner, ids)
        say(batch=batch, variant="kernels runner", token_ms=round(ms, 4), tokens_s=round(1000 * batch / ms, 1))
        runner.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--batch", type=int, action="append")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--compile", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    if options.compile:
        compile_all(options.models, options.batch or [1], options.compile)
        return
    rows = [row for name in options.models for row in measure(name, options.batch or [1])]
    options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
