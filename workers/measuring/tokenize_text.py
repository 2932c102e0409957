"""A program of its own: reads a model's tokenizer, and tokenizes text with it.

    python -P tokenize_text.py < request.json

The request is a JSON object: `directory` of the model, `records` (texts, or lists of a chat's messages) and `most`, the
number of ids that are wanted. It prints one JSON object: what `tokenize_records` returns, or `refused` with why. The
tokenizers library is native code that reads a stranger's file. It can panic, end the process or take all memory, so no
stage reads a tokenizer by itself. A chat is rendered by the model's own template, a stranger's program: in Jinja's
sandbox, and within this process's limits.
"""

import json
import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MEMORY_BYTES = 8 * 2**30
CPU_SECONDS = 120
CHARACTERS_PER_ID = 16
"""More than a token has on average, so that no more is tokenized than is used."""


class TextRefused(Exception):
    """Why there are no ids, as the end of a sentence."""


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    request = json.load(sys.stdin)
    result: Mapping[str, list[int] | str]
    try:
        result = tokenize_records(Path(request["directory"]), request["records"], request["most"])
    except TextRefused as error:
        result = {"refused": str(error)}
    except Exception as error:  # the library raises plain Exception
        result = {"refused": f"it cannot be read as a tokenizer: {str(error)[:200]}"}
    except BaseException as error:  # a panic of its Rust code is no Exception
        result = {"refused": f"the tokenizers library panics on it: {str(error)[:200]}"}
    print(json.dumps(result))


def tokenize_records(directory: Path, records: list[Any], most: int) -> dict[str, list[int]]:
    """At most `most` ids of the records, one after the other, and those that the tokenizer puts `before` a text and
    `after` it. Raises TextRefused, and what the library raises.
    """
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    ids: list[int] = []
    for record in records:
        if len(ids) >= most:
            break
        text = record if isinstance(record, str) else render_chat(directory, record)
        characters_left = CHARACTERS_PER_ID * (most - len(ids))
        ids += tokenizer.encode(text[:characters_left], add_special_tokens=False).ids
    added = tokenizer.encode("a")
    text_at = [at for at, special in enumerate(added.special_tokens_mask) if not special] or [len(added.ids)]
    return {"ids": ids[:most], "before": added.ids[: text_at[0]], "after": added.ids[text_at[-1] + 1 :]}


def render_chat(directory: Path, messages: list[dict[str, str]]) -> str:
    """The chat by the model's template. Raises TextRefused when there is none or it fails."""
    from kernels.server.http.chat_template import load_template

    template = load_template(directory)
    if template is None:
        raise TextRefused("the text holds chats, but the model has no chat template")
    try:
        return template.render(messages, {}, add_generation_prompt=False)
    except ValueError as error:
        reason = str(error.__cause__ or error)[:200]
        raise TextRefused(f"the chat template fails on a chat of the text: {reason}") from None


if __name__ == "__main__":
    main()
