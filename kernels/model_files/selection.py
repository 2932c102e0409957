"""Which files of a folder are read. The others are left out, by their names, before anything is hashed or sent."""

import os
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from kernels.model_files.config import FILE
from kernels.model_files.content_checks import climbs_out
from kernels.model_files.errors import ModelRefused, refuse
from kernels.model_files.gguf import SUFFIX
from kernels.model_files.tensors import INDEX, SINGLE, read_index

PICKLES = {".bin", ".pt", ".pth", ".ckpt", ".pt2", ".pkl", ".pickle", ".joblib", ".dill", ".npy", ".npz", ".mar"}
ARCHIVES = {".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz", ".zst", ".7z", ".rar", ".nemo"}
OTHER_WEIGHTS = {".gguf", ".ggml", ".h5", ".msgpack", ".onnx", ".ot", ".pb", ".tflite", ".engine", ".llamafile"}
READ = {".json", ".safetensors", ".txt", ".model", ".md", ".jinja", ".tiktoken", ".vocab", ".bpe", ".yaml", ".yml"}
READ |= {".png", ".jpg"}
READ_NAMES = {"LICENSE", "NOTICE", "README", "COPYING"}
NEVER_READ = re.compile(r".*\.index\.json|trainer_state\.json|(all|train|eval|test|predict)_results\.json|params\.json")
MODULE = re.compile(r"\d+_\w+")
"""The folders of sentence-transformers' modules, such as 1_Pooling: the only ones that are read."""
ADAPTER = "adapter_config.json"
"""What PEFT writes beside an adapter, which is no model."""
MISTRAL = re.compile(r"consolidated.*\.safetensors")
"""The weights once more, under the names that Mistral's own library has for them."""


class Selection(NamedTuple):
    """The paths of the files that are read; of the others, their names at the top, folders with a slash."""

    files: list[str]
    left_out: list[str]


def select_files(paths: Iterable[str], shards: Collection[str] | None = None) -> Selection:
    """What is read of a folder with these paths; a folder's own ends with a slash. `shards` are the index's files,
    where read. Raises ModelRefused without a config.json or weights in a form that is read.
    """
    paths = list(paths)
    if single := gguf_file(paths):
        return Selection([single], _at_the_top(set(paths) - {single}))
    if FILE not in paths:
        refuse(list(_unread_weights(sorted(path for path in paths if "/" not in path))))
        reason = "the file is missing; a model directory has it at its top, and a model in one file is GGUF"
        inside = sorted(path.removesuffix(f"/{FILE}") for path in paths if path.endswith(f"/{FILE}"))
        if inside:
            reason += f"; hand in {' or '.join(inside[:3])}, where there is one"
        raise ModelRefused(FILE, "", reason)
    files = [path for path in paths if _is_read(path)]
    weights = {path for path in files if path.endswith(".safetensors") and "/" not in path}
    selected = _kept_weights(weights, INDEX in files, shards)
    superfluous = weights - selected
    files = [path for path in files if path not in superfluous]
    others = set(paths).difference(files)
    refuse(list(_bad_names(selected, INDEX in files, shards) if weights else _unread_weights(sorted(others))))
    refuse(list(_missing(sorted(shard for shard in shards or () if shard not in files and not climbs_out(shard)))))
    return Selection(files, _at_the_top(others))


def gguf_file(paths: Iterable[str]) -> str:
    """The model's one GGUF file; "" for a directory with a config.json. Raises ModelRefused for several."""
    paths = list(paths)
    ggufs = sorted(path for path in paths if path.endswith(SUFFIX) and "/" not in path)
    if FILE in paths or not ggufs:
        return ""
    if len(ggufs) > 1:
        raise ModelRefused(
            ggufs[1], "", f"{ggufs[0]} is there too; hand in one file, parts merged by `llama-gguf-split --merge`"
        )
    return ggufs[0]


def select_in(directory: Path) -> Selection:
    """What is read of a folder on this machine. Of other folders the top alone is listed. Raises ModelRefused."""
    index = directory / INDEX
    return select_files(sorted(_list_names(directory)), read_index(index) if index.is_file() else None)


def _list_names(directory: Path) -> Iterator[str]:
    for folder, folders, names in os.walk(directory):
        parts = Path(folder).relative_to(directory).parts
        if parts and not MODULE.fullmatch(parts[0]):
            folders.clear()
            yield f"{parts[0]}/"
        yield from ("/".join((*parts, name)) for name in names if Path(folder, name).is_file())


def _is_read(path: str) -> bool:
    """Whether a file of that name is read. Names that climb out count as such: they are refused, not left out."""
    if climbs_out(path.removesuffix("/")):
        return True
    *folders, name = path.split("/")
    if folders and not MODULE.fullmatch(folders[0]):
        return False
    if name.startswith(".") or (path != INDEX and NEVER_READ.fullmatch(name)):
        return False
    return PurePosixPath(name).suffix.lower() in READ or name.split(".")[0].upper() in READ_NAMES


def _kept_weights(weights: set[str], indexed: bool, shards: Collection[str] | None) -> set[str]:
    """Of the safetensors at the top those that transformers loads; it prefers the single file to an index."""
    if indexed and shards is not None:
        return weights & {SINGLE, *shards}
    if indexed:
        return {path for path in weights if not MISTRAL.fullmatch(path)} or weights
    return weights & {SINGLE} or weights


def _bad_names(weights: set[str], indexed: bool, shards: Collection[str] | None) -> Iterator[ModelRefused]:
    if not indexed:
        for stray in sorted(weights - {SINGLE})[:1]:
            yield ModelRefused(stray, "", f"without {INDEX} the weights must be in one file named {SINGLE}")
    elif SINGLE in weights and shards is not None and SINGLE not in shards:
        yield ModelRefused(SINGLE, "", f"{INDEX} names other files as the weights; hand in one or the other")


def _missing(shards: list[str]) -> Iterator[ModelRefused]:
    """Why an index is refused that names these files, which are not there."""
    if shards:
        more = f", and {len(shards) - 1} more of them" if shards[1:] else ""
        yield ModelRefused(shards[0][:200], "", f"the file, which {INDEX} names, is missing{more}")


def _at_the_top(paths: Iterable[str]) -> list[str]:
    """Their names at the folder's top, each once; folders with a slash."""
    return sorted({"".join(path.partition("/")[:2]) for path in paths})


def _unread_weights(paths: Iterable[str]) -> Iterator[ModelRefused]:
    """Why a folder without safetensors at its top is refused: else its weights would be made from a seed."""
    inside = []
    for path in paths:
        suffix = PurePosixPath(path).suffix.lower()
        if path == ADAPTER:
            reason = "this is an adapter (LoRA); merge it into its base model, as by PEFT's merge_and_unload()"
            yield ModelRefused(path, "", reason)
        elif "/" in path:
            if suffix in {".safetensors", *PICKLES, *OTHER_WEIGHTS} and not path.startswith("."):
                inside.append(path)
        elif suffix in PICKLES:
            reason = "this is a pickle format, which can run code when it is read; hand in safetensors"
            yield ModelRefused(path, "", reason)
        elif suffix in ARCHIVES:
            yield ModelRefused(path, "", "archives are not taken; unpack it and hand in the folder")
        elif suffix == SUFFIX:
            yield ModelRefused(path, "", f"a GGUF file holds a whole model; hand it in without {FILE}")
        elif suffix in OTHER_WEIGHTS:
            yield ModelRefused(path, "", f"{suffix} weights are not taken; hand in safetensors or GGUF")
    for folder in _at_the_top(inside):
        yield ModelRefused(folder, "", "the folder is not read, and no safetensors lie beside config.json")
