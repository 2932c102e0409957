"""An LM head that advances the token itself: the host reads what the steps write."""

from typing import Any

import pytest
import torch

from kernels import registry
from kernels.ops import LmHeadCase
from kernels.ops.token_feedback import TokenFeedback
from kernels.runners.eager import EagerRunner
from kernels.runners.kernels_runner import KernelsSession
from tests.kernels.runners.planned_models import applied, load, planned


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
            assert feedback.embedding is not None
            assert feedback.stream is not None
            assert feedback.seen is not None
            feedback.stream.copy_(feedback.embedding[feedback.token[:, 0]])
            feedback.seen[feedback.position] = feedback.token.T

        return head


@pytest.mark.parametrize("name", ["llama", "qwen2"])
def test_a_head_may_make_the_turn_to_the_next_token(
    name: str, random_ids: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry._variants, "turning_head", TurningHead())
    model = load(name)
    vocab, hidden = model.lm_head.weight.shape
    case = LmHeadCase(m=2, vocab=vocab, k=hidden, dtype="fp32", weights="fp32")
    eager, runner = EagerRunner(model), applied(model, [planned(case, "turning_head")])
    runner.prepare(2, 20, 12)
    for _ in range(2):
        made = runner.generate(random_ids[:, :20], 12)
        assert made.tokens == eager.generate(random_ids[:, :20], 12).tokens
        assert len(made.times_ns) == 12
    torch.testing.assert_close(runner.logits(random_ids), eager.logits(random_ids), atol=2e-4, rtol=1e-4)


def test_what_warms_up_a_new_bucket_is_not_read_as_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._variants, "turning_head", TurningHead())
    model = load("llama")
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
