"""Chat templates as transformers renders them, in jinja2's sandbox, without importing transformers and torch.

What a template may use is said in transformers' guide *Writing a chat template*: jinja2 with `break` and `continue`,
`raise_exception`, `strftime_now`, `tojson` without HTML's escapes, and blocks of `generation`, which only training
reads. A template has no loader: it includes and imports no file.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from jinja2 import nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from kernels.server.spec import json_object

logger = logging.getLogger(__name__)
LONGEST_CHAT = 32 << 20
"""The characters that a template may write: a template that repeats itself ends there."""


class Refused(Exception):
    """What a template says when it calls `raise_exception`."""


class Generation(Extension):
    """The blocks that mark what the assistant has said; they are rendered like everything else."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class ChatTemplate:
    """A model's template."""

    def __init__(self, source: str, special: Mapping[str, str]) -> None:
        """`special`: special tokens by their names, such as `bos_token`. Raises ValueError for what is no template."""
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
        )
        environment.filters["tojson"] = _tojson
        environment.globals |= {"raise_exception": _refuse, "strftime_now": lambda form: datetime.now().strftime(form)}
        try:
            self._template = environment.from_string(source)
        except TemplateError as error:
            raise ValueError(f"the model's chat template cannot be read: {error}") from error
        self.source, self._special = source, dict(special)

    def render(
        self, messages: Sequence[dict[str, Any]], variables: Mapping[str, Any], add_generation_prompt: bool = True
    ) -> str:
        """The text of a chat, which the assistant continues with `add_generation_prompt`. Raises ValueError."""
        given = {"tools": None, "documents": None, **self._special, **variables, "messages": list(messages)}
        parts, size = [], 0
        try:
            for part in self._template.generate({**given, "add_generation_prompt": add_generation_prompt}):
                parts.append(part)
                size += len(part)
                if size > LONGEST_CHAT:
                    raise ValueError(f"messages: the model's chat template writes over {LONGEST_CHAT:,} characters")
        except Refused as error:
            raise ValueError(f"messages: the model's chat template refuses them: {error}") from error
        except ValueError:
            raise
        except Exception as error:  # a template raises what it likes
            logger.warning("the model's chat template failed: %s: %s", type(error).__name__, error)
            raise ValueError(
                "messages: the model's chat template fails at them, and the server's log says how"
            ) from error
        return "".join(parts)


def load_template(directory: Path) -> ChatTemplate | None:
    """The chat template in a model's directory. Raises ValueError for what is no template."""
    file, config = directory / "chat_template.jinja", _optional(directory / "tokenizer_config.json")
    given = file.read_text("utf-8") if file.is_file() else config.get("chat_template")
    if isinstance(given, list):  # several, by name
        given = {item.get("name"): item.get("template") for item in given if isinstance(item, dict)}
    template = given.get("default") if isinstance(given, dict) else given
    return ChatTemplate(template, special_tokens(directory)) if isinstance(template, str) else None


def special_tokens(directory: Path) -> dict[str, str]:
    """A tokenizer's special tokens by their names, such as `eos_token`. They stand in tokenizer_config.json, or in
    special_tokens_map.json, which comes first where it is as old as the form without `added_tokens_decoder`.
    """
    config, older = (_optional(directory / name) for name in ("tokenizer_config.json", "special_tokens_map.json"))
    given = older | config if "added_tokens_decoder" in config else config | older
    texts = {name: each.get("content") if isinstance(each, dict) else each for name, each in given.items()}
    return {name: each for name, each in texts.items() if name.endswith("_token") and isinstance(each, str) and each}


def _optional(path: Path) -> dict[str, Any]:
    return json_object(path) if path.is_file() else {}


def _refuse(message: str) -> NoReturn:
    raise Refused(message)


def _tojson(
    x: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
