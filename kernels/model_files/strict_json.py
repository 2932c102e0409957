"""JSON read strictly: broken text by line and column, no key twice, no bomb."""

import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from kernels.model_files.errors import ModelRefused

MAX_ENTRIES = 8_000_000
"""Commas, quotes and opening brackets allowed in one file; the largest tokenizer.json has about 3 million."""
MAX_DEPTH = 100
"""Objects and lists inside one another: far below Python's recursion limit, since readers may recurse."""
TAG = "__float__"
SPECIAL = ("Infinity", "-Infinity", "NaN")
TOO_DEEP = f"the JSON is nested deeper than {MAX_DEPTH} levels"


def read_json(name: str, path: Path, max_bytes: int, max_entries: int = MAX_ENTRIES) -> Any:
    """The document in the file. Raises ModelRefused when it is too large, broken or repeats a key."""
    check_size(name, path.stat().st_size, max_bytes)
    return parse_json(name, path.read_bytes(), max_entries)


def check_size(name: str, size: int, max_bytes: int) -> None:
    """Refuses a file of `size` bytes that is empty, which is no JSON, or has more than `max_bytes`."""
    if not size:
        raise ModelRefused(name, "", "the file is empty")
    if size > max_bytes:
        raise ModelRefused(name, "", f"the file has {size:,} bytes, more than the {max_bytes:,} allowed")


def parse_json(name: str, raw: bytes, max_entries: int = MAX_ENTRIES) -> Any:
    """The document in `raw`, UTF-8. NaN and Infinity become `{"__float__": "NaN"}` and the like, as transformers saves
    them: that is JSON for every reader.

    Raises ModelRefused with line and column when it is broken, when a key is there twice, when it is nested too deeply
    or takes more memory than this process may have, and when an escape stands for half of a character: Python takes
    that, other readers of the file do not.
    """
    if raw.count(b'"') + raw.count(b",") + raw.count(b"{") + raw.count(b"[") > max_entries:
        raise ModelRefused(name, "", f"there are more than {max_entries:,} entries")
    pairs_hook = partial(_unique, name)
    try:
        document = json.loads(raw.decode("utf-8"), parse_constant=tagged, object_pairs_hook=pairs_hook)
        if b"\\ud" in raw.lower():
            json.dumps(document, ensure_ascii=False).encode("utf-8")
        _check_depth(name, document)
        return document
    except MemoryError:
        raise ModelRefused(name, "", "reading the file takes more memory than is allowed") from None
    except UnicodeEncodeError:
        raise ModelRefused(name, "", "an escape stands for half of a character") from None
    except UnicodeDecodeError as error:
        raise ModelRefused(name, f"byte {error.start}", "the file is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        position = f"line {error.lineno}, column {error.colno}"
        raise ModelRefused(name, position, f"broken JSON ({error.msg})") from None
    except RecursionError:
        raise ModelRefused(name, "", TOO_DEEP) from None
    except ValueError:
        raise ModelRefused(name, "", "a number has too many digits") from None


def tagged(constant: str) -> dict[str, str]:
    """A number that JSON has no word for, as transformers saves it."""
    return {TAG: constant}


def special_float(item: Any) -> str:
    """`Infinity`, `-Infinity` or `NaN` where the item is one of them as `parse_json` gives them, else an empty text."""
    constant = item.get(TAG) if isinstance(item, dict) and len(item) == 1 else None
    return constant if constant in SPECIAL else ""


def _check_depth(name: str, document: Any) -> None:
    level = [document]
    for _ in range(MAX_DEPTH):
        inner = [item for container in level for item in _items(container) if isinstance(item, (dict, list))]
        if not inner:
            return
        level = inner
    raise ModelRefused(name, "", TOO_DEEP)


def _items(document: Any) -> Iterable[Any]:
    if isinstance(document, dict):
        return document.values()
    return document if isinstance(document, list) else ()


def _unique(name: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) == len(pairs):
        return unique
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise ModelRefused(name, key[:100], "the key is there twice")
        seen.add(key)
    return unique
