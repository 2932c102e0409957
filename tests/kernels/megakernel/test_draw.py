"""SMs find together what top-k and top-p keep, and draw from it; the rounds in which they do so cannot mix words up."""

import pytest

from kernels.ops.sampling import GREEDY, Sampling, sample_token
from tests.kernels.megakernel.orders import laggard, round_robin, shuffled
from tests.kernels.megakernel.tiny_models import gpu, program_of, start

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
        [sample_token(machine.logits[step, b], how, 11 + step + 1) for b, how in enumerate(sampling)]
        for step in range(4)
    ]
    assert tokens.tolist() == expected
