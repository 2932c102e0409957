"""Penalties, biases and grammars: what they change of an answer, and that requests beside it stay as they are."""

import re

import numpy as np
import pytest
import torch
from transformers import RepetitionPenaltyLogitsProcessor

from kernels import runners
from kernels.ops.sampling import GREEDY, Sampling, choose
from kernels.server.execution.grammars import Grammars, Matcher
from kernels.server.execution.logits_processing import Processor
from kernels.server.scheduler.requests import Grammar, LogitsOptions, Request, Token
from tests.kernels.server.test_engine import made, one_thread, requests_of, served

SAMPLED = Sampling(1.0, seed=5)
PATTERN = r"[a-c]{3}(-[0-9]{2})+!"
STOP = 299
OPTIONS = (
    LogitsOptions(bias={7: 100.0, 8: -100.0}),
    LogitsOptions(frequency_penalty=1.5, presence_penalty=-0.5),
    LogitsOptions(repetition_penalty=1.7, bias={3: 2.0}),
)
__all__ = ["one_thread"]


@pytest.fixture(scope="module")
def grammars() -> Grammars:
    """Of texts whose tokens are their bytes."""
    return Grammars([bytes([byte]) for byte in range(256)], frozenset({0}), lambda text: list(text.encode()))


def expected(runner, request: Request, options: LogitsOptions) -> list[int]:
    """The answer when each token's logits are changed as transformers, OpenAI's and vLLM's documents say."""
    prompt, answer = request.ids[: request.prompt_length], []
    for _ in range(request.max_tokens):
        ids = torch.tensor([prompt + answer])
        logits = runner.logits(ids)[0, -1].float()
        for token, bias in options.bias.items():
            logits[token] += bias
        if options.repetition_penalty != 1:
            logits = RepetitionPenaltyLogitsProcessor(options.repetition_penalty)(ids, logits[None])[0]
        counts = torch.bincount(torch.tensor(answer, dtype=torch.int64), minlength=len(logits))
        logits -= options.frequency_penalty * counts + options.presence_penalty * (counts > 0)
        answer.append(choose(logits.numpy(), request.sampling, ids.shape[1]))
    return answer


@pytest.mark.parametrize("pages", [40, 11])
def test_penalties_and_biases_change_the_answers_that_ask_for_them(pages: int) -> None:
    """Also of requests that are preempted, and whose prompts are read in chunks."""
    model = made("llama")
    runner = runners.runner("eager", model)
    plain, changed = (requests_of(9, (SAMPLED, GREEDY)) for _ in range(2))
    for number, request in enumerate(changed[1::2]):
        request.processor = Processor(request.ids, OPTIONS[number % len(OPTIONS)])
    served(model, plain, pages)
    own = served(model, changed, pages)
    assert (own.scheduler.preempted > 0) == (pages == 11)
    assert [each.ids for each in changed[::2]] == [each.ids for each in plain[::2]]
    for number, request in enumerate(changed[1::2]):
        answer = request.ids[request.prompt_length :]
        assert answer == expected(runner, request, OPTIONS[number % len(OPTIONS)])


def test_answers_follow_their_grammars_and_end_with_them(grammars: Grammars) -> None:
    model, tokens = made("llama"), list[Token]()
    requests = [Request(str(seed), [seed, 1, 2], 60, Sampling(1.0, seed=seed)) for seed in range(3)]
    for request in requests[:2]:
        matcher = grammars.matcher(Grammar("regex", PATTERN), request.stop_ids)
        request.processor = Processor(request.ids, LogitsOptions(), matcher)
    alone = Request("alone", [2, 1, 2], 60, Sampling(1.0, seed=2))
    served(model, [alone])
    served(model, requests, tokens=tokens)
    for request in requests[:2]:
        text = bytes(request.ids[request.prompt_length :]).decode()
        assert re.fullmatch(PATTERN, text)
        assert [each.reason for each in tokens if each.request is request] == [None] * (len(text) - 1) + ["complete"]
    assert requests[2].ids == alone.ids


def test_a_stop_token_may_end_a_whole_answer_and_no_other(grammars: Grammars) -> None:
    matcher = grammars.matcher(Grammar("regex", "a+"), frozenset({STOP, 5, 10**6}))

    def allowed() -> list[int]:
        (mask,) = Matcher.masks([matcher], 600)
        return np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")).tolist()

    assert allowed() == [ord("a")]
    assert matcher.accept(ord("a")) is None
    assert allowed() == [5, ord("a"), STOP]  # also one that the tokenizer does not have
    assert matcher.accept(ord("b")) == "failed"


@pytest.mark.parametrize(
    ("grammar", "said"),
    [
        (Grammar("json_schema", '{"type": "text"}'), "Invalid type: text"),
        (Grammar("json_schema", '{"not": {"type": "null"}}'), 'Unimplemented keys: ["not"]'),
        (Grammar("json_schema", "5"), "Expecting object"),
        (Grammar("json_schema", '{"items":' * 5000 + "{}" + "}" * 5000), "recursion limit"),
        (Grammar("regex", "(?=a)"), "look-around"),
        (Grammar("regex", "(" * 5000), "regex"),
    ],
)
def test_what_cannot_be_followed_is_refused_in_a_sentence(grammars: Grammars, grammar: Grammar, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)) as raised:
        grammars.matcher(grammar, frozenset())
    assert "\n" not in str(raised.value)
