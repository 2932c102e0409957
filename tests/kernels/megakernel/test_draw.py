"""SMs find together what top-k and top-p keep, and draw from it; the rounds in which they do so cannot mix words up."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.ops.sampling import GREEDY, Sampling, choose, kept
from tests.kernels.megakernel.interpreter.threshold_search import ThresholdSearch
from tests.kernels.megakernel.orders import laggard, round_robin, shuffled
from tests.kernels.megakernel.tiny_models import gpu, program_of, start

NEAR = 1e-5
"""Share of the mass within which float32 sums may place the edge of a nucleus."""


def found(logits: np.ndarray, how: Sampling, bins: int = 32, sms: int = 7) -> tuple[np.float32, int]:
    """The threshold that `sms` SMs find together, and in how many rounds."""
    search, rounds = ThresholdSearch(how, len(logits), np.float32(np.nanmax(logits)), bins), 0
    while search.goal:
        parts = [search.bins_of(part) for part in np.array_split(logits, sms)]
        search.narrow(*np.sum(parts, axis=0, dtype=np.float32))
        rounds += 1
        assert rounds < 200
    return search.threshold, rounds


def assert_kept(logits: np.ndarray, how: Sampling, threshold: np.float32) -> None:
    """The tokens from the threshold on are those of the rule, for some nucleus within NEAR of what is asked."""
    fields = vars(how)
    least, most = (
        kept(logits, Sampling(**(fields | {"top_p": float(np.clip(how.top_p * (1 + sign * NEAR), 1e-9, 1))})))
        for sign in (-1, 1)
    )
    keep = logits >= threshold
    assert not (least & ~keep).any()
    assert not (keep & ~most).any()


OPTIONS = st.builds(
    Sampling,
    temperature=st.sampled_from([0.01, 0.3, 1.0, 5.0, 100.0]),
    top_k=st.sampled_from([0, 1, 2, 64, 65, 500, 2999]),
    top_p=st.sampled_from([1.0, 0.999, 0.9, 0.5, 1e-6]),
)


@given(st.integers(0, 2**32), OPTIONS, st.sampled_from([0.0, 0.01, 1.0, 30.0]), st.sampled_from([8, 16, 32]))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_the_threshold_is_exact(seed: int, how: Sampling, spread: float, bins: int) -> None:
    """Whatever k, p and temperature, for logits all equal, nearly so, or far apart; many of them more than once."""
    chance = np.random.default_rng(seed)
    logits = (chance.standard_normal(3000) * spread + chance.normal() * 10).astype(np.float32)
    logits[::3] = logits[1::3]
    threshold, _ = found(logits, how, bins)
    assert_kept(logits, how, threshold)


MIXED = [
    Sampling(0.9, seed=5), Sampling(0.8, top_k=12, seed=6), GREEDY, Sampling(1.3, top_p=0.7, seed=7),
    Sampling(1.0, top_k=70, top_p=0.9, seed=2**63), Sampling(1.0, top_k=100_000, seed=9),
    Sampling(0.5, top_k=1, seed=1), Sampling(2.0, top_k=200, top_p=0.99, seed=3),
]  # fmt: skip


@pytest.mark.parametrize(
    ("sampling", "order"),
    [(MIXED[:1], laggard(2)), (MIXED[1:3], shuffled(3)), (MIXED[1:6], round_robin()), (MIXED, shuffled(4))],
    ids=lambda value: f"batch {len(value)}" if isinstance(value, list) else "",
)
def test_every_draw_is_that_of_the_reference(sampling: list[Sampling], order: object) -> None:
    """On the interpreter's own logits, token by token, whatever the order of the SMs."""
    program = program_of("llama", batch=len(sampling))
    begin = start("llama", len(sampling), 11, 64)
    machine = gpu("llama", program, begin, 4, split_keys=8, sampling=sampling)
    tokens = machine.run(order)  # type: ignore[arg-type]
    expected = [
        [choose(machine.logits[step, b], how, 11 + step + 1) for b, how in enumerate(sampling)] for step in range(4)
    ]
    assert tokens.tolist() == expected


def test_a_sequence_draws_the_same_beside_others() -> None:
    """Its noise depends on its own options and position; products of one batch size on its own rows."""
    how = Sampling(1.0, top_k=40, seed=12)
    rows = []
    for place in (0, 1):
        begin = start("llama", 2, 11, 64)
        if place:
            begin = type(begin)(begin.prompt, begin.keys[:, ::-1], begin.values[:, ::-1], begin.first[::-1])
        sampling = [how, GREEDY] if place == 0 else [GREEDY, how]
        tokens = gpu("llama", program_of("llama", batch=2), begin, 4, sampling=sampling).run(round_robin())
        rows.append(tokens[:, place].tolist())
    assert rows[0] == rows[1]
