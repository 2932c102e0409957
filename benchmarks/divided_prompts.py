"""TTFT and TTF64 of the kernels runner over several processes, which divide prompts and steps.

    torchrun --nproc-per-node 2 -m benchmarks.divided_prompts MODEL_DIRECTORY --prompt 4096 --json divided.json

Each process reads its slices of the safetensors in MODEL_DIRECTORY, on a GPU of its own, or with `--device cpu` by
gloo. A request's clock begins before its prompt, so TTF64 counts it. Prints the medians of `--rounds` requests.
"""

import argparse
import json
import os
import statistics
from pathlib import Path
from typing import Any

import torch

from kernels.engine.divided import DividedRunner, group, load_part
from kernels.measure.environment import environment_info

TOKENS = 64


def measured(runner: DividedRunner, batch: int, prompt: int, rounds: int) -> dict[str, Any]:
    """Median ms until the first token and until the last of TOKENS."""
    vocab = runner.model.config.vocab_size
    chance = torch.Generator().manual_seed(7)
    runner.prepare(batch, prompt, TOKENS)
    times = []
    for _ in range(rounds):
        ids = torch.randint(vocab, (batch, prompt), generator=chance).to(runner.model.device)
        found = runner.generate(ids, TOKENS)
        times.append([(found.times_ns[at] - found.start_ns) / 1e6 for at in (0, TOKENS - 1)])
    first, last = (statistics.median(each) for each in zip(*times, strict=True))
    return {"batch": batch, "prompt": prompt, "rounds": rounds, "ttft_ms": first, f"ttf{TOKENS}_ms": last}


def main() -> None:
    """The command line of one process; torchrun says which."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--dtype", choices=("bf16", "fp32"), default="bf16")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = (
        torch.device(given.device, int(os.environ["LOCAL_RANK"])) if given.device == "cuda" else torch.device("cpu")
    )
    config = json.loads((given.model / "config.json").read_text())
    with group(rank, ranks, device, "env://"):
        runner = DividedRunner(load_part(given.model, config, rank, ranks, given.dtype, device))
        row = measured(runner, given.batch, given.prompt, given.rounds)
    if rank:
        return
    document = {"environment": environment_info(device=given.device), "ranks": ranks, "dtype": given.dtype} | row
    if given.json:
        given.json.write_text(json.dumps(document, indent=1) + "\n")
    print(f"{ranks} processes: TTFT {row['ttft_ms']:.2f} ms, TTF{TOKENS} {row[f'ttf{TOKENS}_ms']:.2f} ms")


if __name__ == "__main__":
    main()
