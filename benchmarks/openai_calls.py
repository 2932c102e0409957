"""The calls of the `openai` package against one server, for `benchmarks/clients.py`; it runs where that is.

Its argument is the server's address. It writes JSON: the package's version, how many calls there were, how many gave
what they should, and the names of those that did not.
"""

import json
import os
import sys
from collections.abc import Callable


def main(url: str) -> dict[str, object]:
    import openai

    key = os.environ.get("OPENAI_API_KEY", "none")
    client = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=120)
    model = client.models.list().data[0].id
    greedy = {"model": model, "prompt": "A list is", "max_tokens": 12, "temperature": 0}
    messages = [{"role": "user", "content": "What is a list?"}]

    def completion() -> bool:
        response = client.completions.create(**greedy)
        return bool(response.choices[0].text) and response.usage.completion_tokens <= 12

    def streamed_completion() -> bool:
        completion = client.completions.create(**greedy)
        events = list(client.completions.create(**greedy, stream=True, stream_options={"include_usage": True}))
        joined = "".join(event.choices[0].text for event in events if event.choices)
        return joined == completion.choices[0].text and events[-1].usage == completion.usage.model_copy(
            update={"prompt_tokens_details": events[-1].usage.prompt_tokens_details}
        )

    def chat() -> bool:
        response = client.chat.completions.create(model=model, messages=messages, max_tokens=8, seed=1, n=2)
        return [choice.message.role for choice in response.choices] == ["assistant", "assistant"]

    def streamed_chat() -> bool:
        parameters = {"model": model, "messages": messages, "max_completion_tokens": 8, "temperature": 0}
        content = client.chat.completions.create(**parameters).choices[0].message.content
        events = client.chat.completions.create(**parameters, stream=True)
        return "".join(event.choices[0].delta.content or "" for event in events) == content

    def log_probabilities() -> bool:
        response = client.completions.create(**greedy, logprobs=2).choices[0]
        logprobs = response.logprobs
        best = [max(logprob.values()) for logprob in logprobs.top_logprobs]
        return (
            "".join(logprobs.tokens) == response.text
            and best == logprobs.token_logprobs
            and not logprobs.text_offset[0]
        )

    def log_probabilities_of_a_chat() -> bool:
        parameters = {"model": model, "messages": messages, "max_completion_tokens": 8, "temperature": 0}
        parameters |= {"logprobs": True, "top_logprobs": 20}
        content = client.chat.completions.create(**parameters).choices[0].logprobs.content
        events = client.chat.completions.create(**parameters, stream=True)
        logprobs = [logprob for event in events for logprob in event.choices[0].logprobs.content]
        return all(len(logprob.top_logprobs) == 20 for logprob in logprobs) and [
            logprob.bytes for logprob in logprobs
        ] == [entry.bytes for entry in content]

    def structured_answer() -> bool:
        schema = {"name": "kind", "schema": {"enum": ["list", "set"]}}
        form = {"type": "json_schema", "json_schema": schema}
        response = client.chat.completions.create(model=model, messages=messages, response_format=form, temperature=0)
        return json.loads(response.choices[0].message.content) in ("list", "set")

    def response() -> bool:
        parameters = {"model": model, "input": "What is a list?", "max_output_tokens": 8, "temperature": 0}
        events = client.responses.create(**parameters, stream=True)
        joined = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        return joined == client.responses.create(**parameters).output_text

    def top_logprobs_alone() -> bool:
        try:
            client.chat.completions.create(model=model, messages=messages, top_logprobs=2)
        except openai.BadRequestError as error:
            return error.param == "top_logprobs"
        return False

    def too_long() -> bool:
        try:
            client.completions.create(**greedy | {"max_tokens": 1_000_000})
        except openai.BadRequestError as error:
            return error.code == "context_length_exceeded"
        return False

    def no_such_model() -> bool:
        try:
            client.completions.create(**greedy | {"model": "other"})
        except openai.NotFoundError as error:
            return error.code == "model_not_found"
        return False

    calls: list[Callable[[], bool]] = [completion, streamed_completion, chat, streamed_chat, log_probabilities]
    calls += [log_probabilities_of_a_chat, structured_answer, response, top_logprobs_alone, too_long, no_such_model]
    wrong = [call.__name__ for call in calls if not call()]
    return {"version": openai.__version__, "asked": len(calls), "answered": len(calls) - len(wrong), "errors": wrong}


if __name__ == "__main__":
    json.dump(main(sys.argv[1]), sys.stdout)
