"""What a captured graph reads lives as long as the graph: it holds addresses, and no tensor."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernels import registry, runners
from kernels.hardware import GPUS
from kernels.model import prompts
from kernels.model.bound_variants import BoundVariants
from kernels.model.decoder import Decoder
from kernels.model.passes import Pass
from kernels.model.state import State
from kernels.ops import LmHeadCase
from kernels.ops.lm_head import TokenFeedback
from kernels.plan import Plan
from kernels.runners import compiled
from kernels.runners.compiled import CompiledRunner
from kernels.runners.eager import EagerRunner
from kernels.runners.kernels_runner import KernelsSession
from tests.kernels.runners import planned_models
from tests.kernels.runners.engine_models import load
from tests.kernels.runners.planned_models import applied, planned


def forgotten(function: Callable[[], None], device: torch.device) -> Callable[[], object]:
    """As `capture_graph` on a GPU: what is left of the function is no reference to it."""
    function()
    return lambda: None


@torch.no_grad()
def test_a_bucket_keeps_what_its_prompts_read(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[Pass]] = []

    def watched(*args: Any, **kwargs: Any) -> Pass:
        one_pass = Pass(*args, **kwargs)
        made.append(weakref.ref(one_pass))
        return one_pass

    monkeypatch.setattr(prompts, "capture_graph", forgotten)
    monkeypatch.setattr(prompts, "Pass", watched)
    model = Decoder(load("llama"))
    cos, sin = model.rope_table(64)
    place, token = torch.zeros(1, dtype=torch.int64), torch.zeros(1, 1, dtype=torch.int64)
    state = State(1, 64, cos, sin, model.cache(1, 64), place, token)
    result = prompts.PromptReader(model, BoundVariants([], GPUS["h200"]), state, whole=False)
    result.capture(20)
    gc.collect()
    assert [item() is not None for item in made] == [True]
    del result
    gc.collect()
    assert [item() is not None for item in made] == [False]


@torch.no_grad()
def test_an_encoder_keeps_all_its_inputs(monkeypatch: pytest.MonkeyPatch, random_ids: torch.Tensor) -> None:
    masks: list[weakref.ref[torch.Tensor]] = []

    def inputs(model: Any, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        mask = torch.ones_like(ids)
        masks.append(weakref.ref(mask))
        return {"input_ids": ids, "attention_mask": mask}

    monkeypatch.setattr(compiled, "capture_graph", forgotten)
    monkeypatch.setattr(compiled, "forward_inputs", inputs)
    runner = CompiledRunner(load("bert"), {"compile": False})
    runner.prepare(*random_ids.shape, 1)
    runner.encode(random_ids)
    gc.collect()
    assert len(masks) == 1
    assert masks[0]() is not None


@pytest.mark.gpu
def test_a_prompt_reads_the_same_after_its_garbage_is_collected() -> None:
    """Without a variant for rope the pass has an index of its own, which other tensors would overwrite."""
    model = load("llama", "bf16", "cuda")
    runner = runners.apply(model, Plan(model_digest="", gpu="h200", runner="kernels"))
    runner.prepare(1, 100, 8)
    ids = torch.randint(3, 300, (1, 100), generator=torch.Generator().manual_seed(1)).cuda()
    first = runner.generate(ids, 8).tokens
    gc.collect()
    filled = [torch.full((size,), 1 << 40, device="cuda") for size in (1, 16, 64, 128, 256) for _ in range(100)]
    torch.cuda.synchronize()
    assert runner.generate(ids, 8).tokens == first
    assert all(bool((item == 1 << 40).all()) for item in filled)


class TurningHead(registry.Variant):
    """An LM head that advances the token itself, out of torch's ops."""

    name = "turning_head"
    op = "lm_head"
    summary = "planted by a test"
    advances_token = True

    def serves(self, case: Any, gpu: Any) -> None:
        return None

    def build(self, case: Any, params: dict[str, Any]) -> Any:
        def head(x: torch.Tensor, w: torch.Tensor, feedback: TokenFeedback) -> None:
            feedback.token.copy_((x @ w.T).argmax(-1, keepdim=True))
            feedback.position.add_(feedback.moves)
            feedback.stream.copy_(feedback.embedding[feedback.token[:, 0]])
            feedback.seen[feedback.position] = feedback.token.T

        return head


@pytest.mark.parametrize("name", ["llama", "qwen2"])
def test_a_head_may_make_the_turn_to_the_next_token(name, random_ids, monkeypatch):
    monkeypatch.setitem(registry._variants, "turning_head", TurningHead())
    model = planned_models.load(name)
    vocab, hidden = model.lm_head.weight.shape
    case = LmHeadCase(m=2, vocab=vocab, k=hidden, dtype="fp32", weights="fp32")
    eager, runner = EagerRunner(model), applied(model, [planned(case, "turning_head")])
    runner.prepare(2, 20, 12)
    for _ in range(2):
        generation = runner.generate(random_ids[:, :20], 12)
        assert generation.tokens == eager.generate(random_ids[:, :20], 12).tokens
        assert len(generation.times_ns) == 12
    torch.testing.assert_close(runner.logits(random_ids), eager.logits(random_ids), atol=2e-4, rtol=1e-4)


def test_what_warms_up_a_new_bucket_is_not_read_as_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._variants, "turning_head", TurningHead())
    model = planned_models.load("llama")
    vocab, hidden = model.lm_head.weight.shape
    case = LmHeadCase(m=1, vocab=vocab, k=hidden, dtype="fp32", weights="fp32")
    runner = applied(model, [planned(case, "turning_head")])
    runner.prepare(1, 100, 4)
    session = runner._session
    assert isinstance(session, KernelsSession)
    assert session.state.seen is not None
    session.reader(1, 1)
    with torch.no_grad():
        session.prompts.capture(1)
    assert session.state.seen[1].item() == -1
