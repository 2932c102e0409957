"""Penalties, biases and grammars: what they change of an answer, and that requests beside it stay as they are."""

import json
import re
import threading

import numpy as np
import pytest
import torch
from transformers import RepetitionPenaltyLogitsProcessor

from kernels import runners
from kernels.ops.sampling import GREEDY, Sampling, sample_token
from kernels.server.execution.grammars import Grammars, Matcher
from kernels.server.execution.logits_processing import Processor
from kernels.server.messages import Refusal
from kernels.server.processes.worker import GrammarCompiler
from kernels.server.scheduler.requests import Grammar, LogitsOptions, Request, Token
from kernels.server.spec import Spec
from tests.kernels.server.test_engine import made, one_thread, requests_of, served
from tests.waiting import wait_for

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
        answer.append(sample_token(logits.numpy(), request.sampling, ids.shape[1]))
    return answer


def test_penalties_and_biases_change_the_answers_that_ask_for_them() -> None:
    """Also of requests that are preempted, and whose prompts are read in chunks."""
    model = made("llama")
    runner = runners.runner("eager", model)
    plain, changed = (requests_of(9, (SAMPLED, GREEDY)) for _ in range(2))
    for number, request in enumerate(changed[1::2]):
        request.processor = Processor(request.ids, OPTIONS[number % len(OPTIONS)])
    served(model, plain, pages=11)
    assert served(model, changed, pages=11).scheduler.preempted
    assert [item.ids for item in changed[::2]] == [item.ids for item in plain[::2]]
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
        reasons = [token.finish_reason for token in tokens if token.request is request]
        assert reasons == [None] * (len(text) - 1) + ["complete"]
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


def test_an_answer_is_one_of_many_choices(grammars: Grammars) -> None:
    """Also one that begins another. A grammar that comes again begins anew."""
    choices = Grammar("choice", json.dumps(["a", "ab", *map(str, range(5000))]))
    for text in ("ab", "4999", "4999"):
        matcher = grammars.matcher(choices, frozenset())
        ends = [matcher.accept(token) for token in text.encode()]
        assert (ends[:-1], matcher._own.is_accepting()) == ([None] * (len(text) - 1), True)


def test_no_stop_token_ends_an_answer_whose_grammar_has_no_end(grammars: Grammars) -> None:
    endless = Grammar("json_schema", '{"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}')
    matcher = grammars.matcher(endless, frozenset({0, STOP}))
    (mask,) = Matcher.masks([matcher], 600)
    allowed = np.unpackbits(mask.view(np.uint8), bitorder="little")
    assert (allowed[0], allowed[1], allowed[STOP]) == (0, 1, 0)
    assert matcher.accept(1) == "failed"


def test_a_grammar_that_breaks_a_library_ends_no_engine_and_delays_no_penalty() -> None:
    compiler = GrammarCompiler(Spec("tiny-llama"))
    begin, waits = threading.Event(), LogitsOptions(Grammar("regex", "a"))
    compiler._grammar_thread.submit(begin.wait)
    broken = Request("broken", [1], 1, stop_ids=frozenset({10**30}))
    compiler.start(broken, waits)
    compiler.start(Request("left", [1], 1), waits)
    compiler.start(Request("penalty", [1], 1), LogitsOptions(presence_penalty=1))
    left = compiler.pending["left"][1]
    compiler.cancel("left")
    wait_for(lambda: [(request.name, error) for request, error in compiler.compiled()] == [("penalty", None)], 60, "it")
    begin.set()
    wait_for(compiler.pending["broken"][1].done, 60, "the grammar")
    ((request, refusal),) = compiler.compiled()
    text = "response_format: the grammar could not be read, and the server's log says why"
    assert (request, refusal) == (broken, Refusal(text, "response_format"))
    assert left.cancelled()


@pytest.mark.parametrize(
    ("grammar", "said"),
    [
        (Grammar("json_schema", '{"type": "text"}'), "Invalid type: text"),
        (Grammar("json_schema", '{"not": {"type": "null"}}'), 'Unimplemented keys: ["not"]'),
        (Grammar("json_schema", "5"), "Expecting object"),
        (Grammar("json_schema", '{"items":' * 5000 + "{}" + "}" * 5000), "recursion limit"),
        (Grammar("json_schema", '{"allOf": [{"multipleOf": 9.97}, {"multipleOf": 991}]}'), "100,000 remainders"),
        (Grammar("regex", "(?=a)"), "look-around"),
        (Grammar("regex", "(" * 5000), "regex"),
    ],
)
def test_what_cannot_be_followed_is_refused_in_a_sentence(grammars: Grammars, grammar: Grammar, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)) as raised:
        grammars.matcher(grammar, frozenset())
    assert "\n" not in str(raised.value)
