"""The reference of how tokens are drawn: its random numbers, its distribution, and what top-k and top-p keep."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.generation.logits_process import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from kernels import runners
from kernels.ops import sampling
from kernels.ops.sampling import GREEDY, Sampling, candidate_mask, expand_samplings, gumbel, philox, sample_token
from tests.kernels.runners.engine_models import load

MAX_CHI_SQUARE = {3: 21.1, 7: 29.9}
"""By degrees of freedom: exceeded once in 10,000 runs of a right sampler; the seeds are fixed."""


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ([0, 0, 0, 0], (0, 0), [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([0xFFFFFFFF] * 4, (0xFFFFFFFF, 0xFFFFFFFF), [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        ([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], (0xA4093822, 0x299F31D0),
         [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]),
    ],
)  # fmt: skip
def test_random_numbers_are_those_of_the_paper(counter: list[int], key: tuple[int, int], expected: list[int]) -> None:
    """The known answers of Random123's own distribution."""
    assert [int(item) for item in philox(key, tuple(np.array(counter, dtype=np.uint64)))] == expected
    assert [int(item) for item in philox(key, tuple(torch.tensor(counter)))] == expected


def chi_square(counts: np.ndarray, expected: np.ndarray) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("varied", ["seed", "stream", "index"])
def test_draws_follow_the_softmax(varied: str) -> None:
    """4,000 draws that differ in one thing alone."""
    logits = np.array([2.0, 1.0, 0.0, -1.0, 1.5, -0.5, 0.5, 0.2], dtype=np.float32)
    drawn = np.zeros(8)
    for i in range(4000):
        how = Sampling(1.5, seed=i if varied == "seed" else 7, stream=i if varied == "stream" else 0)
        drawn[sample_token(logits, how, i if varied == "index" else 3)] += 1
    weights = np.exp(logits / 1.5)
    assert chi_square(drawn, 4000 * weights / weights.sum()) < MAX_CHI_SQUARE[7]


def test_draws_follow_what_top_k_and_top_p_leave() -> None:
    logits = np.array([2.0, 1.0, 0.0, -1.0, 1.5, -0.5, 0.5, 0.2], dtype=np.float32)
    how = Sampling(1.0, top_k=6, top_p=0.8)
    keep = candidate_mask(logits, how)
    assert np.flatnonzero(keep).tolist() == [0, 1, 4, 6]  # of the six, these reach 0.8 of the mass
    drawn = np.bincount([sample_token(logits, Sampling(1.0, 6, 0.8, seed), 0) for seed in range(4000)], minlength=8)
    assert not drawn[~keep].any()
    weights = np.exp(logits[keep])
    assert chi_square(drawn[keep], 4000 * weights / weights.sum()) < MAX_CHI_SQUARE[3]


@given(st.integers(0, 2**32), st.sampled_from([0, 1, 3, 40]), st.sampled_from([1.0, 0.9, 0.3]))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_what_is_kept_is_what_transformers_keeps(seed: int, top_k: int, top_p: float) -> None:
    logits = (np.random.default_rng(seed).standard_normal(200) * 3).astype(np.float32)
    scores = torch.from_numpy(logits)[None]
    warpers = [TemperatureLogitsWarper(0.7), *([TopKLogitsWarper(top_k)] if top_k else [])]
    for warper in [*warpers, *([TopPLogitsWarper(top_p)] if top_p < 1 else [])]:
        scores = warper(None, scores)
    np.testing.assert_array_equal(
        candidate_mask(logits, Sampling(0.7, top_k, top_p)), torch.isfinite(scores[0]).numpy()
    )


def test_equal_logits_are_kept_together_greedy_takes_the_first_and_noise_is_finite() -> None:
    logits = np.array([1.0, 1.0, 1.0, 0.0], dtype=np.float32)
    assert candidate_mask(logits, Sampling(1.0, top_k=2)).tolist() == [True, True, True, False]
    assert candidate_mask(logits, Sampling(1.0, top_k=9, top_p=1.0)).all()
    assert np.isfinite(gumbel(Sampling(1.0, seed=2**64 - 1, stream=5), 9, np.arange(200_000))).all()
    assert sample_token(np.array([0.0, 3.0, 3.0], dtype=np.float32), GREEDY, 5) == 1


@pytest.mark.parametrize("how", [GREEDY, Sampling(1.0), Sampling(1.0, top_k=2), Sampling(1.0, top_p=0.5)], ids=str)
def test_nan_is_never_drawn_and_infinity_always(how: Sampling) -> None:
    nan, infinity = np.float32("nan"), np.float32("inf")
    for index in range(20):
        assert sample_token(np.array([nan, 1.0, nan, 1.5, -infinity], dtype=np.float32), how, index) in (1, 3)
        assert sample_token(np.array([nan, 1.0, infinity, 1.5, infinity], dtype=np.float32), how, index) == 2
    assert sample_token(np.array([nan, nan], dtype=np.float32), how, 0) == 0
    assert sample_token(np.array([nan, -infinity], dtype=np.float32), how, 0) == 1


def test_one_option_for_a_batch_gives_each_row_a_stream() -> None:
    assert [how.stream for how in expand_samplings(Sampling(1.0, stream=4), 3)] == [4, 5, 6]
    assert expand_samplings(None, 2) == [GREEDY, GREEDY]
    with pytest.raises(ValueError, match="sampling: 1 for 2 sequences"):
        expand_samplings([GREEDY], 2)


@pytest.mark.parametrize(
    "fields",
    [{"temperature": -1}, {"temperature": 1e-9}, {"temperature": float("nan")}, {"top_k": -1}, {"top_p": 0.0},
     {"top_p": 1.1}, {"seed": -1}, {"seed": 2**64}, {"stream": 2**32}],
    ids=str,
)  # fmt: skip
def test_options_out_of_range_are_named(fields: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(fields))):
        Sampling(**fields)  # type: ignore[arg-type]


def test_the_eager_runner_draws_and_others_refuse() -> None:
    model = load("llama")
    eager, prompt = runners.runner("eager", model), torch.arange(24).view(2, 12)
    how = Sampling(0.9, top_k=50, top_p=0.95, seed=11)
    drawn = eager.generate(prompt, 6, how).tokens
    assert drawn == eager.generate(prompt, 6, how).tokens
    assert drawn != eager.generate(prompt, 6).tokens
    alone = eager.generate(prompt[1:], 6, [Sampling(0.9, 50, 0.95, 11, stream=1)]).tokens
    assert alone == drawn[1:]
    ids = torch.cat([prompt, torch.tensor(drawn)], dim=1)
    logits = eager.logits(ids)[:, 11:-1].float().numpy()
    expected = [
        [sample_token(logits[row, i], expand_samplings(how, 2)[row], 12 + i) for i in range(6)] for row in range(2)
    ]
    assert drawn == expected
    assert sampling.expand_samplings(how, 2)[1].stream == 1
    with pytest.raises(ValueError, match="the compiled runner is greedy"):
        runners.runner("compiled", model, {"compile": False}).generate(prompt, 6, how)
