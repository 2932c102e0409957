"""The model that `bench serve` gives to every server: a directory with weights and a tokenizer."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from kernels import runners
from kernels.cli.bench_decode_run import larger_than
from kernels.cli.bench_experts import with_even_experts
from kernels.dequantising import plain_model
from kernels.measure.roofline import floor_ms
from kernels.model import tensor_parallel, written_model
from kernels.model.loading import skeleton
from kernels.model.model_case import model_case
from kernels.model_files import ModelRefused
from kernels.model_files.config import FILE
from kernels.model_files.quantised import FIELD
from kernels.proof.served_ids import LogitGaps, answer_gaps
from kernels.server.spec import catalogue_config

FLOOR_TOKENS = 64


@dataclass(frozen=True)
class ServedModel:
    """`directory` holds the files, or is a catalogue entry's name; `name` is the model's name to clients. Weights are
    in `dtype` on `device`, and `generated` or a directory's own. The layers of one that is larger than a GPU are on
    `gpus` of them. `stored` is the folder of quantised weights that `directory` was dequantised from, if any.
    """

    directory: Path
    name: str
    dtype: str
    device: str
    generated: bool = True
    gpus: int = 1
    stored: Path | None = None

    @property
    def config(self) -> dict[str, Any]:
        return catalogue_config(str(self.directory)) or json.loads((self.directory / "config.json").read_text())

    @property
    def checkpoint(self) -> str | None:
        """How the folder of quantised weights calls its format, such as `awq`."""
        config = json.loads((self.stored / FILE).read_text()) if self.stored else {}
        return config.get(FIELD, {}).get("quant_method")

    @property
    def vocabulary(self) -> int:
        return int(self.config["vocab_size"])

    @property
    def positions(self) -> int:
        """The longest sequence in tokens."""
        return int(self.config.get("max_position_embeddings") or 1 << 20)

    def load(self) -> Any:
        """The model, as transformers has it."""
        directory = self.directory if self.directory.is_dir() else None
        return runners.load(
            directory,
            self.config,
            generated=directory is None,
            dtype=self.dtype,
            device=self.device,
            pipeline_parallel_size=self.gpus,
        )

    def floors(self, prompt: int, batches: list[int], ceilings: dict[str, Any]) -> dict[int, float | None]:
        """The roofline's least ms of 64 tokens behind `prompt` ones, by the number of requests; experts as counted."""
        model = skeleton(self.config, self.dtype)
        cases = {batch: model_case(model, self.name, self.dtype, batch, prompt, FLOOR_TOKENS) for batch in batches}
        if self.generated:
            cases = {batch: with_even_experts(case, self.config) for batch, case in cases.items()}
        return {batch: floor_ms(case, ceilings) for batch, case in cases.items()}

    def judged(self, answers: list[list[tuple[list[int], list[int]]]]) -> list[list[LogitGaps]]:
        """The gaps of each (prompt, answer) of each group, by transformers' eager model."""
        eager = runners.runner("eager", self.load())
        return [[answer_gaps(eager, prompt, ids, self.device) for prompt, ids in group] for group in answers]


def prepare_model(
    named: str, dtype: str, device: str, folder: Path, weights: bool = True, gpus: int = 1
) -> ServedModel:
    """A directory as it is, or a catalogue entry: written to `folder` with weights from a seed, or without `weights` by
    its name, of which each process draws the same ones. One that is larger than a GPU takes `gpus`. Raises ValueError.
    """
    config = None if Path(named).is_file() else catalogue_config(named)
    if config is None:
        try:
            directory = plain_model(Path(named)).resolve()
        except ModelRefused as error:
            raise ValueError(f"--model: {error}") from error
        path = Path(named).resolve()
        stored = path if path.is_dir() and path != directory else None
        served = ServedModel(directory, path.name, dtype, device, generated=False, stored=stored)
    else:
        served = ServedModel(folder if weights else Path(named), named, dtype, device)
    large = larger_than(torch.device(device), config or served.config, dtype)
    if large:
        served = replace(served, gpus=gpus)
    if config is None or not weights:
        return served
    if large:
        devices = tensor_parallel.devices_of(gpus, device)
        written_model.write_generated(config, folder, [str(device_of_rank) for device_of_rank in devices], dtype)
        return served
    model: Any = runners.load(None, config, seed=0, generated=True, dtype=dtype, device=device)
    written_model.write(model, folder)
    del model
    runners.free()
    return served
