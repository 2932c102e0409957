"""What a server leaves out, by the names that its operator, its plan or a workload excludes. Imports without torch."""

from collections.abc import Iterable

from kernels.quant.formats import INT4

PASSES = "kernels"
"""The name of the composed kernels as a whole. A server's passes are made of them, so no server can do without."""
MEGAKERNEL = "megakernel"
VARIANTS = (
    "skinny",
    "lm_head_skinny",
    "small_gemm",
    "gemm_hopper",
    "rmsnorm_triton",
    "gated_triton",
    "rope_triton",
    "decode_split",
    "step_hopper",
    "grouped_hopper",
    "skinny_int8",
    "lm_head_skinny_int8",
    "small_gemm_int8",
    "grouped_int8",
    "grouped_mxfp4",
    *(f"skinny_{name}" for name in INT4),
)
"""The variants that passes use where no plan names others (`kernels.server.execution.ops`); without one, torch's
own.
"""
NAMES = (MEGAKERNEL, *VARIANTS)


def of_server(excluded: Iterable[str]) -> list[str]:
    """Those of the excluded names that a server can leave out, sorted. The others name nothing that it uses."""
    return sorted(set(NAMES).intersection(excluded))
