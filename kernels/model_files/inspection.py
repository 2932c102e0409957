"""A whole model directory: every check in order, and the facts that come of it."""

import json
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from kernels.model_files import gguf, gguf_config
from kernels.model_files.architectures import Kind, check_architecture, kind_of
from kernels.model_files.config import FILE, MAX_PARAMETERS, check_config, check_no_remote_code
from kernels.model_files.content_checks import check_content, check_paths
from kernels.model_files.errors import ModelRefused, run_checks
from kernels.model_files.families import check_family_fields, estimated_parameters
from kernels.model_files.headers import BITS, Tensor
from kernels.model_files.quantised import (
    FIELD,
    MODELOPT,
    check_files,
    check_tensors,
    plain_config,
    scheme_of,
    with_quantisers_file,
)
from kernels.model_files.selection import gguf_file, select_files
from kernels.model_files.sentence_transformers import sentence_modules, with_modules
from kernels.model_files.stored_weights import as_tensors, left_out, stored_weights
from kernels.model_files.strict_json import check_size, read_json
from kernels.model_files.tensors import INDEX, MAX_INDEX, check_against_config, read_index, read_tensors

MAX_CONFIG = 4 * 2**20
"""Also of tokenizer_config.json and the like; the largest that are known have 2 MiB."""
MAX_CONFIG_ENTRIES = 300_000
"""The names of 22,000 classes, both ways, take 175,000. Pages read the configuration, so it must be small in memory."""
MAX_OTHER = 128 * 2**20
HEAD = 1 << 20
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")
DTYPE_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


class ModelFacts(BaseModel):
    """What the files say of a model. `dtype` is the weights' most common type, or the configuration's.

    `parameters` and `weight_bytes` are counted from the headers, or follow from the configuration when `generated`
    (then weights are made from a seed); 0 when a foreign family's configuration does not tell. `quantised` names the
    format of weights that are dequantised to bf16 before anything else, which `config` and `weight_bytes` are about.
    `files` are the sizes of those that are read; `notes` are sentences on what is left out or ignored.
    """

    config: dict[str, Any]
    architecture: str
    model_type: str
    kind: Kind
    dtype: str
    parameters: int
    weight_bytes: int
    generated: bool
    has_tokenizer: bool
    files: dict[str, int]
    quantised: str = ""
    notes: list[str] = []


def inspect(where: Path | Mapping[str, Path], quota: int | None = None) -> ModelFacts:
    """Checks a model directory, or {path in it: where the content lies}, by headers and small files, of `quota` bytes
    at most. Raises ModelRefused with the file, the field and the reason.
    """
    given = _list_files(where) if isinstance(where, Path) else dict(where)
    sizes = {path: _plain_size(path, at) for path, at in given.items()}
    selection = select_files(given, read_index(given[INDEX]) if INDEX in given else None)
    files = {path: given[path] for path in selection.files}
    check_paths(files)
    if quota is not None and sum(sizes.values()) > quota:
        raise ModelRefused("", "files", f"{sum(sizes.values()):,} bytes are over the quota of {quota:,}")
    single = gguf_file(files)
    facts = _inspect_gguf(single, files[single]) if single else _inspect_directory(files, sizes)
    facts.files = {path: sizes[path] for path in files}
    if selection.left_out:
        facts.notes.append(f"Left out, as the model is read without them: {', '.join(selection.left_out)}.")
    return facts


def _inspect_directory(files: Mapping[str, Path], sizes: Mapping[str, int]) -> ModelFacts:
    checks = [partial(_check_file, path, files[path], sizes[path]) for path in sorted(files.keys() - {FILE})]
    signs = [] if is_quantised(files) else [partial(check_files, files)]
    run_checks([partial(_config_of, files), *checks, *signs])
    facts = _config_of(files)
    tensors = read_tensors(files)
    if scheme := scheme_of(facts.config):
        if not tensors:
            raise ModelRefused(FILE, FIELD, "without safetensors there are no quantised weights; leave the field out")
        facts.config, facts.quantised = plain_config(facts.config), scheme.label
        facts.notes += filter(None, [left_out(tensors)])
        tensors = as_tensors(stored_weights(tensors, scheme))
    else:
        check_tensors(tensors.values())
    check_against_config(tensors, facts.config)
    facts.has_tokenizer = any(name in files for name in TOKENIZERS)
    if tensors:
        facts.generated = False
        facts.parameters = sum(tensor.numel for tensor in tensors.values())
        facts.dtype = _common_dtype(tensors)
        facts.weight_bytes = sum(tensor.numel * BITS[tensor.dtype] // 8 for tensor in tensors.values())
    return facts


def files_at(source: Path) -> dict[str, Path]:
    """A model of this machine's user, a directory or a GGUF file, as `inspect` takes it; links are followed."""
    if source.is_file():
        return {source.name: source}
    return {path.relative_to(source).as_posix(): path for path in source.rglob("*") if path.is_file()}


def is_quantised(files: Mapping[str, Path]) -> bool:
    """Whether the weights are dequantised before anything else. Raises ModelRefused."""
    if gguf_file(files) or MODELOPT in files:
        return True
    with suppress(KeyError, OSError, ValueError, TypeError, RecursionError):
        return json.loads(files[FILE].read_bytes())[FIELD] is not None
    return False


def _inspect_gguf(name: str, at: Path) -> ModelFacts:
    header = gguf.read_gguf(name, at)
    _check_head(name, at)
    try:
        facts = inspect_config(gguf_config.config_of(header, name, at))
        weights = gguf_config.named(header, facts.config, name)
        tensors = {ours: weight.tensor for ours, weight in weights.items()}
        check_against_config(tensors, facts.config)
    except ModelRefused as error:
        raise ModelRefused(name, error.field, error.reason.replace(FILE, "the metadata")) from None
    facts.generated, facts.quantised = False, f"GGUF ({header.types})"
    facts.has_tokenizer = gguf_config.has_tokenizer(header)
    facts.notes += filter(None, [gguf_config.unknown_tokenizer(header)])
    facts.parameters = sum(tensor.numel for tensor in tensors.values())
    facts.weight_bytes = facts.parameters * DTYPE_BYTES[facts.dtype]
    return facts


def _config_of(files: Mapping[str, Path]) -> ModelFacts:
    return inspect_config_file(files[FILE], files)


def check_config_size(size: int) -> None:
    """Refuses a config.json of `size` bytes that is empty or too large, before it is there. Raises ModelRefused."""
    check_size(FILE, size, MAX_CONFIG)


def inspect_config_file(at: Path, files: Mapping[str, Path] = {}) -> ModelFacts:
    """Checks the config.json at `at`, with what other files say of modules and weights. Raises ModelRefused."""
    _check_head(FILE, at)
    config = with_quantisers_file(read_json(FILE, at, MAX_CONFIG, MAX_CONFIG_ENTRIES), files)
    return inspect_config(with_modules(config, sentence_modules(files.get)))


def _check_head(path: str, at: Path) -> None:
    with at.open("rb") as stream:
        check_content(path, stream.read(HEAD), at.stat().st_size)


def inspect_config(config: Any) -> ModelFacts:
    """Checks a configuration alone, as of a catalogue entry; its weights are to be generated. Raises ModelRefused."""
    check_config(config)
    scheme_of(config)
    names = config.get("architectures") or []
    notes = _ignored_code(config)
    try:
        check_architecture(config["model_type"], names)
    except ModelRefused as error:
        if notes:  # only its code could build it
            raise ModelRefused(FILE, "auto_map", f"remote code is not run, and {error.reason}") from None
        raise
    check_family_fields(config)
    parameters = estimated_parameters(config)
    if parameters > MAX_PARAMETERS:
        reason = f"the dimensions imply {parameters:,} parameters, more than the {MAX_PARAMETERS:,} taken"
        raise ModelRefused(FILE, "", reason)
    dtype = str(config.get("dtype") or config.get("torch_dtype") or "bfloat16").removeprefix("torch.")
    if dtype not in DTYPE_BYTES:
        raise ModelRefused(FILE, "torch_dtype", f"{dtype[:40]!r} is not one of {', '.join(DTYPE_BYTES)}")
    return ModelFacts(
        config=config,
        architecture=names[0] if names else "",
        model_type=config["model_type"],
        kind=kind_of(config["model_type"], names, bool(config.get("is_encoder_decoder"))),
        dtype=dtype,
        parameters=parameters,
        weight_bytes=parameters * DTYPE_BYTES[dtype],
        generated=True,
        has_tokenizer=False,
        files={},
        notes=notes,
    )


def _ignored_code(config: dict[str, Any]) -> list[str]:
    if not config.get("auto_map"):
        return []
    return [
        "The code that auto_map in config.json names is not run: the model is the one that transformers itself has."
    ]


def _list_files(directory: Path) -> dict[str, Path]:
    """Every file below the directory; links and special files are refused, not followed."""
    if not directory.is_dir():
        raise ModelRefused(str(directory), "", "there is no such directory")
    listed: dict[str, Path] = {}
    for folder, folders, names in os.walk(directory):
        for name in [*folders, *names]:
            path = Path(folder, name)
            relative = path.relative_to(directory).as_posix()
            if path.is_symlink():
                raise ModelRefused(relative, "", "links are not taken; hand in the file itself")
            if name in names:
                listed[relative] = path
    return listed


def _plain_size(path: str, at: Path) -> int:
    status = at.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ModelRefused(path, "", "only plain files are taken")
    return status.st_size


def _check_file(path: str, at: Path, size: int) -> None:
    _check_head(path, at)
    if path == "adapter_config.json":
        raise ModelRefused(path, "", "adapters are not taken; merge them into the model first")
    if path.endswith(".json") and path != INDEX:
        most = MAX_CONFIG if path.endswith(FILE) else MAX_INDEX
        check_no_remote_code(path, read_json(path, at, most))
    elif not path.endswith((".json", ".safetensors")) and size > MAX_OTHER:
        raise ModelRefused(path, "", f"the file has {size:,} bytes, more than the {MAX_OTHER:,} allowed")


def _common_dtype(tensors: dict[str, Tensor]) -> str:
    names = {"BF16": "bfloat16", "F16": "float16", "F32": "float32", "F64": "float64"}
    totals: dict[str, int] = {}
    for tensor in tensors.values():
        totals[tensor.dtype] = totals.get(tensor.dtype, 0) + tensor.numel * BITS[tensor.dtype]
    most = max(totals, key=lambda dtype: totals[dtype])
    if most not in names:
        raise ModelRefused(next(iter(tensors.values())).file, "dtype", f"weights of type {most} are not taken")
    return names[most]
