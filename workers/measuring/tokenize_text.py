"""A program of its own: reads a model's tokenizer, and tokenizes the start of its text when there is one.

    python -P tokenize_text.py MODEL_DIR TEXT_FILE_OR_EMPTY CHARACTERS

It prints one JSON object: `ids`, or `refused` with the reason. The tokenizers library is native code that reads a
stranger's file. It can panic, end the process or take all memory, so no stage reads a tokenizer by itself.
"""

import json
import resource
import sys
from pathlib import Path

MEMORY_BYTES = 8 * 2**30
CPU_SECONDS = 120


def main(directory: str, text_file: str, characters: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    found: dict[str, list[int] | str]
    try:
        found = {"ids": tokenized(Path(directory), text_file, characters)}
    except Exception as error:  # the library raises plain Exception
        found = {"refused": f"it cannot be read as a tokenizer: {str(error)[:200]}"}
    except BaseException as error:  # a panic of its Rust code is no Exception
        found = {"refused": f"the tokenizers library panics on it: {str(error)[:200]}"}
    print(json.dumps(found))


def tokenized(directory: Path, text_file: str, characters: int) -> list[int]:
    """At most `characters` ids of the text's first characters, [] without a text. Raises what the library raises."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    if not text_file:
        return []
    with (directory / text_file).open(encoding="utf-8", errors="replace") as stream:
        return list(tokenizer.encode(stream.read(characters), add_special_tokens=False).ids[:characters])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
