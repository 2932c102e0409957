"""Passes that end with an LM head: which steps take them, and that answers stay those of each request alone."""

import pytest
import torch

from kernels import runners
from kernels.hardware import GPUS
from kernels.model.decoder import Decoder
from kernels.ops.base import SamplingKind
from kernels.ops.sampling import GREEDY, Sampling
from kernels.plan import PlannedOp
from kernels.server.execution import backend as backend_module
from kernels.server.execution.backend import Captured, KernelsBackend, block_of
from kernels.server.execution.engine import Engine
from kernels.server.execution.heads import MAX_TOP_K, head_case, most_equal_rows, planned_heads, sampling_kinds
from kernels.server.execution.shapes import PassShape
from kernels.server.scheduler.batching import SchedulerLimits
from kernels.server.scheduler.requests import Request, ScheduledTokens, Step
from tests.kernels.runners.engine_models import load

TORCHS: dict[SamplingKind, str] = {"argmax": "torch_lm_head", "top_k_p": "torch_lm_head_sampling"}
LIMITED, WHOLE = Sampling(0.8, top_k=7, top_p=0.9, seed=6), Sampling(1.0, seed=5)
OTHER_LIMIT = Sampling(1.3, top_k=MAX_TOP_K, seed=1 << 63)


def step_of(*hows: Sampling, logprobs: int | None = None, chunk: bool = False) -> Step:
    requests = [Request(str(at), [1, 2], 4, how, logprobs=logprobs) for at, how in enumerate(hows)]
    parts = [ScheduledTokens(request, 1, 1, True, 2) for request in requests]
    return Step(parts, [ScheduledTokens(Request("chunk", [1, 2], 4), 0, 2, True, 2)] if chunk else [])


@pytest.mark.parametrize(
    ("step", "head"),
    [
        (step_of(GREEDY, GREEDY), "argmax"), (step_of(GREEDY, LIMITED, OTHER_LIMIT), "top_k_p"),
        (step_of(LIMITED, WHOLE), None), (step_of(Sampling(1.0, top_k=MAX_TOP_K + 1)), None),
        (step_of(Sampling(1.0, top_p=0.9)), None), (step_of(GREEDY, logprobs=0), None),
        (step_of(GREEDY, chunk=True), None),
    ],
)  # fmt: skip
def test_a_head_takes_the_steps_whose_tokens_it_can_draw(step: Step, head: str | None) -> None:
    assert sampling_kinds(step) == head


def planned(model: Decoder, rows: tuple[int, ...] = (1, 2, 3, 4)) -> list[PlannedOp]:
    """torch's own heads, which a plan may name."""
    cases = [(head_case(model, row, kind), name) for row in rows for kind, name in TORCHS.items()]
    return [PlannedOp(op="lm_head", case=case.model_dump(), variant=name) for case, name in cases]


def test_heads_follow_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under load those that steps ask for, the others while the server is idle."""
    monkeypatch.setattr(KernelsBackend, "_ms", by_head)
    monkeypatch.setattr(backend_module, "APART_SECONDS", 0.0)
    backend = prepared(Decoder(load("llama", seed=1)), all_shapes=False)
    assert not backend.timed_heads
    engine = Engine([backend])
    engine.add(Request("greedy", [1, 2, 3], 5))
    while not engine.idle:
        engine.run_step()
    assert {kind for _, kind in backend.timed_heads} == {"argmax"}
    while backend.capture_next():
        pass
    alone = [shape for shape in backend.shapes if not shape.blocks]
    assert {*backend.timed_heads} == {(shape, kind) for shape in alone for kind in TORCHS}
    assert backend.graphs == len(backend.shapes) + 2 * len(alone)


def test_no_head_samples_with_a_soft_cap_or_many_equal_rows() -> None:
    model, shape = Decoder(load("gemma2")), PassShape(2, 0, 4, 2)
    assert planned_heads(model, shape, planned(model)) == ["argmax"]
    model = Decoder(load("llama", seed=1))
    assert most_equal_rows(model.lm_head) == 1
    model.lm_head = model.lm_head.clone()
    model.lm_head[20:34] = model.lm_head[3]
    assert most_equal_rows(model.lm_head) == 15
    assert {kind for _, kind in prepared(model).timed_heads} == {"argmax"}
    model.lm_head[20] = 0
    assert {kind for _, kind in prepared(model).timed_heads} == {*TORCHS}


def run_steps(own: Engine, count: int) -> None:
    for _ in range(count):
        own.run_step()


def by_head(self: KernelsBackend, shape: PassShape, graph: Captured, how: Sampling = GREEDY) -> float:
    """A time that is shorter with a head."""
    return 1.0 if graph.one_pass.head else 2.0


def by_logits(self: KernelsBackend, shape: PassShape, graph: Captured, how: Sampling = GREEDY) -> float:
    return 3.0 - by_head(self, shape, graph)


def prepared(model: Decoder, all_shapes: bool = True) -> KernelsBackend:
    block = block_of(model)
    limits = SchedulerLimits(60, 8, 4, 96, 2 * block, block, 3)
    backend = KernelsBackend(model, GPUS["cpu"], limits, ops=planned(model))
    backend.prepare(all_shapes)
    return backend


@pytest.mark.parametrize("family", ["llama", "qwen2-window"])
def test_answers_are_those_of_each_request_alone(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Greedy requests, those with a top-k and those without come and go, so that steps end in all three ways."""
    monkeypatch.setattr(KernelsBackend, "_ms", by_head)
    model = load(family, seed=1)
    backend, taken = prepared(Decoder(model)), []
    graph = backend._graph
    monkeypatch.setattr(backend, "_graph", lambda shape, kind: taken.append(kind) or graph(shape, kind))
    own = Engine([backend])
    hows = [GREEDY, GREEDY, LIMITED, OTHER_LIMIT, GREEDY, LIMITED, WHOLE, GREEDY, OTHER_LIMIT]
    requests = [Request(str(at), [at, 7, 3], 5 + at, how) for at, how in enumerate(hows)]
    requests += [Request("told", [1, 2], 4, LIMITED, logprobs=1), Request("last", [5], 20)]
    waiting = list(requests)
    while waiting or not own.idle:
        if waiting:
            own.add(waiting.pop(0))
        own.run_step()
    assert {*taken} == {"argmax", "top_k_p", None}
    alone, eager = (runners.runner(name, model) for name in ("kernels", "eager"))
    for request in requests:
        prompt, runner = (
            torch.tensor([request.ids[: request.prompt_length]]),
            alone if request.sampling.greedy else eager,
        )
        assert (
            request.ids[request.prompt_length :]
            == runner.generate(prompt, request.max_tokens, [request.sampling]).tokens[0]
        )


def test_a_head_is_kept_where_it_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Decoder(load("llama", seed=1))
    graphs = {}
    for times in (by_head, by_logits):
        monkeypatch.setattr(KernelsBackend, "_ms", times)
        backend = prepared(model)
        alone = [shape for shape in backend.shapes if not shape.blocks]
        assert {*backend.timed_heads} == {(shape, kind) for shape in alone for kind in TORCHS}
        graphs[times] = backend.graphs - len(backend.shapes), 2 * len(alone)
    assert graphs[by_head][0] == graphs[by_head][1] > 0 == graphs[by_logits][0]


def test_a_row_that_a_head_gives_up_ends_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one token that nobody drew is told, and the step that already runs reads no row before the embedding's."""
    monkeypatch.setattr(KernelsBackend, "_ms", by_head)
    model = Decoder(load("llama", seed=1))
    backend = prepared(model)
    own, request = Engine([backend]), Request("a", [1, 2, 3], 9, LIMITED)
    own.add(request)
    run_steps(own, 4)
    model.lm_head.zero_()
    with pytest.raises(RuntimeError, match="more logits are equal than it keeps"):
        run_steps(own, 3)
    assert -1 not in request.ids
