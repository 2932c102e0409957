"""Calls of tools in answers, in the forms of Qwen and Llama 3, whole and as they come."""

import json

import pytest

from kernels.server.execution.grammars import Grammars
from kernels.server.http.answering import Entries, Piece, StreamState
from kernels.server.http.chat_messages import Message
from kernels.server.http.client import TokenEvent
from kernels.server.http.errors import ApiError
from kernels.server.http.schemas import ChatCompletionRequest
from kernels.server.http.text import ByteText, IncrementalDetokenizer, StopChecker
from kernels.server.http.tools import ToolCalling, ToolFormat, ToolParser, format_of

PLACE = {"properties": {"place": {"type": "string"}, "unit": {"$ref": "#/$defs/Unit"}}, "required": ["place"]}
PLACE |= {"type": "object", "$defs": {"Unit": {"enum": ["C", "F"]}}}
WEATHER = {"type": "function", "function": {"name": "weather", "description": "The weather.", "parameters": PLACE}}
NOW = {"type": "function", "function": {"name": "now"}}
HALF_PAIR = '{"name": "now", "parameters": {"zone": "\\ud83d"}}'
NO_NUMBER = '{"name": "now", "arguments": {"zone": NaN}}'
NESTED = '{"name": "now", "parameters": ' + '{"a":' * 2000
BYTES = ByteText(frozenset())


def answer(text: str, form: ToolFormat, parallel: bool = True) -> tuple[str, list[tuple[str, str]], str | None]:
    """The content, the calls and the reason of the end of an answer of one byte a token."""
    state = StreamState(
        IncrementalDetokenizer(BYTES), StopChecker([]), Entries(), ToolParser(ToolCalling(form, parallel, None))
    )
    content, calls, ids = "", [], BYTES.encode(text + "\0")
    for at, token in enumerate(ids):
        piece = Piece(0)
        state.extend(piece, TokenEvent(token, "stop" if at == len(ids) - 1 else None))
        content += piece.text
        assert [call.index for call in piece.calls] == list(range(len(calls), len(calls) + len(piece.calls)))
        calls += [(call.name, call.arguments) for call in piece.calls]
    return content, calls, piece.finish_reason


@pytest.mark.parametrize(
    ("form", "text", "content", "calls"),
    [
        (
            "hermes",
            'I look.\n<tool_call>\n{"name": "weather", "arguments": {"place": "Köln"}}\n</tool_call>\n'
            '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>\n',
            "I look.",
            [("weather", '{"place": "Köln"}'), ("now", "{}")],
        ),
        ("hermes", '<tool_call>{"name": "now"}', "", [("now", "{}")]),
        ("hermes", "a < b, <tool> \n\n and <tool_", "a < b, <tool> \n\n and <tool_", []),
        ("hermes", '<tool_call>{"no": 1}</tool_call> x \n', '<tool_call>{"no": 1}</tool_call> x \n', []),
        ("llama3", '\n{"name": "now", "parameters": {}}', "", [("now", "{}")]),
        ("llama3", '{"name": "now", "parameters": {}}; {"name": "weather", "parameters": {"place": "a"}}', "",
         [("now", "{}"), ("weather", '{"place": "a"}')]),
        ("llama3", 'Say {"name": "now", "parameters": {}}', 'Say {"name": "now", "parameters": {}}', []),
        ("llama3", '{"place": "a"}', '{"place": "a"}', []),
        ("llama3", '<|python_tag|>{"name": "now", "parameters": {}}', "", [("now", "{}")]),
        ("llama3", HALF_PAIR, HALF_PAIR, []),
        ("llama3", NESTED, NESTED, []),
        ("hermes", f"<tool_call>{NO_NUMBER}</tool_call>", f"<tool_call>{NO_NUMBER}</tool_call>", []),
        ("llama3", '{"name": "now", "param', '{"name": "now", "param', []),
    ],
)  # fmt: skip
def test_calls_are_taken_out_of_the_text(form: ToolFormat, text: str, content: str, calls: list) -> None:
    assert answer(text, form) == (content, calls, "tool_calls" if calls else "stop")
    assert answer(text, form, parallel=False)[1] == calls[:1]


def chat(**fields) -> ChatCompletionRequest:
    asked = {"model": "m", "messages": [{"role": "user", "content": "a"}], "tools": [WEATHER, NOW]}
    return ChatCompletionRequest.model_validate(asked | fields)


def test_the_chat_template_gets_tools_as_they_are_and_earlier_calls_as_objects() -> None:
    assert chat().tools_of_template == {"tools": [WEATHER, NOW]}
    assert chat(tool_choice="none").tools_of_template == chat(tools=None).tools_of_template == {}
    assert chat(tool_choice="none").calling(None) is None
    with pytest.raises(ApiError, match="tools: this model writes calls of tools in no form that is known here"):
        chat().calling(None)
    call = {"id": "1", "type": "function", "function": {"name": "now", "arguments": '{"zone": 1}'}}
    assistant = Message.model_validate({"role": "assistant", "tool_calls": [call]}).document
    assert assistant["tool_calls"][0]["function"] == {"name": "now", "arguments": {"zone": 1}}
    assert Message.model_validate({"role": "tool", "content": "12:00", "tool_call_id": "1"}).document == {
        "role": "tool", "content": "12:00", "tool_call_id": "1"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("template", "form"),
    [
        ("{% if tools %}<tools></tools> <tool_call>{% endif %}", "hermes"), ("{{- '<|python_tag|>' }}", "llama3"),
        ("<tool_call>\n<function=example>", None), ("{{ messages }}", None),
    ],
)  # fmt: skip
def test_the_form_of_calls_is_that_of_the_chat_template(template: str, form: ToolFormat | None) -> None:
    assert format_of(template) == form


@pytest.mark.parametrize("form", ["hermes", "llama3"])
@pytest.mark.parametrize(
    ("choice", "called"),
    [("required", ["weather", "now"]), ({"type": "function", "function": {"name": "weather"}}, ["weather"])],
)
def test_an_answer_that_must_be_a_call_can_be_no_other(form: ToolFormat, choice, called: list[str]) -> None:
    calling = chat(tool_choice=choice).calling(form)
    assert calling is not None
    assert calling.grammar is not None
    grammars = Grammars([bytes([byte]) for byte in range(256)], frozenset(), BYTES.encode)
    name = {"hermes": "arguments", "llama3": "parameters"}[form]

    def ends(call: str, arguments: dict) -> str | None:
        matcher = grammars.matcher(calling.grammar, frozenset())
        text = json.dumps({"name": call, name: arguments})
        text = f"<tool_call>\n{text}\n</tool_call>" if form == "hermes" else text
        ends = [matcher.accept(token) for token in BYTES.encode(text)]
        return next((end for end in ends if end), None)

    assert ends("weather", {"place": "a", "unit": "C"}) == "complete"
    assert ends("weather", {"place": 5}) == ends("weather", {"unit": "K"}) == ends("later", {}) == "failed"
    assert ends("now", {}) == ("complete" if "now" in called else "failed")


def test_arguments_are_an_object_and_may_refer_to_definitions() -> None:
    zone = {"properties": {"zone": {"$ref": "#/definitions/Zone"}}, "definitions": {"Zone": {"enum": ["UTC"]}}}
    tool = {"type": "function", "function": {"name": "now", "parameters": zone}}
    grammars = Grammars([bytes([byte]) for byte in range(256)], frozenset(), BYTES.encode)
    for arguments, end in (({"zone": "UTC"}, "complete"), ({"zone": "CET"}, "failed"), (5, "failed")):
        calling = chat(tools=[tool], tool_choice="required").calling("llama3")
        assert calling.grammar is not None
        matcher = grammars.matcher(calling.grammar, frozenset())
        ends = map(matcher.accept, BYTES.encode(json.dumps({"name": "now", "parameters": arguments})))
        assert next(filter(None, ends)) == end
