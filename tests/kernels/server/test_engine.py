"""The engine on a CPU: its answers are those of a runner that serves each request alone."""

import copy
import random
from collections.abc import Sequence

import pytest
import torch

from kernels import runners
from kernels.hardware import GPUS
from kernels.model import tensor_parallel
from kernels.model.decoder import Decoder
from kernels.ops.sampling import GREEDY, Sampling
from kernels.plan import KvCacheDtype, PlannedOp
from kernels.server.execution import backend, logprobs
from kernels.server.execution.backend import KernelsBackend, block_of
from kernels.server.execution.engine import Engine
from kernels.server.execution.ops import Usable, packed_cases
from kernels.server.execution.packed import PackedPass
from kernels.server.execution.shapes import PassShape
from kernels.server.scheduler.batching import SchedulerLimits
from kernels.server.scheduler.requests import Logprobs, Request, Token
from tests.kernels.runners.engine_models import CONFIGS, NEAR, SPARSE, load
from tests.kernels.server.answers import assert_models_answers

FAMILIES = ("llama", "llama-bias", "qwen2-window", "qwen3", "mistral", *NEAR, *SPARSE)
MIXTURES = (("qwen3-moe", 4), ("mixtral", 4), ("olmoe", 2), ("gpt-oss", 4))
"""Mixtures of experts, and how many ranks divide them."""
LOGPROB_ERROR = 1e-5
"""The largest difference of a log probability from the reference runner's, both in float32."""
SAMPLED = (Sampling(1.0, seed=5), Sampling(0.8, top_k=7, seed=6), Sampling(1.2, top_p=0.7, seed=1 << 63))


def made(family: str):
    return load(family, seed=1)


def served(
    model,
    requests: list[Request],
    pages: int = 40,
    ops: Sequence[PlannedOp] = (),
    tokens: list[Token] | None = None,
    kv_cache_dtype: KvCacheDtype = "auto",
) -> Engine:
    """The engine after it has served them all; they arrive in the course of its first turns."""
    decoders = [*map(Decoder, tensor_parallel.shards_of(model))]
    decoder = decoders[0]
    block = block_of(decoder, kv_cache_dtype)
    limits = SchedulerLimits(pages, 8, 4, 96, 2 * block, block, 3, kv_cache_dtype=kv_cache_dtype)
    kernels = KernelsBackend(decoders, GPUS["cpu"], limits, ops=ops)
    if ops:
        kernels.prepare()
        assert max(kernels.timed).decodes == limits.max_num_seqs
    own = Engine([kernels])
    waiting = list(requests)
    while waiting or not own.idle:
        if waiting:
            own.add(waiting.pop(0))
        told = own.run_step()
        if tokens is not None:
            tokens += told
    return own


def requests_of(count: int, sampling=(GREEDY,)) -> list[Request]:
    draw = random.Random(count)
    common = [draw.randrange(300) for _ in range(20)]
    return [
        Request(
            str(number),
            common[: draw.choice((0, 17, 20))] + [draw.randrange(300) for _ in range(draw.choice((1, 5, 40)))],
            draw.choice((1, 6, 14)),
            sampling[number % len(sampling)],
        )
        for number in range(count)
    ]


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("family", "ranks"), [("qwen2-window", 2), ("qwen3", 2), ("llama-bias", 4), *MIXTURES])
def test_ranks_together_answer_as_one(family: str, ranks: int) -> None:
    """Greedy and sampled, in float32, whatever else is in the batch."""
    config = CONFIGS[family] | ({"num_key_value_heads": ranks} if ranks > 2 else {})
    config |= {"moe_intermediate_size": 32} if ranks > 2 and "moe_intermediate_size" in config else {}
    model = runners.load(None, config, seed=1, generated=True, dtype="fp32", device="cpu")
    sharded = tensor_parallel.shard_model(model, [torch.device("cpu")] * ranks)
    together, alone = (requests_of(6, (GREEDY, *SAMPLED)) for _ in range(2))
    served(sharded, together)
    served(model, alone)
    assert [request.ids for request in together] == [request.ids for request in alone]


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_answers_are_those_of_the_kernels_runner_alone(family: str) -> None:
    model = made(family)
    runner = runners.runner("kernels", model)
    requests = requests_of(7)
    served(model, requests)
    for request in requests:
        prompt = torch.tensor([request.ids[: request.prompt_length]])
        assert request.ids[request.prompt_length :] == runner.generate(prompt, request.max_tokens).tokens[0]


@pytest.mark.parametrize(
    ("family", "pages", "scaled"),
    [("llama", 40, True), ("qwen2-window", 11, False), ("gpt-oss", 40, False), ("gemma2", 40, False)],
)
def test_pages_in_fp8_hold_what_is_rounded_to_e4m3(
    family: str, pages: int, scaled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In chunks, from the prefix cache, or preempted: as of pages in float32, rounded at each append."""
    model = copy.deepcopy(made(family))
    for index, layer in enumerate(model.model.layers if scaled else ()):
        layer.self_attn.k_scale = torch.tensor([0.03 * (index + 1)])
        layer.self_attn.v_scale = torch.rand(model.config.num_key_value_heads) / 10 + 0.01
    requests, expected = requests_of(9, (GREEDY, *SAMPLED)), requests_of(9, (GREEDY, *SAMPLED))
    own = served(model, requests, pages, kv_cache_dtype="fp8")
    assert max(request.num_cached_tokens for request in requests) >= 16
    rope, rounding = PackedPass._rope, []

    def rounded(self, w, shape, keys, values, scales):
        append = rope(self, w, shape, keys, values, scales)

        def run(*args):
            q = append(*args)
            for pages, scale in zip((keys, values), w.kv_scales, strict=True):
                by = torch.ones(1) if scale is None else scale
                exact = (pages / by[:, None]).clamp(-448, 448)
                rounding.append(float(exact.abs().max()))
                pages.copy_(exact.to(torch.float8_e4m3fn).float() * by[:, None])
            return q

        return run

    monkeypatch.setattr(PackedPass, "_rope", rounded)
    plain = served(model, expected, pages)
    assert 0 < max(rounding) < 448
    assert [request.ids for request in requests] == [item.ids for item in expected]
    assert (own.scheduler.preempted > 0) == (pages == 11)
    fp8, wide = own.backends[-1].state, plain.backends[-1].state
    assert (fp8.keys.dtype, wide.keys.nbytes) == (torch.float8_e4m3fn, 4 * fp8.keys.nbytes)


def test_pages_in_fp8_give_the_models_answers_but_for_their_rounding() -> None:
    """By one rank and by two alike."""
    model = runners.load(None, CONFIGS["qwen3"], seed=1, generated=True, dtype="fp32", device="cpu")
    sharded = tensor_parallel.shard_model(model, [torch.device("cpu")] * 2)
    requests, alone = requests_of(7), requests_of(7)
    served(sharded, requests, kv_cache_dtype="fp8")
    served(model, alone, kv_cache_dtype="fp8")
    assert [request.ids for request in requests] == [item.ids for item in alone]
    assert_models_answers(model, requests, "fp8")


@pytest.mark.parametrize("family", ["llama", "qwen2-window"])
def test_a_step_of_attention_in_one_op_answers_alike(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a Hopper GPU, where one kernel rotates, appends and attends in passes of decodes alone."""
    monkeypatch.setattr(backend, "TIMED_FROM", 1)
    model = made(family)
    apart, together = requests_of(7), requests_of(7)
    served(model, apart)
    served(model, together, ops=step_ops(Decoder(model), 4))
    assert [item.ids for item in together] == [item.ids for item in apart]


def step_ops(decoder: Decoder, *decodes: int) -> list[PlannedOp]:
    """Attention of a step in one op, for passes of so many decodes."""
    capacity = -(-(96 + block_of(decoder)) // 8) * 8
    shapes = [PassShape(decode, 0, 4, 0) for decode in decodes]
    cases = [case for shape in shapes for case in packed_cases(decoder, shape, 8, capacity, Usable(GPUS["cpu"]))]
    steps = [case for case in cases if case.op == "step_attention"]
    assert len(steps) >= len(decodes)
    return [PlannedOp(op=case.op, case=case.model_dump(), variant="torch_step_attention") for case in steps]


def test_fewer_decodes_than_where_one_arrangement_is_the_fastest_are_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "TIMED_FROM", 1)
    decoder = Decoder(made("llama"))
    limits = SchedulerLimits(40, 8, 8, 96, 2 * block_of(decoder), block_of(decoder), 3)
    kernels = KernelsBackend(decoder, GPUS["cpu"], limits, ops=step_ops(decoder, 1, 2, 4, 8))
    times = iter([2.0, 1.0, 1.0, 2.0])  # of attention in one op, then apart; the most decodes first
    monkeypatch.setattr(kernels, "_ms", lambda *args: next(times))
    kernels.prepare()
    assert sorted(shape.decodes for shape in kernels.timed) == [4, 8]
    variants = {shape.decodes: kernels._fastest[shape] for shape in kernels.shapes if not shape.blocks}
    assert variants == {8: "separate", 4: "step_attention", 2: "step_attention", 1: "step_attention"}


@pytest.mark.parametrize("with_step", [True, False])
def test_fewer_decodes_may_multiply_fewer_bits_where_more_multiply_the_models_own(with_step: bool) -> None:
    decoder = Decoder(made("llama"))
    limits = SchedulerLimits(40, 8, 8, 96, 2 * block_of(decoder), block_of(decoder), 3)
    kernels = KernelsBackend(decoder, GPUS["cpu"], limits)
    names = (["step_attention"] if with_step else []) + ["separate", "own_weights"]
    kernels._arrangements = lambda shape: {name: [] for name in names}  # type: ignore[method-assign]
    kernels._fastest = {PassShape(8, 0, 16, 0): "own_weights"}
    assert [*kernels._possible(PassShape(4, 0, 16, 0))] == [names[0], "own_weights"]
    kernels._fastest[PassShape(4, 0, 16, 0)] = names[0]
    assert [*kernels._possible(PassShape(2, 0, 16, 0))] == names[:1]


@pytest.mark.parametrize(("family", "pages"), [("llama", 40), ("gemma2", 11)])
def test_log_probabilities_are_the_models_and_change_no_answer(family, pages, monkeypatch):
    """Prompts in chunks, pages from the prefix cache, answers greedy and drawn, preempted where pages are few."""
    monkeypatch.setattr(logprobs, "ROWS", 2)
    model = made(family)
    eager = runners.runner("eager", model)
    asking, silent = requests_of(9, (*SAMPLED, GREEDY)), requests_of(9, (*SAMPLED, GREEDY))
    for number, request in enumerate(asking):
        request.logprobs = (None, 0, 3, 20)[number % 4]
    tokens: list[Token] = []
    own = served(model, asking, pages, tokens=tokens)
    served(model, silent, pages)
    assert [item.ids for item in asking] == [item.ids for item in silent]
    assert (own.scheduler.preempted > 0) == (pages == 11)
    assert max(item.num_cached_tokens for item in asking) >= 16
    for request in asking:
        told = [token.logprobs for token in tokens if token.request is request]
        if request.logprobs is None:
            assert told == [None] * request.answered
        else:
            expected = eager.logits(torch.tensor([request.ids]))[0, request.prompt_length - 1 : -1].log_softmax(-1)
            check_logprobs(told, expected, request.ids[request.prompt_length :], request.logprobs)


def test_log_probabilities_of_prompts_are_the_models() -> None:
    """In chunks beside other requests, without the prefix cache, and preempted while a prompt is read or answered."""
    model = made("gemma2")
    eager = runners.runner("eager", model)
    echoing, silent = requests_of(9), requests_of(9)
    for number, request in enumerate(echoing):
        request.echo, request.logprobs = number % 2 == 0, 3
    own = served(model, echoing, pages=11)
    served(model, silent)
    assert own.scheduler.preempted
    assert [item.ids for item in echoing] == [item.ids for item in silent]
    for request in echoing:
        prompt = request.ids[: request.prompt_length]
        assert sorted(request.prompt_logprobs) == (list(range(1, len(prompt))) if request.echo else [])
        if request.echo:
            expected = eager.logits(torch.tensor([prompt]))[0, :-1].log_softmax(-1)
            check_logprobs([request.prompt_logprobs[at] for at in range(1, len(prompt))], expected, prompt[1:], 3)


def check_logprobs(told: list[Logprobs | None], expected: torch.Tensor, ids: list[int], most: int) -> None:
    """Each token's log probabilities are those of `expected` [tokens, vocab], within float32's rounding."""
    assert len(told) == len(ids)
    for result, row, token in zip(told, expected, ids, strict=True):
        assert result.own == pytest.approx(float(row[token]), abs=LOGPROB_ERROR)
        assert [value for _, value in result.likeliest] == pytest.approx(
            row.topk(most).values.tolist(), abs=LOGPROB_ERROR
        )
        assert [value for _, value in result.likeliest] == pytest.approx(
            [float(row[each]) for each, _ in result.likeliest], abs=LOGPROB_ERROR
        )
        assert len({each for each, _ in result.likeliest}) == most


def test_a_server_that_has_captured_a_part_answers_alike_and_captures_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is idle one by one, under load those that steps ask for, some time apart."""
    model = made("llama")
    decoder = Decoder(model)
    limits = SchedulerLimits(60, 16, 32, 96, 256, block_of(decoder), 3)
    answers = {}
    for apart in (0.0, 1e9):
        monkeypatch.setattr(backend, "APART_SECONDS", apart)
        kernels = KernelsBackend(decoder, GPUS["cpu"], limits)
        kernels.prepare(all_shapes=False)
        begun = kernels.graphs_left
        assert begun > 0
        own, requests = Engine([kernels], kernels), requests_of(5)
        for request in requests:
            own.add(request)
        while not own.idle:
            own.run_step()
        answers[apart] = [request.ids for request in requests]
        assert kernels.graphs_left < begun if apart == 0 else kernels.graphs_left == begun
        left = kernels.graphs_left
        assert kernels.capture_next()
        assert kernels.graphs_left == left - 1
    whole = requests_of(5)
    served(model, whole, pages=60)
    assert answers[0.0] == answers[1e9] == [request.ids for request in whole]
    larger = len(kernels.shapes) - kernels.graphs_left
    monkeypatch.setattr(kernels, "_prepare", _no_memory)
    assert kernels.capture_next()
    assert (kernels.graphs_left, len(kernels.shapes), kernels.capture_next()) == (0, larger, False)


def _no_memory(shape: object) -> None:
    raise torch.OutOfMemoryError("no memory")
