"""A whole model directory: every check in order, and the facts that come of it."""

import json
import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from kernels.model_files import gguf, gguf_config
from kernels.model_files.architectures import Kind, check_architecture, kind_of
from kernels.model_files.config import FILE, MAX_PARAMETERS, check_config, check_no_remote_code
from kernels.model_files.content_checks import check_content, check_paths
from kernels.model_files.errors import ModelRefused
from kernels.model_files.families import check_family_fields, estimated_parameters
from kernels.model_files.headers import BITS, Tensor
from kernels.model_files.quantised import FIELD, plain_config, scheme_of
from kernels.model_files.stored_weights import as_tensors, stored_weights
from kernels.model_files.strict_json import check_size, read_json
from kernels.model_files.tensors import INDEX, MAX_INDEX, check_against_config, read_tensors

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


def inspect(where: Path | Mapping[str, Path], quota: int | None = None) -> ModelFacts:
    """Checks a model directory, or files given as {path in the directory: where the content lies}.

    `quota` is the most bytes that the files may have together. Reads headers and small files only.
    Raises ModelRefused with the file, the field and the reason.
    """
    files = _listed(where) if isinstance(where, Path) else dict(where)
    check_paths(files)
    sizes = {path: _plain_size(path, at) for path, at in files.items()}
    if quota is not None and sum(sizes.values()) > quota:
        raise ModelRefused("", "files", f"{sum(sizes.values()):,} bytes are over the quota of {quota:,}")
    if single := gguf_file(files):
        return _inspect_gguf(single, files, sizes)
    if FILE not in files:
        reason = "the file is missing; a model directory has it at its top, and a model in one file is GGUF"
        raise ModelRefused(FILE, "", reason)
    facts = inspect_config_file(files[FILE])
    for path in sorted(files.keys() - {FILE}):
        _check_head(path, files[path])
    _check_others(files, sizes)
    tensors = read_tensors(files)
    if scheme := scheme_of(facts.config):
        if not tensors:
            raise ModelRefused(FILE, FIELD, "without safetensors there are no quantised weights; leave the field out")
        facts.config, facts.quantised = plain_config(facts.config), scheme.label
        tensors = as_tensors(stored_weights(tensors, scheme))
    check_against_config(tensors, facts.config)
    facts.files = sizes
    facts.has_tokenizer = any(name in files for name in TOKENIZERS)
    if tensors:
        facts.generated = False
        facts.parameters = sum(tensor.numel for tensor in tensors.values())
        facts.dtype = _common_dtype(tensors)
        facts.weight_bytes = sum(tensor.numel * BITS[tensor.dtype] // 8 for tensor in tensors.values())
    return facts


def gguf_file(files: Iterable[str]) -> str:
    """The path of the GGUF file that a model consists of; "" for a model directory. Raises ModelRefused where there
    are several, and where config.json or safetensors lie beside one.
    """
    first, *others = [path for path in sorted(files) if path.endswith(gguf.SUFFIX)] or [""]
    if others:
        raise ModelRefused(others[0], "", f"{first} is there too; hand in one GGUF file, which holds a whole model")
    beside = next((path for path in sorted(files) if path == FILE or path.endswith(".safetensors")), None)
    if first and beside:
        raise ModelRefused(first, "", f"a GGUF file holds a whole model; hand it in without {beside}")
    return first


def files_at(source: Path) -> dict[str, Path]:
    """A model of this machine's user, a directory or a GGUF file, as `inspect` takes it; links are followed."""
    if source.is_file():
        return {source.name: source}
    return {path.relative_to(source).as_posix(): path for path in source.rglob("*") if path.is_file()}


def is_quantised(files: Mapping[str, Path]) -> bool:
    """Whether the weights are dequantised before anything else. Raises ModelRefused."""
    if gguf_file(files):
        return True
    with suppress(KeyError, OSError, ValueError, TypeError, RecursionError):
        return json.loads(files[FILE].read_bytes())[FIELD] is not None
    return False


def _inspect_gguf(name: str, files: Mapping[str, Path], sizes: dict[str, int]) -> ModelFacts:
    header = gguf.read_gguf(name, files[name])
    for path in sorted(files.keys() - {name}):
        _check_head(path, files[path])
    _check_others(files, sizes)
    try:
        facts = inspect_config(gguf_config.config_of(header, name, files[name]))
        tensors = gguf_config.named(header, facts.config, name)
        check_against_config(tensors, facts.config)
    except ModelRefused as error:
        raise ModelRefused(name, error.field, error.reason.replace(FILE, "the metadata")) from None
    facts.files, facts.generated, facts.quantised = sizes, False, f"GGUF ({header.types})"
    facts.has_tokenizer = gguf_config.has_tokenizer(header)
    facts.parameters = sum(tensor.numel for tensor in tensors.values())
    facts.weight_bytes = facts.parameters * DTYPE_BYTES[facts.dtype]
    return facts


def check_config_size(size: int) -> None:
    """Refuses a config.json of `size` bytes that is empty or too large, before it is there. Raises ModelRefused."""
    check_size(FILE, size, MAX_CONFIG)


def inspect_config_file(at: Path) -> ModelFacts:
    """Checks the config.json whose content lies at `at`, without the model's other files. Raises ModelRefused."""
    _check_head(FILE, at)
    return inspect_config(read_json(FILE, at, MAX_CONFIG, MAX_CONFIG_ENTRIES))


def _check_head(path: str, at: Path) -> None:
    with at.open("rb") as stream:
        check_content(path, stream.read(HEAD), at.stat().st_size)


def inspect_config(config: Any) -> ModelFacts:
    """Checks a configuration alone, as of a catalogue entry; its weights are to be generated. Raises ModelRefused."""
    check_config(config)
    scheme_of(config)
    names = config.get("architectures") or []
    check_architecture(config["model_type"], names)
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
    )


def _listed(directory: Path) -> dict[str, Path]:
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


def _check_others(files: Mapping[str, Path], sizes: Mapping[str, int]) -> None:
    if "adapter_config.json" in files:
        raise ModelRefused("adapter_config.json", "", "adapters are not taken; merge them into the model first")
    for path in sorted(files):
        if path.endswith(".json") and path not in (FILE, INDEX):
            most = MAX_CONFIG if path.endswith(FILE) else MAX_INDEX
            check_no_remote_code(path, read_json(path, files[path], most))
        elif not path.endswith((".json", ".safetensors", gguf.SUFFIX)) and sizes[path] > MAX_OTHER:
            raise ModelRefused(path, "", f"the file has {sizes[path]:,} bytes, more than the {MAX_OTHER:,} allowed")


def _common_dtype(tensors: dict[str, Tensor]) -> str:
    names = {"BF16": "bfloat16", "F16": "float16", "F32": "float32", "F64": "float64"}
    totals: dict[str, int] = {}
    for tensor in tensors.values():
        totals[tensor.dtype] = totals.get(tensor.dtype, 0) + tensor.numel * BITS[tensor.dtype]
    most = max(totals, key=lambda dtype: totals[dtype])
    if most not in names:
        raise ModelRefused(next(iter(tensors.values())).file, "dtype", f"weights of type {most} are not taken")
    return names[most]
