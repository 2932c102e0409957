"""Which files of a folder are read. The others are left out, by their names, before anything is hashed or sent."""

import os
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from kernels.model_files.config import FILE
from kernels.model_files.content_checks import climbs_out
from kernels.model_files.errors import ModelRefused, refuse
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
MISTRAL = re.compile(r"consolidated.*\.safetensors")
"""The weights once more, under the names that Mistral's own library has for them."""


class Selection(NamedTuple):
    """The paths of the files that are read; of the others, their names at the top, folders with a slash."""

    files: list[str]
    left_out: list[str]


def select_files(paths: Iterable[str], shards: Collection[str] | None = None) -> Selection:
    """What is read of a folder with these paths; a folder whose files are not listed ends with a slash.

    `shards` are the files that the index names, where it has been read. Raises ModelRefused without a config.json, and
    where the weights are there in a form alone that is not read.
    """
    paths = list(paths)
    if FILE not in paths:
        raise ModelRefused(FILE, "", "the file is missing; a model directory has it at its top")
    files = [path for path in paths if _is_read(path)]
    weights = {path for path in files if path.endswith(".safetensors") and "/" not in path}
    kept = _kept_weights(weights, INDEX in files, shards)
    files = [path for path in files if path not in weights - kept]
    tops = {f"{path.partition('/')[0]}/" if "/" in path else path for path in set(paths).difference(files)}
    left_out = sorted(tops)
    refuse(list(_unread_weights(left_out) if not weights else _bad_names(kept, INDEX in files, shards)))
    return Selection(files, left_out)


def select_in(directory: Path) -> Selection:
    """What is read of a folder on this machine. Folders that are not read are not walked. Raises ModelRefused."""
    if not (directory / FILE).is_file():
        raise ModelRefused(FILE, "", "the file is missing; a model directory has it at its top")
    index = directory / INDEX
    return select_files(sorted(_listed(directory)), read_index(index) if index.is_file() else None)


def _listed(directory: Path) -> Iterator[str]:
    for entry in os.scandir(directory):
        if entry.is_dir() and not MODULE.fullmatch(entry.name):
            yield f"{entry.name}/"
        elif entry.is_dir():
            inside = (path for path in Path(entry).rglob("*") if path.is_file())
            yield from (path.relative_to(directory).as_posix() for path in inside)
        elif entry.is_file():
            yield entry.name


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


def _bad_names(kept: set[str], indexed: bool, shards: Collection[str] | None) -> Iterator[ModelRefused]:
    if not indexed:
        for stray in sorted(kept - {SINGLE})[:1]:
            yield ModelRefused(stray, "", f"without {INDEX} the weights must be in one file named {SINGLE}")
    elif SINGLE in kept and shards is not None and SINGLE not in shards:
        yield ModelRefused(SINGLE, "", f"{INDEX} names other files as the weights; hand in one or the other")


def _unread_weights(left_out: Iterable[str]) -> Iterator[ModelRefused]:
    """Why a folder without safetensors at its top is refused: else its weights would be made from a seed."""
    for name in left_out:
        suffix = PurePosixPath(name).suffix.lower()
        if name.endswith("/") and not name.startswith("."):
            reason = "the folder is not read, and no safetensors lie beside config.json"
        elif suffix in PICKLES:
            reason = "this is a pickle format, which can run code when it is read; hand in safetensors"
        elif suffix in ARCHIVES:
            reason = "archives are not taken; hand in the files themselves"
        elif suffix in OTHER_WEIGHTS:
            reason = f"{suffix} weights are not taken; hand in safetensors"
        else:
            continue
        yield ModelRefused(name, "", reason)
