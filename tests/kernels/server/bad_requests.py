"""Requests that the server refuses. Those with `messages` are chats."""

import json

COMPLETION = b'{"model": "voice-agent", "prompt": "a", '
CHAT = b'{"model": "voice-agent", "messages": [{"role": "user", "content": "a"}], '
TOOL = b'{"type": "function", "function": {"name": "now"}}'
CALL = b'"tool_calls": [{"id": "1", "type": "function", "function": {"name": "now", "arguments": "%s"}}]'
IMAGE = CHAT.replace(b'"a"', b'[{"type": "image_url", "image_url": {"url": "http://a"}}]') + b'"n": 1}'
PROMPT_OF_ONE = (
    "maximum context length is 128 tokens, which the prompt of 1 and the answer of 200 tokens together exceed "
    "(context_length_exceeded)"
)
BAD_REQUESTS: list[tuple[bytes, int, str]] = [  # the body, the status, and a part of the sentence
    (b"{", 400, "no valid JSON"),
    (b'{"model": "voice-agent"}', 400, "prompt"),
    (b"[]", 400, "the body: it must be an object"),
    (b"[" * 100_000, 400, "nested too deeply"),
    (b'{"model": "\xff"}', 400, "UTF-8"),
    (b'{"model": "voice-agent", "prompt": "\xed\xa0\x80"}', 400, "UTF-8"),  # a surrogate
    (CHAT.replace(b'"a"', b'"\xed\xa0\x80"') + b'"n": 1}', 400, "UTF-8"),
    (b'{"model": "voice-agent", "prompt": "\\ud800"}', 400, "surrogate"),
    ('{"model": "voice-agent", "prompt": "\\ud800"}'.encode("utf-16"), 400, "UTF-8"),
    (COMPLETION + b'"seed": ' + b"9" * 5000 + b"}", 400, "too many digits"),
    (COMPLETION + b'"temperature": NaN}', 400, "not finite"),
    (COMPLETION + b'"n": 0}', 400, "n: it must be 1 or more"),
    (COMPLETION + b'"n": 200}', 400, "n: it must be 128 at most"),
    (COMPLETION + b'"stop": ' + json.dumps(["x"] * 100).encode() + b"}", 400, "stop: it must be a list of 16 at most"),
    (COMPLETION + b'"stop": "' + b"x" * 1001 + b'"}', 400, "1,000 characters at most"),
    (COMPLETION + b'"stop": ["a", 5]}', 400, "stop.1: it must be a text"),
    (COMPLETION + b'"stop_token_ids": [-1]}', 400, "stop_token_ids.0: it must be 0 or more"),
    (COMPLETION + b'"stop_token_ids": [9999999999999999999]}', 400, "stop_token_ids.0: it must be 2147483647 at most"),
    (COMPLETION + b'"max_tokens": 0}', 400, "max_tokens: it must be 1 or more, or 0 with echo"),
    (CHAT + b'"echo": true}', 400, "echo is not served here"),
    (COMPLETION + b'"min_tokens": 5}', 400, "min_tokens is not served here"),
    (b'{"model": "voice-agent", "prompt": [1.5]}', 400, "prompt: it must be a text, a list of token ids"),
    (IMAGE, 400, 'messages.0.content: a part of type "image_url" is not served here'),
    (CHAT.replace(b'"a"', b'"a", "tool_calls": [{}]') + b'"n": 1}', 400, "messages.0.tool_calls.0.id: it is missing"),
    (CHAT.replace(b'"a"', b'"a", ' + CALL % b"{") + b'"n": 1}', 400, "arguments: it must be a JSON object"),
    (CHAT.replace(b'"a"', b'"a", ' + CALL % b"{}") + b'"n": 1}', 400, "no chat template, which alone has a place for"),
    (CHAT.replace(b'"a"', b'"a", "name": "Ann"') + b'"n": 1}', 400, "no chat template, which alone has a place for"),
    (CHAT + b'"tools": [{}]}', 400, "tools.0.type: it is missing"),
    (CHAT + b'"tools": [' + TOOL + b"]}", 400, "tools: this model writes calls of tools in no form"),
    (CHAT + b'"tools": [' + TOOL + b'], "tool_choice": "any"}', 400, "tool_choice: it must be none, auto, required"),
    (CHAT + b'"tool_choice": "required"}', 400, "tool_choice: there are no tools"),
    (CHAT + b'"tool_choice": ' + TOOL.replace(b"now", b"ago") + b"}", 400, 'tool_choice: there is no tool "ago"'),
    (CHAT + b'"tools": [' + TOOL + b'], "tool_choice": "required", "guided_regex": "a"}', 400,
     "follows no other grammar"),
    (COMPLETION + b'"tools": [' + TOOL + b"]}", 400, "tools is not served here"),
    (CHAT + b'"chat_template_kwargs": {"tools": []}}', 400, "chat_template_kwargs: tools is no variable that it may"),
    (CHAT + b'"chat_template_kwargs": {"a": 1}}', 400, "chat_template_kwargs: this model has no chat template"),
    (b'{"model": "gpt", "prompt": "a"}', 404, '"gpt"'),
    (b'{"model": "voice-agent", "prompt": "a", "max_tokens": 200}', 400, PROMPT_OF_ONE),
    (b'{"model": "voice-agent", "prompt": [4096]}', 400, "vocabulary"),
    (b'{"model": "voice-agent", "prompt": [' + b"1," * 999_999 + b"1]}", 400, "prompt of 1,000,000"),
    (COMPLETION.replace(b'"a"', b"[" + b"[1]," * 1_299_999 + b"[1]]") + b'"n": 1}', 400, "1,024 texts at most"),
    (CHAT.replace(b'"a"', json.dumps([{"type": "text", "text": "a"}] * 20_000).encode()) + b'"n": 1}', 400, "parts"),
    (b'{"model": "voice-agent", "messages": ' + json.dumps([{"role": "user", "content": "a"}] * 20_000).encode() + b"}",
     400, "list of 16384"),
    (b'{"model": "voice-agent", "prompt": "' + b"a" * 7_000_000 + b'"}', 400, "prompt of at least 76,924 "),
    (CHAT.replace(b'"a"', b'"' + b"a" * 7_000_000 + b'"') + b'"n": 1}', 400, "prompt of at least 76,924 "),
    (b'{"model": "voice-agent", "n": 100, "prompt": ' + json.dumps(["a"] * 11).encode() + b"}", 400, "1,024"),
    (b'{"model": "voice-agent", "prompt": "a", "temperature": -1}', 400, "temperature"),
    (COMPLETION + b'"logit_bias": {"a": 1}}', 400, "logit_bias.a.[key]: it must be a whole number"),
    (COMPLETION + b'"logit_bias": {"5": 101}}', 400, "logit_bias.5: it must be 100"),
    (COMPLETION + b'"logit_bias": {"4096": 1}}', 400, "logit_bias: an id lies outside of the vocabulary"),
    (COMPLETION + b'"repetition_penalty": 0}', 400, "repetition_penalty: it must be 0.01 or more"),
    (CHAT + b'"response_format": {"type": "json_schema"}}', 400, "response_format: json_schema is missing"),
    (CHAT + b'"structured_outputs": {"grammar": "a"}}', 400, "structured_outputs: grammar is not served here"),
    (CHAT + b'"guided_regex": "a", "guided_choice": ["a"]}', 400, "names several grammars"),
    (CHAT + b'"guided_regex": "' + b"a" * 200_000 + b'"}', 400, "response_format: the grammar has more than 131,072"),
    (b'{"model": "voice-agent", "prompt": "a", "logprobs": 21}', 400, "logprobs: "),
    (CHAT + b'"logprobs": true, "top_logprobs": 21}', 400, "top_logprobs: "),
    (CHAT + b'"top_logprobs": 2}', 400, "top_logprobs: it needs logprobs"),
]  # fmt: skip
