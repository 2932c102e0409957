"""Which cases are timed beside peers that Inductor compiles, and why the others are not. Imports without torch."""

from collections.abc import Callable

from kernels import registry
from kernels.hardware import GPUS
from kernels.ops import AttentionCase, Case, GroupedCase, LinearCase

LONG_CACHE = 4096
"""From so many keys on, attention over a cache is also timed against compiled peers."""

WITHOUT: tuple[tuple[Callable[[Case], bool], str], ...] = (
    (lambda case: not _serving(case), "No peer of torch serves it."),
    (
        lambda case: isinstance(case, LinearCase | GroupedCase) and case.epilogue == "none",
        "torch's product is one kernel of cuBLAS or CUTLASS: there is nothing to fuse.",
    ),
    (
        lambda case: isinstance(case, AttentionCase) and case.q_len > 1,
        "FlashAttention and cuDNN's attention are one kernel each: there is nothing to fuse.",
    ),
    (
        lambda case: isinstance(case, AttentionCase) and case.kv_len < LONG_CACHE,
        f"FlashAttention is one kernel, and fewer than {LONG_CACHE:,} keys are little to divide over a GPU.",
    ),
)
"""The cases without a compiled peer, each with the reason in a sentence; the first that fits counts."""


def compiled_peers(case: Case) -> frozenset[str]:
    """The peers of a case that Inductor compiles; none where `without` gives a reason."""
    return (
        frozenset() if without(case) else frozenset(variant.name for variant in _serving(case) if variant.build_seconds)
    )


def without(case: Case) -> str:
    """Why the case has no compiled peer, in a sentence; "" where it has one."""
    return next((reason for fits, reason in WITHOUT if fits(case)), "")


def _serving(case: Case) -> list[registry.Variant]:
    """The peers that serve the case on a GPU."""
    return [
        variant for variant in registry.variants(case.op) if variant.peer and variant.serves(case, GPUS["h200"]) is None
    ]
