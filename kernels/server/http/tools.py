"""Tools that a model may call: OpenAI's fields of them, and calls in the text of an answer.

How a model writes calls shows in its chat template:

- `hermes`, of Qwen and Hermes: `<tool_call>` with a JSON object of `name` and `arguments` in each pair of tags;
- `llama3`: the whole answer is JSON objects of `name` and `parameters`, with a semicolon between two.
"""

import json
import secrets
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, Field, ValidationError, ValidationInfo, ValidatorFunctionWrapHandler, field_validator

from kernels.server.http.errors import ApiError, quoted
from kernels.server.scheduler.requests import Grammar

ToolFormat = Literal["hermes", "llama3"]
WrittenCall = tuple[str, str]
"""The name and the arguments of a call."""
MAX_TOOLS = 128
BEGIN, END = "<tool_call>", "</tool_call>"
PYTHON_TAG = "<|python_tag|>"
ARGUMENTS: dict[ToolFormat, str] = {"hermes": "arguments", "llama3": "parameters"}
"""The name of a call's arguments in its object."""
DEFINITIONS = ("$defs", "definitions")
"""What references within the parameters lead to, by its newer name and the older one."""


class Function(BaseModel):
    """A function that a tool is. `parameters` is a JSON schema."""

    name: Annotated[str, Field(min_length=1)]
    parameters: dict[str, Any] = {"type": "object"}


class Tool(BaseModel):
    """One of `tools`."""

    type: Literal["function"]
    function: Function
    given: dict[str, Any] = {}
    """The whole tool as the request has it."""


class NamedFunction(BaseModel):
    """The function that a `tool_choice` names."""

    name: str


class NamedTool(BaseModel):
    """A `tool_choice` of one tool."""

    type: Literal["function"]
    function: NamedFunction


class ToolFields(BaseModel):
    """The fields of a request with tools. A choice that is no tool's name lets the model choose, or not call."""

    tools: list[Tool] = Field(default=[], max_length=MAX_TOOLS)
    tool_choice: Literal["none", "auto", "required"] | NamedTool = "auto"
    parallel_tool_calls: bool = True
    """False: of several calls the first one is told."""

    @field_validator("tools", mode="wrap")
    @classmethod
    def _as_given(cls, value: Any, check: ValidatorFunctionWrapHandler) -> list[Tool]:
        """The chat template reads tools as they were given."""
        tools: list[Tool] = check(value)
        for tool, given in zip(tools, value, strict=True):
            tool.given = given
        return tools

    @field_validator("tool_choice", mode="wrap")
    @classmethod
    def _known_choice(cls, value: Any, check: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        try:
            choice = check(value)
        except ValidationError as error:
            raise ValueError("it must be none, auto, required, or an object that names a function") from error
        tools = info.data.get("tools", [])
        if isinstance(choice, NamedTool) and choice.function.name not in [tool.function.name for tool in tools]:
            raise ValueError(f"there is no tool {quoted(choice.function.name)}")
        if choice == "required" and not tools:
            raise ValueError("there are no tools")
        return choice

    @property
    def tools_of_template(self) -> dict[str, Any]:
        """The chat template's variable of the tools that an answer may call; {} without one."""
        return {"tools": [tool.given for tool in self.tools]} if self.tools and self.tool_choice != "none" else {}

    @property
    def must_call(self) -> bool:
        """Whether an answer is a call."""
        return self.tool_choice == "required" or isinstance(self.tool_choice, NamedTool)

    def calling(self, form: ToolFormat | None) -> "ToolCalling | None":
        """How an answer is searched for calls; None: it makes none. Raises ApiError where the model has no `form`."""
        if not self.tools_of_template:
            return None
        if form is None:
            raise ApiError(400, "tools: this model writes calls of tools in no form that is known here", "tools")
        name = self.tool_choice.function.name if isinstance(self.tool_choice, NamedTool) else None
        allowed = [tool for tool in self.tools if name in (None, tool.function.name)]
        return ToolCalling(form, self.parallel_tool_calls, grammar_of(allowed, form) if self.must_call else None)


class ToolCalling(NamedTuple):
    """How a model writes calls, whether more than the first is told, and the grammar of an answer that must be one."""

    form: ToolFormat
    parallel: bool
    grammar: Grammar | None


@dataclass(frozen=True)
class ToolCall:
    """A call in an answer; `arguments` is JSON."""

    name: str
    arguments: str
    index: int
    id: str = field(default_factory=lambda: f"call_{secrets.token_hex(12)}")

    @property
    def document(self) -> dict[str, Any]:
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}


def format_of(template: str) -> ToolFormat | None:
    """How a model with this chat template writes calls; None: in no way that is known here."""
    if BEGIN in template and "<function=" not in template:
        return "hermes"
    return "llama3" if PYTHON_TAG in template or "Environment: ipython" in template else None


def grammar_of(tools: list[Tool], form: ToolFormat) -> Grammar:
    """Answers that call one of these tools, and say nothing else."""
    rules = []
    for number, function in enumerate(tool.function for tool in tools):
        parameters = {"type": "object"} | function.parameters
        call = {
            "type": "object",
            "properties": {"name": {"const": function.name}, ARGUMENTS[form]: parameters},
            "required": ["name", ARGUMENTS[form]],
            "additionalProperties": False,
            "x-guidance": {"whitespace_pattern": " ?"},
        } | {name: parameters[name] for name in DEFINITIONS if name in parameters}
        rules.append(f"call_{number}: %json {json.dumps(call)}")
    one = " | ".join(f"call_{number}" for number in range(len(tools)))
    start = f'"{BEGIN}\\n" ({one}) "\\n{END}"' if form == "hermes" else one
    return Grammar("lark", "\n".join([f"start: {start}", *rules]))


class ToolParser:
    """Takes calls out of an answer as it comes. What may belong to a call is held back until it is whole."""

    def __init__(self, calling: ToolCalling) -> None:
        self._form, self._parallel = calling.form, calling.parallel
        self._text = ""
        self._plain = False
        """Whether an answer of `llama3` began with something else than a call."""
        self.count = 0
        """The calls that were told."""

    def add(self, text: str, end: bool) -> tuple[str, list[ToolCall]]:
        """The further text that is no call, and the further calls. `end`: the answer ends with `text`."""
        self._text += text
        content, written = self._hermes(end) if self._form == "hermes" else self._llama3(end)
        written = written if self._parallel else written[: 1 - self.count]
        calls = [ToolCall(name, arguments, index) for index, (name, arguments) in enumerate(written, self.count)]
        self.count += len(calls)
        return content, calls

    def _hermes(self, end: bool) -> tuple[str, list[WrittenCall]]:
        content, calls = "", list[WrittenCall]()
        while (begin := self._text.find(BEGIN)) >= 0 and (end or END in self._text[begin:]):
            inner, _, rest = self._text[begin + len(BEGIN) :].partition(END)
            call = _call(_json(inner), ARGUMENTS["hermes"])
            if call is None:
                content += self._text[: len(self._text) - len(rest)]
            else:
                content += self._text[:begin].rstrip()
                calls.append(call)
            self._text = rest
        kept = "" if end and not (calls or self.count) else self._open()
        content, self._text = content + self._text[: len(self._text) - len(kept)], kept
        return content, calls

    def _open(self) -> str:
        """The end of the text that may belong to a call: white space, then a tag or its beginning, and all behind."""
        text = self._text
        tag = text.find(BEGIN)
        if tag < 0:
            sizes = range(len(BEGIN) - 1, 0, -1)
            tag = len(text) - next((size for size in sizes if text.endswith(BEGIN[:size])), 0)
        return text[len(text[:tag].rstrip()) :]

    def _llama3(self, end: bool) -> tuple[str, list[WrittenCall]]:
        text = self._text.lstrip()
        if PYTHON_TAG.startswith(text) and not end:
            return "", []
        text = text.removeprefix(PYTHON_TAG)  # it is seen where special tokens are
        self._plain |= bool(text) and text[0] != "{"
        if not end and not self._plain:
            return "", []
        calls, rest = list[WrittenCall](), text
        while rest.startswith("{") and not self._plain:
            try:
                document, size = json.JSONDecoder().raw_decode(rest)
            except (ValueError, RecursionError):
                break
            call = _call(document, ARGUMENTS["llama3"])
            if call is None:
                break
            calls.append(call)
            rest = rest[size:].lstrip("; \n")
        content, self._text = self._text, ""
        return ("", calls) if calls and not rest else (content, [])


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _call(document: Any, arguments: str) -> WrittenCall | None:
    """The call that an object says; None where it is none."""
    if not isinstance(document, dict) or not isinstance(document.get("name"), str):
        return None
    name, given = document["name"], document.get(arguments, {})
    if not isinstance(given, dict):
        return None
    try:
        written = json.dumps(given, ensure_ascii=False, allow_nan=False)
        (name + written).encode()
    except (ValueError, RecursionError):  # a number that JSON has not, or half of a surrogate pair
        return None
    return name, written
