"""Sampling on a Hopper GPU: every draw is the reference's, seeds repeat, stop tokens end a generation."""

import pytest
import torch

from kernels.ops.sampling import GREEDY, Sampling, sample_token, scores
from tests.kernels.megakernel.on_gpu import PROMPT, launched, models, runner_of
from tests.kernels.megakernel.tiny_models import GPU_CONFIGS

pytestmark = pytest.mark.gpu

MIXED = [
    Sampling(0.9, seed=5), Sampling(0.8, top_k=50, seed=6), GREEDY, Sampling(1.3, top_p=0.7, seed=7),
    Sampling(1.0, top_k=700, top_p=0.9, seed=2**63), Sampling(30.0, top_p=0.95, seed=9), Sampling(0.5, top_k=1, seed=1),
    Sampling(2.0, top_k=4000, top_p=0.99, seed=3),
]  # fmt: skip
TIE = 1e-4
"""Scores nearer than this may change places by the rounding of a logarithm or of a sum of masses."""


@pytest.mark.parametrize(
    "sampling", [MIXED[i : i + 1] for i in range(8)] + [MIXED[:2], MIXED[:3], MIXED[4:], MIXED[1:7], MIXED], ids=str
)
def test_every_draw_is_that_of_the_reference(sampling):
    """On the kernel's own logits, token by token; with forced tokens, so that one launch shows many contexts."""
    batch, steps = len(sampling), 40
    runner = runner_of(models(GPU_CONFIGS["llama"])[0])
    runner.prepare(batch, PROMPT, 64)
    forced = torch.randint(0, 4099, (steps + 1, batch), device="cuda")
    logits = torch.empty(steps, batch, 4099, device="cuda")
    tokens = launched(runner, forced, 0, steps, forced=forced, logits=logits, sampling=sampling)
    rows, others = logits.cpu().numpy(), 0
    for step in range(steps):
        for b, how in enumerate(sampling):
            score = scores(rows[step, b], how, step + 1)
            assert score.max() - score[tokens[step, b]] < TIE, (step, how)
            others += sample_token(rows[step, b], how, step + 1) != tokens[step, b]
    assert others <= 1


def test_a_seed_gives_the_same_answer_and_another_seed_another():
    runner = runner_of(models(GPU_CONFIGS["llama"])[0])
    prompt = torch.randint(0, 4099, (1, PROMPT), device="cuda")
    how = Sampling(1.0, top_k=200, top_p=0.95, seed=1)
    first = runner.generate(prompt, 32, how)
    assert first.extra["launches"] == 1
    assert len(first.times_ns) == len(first.tokens[0]) == 32
    assert first.times_ns == sorted(first.times_ns)
    assert all(runner.generate(prompt, 32, how).tokens == first.tokens for _ in range(20))
    assert runner.generate(prompt, 32, Sampling(1.0, top_k=200, top_p=0.95, seed=2)).tokens != first.tokens
    assert runner.generate(prompt, 32).tokens != first.tokens


def test_a_drawn_answer_is_that_of_its_own_logits():
    """Logits of the whole answer, once more and forced: the kernel drew each token from the step's own logits."""
    runner = runner_of(models(GPU_CONFIGS["llama"])[0])
    prompt = torch.randint(0, 4099, (1, PROMPT), device="cuda")
    how = Sampling(1.0, seed=3)
    made = runner.generate(prompt, 24, how).tokens[0]
    rows = runner.logits(torch.cat([prompt, torch.tensor([made], device="cuda")], dim=1))[0, PROMPT - 1 : -1]
    for i, (row, token) in enumerate(zip(rows.cpu().numpy(), made, strict=True)):
        score = scores(row, how, PROMPT + i)
        assert score.max() - score[token] < 0.3, i


def test_equal_sequences_of_a_batch_draw_alike_wherever_they_stand():
    runner = runner_of(models(GPU_CONFIGS["llama"])[0])
    prompt = torch.randint(0, 4099, (1, PROMPT), device="cuda").repeat(4, 1)
    how = Sampling(1.0, top_p=0.9, seed=4)
    tokens = runner.generate(prompt, 24, [how] * 4).tokens
    assert tokens[1:] == tokens[:1] * 3
    streams = runner.generate(prompt, 24, how).tokens
    assert streams[0] == tokens[0]
    assert len({tuple(row) for row in streams}) == 4


def test_it_stops_at_a_stop_token():
    runner = runner_of(models(GPU_CONFIGS["llama"])[0])
    prompt = torch.randint(0, 4099, (2, PROMPT), device="cuda")
    how = Sampling(1.0, seed=8)
    whole = runner.generate(prompt, 40, how).tokens
    stops = (whole[0][5], whole[1][9])
    ends = [min(i for i, token in enumerate(row) if token in stops) for row in whole]
    made = runner.generate(prompt, 40, how, stop=stops).tokens
    assert made == [row[: max(ends) + 1] for row in whole]
    equal = prompt[:1].repeat(2, 1)
    greedy = runner.generate(equal, 40).tokens
    assert [len(row) for row in runner.generate(equal, 40, stop=(greedy[0][0],)).tokens] == [1, 1]
