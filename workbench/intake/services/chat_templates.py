"""Chat templates of an upload: they are parsed, in Jinja's sandbox and within limits, and never executed here.

A template is stored and handed on with the model; `workers/measuring/tokenize_text.py` renders it where a workload's
text holds chats, within limits of its own. A template that is broken, huge or plainly made to exhaust the program that
renders it is refused. Its other work is not bounded.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from jinja2 import TemplateSyntaxError, nodes
from jinja2.ext import loopcontrols
from jinja2.sandbox import MAX_RANGE, SandboxedEnvironment

from kernels.model_files import ModelRefused, gguf
from kernels.model_files.config import walk
from kernels.model_files.strict_json import read_json
from kernels.server.http.chat_template import Generation

MAX_BYTES = 2**17
"""The most bytes of all templates of a model together."""
TOO_LARGE = f"the chat templates of a model may have {MAX_BYTES:,} bytes together"
MAX_SETTINGS = 64 * 2**20
SETTINGS = {"tokenizer_config.json", "processor_config.json", "chat_template.json"}
FIELDS = {"chat_template", "template"}


ENVIRONMENT = SandboxedEnvironment(extensions=[loopcontrols, Generation])


def check_templates(files: Mapping[str, Path]) -> None:
    """`files` maps paths in the model's folder to where the content lies. Raises ModelRefused for a bad template."""
    total = 0
    for path, field, source in _templates(files):
        total += len(source.encode())
        if total > MAX_BYTES:
            raise ModelRefused(path, field, TOO_LARGE)
        try:
            _check_work(path, field, ENVIRONMENT.parse(source))
        except TemplateSyntaxError as error:
            reason = f"line {error.lineno} of the chat template is not valid Jinja ({(error.message or '')[:200]})"
            raise ModelRefused(path, field, reason) from None
        except ValueError:
            raise ModelRefused(path, field, "a number in the chat template has too many digits") from None
        except RecursionError:
            raise ModelRefused(path, field, "the chat template is nested too deeply") from None


def _templates(files: Mapping[str, Path]) -> Iterator[tuple[str, str, str]]:
    """Path, field and source of each template."""
    for path, at in sorted(files.items()):
        if path.endswith(".jinja"):
            if at.stat().st_size > MAX_BYTES:
                raise ModelRefused(path, "", TOO_LARGE)
            yield path, "", at.read_text(encoding="utf-8", errors="replace")
        elif path.endswith(gguf.SUFFIX):
            template = gguf.read_gguf(path, at).metadata.get(gguf.CHAT_TEMPLATE)
            yield from [(path, gguf.CHAT_TEMPLATE, template)] if isinstance(template, str) else []
        elif PurePosixPath(path).name in SETTINGS:
            document: Any = read_json(path, at, MAX_SETTINGS)
            items = walk(document) if isinstance(document, (dict, list)) else ()
            yield from (
                (path, path_of_item, item)
                for path_of_item, key, item in items
                if key in FIELDS and isinstance(item, str)
            )


def _check_work(path: str, field: str, tree: nodes.Template) -> None:
    for node in tree.find_all((nodes.Pow, nodes.Const)):
        if isinstance(node, nodes.Pow):
            raise ModelRefused(path, field, f"line {node.lineno} of the chat template raises to a power")
        value = getattr(node, "value", None)
        if isinstance(value, (int, float)) and abs(value) > MAX_RANGE:
            reason = f"line {node.lineno} of the chat template has a number over {MAX_RANGE:,}"
            raise ModelRefused(path, field, reason)
