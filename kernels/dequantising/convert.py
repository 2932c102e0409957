"""A program of its own: writes a model of quantised weights as a model directory in bf16.

    python -m kernels.dequantising.convert < request.json

The request is a JSON object: `files` (paths in the model's folder, and where their contents lie) and `folder`, which is
there. It prints one JSON object: `file`, `field` and `reason` of what is refused, or nothing in it.
"""

import json
import math
import os
import shutil
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from kernels.dequantising import gguf_weights, layouts
from kernels.dequantising.layouts import Converted, Job, StoredScales, WrongParts, dequantise
from kernels.dequantising.layouts import stored as as_stored
from kernels.model_files import ModelFacts, ModelRefused, gguf_file, inspect
from kernels.model_files.config import FILE
from kernels.model_files.families import attention_shape
from kernels.model_files.quantised import FILES as QUANTISERS_FILES
from kernels.model_files.quantised import Scheme, scheme_of, with_quantisers_file
from kernels.model_files.stored_weights import KV_SCALES, StoredWeight, kv_scales, stored_weights
from kernels.model_files.tensors import INDEX, read_tensors
from kernels.quant.quantised_matrix import is_finite

SHARD_BYTES = 2**31
SPARE_BYTES = 2**30
THREADS = min(8, os.cpu_count() or 1)
"""Weights that are dequantised at once."""
TOGETHER = 2**28
"""Values of them: each takes up to 16 bytes meanwhile. A larger weight is dequantised alone."""
EXPERTS = ".experts."
"""In the names of a mixture's experts, whose stored scales are not kept: the model joins those of a layer."""


def main() -> None:
    torch.set_num_threads(1)  # each of THREADS has a core
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print
    request = json.load(sys.stdin)
    files = {path: Path(at) for path, at in request["files"].items()}
    refused: dict[str, str] = {}
    try:
        convert(files, Path(request["folder"]))
    except ModelRefused as error:
        refused = {"file": error.file, "field": error.field, "reason": error.reason}
    except MemoryError:
        refused = {"file": next(iter(files)), "field": "", "reason": "dequantising takes more memory than there is"}
    except OSError as error:
        refused = {"file": next(iter(files)), "field": "", "reason": f"it cannot be dequantised: {error.strerror}"}
    print(json.dumps(refused), file=answer, flush=True)


def convert(files: Mapping[str, Path], folder: Path) -> None:
    """Fills the folder. Raises ModelRefused."""
    facts = inspect(files)
    if shutil.disk_usage(folder).free < facts.weight_bytes + SPARE_BYTES:
        reason = f"in bf16 its weights take {facts.weight_bytes:,} bytes, more than are free on this disk"
        raise ModelRefused(next(iter(files)), "", reason)
    (folder / FILE).write_text(json.dumps(facts.config, indent=2))
    _write(folder, _weights(files, facts, folder))
    if not gguf_file(files):
        _write_kv_scales(folder, files, attention_shape(facts.config)[1])


def _weights(files: Mapping[str, Path], facts: ModelFacts, folder: Path) -> Iterator[Job]:
    if name := gguf_file(files):
        if facts.has_tokenizer:
            from kernels.dequantising import gguf_tokenizer  # with transformers, which takes a second

            gguf_tokenizer.write(name, files[name], facts.config, folder)
        yield from gguf_weights.weights_of_gguf(name, files[name], facts.config)
        return
    for path in files.keys() - {FILE, INDEX, *QUANTISERS_FILES}:
        if "/" in path or not path.endswith(".safetensors"):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(files[path], folder / path)
    scheme = scheme_of(with_quantisers_file(json.loads(files[FILE].read_bytes()), files))
    assert scheme is not None
    yield from weights_of_checkpoint(files, scheme)


def _in_threads(jobs: Iterable[Job]) -> Iterator[tuple[str, torch.Tensor, StoredScales | None]]:
    """The results of the jobs in their order, up to THREADS and TOGETHER at once: names, values in bf16, and scales and
    zeros by which products can hold the weight as it is stored. Raises ModelRefused for a weight that is no number.
    """

    def run(job: Job) -> Converted:
        weight, stored = job.convert()
        weight = weight.contiguous()
        if not is_finite(weight):
            raise ModelRefused("", job.name, "the weights are not all numbers once they are dequantised")
        return weight, None if EXPERTS in job.name else layouts.check_stored(weight, stored)

    pending = deque[tuple[Job, Future[Converted]]]()
    with ThreadPoolExecutor(THREADS) as threads:
        for job in [*jobs, None]:
            others = sum(other.size for other, _ in pending)
            while pending and (job is None or len(pending) > THREADS or others + job.size > TOGETHER):
                first, future = pending.popleft()
                others -= first.size
                yield first.name, *future.result()
            if job is not None:
                pending.append((job, threads.submit(run, job)))


def _write(folder: Path, jobs: Iterable[Job]) -> None:
    """Shards of SHARD_BYTES, their index, and scales and zeros. Raises ModelRefused as the jobs."""
    shard: dict[str, torch.Tensor] = {}
    file_of: dict[str, str] = {}
    scales: dict[str, StoredScales] = {}
    size = number = 0
    for name, weight, stored in _in_threads(jobs):
        shard[name] = weight
        if stored is not None:
            scales[name] = stored
        size += weight.nbytes
        if size >= SHARD_BYTES:
            number, size = number + 1, 0
            file_of |= _save(folder, shard, number)
    file_of |= _save(folder, shard, number + 1)
    layouts.save(folder, scales)
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": file_of}))


def _save(folder: Path, shard: dict[str, torch.Tensor], number: int) -> dict[str, str]:
    path = folder / f"model-{number:05}.safetensors"
    if shard:
        save_file(shard, path, metadata={"format": "pt"})
    file_of = dict.fromkeys(shard, path.name)
    shard.clear()
    return file_of


def _write_kv_scales(folder: Path, files: Mapping[str, Path], heads: int) -> None:
    """Scales of keys and values, of all heads or each; no file where none is above 0. Raises ModelRefused."""
    scales: dict[str, torch.Tensor] = {}
    for name, tensor in kv_scales(read_tensors(files)).items():
        with safe_open(files[tensor.file], framework="pt") as file:
            scale = file.get_tensor(tensor.name).float().reshape(-1)
        if len(scale) not in (1, heads) or not bool(torch.isfinite(scale).all()):
            reason = f"the scale of keys or values must be a number, or one for each of the {heads} heads"
            raise ModelRefused(tensor.file, tensor.name[:200], reason)
        if bool((scale > 0).all()):
            scales[name] = scale
    if scales:
        save_file(scales, folder / KV_SCALES)


def weights_of_checkpoint(files: Mapping[str, Path], scheme: Scheme) -> Iterator[Job]:
    """Every weight. It and the jobs raise ModelRefused."""
    stored = stored_weights(read_tensors(files), scheme)
    shards = {part.file for weight in stored.values() for part in weight.parts.values()}
    opened = {shard: safe_open(files[shard], framework="pt") for shard in shards}

    def converted(name: str, weight: StoredWeight) -> Converted:
        parts = {part: opened[tensor.file].get_tensor(tensor.name) for part, tensor in weight.parts.items()}
        try:
            stored = as_stored(weight.layout, parts, scheme)
        except WrongParts as error:
            raise ModelRefused(weight.file, name, str(error)) from None
        return dequantise(stored), layouts.stored_scales(stored)

    for name, weight in stored.items():
        yield Job(name, math.prod(weight.shape), partial(converted, name, weight))


if __name__ == "__main__":
    main()
