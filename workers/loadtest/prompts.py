"""What requests say: text of a wanted length in tokens, and the JSON around it."""

import json
import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from kernels.load.planned import PlannedRequest
from workers.documents.endpoint import Api
from workers.documents.traffic import Traffic

APIS: tuple[Api, ...] = get_args(Api)
PATHS: Mapping[Api, str] = {"completions": "/completions", "chat": "/chat/completions", "embeddings": "/embeddings"}
REFUSABLE: Mapping[str, str] = {
    "ignore_eos": "The server refuses ignore_eos, so answers may end early.",
    "stream_options": "The server refuses stream_options, so it may not count tokens.",
    "max_tokens": "The server refuses max_tokens; max_completion_tokens was sent in its place.",
    "temperature": "The server refuses the temperature, so it draws tokens as it does by default.",
}
"""Fields that some servers refuse and a load can do without, and what a result then says."""
NOUNS = """
time year life work week case hand part room area book word head line city name team idea body face door game
home side kind hour fact food land road view rate tree wall town form plan step unit test note card file page
list text bank boat farm fish gold hill lake moon rain rock sand ship snow song star wind wood
"""
WORDS = NOUNS.split()
"""Nouns that most tokenizers know as one token each with the space before them.

All have four letters, so that a server that reads bytes counts as many tokens in each.
"""
MIN_TOKENS_PER_WORD = 0.25
"""Tokens a word, at least: no tokenizer has fewer, and a smaller count of a server would make prompts endless."""


@dataclass(frozen=True)
class TokenScale:
    """How many tokens the server counts in a prompt of words: `fixed` + `per_word` · words."""

    fixed: float = 0.0
    per_word: float = 1.0

    @classmethod
    def from_counts(cls, words: tuple[int, int], tokens: tuple[int, int]) -> "TokenScale":
        """The line through counts of two prompts; one token a word where it has less than MIN_TOKENS_PER_WORD."""
        slope = (tokens[1] - tokens[0]) / (words[1] - words[0])
        return cls(tokens[0] - slope * words[0], slope) if slope >= MIN_TOKENS_PER_WORD else cls()

    def words(self, tokens: int) -> int:
        """The words of a prompt of about so many tokens, one at least."""
        return max(1, round((tokens - self.fixed) / self.per_word))


class PromptTexts:
    """The prompts: words from a seed. Those of a conversation begin alike, all with the traffic's shared prefix."""

    def __init__(self, traffic: Traffic, scale: TokenScale) -> None:
        self._scale, self._seed = scale, traffic.seed
        self._prefix = self._words(f"{self._seed} prefix", traffic.shared_prefix) if traffic.shared_prefix else []

    def text(self, planned: PlannedRequest) -> str:
        who = f"conversation {planned.conversation}" if planned.conversation else f"request {planned.index}"
        count = self._scale.words(planned.prompt_tokens)
        own = random.Random(f"{self._seed} {who}").choices(WORDS, k=count)
        return " ".join([*self._prefix, *own][:count])

    def _words(self, seed: str, tokens: int) -> list[str]:
        return random.Random(seed).choices(WORDS, k=round(tokens / self._scale.per_word))


def body(
    api: Api,
    model: str,
    prompt: str,
    planned: PlannedRequest,
    traffic: Traffic,
    refused: Collection[str] = (),
    ids: bool = False,
) -> bytes:
    """The JSON of one request: streamed with usage at its end, as long as planned unless texts may end by themselves.

    `ignore_eos` is sent unless `traffic.end_of_text` says that answers may end early. Of REFUSABLE those that are
    `refused` are not sent. `ids`: those of prompt and answer are asked for, as vLLM gives them.
    """
    if api == "embeddings":
        return json.dumps({"model": model, "input": prompt}).encode()
    fields: dict[str, Any] = {"prompt": prompt} if api == "completions" else {"messages": [_message(prompt)]}
    sampling = traffic.sampling
    document: dict[str, Any] = {"model": model} | fields
    document |= {"max_tokens": planned.output_tokens, "stream": True, "stream_options": {"include_usage": True}}
    document["temperature"] = sampling.temperature if sampling else 0
    if sampling and sampling.temperature:
        document |= {"top_p": sampling.top_p, "seed": traffic.seed + planned.index}
        document |= {"top_k": sampling.top_k} if sampling.top_k else {}
    if not traffic.end_of_text:
        document["ignore_eos"] = True
    for name in refused:
        value = document.pop(name, None)
        if name == "max_tokens":
            document["max_completion_tokens"] = value
    if ids:
        document["return_token_ids"] = True
    return json.dumps(document).encode()


def _message(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}
