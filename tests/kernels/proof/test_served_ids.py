"""Ids that a runner serves are held against the model's own logits."""

from typing import Any

import pytest
import torch

from kernels import runners
from kernels.proof.served_ids import LogitGaps, answers_refusal, judge, logit_gaps
from kernels.runners.eager import EagerRunner
from tests.kernels.runners.engine_models import load

BF16, FP8 = 0.06, 0.25


def llama(dtype: str) -> Any:
    return load("llama", dtype=dtype)


@pytest.fixture
def prompt() -> torch.Tensor:
    return torch.randint(300, (2, 20), generator=torch.Generator().manual_seed(1))


def test_a_runners_own_greedy_ids_pass_and_one_wrong_id_among_many_does_not(prompt: torch.Tensor) -> None:
    reference = runners.runner("eager", llama("fp32"))
    gaps = logit_gaps(reference, prompt, reference.generate(prompt, 16).tokens)
    assert gaps.tokens == 32
    assert gaps.largest < 1e-4
    assert gaps.refusal(BF16) is None
    gaps = logit_gaps(reference, prompt, [[0] * 16] * 2)
    assert gaps.mean > 1
    assert "are not the model's" in (gaps.refusal(BF16) or "")
    served = reference.generate(prompt, 64).tokens
    logits = reference.logits(torch.tensor([[*prompt[1].tolist(), *served[1]]]))[0, -2]
    served[1][-1] = int(logits.argmin())
    gaps = logit_gaps(reference, prompt, served)
    assert gaps.mean < BF16
    assert gaps.refusal(BF16)


class Erring(EagerRunner):
    """Its logits favour another id by `error` standard deviations where it predicts the last one."""

    error = 0.4

    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        logits = super().logits(ids).clone()
        place = logits[0, -2]
        place[int(place.argmin())] = place.max() + self.error * place.std()
        return logits


@pytest.mark.parametrize(("is_wrong", "passes"), [(False, True), (True, False)])
def test_where_the_reference_errs_at_one_id_the_runners_own_logits_decide(
    prompt: torch.Tensor, is_wrong: bool, passes: bool
) -> None:
    runner, reference = runners.runner("eager", llama("fp32")), Erring(llama("fp32"))
    served = runner.generate(prompt, 64).tokens
    if is_wrong:
        served[1][-1] = int(runner.logits(torch.tensor([[*prompt[1].tolist(), *served[1]]]))[0, -2].argmin())
    judged = judge(reference, runner, [(prompt, served)], ("bf16", "bf16"))
    assert judged.gaps.largest > 4 * BF16
    assert (judged.refusal is None) == passes


@pytest.mark.parametrize(
    ("beyond", "answers", "passes"),
    [
        ([(0.03, 1.4)], 8, True),
        ([(0.03, 1.4), (0.01, 0.4)], 8, False),
        ([(0.03, 1.4), (0.01, 0.4)], 100, True),
        ([(0.07, 1.4)], 100, False),
        ([(0.01, 4.0)], 100, False),
        ([(0.01, 4.0)], 1, False),
    ],
    ids=["one", "two of few", "two of many", "many ids of one", "a random id", "a random id of one answer"],
)
def test_few_answers_of_a_server_may_have_far_ids(beyond: Any, answers: int, passes: bool) -> None:
    gaps = [LogitGaps(mean, largest, 64) for mean, largest in beyond]
    gaps += [LogitGaps(0.0001, 0.01, 64)] * (answers - len(gaps))
    assert (answers_refusal(gaps, BF16) is None) == passes


def test_greedy_ids_of_a_lower_precision_pass_within_what_rounding_explains(prompt: torch.Tensor) -> None:
    served = runners.runner("eager", llama("bf16")).generate(prompt, 16).tokens
    assert logit_gaps(runners.runner("eager", llama("fp32")), prompt, served).refusal(BF16) is None


@pytest.mark.parametrize(
    ("mean", "largest", "tokens", "passes"),
    [
        (0.00034, 0.034, 1024, True),  # the largest that honest runners in bf16, fp8 and NVFP4 gave on an H200
        (0.00076, 0.094, 3456, True),  # the largest of another engine's ids in bf16 there
        (0.1, 0.5, 48, False),
        (0.007, 0.1, 1024, False),
        (0.001, 0.25, 1024, False),
        (0.05, 0.2, 4, True),  # one of four ids alone
        (0.07, 0.07, 1, False),
    ],
)
def test_by_its_own_logits_a_runner_has_little_slack(mean: float, largest: float, tokens: int, passes: bool) -> None:
    assert (LogitGaps(mean, largest, tokens).own_refusal(BF16) is None) == passes


@pytest.mark.parametrize(
    ("mean", "largest", "tokens", "passes"),
    [
        (0.41, 0.41, 1, True),  # an id of an honest runner in fp8 on four H200s
        (1.51, 1.51, 1, False),
        (0.097, 1.1, 1024, True),  # an honest runner in fp8 on one H200
        (0.87, 1.1, 2, True),
        (0.88, 1.1, 2, False),
        (0.27, 0.9, 64, False),
        (0.2513, 0.9, 1024, False),
        (0.2512, 0.9, 1024, True),
    ],
)
def test_one_of_few_ids_may_have_the_largest_gap(mean: float, largest: float, tokens: int, passes: bool) -> None:
    assert (LogitGaps(mean, largest, tokens).refusal(FP8) is None) == passes


def test_errors_that_fp8_explains_are_not_refused_by_chance() -> None:
    """1,024 ids of a vocabulary of 128,256, chosen by logits whose error is all that fp8 is allowed."""
    generator, gaps = torch.Generator().manual_seed(1), []
    for _ in range(16):
        logits = torch.randn(64, 128256, generator=generator)
        chosen = (logits + FP8 * torch.randn(logits.shape, generator=generator)).argmax(-1, keepdim=True)
        gaps.append(logits.amax(-1) - logits.gather(-1, chosen)[:, 0])
    result = torch.cat(gaps)
    assert result.max() > 4 * FP8
    assert LogitGaps(float(result.mean()), float(result.max()), len(result)).refusal(FP8) is None
    assert LogitGaps(float(result.mean()), 4.0, len(result)).refusal(FP8)  # one of them is an id at random


@pytest.mark.parametrize(("served", "said"), [([[1, 2]], "2 prompts"), ([[1], [300]], "outside of the vocabulary")])
def test_rows_that_are_not_the_prompts_are_refused(prompt: torch.Tensor, served: list[list[int]], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        logit_gaps(runners.runner("eager", llama("fp32")), prompt, served)
