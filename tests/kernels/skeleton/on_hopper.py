"""A source for sm_100a compiled for Hopper: single threads play the tensor cores, all else is the source's own."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.kernels.compiling import cubin

HEADERS = Path(__file__).parent
"""Its `tcgen05.cuh` takes the place of the tile layer's."""

BLOCKS = 2
"""Blocks of the grid: TMEM is played for a few."""

SPIN_LIMIT = 1 << 26
"""Tries of a wait before it traps, four times the tile layer's: a product takes a single thread milliseconds."""


def built(source: Path, constants: Mapping[str, Any]) -> tuple[str, bytes]:
    """The compiler's log and the binary. Raises RuntimeError with the errors."""
    return cubin(source, {**constants, "TILES_SPIN_LIMIT": SPIN_LIMIT}, "sm_90a", HEADERS)


def loaded(source: Path, constants: Mapping[str, Any], entry: str, shared_bytes: int, folder: Path) -> Any:
    """The kernel, ready to launch on a GPU of sm_90."""
    import cupy

    binary = folder / "skeleton.cubin"
    binary.write_bytes(built(source, constants)[1])
    kernel = cupy.RawModule(path=str(binary)).get_function(entry)
    kernel.max_dynamic_shared_size_bytes = shared_bytes
    return kernel
