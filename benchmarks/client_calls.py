"""Calls of one public client against one server, for `benchmarks/clients.py`; it runs where that client is installed.

Its arguments are the client's package, the server's address and the model's folder. It writes a JSON object that has
for each call null, or what went wrong.
"""

import json
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any, Literal

from pydantic import BaseModel

MODEL, PROMPT = "voice-agent", "What is a list?"
MESSAGES = [{"role": "user", "content": PROMPT}]
TOO_LONG = "word " * 3000
KINDS = ("list", "set")
Calls = dict[str, Callable[[], object]]


class Kind(BaseModel, extra="forbid"):
    """The kind of a collection."""

    kind: Literal["list", "set"]


SCHEMA = Kind.model_json_schema()


def raises(error: type[Exception], call: Callable[[], object]) -> bool:
    """Whether the call raises this error and no other."""
    try:
        call()
    except error:
        return True
    return False


def litellm(url: str, folder: str) -> Calls:
    from litellm import completion, text_completion
    from litellm.exceptions import ContextWindowExceededError

    def chat(**options: Any) -> Any:
        given = {"messages": MESSAGES, "max_tokens": 100, "temperature": 0} | options
        return completion(f"openai/{MODEL}", api_base=f"{url}/v1", api_key="none", num_retries=0, **given)

    def text() -> object:
        name = f"text-completion-openai/{MODEL}"
        answer = text_completion(PROMPT, name, api_base=f"{url}/v1", api_key="none", max_tokens=8)
        return answer.choices[0].text

    def tool() -> object:
        tools = [{"type": "function", "function": {"name": "choose", "parameters": SCHEMA}}]
        (call,) = chat(tools=tools, tool_choice="required").choices[0].message.tool_calls
        return json.loads(call.function.arguments)["kind"] in KINDS

    form = {"type": "json_schema", "json_schema": {"name": "kind", "schema": SCHEMA}}
    content = chat().choices[0].message.content
    return {
        "completion": text,
        "chat": lambda: content,
        "stream": lambda: "".join(event.choices[0].delta.content or "" for event in chat(stream=True)) == content,
        "structured output": lambda: json.loads(chat(response_format=form).choices[0].message.content)["kind"] in KINDS,
        "tool": tool,
        "context overflow": lambda: raises(
            ContextWindowExceededError, lambda: chat(messages=[{"role": "user", "content": TOO_LONG}])
        ),
    }


def langchain_openai(url: str, folder: str) -> Calls:
    from langchain_core.exceptions import ContextOverflowError
    from langchain_openai import ChatOpenAI, OpenAI

    common: dict[str, Any] = {"model": MODEL, "base_url": f"{url}/v1", "api_key": "none", "max_retries": 0}
    common |= {"temperature": 0, "max_tokens": 100}
    chat = ChatOpenAI(**common)
    tools = chat.bind_tools([SCHEMA], tool_choice="any")
    return {
        "completion": lambda: OpenAI(**common).invoke(PROMPT),
        "chat": lambda: chat.invoke(PROMPT).content,
        "stream": lambda: "".join(part.content for part in chat.stream(PROMPT)) == chat.invoke(PROMPT).content,
        "structured output": lambda: (
            chat.with_structured_output(SCHEMA, method="json_schema").invoke(PROMPT)["kind"] in KINDS
        ),
        "tool": lambda: tools.invoke(PROMPT).tool_calls[0]["args"]["kind"] in KINDS,
        "responses": lambda: ChatOpenAI(**common, use_responses_api=True).invoke(PROMPT).text,
        "context overflow": lambda: raises(ContextOverflowError, lambda: chat.invoke(TOO_LONG)),
    }


def instructor(url: str, folder: str) -> Calls:
    import openai
    from instructor import Mode, from_openai

    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)

    def ask(mode: Mode) -> Callable[[], object]:
        given = {"model": MODEL, "messages": MESSAGES, "max_retries": 1, "max_tokens": 100, "temperature": 0}
        return lambda: (
            from_openai(client, mode=mode).chat.completions.create(response_model=Kind, **given).kind in KINDS
        )

    return {"structured output": ask(Mode.JSON_SCHEMA), "tool": ask(Mode.TOOLS)}


def pydantic_ai_slim(url: str, folder: str) -> Calls:
    from pydantic_ai import Agent, NativeOutput
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=f"{url}/v1", api_key="none"))
    given: Any = {"model_settings": {"max_tokens": 100, "temperature": 0}}
    agent = Agent(model, **given)

    def stream() -> object:
        streamed = agent.run_stream_sync(PROMPT)
        return "".join(streamed.stream_text(delta=True)) == agent.run_sync(PROMPT).output

    return {
        "chat": lambda: agent.run_sync(PROMPT).output,
        "stream": stream,
        "structured output": lambda: (
            Agent(model, output_type=NativeOutput(Kind), **given).run_sync(PROMPT).output.kind in KINDS
        ),
        "tool": lambda: Agent(model, output_type=Kind, **given).run_sync(PROMPT).output.kind in KINDS,
    }


def lm_eval(url: str, folder: str) -> Calls:
    from lm_eval.api.instance import Instance
    from lm_eval.models.openai_completions import LocalCompletionsAPI

    model = LocalCompletionsAPI(
        base_url=f"{url}/v1/completions", model=MODEL, tokenizer=folder, max_length=1024, num_concurrent=1
    )

    def ask(kind: str, *arguments: tuple[Any, ...]) -> list[Any]:
        return getattr(model, kind)([Instance(kind, {}, given, index) for index, given in enumerate(arguments)])

    def loglikelihood() -> object:
        pairs = ask("loglikelihood", ("A list is", " a"), ("A list is", " zebra"))
        return all(value < 0 and not isinstance(value, bool) for value, _ in pairs) and pairs[0] > pairs[1]

    return {
        "loglikelihood": loglikelihood,
        "loglikelihood_rolling": lambda: ask("loglikelihood_rolling", ("A list is a collection.",))[0] < 0,
        "generate_until": lambda: ask("generate_until", ("A list is", {"until": ["."], "max_gen_toks": 12}))[0],
    }


def main(package: str, url: str, folder: str) -> dict[str, str | None]:
    outcome: dict[str, str | None] = {}
    for name, call in globals()[package.replace("-", "_")](url, folder).items():
        try:
            outcome[name] = None if call() else "another answer than expected"
        except Exception as error:  # any fault of a client is its row
            outcome[name] = traceback.format_exception_only(error)[-1].strip()[:300]
    return outcome


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    result = main(*sys.argv[1:])
    print("\n" + json.dumps(result))
