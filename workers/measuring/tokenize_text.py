"""A program of its own: reads a model's tokenizer, and tokenizes text with it.

    python -P tokenize_text.py < request.json

The request is a JSON object: `directory` of the model, `records` (texts, or lists of a chat's messages) and `most`, the
number of ids that are wanted. It prints one JSON object: `ids`, or `refused` with the reason. The tokenizers library is
native code that reads a stranger's file. It can panic, end the process or take all memory, so no stage reads a
tokenizer by itself. A chat is rendered by the model's own template, a stranger's program: in Jinja's sandbox, as
transformers does it, and within this process's limits.
"""

import json
import resource
import sys
from pathlib import Path
from typing import Any

MEMORY_BYTES = 8 * 2**30
CPU_SECONDS = 120
CHARACTERS_PER_ID = 16
"""More than a token has on average, so that no more is tokenized than is used."""
MOST_RENDERED = 2**22
"""Characters that a template may make of one chat."""
TEMPLATE_FILE, SETTINGS_FILE = "chat_template.jinja", "tokenizer_config.json"
SPECIAL_TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token")


class TextRefused(Exception):
    """Why there are no ids, as the end of a sentence."""


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    request = json.load(sys.stdin)
    result: dict[str, list[int] | str]
    try:
        result = {"ids": tokenized(Path(request["directory"]), request["records"], request["most"])}
    except TextRefused as error:
        result = {"refused": str(error)}
    except Exception as error:  # the library raises plain Exception
        result = {"refused": f"it cannot be read as a tokenizer: {str(error)[:200]}"}
    except BaseException as error:  # a panic of its Rust code is no Exception
        result = {"refused": f"the tokenizers library panics on it: {str(error)[:200]}"}
    print(json.dumps(result))


def tokenized(directory: Path, records: list[Any], most: int) -> list[int]:
    """At most `most` ids of the records, one after the other. Raises TextRefused, and what the library raises."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    ids: list[int] = []
    for record in records:
        if len(ids) >= most:
            break
        text = record if isinstance(record, str) else rendered(directory, record)
        characters_left = CHARACTERS_PER_ID * (most - len(ids))
        ids += tokenizer.encode(text[:characters_left], add_special_tokens=False).ids
    return ids[:most]


def rendered(directory: Path, messages: list[dict[str, str]]) -> str:
    """The chat by the model's template. Raises TextRefused when there is none or it fails."""
    from transformers.utils.chat_template_utils import render_jinja_template

    settings = _settings(directory)
    template = _template(directory, settings)
    tokens: dict[str, Any] = {name: _token(settings.get(name)) for name in SPECIAL_TOKENS}
    try:
        chats = render_jinja_template([messages], chat_template=template, **tokens)[0]
    except Exception as error:  # a template fails with whatever it does
        raise TextRefused(f"the chat template fails on a chat of the text: {str(error)[:200]}") from None
    if len(chats[0]) > MOST_RENDERED:
        raise TextRefused(f"the chat template makes more than {MOST_RENDERED:,} characters of one chat")
    return str(chats[0])


def _settings(directory: Path) -> dict[str, Any]:
    path = directory / SETTINGS_FILE
    settings = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return settings if isinstance(settings, dict) else {}


def _template(directory: Path, settings: dict[str, Any]) -> str:
    path = directory / TEMPLATE_FILE
    if path.is_file():
        return path.read_text("utf-8")
    templates = settings.get("chat_template")
    if isinstance(templates, list):  # several, by name
        named = {template.get("name"): template.get("template") for template in templates if isinstance(template, dict)}
        templates = named.get("default")
    if not isinstance(templates, str):
        raise TextRefused("the text holds chats, but the model has no chat template")
    return templates


def _token(token: Any) -> str:
    return str(token.get("content", "")) if isinstance(token, dict) else str(token or "")


if __name__ == "__main__":
    main()
