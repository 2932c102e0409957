"""Triton kernels launched by the driver alone: Triton's own launcher reads every argument again at each call.

A launch by `kernel[grid](...)` takes tens of µs of the host: it looks at the type and alignment of each argument to
find the compiled kernel. Where the arguments are known, so is the kernel. Written for Triton 3.6, whose launcher passes
the arguments in the order of the signature, without constants, and two scratch pointers behind them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from kernels.cuda.launch import Launch

WARP = 32


@dataclass(frozen=True)
class BoundKernel:
    """A compiled Triton kernel and the bytes of its arguments, all but the address of its output."""

    function: int
    warps: int
    shared_bytes: int
    pdl: bool
    arguments: tuple[Any, ...]
    """As `Launch` takes them; the output is None."""

    def launch(self, grid: Sequence[int], stream: int, output: Tensor) -> Launch:
        """A launch that writes into `output`, of the dtype and alignment of the output that the kernel was bound to."""
        address = output.data_ptr()
        arguments = [address if each is None else each for each in self.arguments]
        return Launch(self.function, grid, WARP * self.warps, arguments, stream, self.shared_bytes, self.pdl)


def bound(kernel: Any, arguments: Sequence[Any], output: Tensor, **options: Any) -> BoundKernel:
    """`kernel`, a `triton.jit` function, compiled for these arguments on the current GPU. They may be nested tuples.

    `output` is the tensor among them that a launch replaces. `options` are those of a launch, such as `num_warps`.
    Raises NotImplementedError for a kernel that needs scratch memory of Triton's or a cluster.
    """
    compiled = kernel.run(*arguments, grid=(1, 1, 1), warmup=True, **options)
    metadata = compiled.metadata
    if metadata.global_scratch_size or metadata.profile_scratch_size or metadata.num_ctas != 1:
        raise NotImplementedError(f"{compiled.name} needs scratch memory or a cluster")
    _ = compiled.run  # loads the binary
    packed = tuple(None if each is output else _plain(each, kind) for each, kind in leaves(arguments, compiled.src))
    return BoundKernel(compiled.function, metadata.num_warps, metadata.shared, metadata.launch_pdl, (*packed, 0, 0))


def leaves(arguments: Sequence[Any], source: Any) -> Iterator[tuple[Any, str]]:
    """Every argument that a launch passes, with its type in the signature of `source`, such as `*bf16` or `i32`.

    Constants are left out. To Triton an integer of 1 is a constant, too.
    """
    yield from _leaves(tuple(arguments), tuple(source.signature.values()))


def _leaves(value: Any, kind: Any) -> Iterator[tuple[Any, str]]:
    if isinstance(kind, tuple):
        for each, its_kind in zip(value, kind, strict=True):
            yield from _leaves(each, its_kind)
    elif kind != "constexpr":
        yield value, kind


def _plain(value: Any, kind: str) -> Any:
    """An argument as `Launch` takes it. Raises TypeError for a type that no kernel here has."""
    if kind.startswith("*"):
        return value.data_ptr()
    if kind == "fp32":
        return np.float32(value)
    if kind[0] not in "iu":
        raise TypeError(f"an argument of type {kind}: pointers, integers and fp32 are passed")
    return value
