"""A token of transformers' `generate` where the model is spread over two GPUs, beside one GPU, in ms.

    python -m benchmarks.device_map_baseline llama-3.1-8b --json today.json

`ranks` and `layers` are the two ways of which a run of the workbench takes the faster one as before: attention and MLP
sharded, driven by one process, and whole layers on one GPU after the other, as `device_map` places them. The turns
alternate.
"""

import argparse
import json
from pathlib import Path
from statistics import median

import torch

from kernels import runners
from kernels.measure.environment import environment_info
from kernels.model import tensor_parallel
from kernels.model.tensor_parallel_modules import over_ranks
from kernels.model_files import catalogue
from kernels.runners import Runner

TURNS, PROMPT, TOKENS = 5, 128, 64


def token_ms(runner: Runner, prompt: torch.Tensor) -> float:
    times = runner.generate(prompt, TOKENS).times_ns
    return (times[-1] - times[0]) / 1e6 / (TOKENS - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    config = catalogue.entry(options.model)[0]
    pair = [torch.device("cuda", number) for number in (0, 1)]
    models = {
        "one GPU": runners.load(None, config, generated=True),
        "ranks": over_ranks(tensor_parallel.load(None, config, pair, generated=True)),
        "layers": runners.load(None, config, generated=True, pipeline_parallel_size=2),
    }
    prompt = torch.randint(config["vocab_size"], (1, PROMPT), generator=torch.Generator().manual_seed(1))
    sides = {name: runners.runner("eager", model) for name, model in models.items()}
    for side in sides.values():
        side.prepare(1, PROMPT, TOKENS)
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(TURNS):
        for name, side in sides.items():
            seconds[name].append(token_ms(side, prompt))
    medians = {name: median(times) for name, times in seconds.items()}
    facts = environment_info(device="cuda")
    options.json.write_text(
        json.dumps({"model": options.model, **facts, "tpot_ms": medians, "turns": seconds}, indent=1)
    )
    print(", ".join(f"{name} {ms:.2f} ms" for name, ms in medians.items()))


if __name__ == "__main__":
    main()
