"""ms of a megakernel's token by layout and tuning: what slicing the residual, splits, column parts and chunks in flight
take on a model's shape.

    python -m benchmarks.layouts llama-3.1-70b --gpus 2 --layers 16 --weights fp8 \
        --layout '{}' --layout '{"sliced": true, "splits": 16}' --json layouts.json

A layout may name fields of Tuning too: '{"tuning": {"in_flight": 4}}'. It measures the model's first `--layers` layers,
with weights from a seed, behind a prompt of 128 tokens: the median, least and most of 12 requests of 64 tokens, one of
each layout after the other. The logits of each layout are compared with those of the first layout. `--part 4` measures
one rank's part on one GPU, without the exchange between GPUs.
"""

import argparse
import json
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from kernels import runners
from kernels.measure.environment import environment_info
from kernels.megakernel.cli import config_of
from kernels.megakernel.host import device
from kernels.megakernel.program.layout import default_layout
from kernels.megakernel.program.ranks import programs
from kernels.megakernel.program.shape import shape_of
from kernels.model import tensor_parallel
from kernels.model.prompts import room_for
from kernels.server.execution.compiling import compile_together

PROMPT, TOKENS, COMPARED = 128, 64, 8
Made = tuple[dict[str, Any], Any, list[float]]
"""A layout, its prepared runner, and ms a token of each request."""


def model_of(name: str, layers: int, part: int, gpus: int) -> Any:
    """The model's first layers, all with 0, or a rank's part of them; on several GPUs it is made there, divided.

    Raises ValueError where the model does not divide or the GPUs do not suffice.
    """
    config = config_of(name)
    config |= {"num_hidden_layers": layers or config["num_hidden_layers"]}
    if part > 1:
        config = tensor_parallel.part_of_config(config, part)
    if gpus > 1:
        return tensor_parallel.load(None, config, tensor_parallel.devices_of(gpus), generated=True)
    return runners.load(None, config, seed=0, generated=True, dtype="bf16", device="cuda")


def options_of(layout: dict[str, Any], weights: str) -> dict[str, Any]:
    """The options of the megakernel's runner."""
    rounding = {} if weights == "bf16" else {"rounding": {"method": "nearest"}}
    fields = {name: value for name, value in layout.items() if name != "tuning"}
    return {"weights": weights, "layout": fields, "tuning": layout.get("tuning", {})} | rounding


def prepared(model: Any, layout: dict[str, Any], weights: str, batch: int) -> Any:
    """The megakernel's runner with this layout. Raises InvalidProgram, or ValueError for one that does not fit."""
    runner: Any = runners.runner("megakernel", model, options_of(layout, weights))
    runner.prepare(batch, PROMPT, TOKENS)
    return runner


def compile_ahead(model: Any, layouts: list[dict[str, Any]], weights: str, batch: int) -> None:
    """Compiles the kernels of a model on one GPU, all at once."""
    shape, sms = shape_of(model.config.to_dict()), torch.cuda.get_device_properties(0).multi_processor_count
    usual = default_layout(shape, batch, room_for(PROMPT, TOKENS), weights, sms)
    builds = []
    for options in (options_of(layout, weights) for layout in layouts):
        program = programs(shape, replace(usual, **options["layout"]))[0]
        builds.append(device.build_of(device.defines(program, device.Tuning(**options["tuning"]))))
    compile_together(builds)


def ms_per_token(runner: Any, prompt: torch.Tensor) -> float:
    """The mean time between the tokens of one request in ms, as the host reads them."""
    times = runner.generate(prompt, TOKENS).times_ns
    return float(times[-1] - times[0]) / (TOKENS - 1) / 1e6


def rows_of(made: list[Made], prompt: torch.Tensor) -> list[dict[str, Any]]:
    """A row for each layout; `differs` is the distance of its logits from the first one's, over their norm."""
    logits = [runner.after_prompt(prompt, PROMPT - COMPARED).float() for _, runner, _ in made]
    return [
        {
            "layout": layout,
            "used": vars(runner._machine.layout),
            "ms_per_token": statistics.median(times),
            "ms_least": min(times),
            "ms_most": max(times),
            "differs": float((own - logits[0]).norm() / logits[0].norm()),
        }
        for (layout, runner, times), own in zip(made, logits, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--part", type=int, default=1, help="measure a rank's part of so many")
    parser.add_argument("--layers", type=int, default=0, help="0 is all")
    parser.add_argument("--weights", default="bf16")
    parser.add_argument("--layout", type=json.loads, action="append", required=True, help="fields, as JSON")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    model = model_of(asked.model, asked.layers, asked.part, asked.gpus)
    generator = torch.Generator("cuda").manual_seed(1)
    prompt = torch.randint(model.config.vocab_size, (asked.batch, PROMPT), device="cuda", generator=generator)
    if asked.gpus == asked.part == 1:
        compile_ahead(model, asked.layout, asked.weights, asked.batch)
    made: list[Made] = [(layout, prepared(model, layout, asked.weights, asked.batch), []) for layout in asked.layout]
    for _ in range(asked.rounds):
        for _, runner, times in made:
            times.append(ms_per_token(runner, prompt))
    case = {name: getattr(asked, name) for name in ("model", "gpus", "part", "layers", "weights", "batch", "rounds")}
    found = case | {"rows": rows_of(made, prompt)} | environment_info(device="cuda")
    for row in found["rows"]:
        print(
            f"{row['ms_per_token']:.4f} ms [{row['ms_least']:.4f}, {row['ms_most']:.4f}]  {json.dumps(row['layout'])}"
        )
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
