"""A token of transformers' `generate` where the model is spread over two GPUs, beside one GPU, in ms.

    python -m benchmarks.several_gpus_today llama-3.1-8b --json today.json

`ranks` is what a run of the workbench measures as before: attention and MLP divided, one process. `layers` places whole
layers on one GPU after the other, as `device_map` does. The turns alternate.
"""

import argparse
import json
from pathlib import Path
from statistics import median
from typing import Any

import torch

from kernels import runners
from kernels.measure.environment import environment_info
from kernels.model import tensor_parallel
from kernels.model.tensor_parallel_modules import over_ranks
from kernels.model_files import catalogue
from kernels.runners import Runner

TURNS, PROMPT, TOKENS = 5, 128, 64


def layers_in_turn(model: Any) -> Any:
    """The model with the second half of its layers, its norm and its head on the second GPU."""
    other, layers = torch.device("cuda", 1), model.model.layers
    for module in (*layers[len(layers) // 2 :], model.model.norm, model.lm_head):
        module.to(other)
        module.register_forward_pre_hook(
            lambda _, args, named: (_on(other, args), {name: _on(other, value) for name, value in named.items()}),
            with_kwargs=True,
        )
    model.lm_head.register_forward_hook(lambda _, args, out: out.to(model.device))
    return model


def _on(device: torch.device, value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_on(device, item) for item in value)
    return value.to(device) if isinstance(value, torch.Tensor) else value


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
        "layers": layers_in_turn(runners.load(None, config, generated=True)),
    }
    prompt = torch.randint(config["vocab_size"], (1, PROMPT), generator=torch.Generator().manual_seed(1))
    sides = {name: runners.runner("eager", model) for name, model in models.items()}
    for side in sides.values():
        side.prepare(1, PROMPT, TOKENS)
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(TURNS):
        for name, side in sides.items():
            taken[name].append(token_ms(side, prompt))
    medians = {name: median(times) for name, times in taken.items()}
    facts = environment_info(device="cuda")
    options.json.write_text(json.dumps({"model": options.model, **facts, "tpot_ms": medians, "turns": taken}, indent=1))
    print(", ".join(f"{name} {ms:.2f} ms" for name, ms in medians.items()))


if __name__ == "__main__":
    main()
