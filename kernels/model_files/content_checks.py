"""Which paths a model directory may hold, and which contents."""

import io
import pickletools
from collections.abc import Iterable
from functools import partial
from pathlib import PurePosixPath

from kernels.model_files.errors import ModelRefused, run_checks

MAX_FILES = 1000
MAX_PATH = 200
MAX_PATH_BYTES = 255
MAX_DEPTH = 5

ARCHIVE_MAGIC = {
    b"PK\x03\x04": "zip archive (the form that torch.save writes its pickles in)",
    b"PK\x05\x06": "zip archive",
    b"\x1f\x8b": "gzip file",
    b"BZh": "bzip2 file",
    b"\xfd7zXZ\x00": "xz file",
    b"\x28\xb5\x2f\xfd": "zstandard file",
    b"7z\xbc\xaf\x27\x1c": "7z archive",
    b"Rar!": "rar archive",
    b"\x7fELF": "program",
    b"GGUF": "GGUF file",
    b"\x93NUMPY": "NumPy file, which may hold a pickle",
    b"\x89HDF": "HDF5 file",
}
CALLS = {"GLOBAL", "STACK_GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "REDUCE", "BUILD"}
"""Pickle opcodes that import or call."""


def check_paths(paths: Iterable[str]) -> None:
    """Refuses names that climb out, clash or hide, each with its path. Raises ModelRefused."""
    paths = list(paths)
    if len(paths) > MAX_FILES:
        raise ModelRefused("", "files", f"{len(paths)} files are more than the {MAX_FILES} a model may have")
    run_checks(partial(_check_path, path) for path in paths)
    seen: dict[str, str] = {}
    for path in paths:
        folded = path.casefold()
        if folded in seen:
            raise ModelRefused(path, "path", f"the name is there twice (also as {seen[folded]})")
        seen[folded] = path
    for folded, path in seen.items():
        for parent in PurePosixPath(folded).parents:
            if str(parent) in seen:
                raise ModelRefused(path, "path", f"{seen[str(parent)]} is both a file and a folder")


def _check_path(path: str) -> None:
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in path)[:MAX_PATH]
    if not path or len(path) > MAX_PATH:
        raise ModelRefused(shown, "path", f"a path has 1 to {MAX_PATH} characters")
    if len(path.encode(errors="replace")) > MAX_PATH_BYTES:
        raise ModelRefused(shown, "path", f"a path has at most {MAX_PATH_BYTES} bytes in UTF-8")
    if not path.isprintable():
        raise ModelRefused(shown, "path", "control characters are not allowed in a path")
    if "\\" in path or ":" in path:
        raise ModelRefused(shown, "path", "a backslash or colon is not allowed in a path")
    if path.startswith("/"):
        raise ModelRefused(shown, "path", "the path is absolute; it must be relative to the model's folder")
    if climbs_out(path):
        raise ModelRefused(shown, "path", "the path climbs out of the model's folder or has an empty part")
    if path.count("/") >= MAX_DEPTH:
        raise ModelRefused(shown, "path", f"folders are nested deeper than {MAX_DEPTH}")


def climbs_out(path: str) -> bool:
    """Whether a path is absolute, climbs out of its folder or has an empty part."""
    return any(part in ("", ".", "..") for part in path.split("/"))


def check_content(path: str, head: bytes, size: int) -> None:
    """Refuses a pickle, archive or program by `head`, a file's first MiB, whatever its name. Raises ModelRefused."""
    for magic, what in ARCHIVE_MAGIC.items():
        if head.startswith(magic) and not (magic == b"GGUF" and path.endswith(".gguf")):
            raise ModelRefused(path, "", f"the content is a {what}, whatever the name says")
    if head[257:262] == b"ustar":
        raise ModelRefused(path, "", "the content is a tar archive, whatever the name says")
    if _is_pickle(head, complete=len(head) == size):
        raise ModelRefused(path, "", "the content is a pickle, which can run code when it is read, whatever the name")


def _is_pickle(head: bytes, complete: bool) -> bool:
    """Protocols 2 to 5 by their mark and first opcodes; 0 and 1 where the whole file parses as a pickle that calls."""
    binary = head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")
    if not binary and not (complete and head.rstrip().endswith(b".")):
        return False
    calls = count = 0
    stream = io.BytesIO(head)
    try:
        for opcode, _, _ in pickletools.genops(stream):
            count += 1
            calls += opcode.name in CALLS
            if binary and count >= 4:
                return True
    except Exception:
        return False
    return binary or (calls > 0 and not head[stream.tell() :].strip())
