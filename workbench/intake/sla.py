"""SLA files: YAML or JSON text to the document. The command line reads its `--sla` file with it as well."""

from typing import Any

import yaml

from kernels.model_files import ModelRefused
from kernels.model_files.strict_json import parse_json
from workbench.api.sentences import invalid

MAX_CHARS = 100_000
MAX_NODES = 5_000


def parse(text: str, file: str = "", what: str = "an SLA is a mapping with objectives, traffic and constraints") -> Any:
    """The mapping in a YAML or JSON text. Raises Problem 422 with line and column when it cannot be read.

    `what` is the sentence about a text that holds no mapping.
    """
    if len(text) > MAX_CHARS:
        raise _broken(file, "", f"the text is longer than {MAX_CHARS:,} characters")
    document = _json(text, file) if text.lstrip().startswith("{") else _yaml(text, file)
    if not isinstance(document, dict):
        raise _broken(file, "", what)
    return document


def _json(text: str, file: str) -> Any:
    try:
        return parse_json(file, text.encode())
    except ModelRefused as error:
        raise _broken(error.file, error.field, error.reason) from None


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses a key that is there twice, aliases, by which a small text can grow large, and more than
    MAX_NODES values, which take seconds.
    """

    nodes = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            mark = self.peek_event().start_mark
            raise yaml.MarkedYAMLError(problem=f"more than {MAX_NODES:,} values", problem_mark=mark)
        if self.check_event(yaml.AliasEvent):
            raise yaml.MarkedYAMLError(problem="aliases are not taken", problem_mark=self.peek_event().start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen: set[Any] = set()
        for key, _ in node.value:
            if isinstance(key.value, str) and key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"{key.value} is there twice", problem_mark=key.start_mark)
            if isinstance(key.value, str):
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def _yaml(text: str, file: str) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise _broken(file, position, f"broken YAML ({error.problem or error.context})") from None
    except (yaml.YAMLError, RecursionError, ValueError):
        raise _broken(file, "", "the YAML cannot be read") from None


def _broken(file: str, position: str, reason: str) -> Exception:
    return invalid([{"file": file, "field": position, "reason": reason}])
