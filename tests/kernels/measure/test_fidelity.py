"""KL divergence and disagreement of runners from the float32 model."""

import pytest
import torch

from kernels import runners
from kernels.measure.fidelity import fidelity
from tests.kernels.megakernel.sample_model import on_its_text, sample
from tests.kernels.megakernel.tiny_models import with_rounded_weights
from workers.measuring import quality


class Spoken:
    """A runner that says what it was told."""

    def __init__(self, probabilities: list[list[float]]) -> None:
        self.spoken = torch.tensor([probabilities]).log()

    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        return self.spoken.expand(len(ids), -1, -1)


def test_it_is_the_mean_over_all_tokens() -> None:
    truth, own = Spoken([[0.5, 0.5], [0.8, 0.2]]), Spoken([[0.25, 0.75], [0.2, 0.8]])
    ids = torch.zeros(3, 2, dtype=torch.int64)
    expected = [truth.logits(rows) for rows in ids.split(2)]
    found = fidelity(expected, {"own": own, "truth": truth}, ids, batch=2)  # type: ignore[dict-item]
    kl = torch.tensor([0.5, 0.5, 0.8, 0.2]) * torch.tensor([2.0, 2 / 3, 4.0, 0.25]).log()
    assert found["own"].tokens == 6
    assert found["own"].kl == pytest.approx(float(kl.sum()) / 2, rel=1e-5)
    assert found["own"].disagreement == 1.0
    assert (found["truth"].kl, found["truth"].disagreement) == (0, 0)


def test_the_pipelines_own_measure_says_the_same() -> None:
    own = runners.runner("eager", with_rounded_weights(sample("bf16", "cpu"), "fp8"))
    tokens, (done, _, side) = on_its_text(own, "cpu", 512)
    exact, ids = runners.runner("eager", sample("fp32", "cpu")), tokens.ids[: done // 128]
    found = fidelity(map(exact.logits, ids.split(1)), {"own": own}, ids, 1)["own"]
    assert done == found.tokens == 512
    assert found.kl == pytest.approx(side.mean_kl, rel=1e-6)
    assert found.disagreement == pytest.approx(side.disagreement, rel=1e-12)
    assert done < quality.LEAST_TOKENS
