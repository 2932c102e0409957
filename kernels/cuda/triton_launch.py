"""Triton kernels launched by the driver alone: Triton's own launcher reads every argument again, which takes tens of
µs. Written for Triton 3.6, whose launcher passes arguments in the signature's order, without constants, and two scratch
pointers behind them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from torch import Tensor

from kernels.cuda.call import Prepared, launch_nothing
from kernels.cuda.launch import Launch, current_stream
from kernels.cuda.triton_build import note

WARP = 32
ALIGNMENT = 16
"""Triton compiles a kernel of its own for pointers that are multiples of ALIGNMENT bytes. Outputs always are."""


@dataclass(frozen=True)
class BoundKernel:
    """A compiled Triton kernel and the bytes of its arguments, all but the addresses of its outputs."""

    function: int
    warps: int
    shared_bytes: int
    pdl: bool
    arguments: tuple[Any, ...]
    """The arguments as `Launch` takes them; 0 in place of an output."""
    places: tuple[tuple[int, int], ...]
    """Pairs of a place among the arguments and the number of the output whose address belongs there."""

    def launch(self, grid: Sequence[int], stream: int, outputs: Any) -> Launch:
        """A launch into `outputs` of the bound dtypes. Raises ValueError unless they begin at multiples of 16."""
        addresses = [tensor.data_ptr() for tensor in _several(outputs)]
        for address in addresses:
            if address % ALIGNMENT:
                raise ValueError(f"an output begins at {address:#x}, which is no multiple of {ALIGNMENT} bytes")
        arguments = list(self.arguments)
        for place, number in self.places:
            arguments[place] = addresses[number]
        return Launch(self.function, grid, WARP * self.warps, arguments, stream, self.shared_bytes, self.pdl)


def prepared(
    kernel: Any,
    grid: Sequence[int],
    stream: int,
    allocate: Callable[[], Any],
    arguments: Callable[[Any], Sequence[Any]],
    workspace: object = None,
    **options: Any,
) -> Prepared:
    """A call of `kernel` that the driver launches on a GPU, and Triton in its interpreter; on torch's meta device it is
    noted for `kernels.cuda.triton_build`. `allocate` makes the outputs, `arguments` (perhaps nested) the kernel's for
    such; `options` are such as `num_warps`.
    """
    outputs = allocate()
    if _several(outputs)[0].is_cuda:
        launch = bound(kernel, arguments(outputs), outputs, **options)
        return Prepared(allocate, partial(launch.launch, grid, stream), workspace=workspace)
    if _several(outputs)[0].is_meta:
        note(kernel, arguments(outputs), options)
        return Prepared(allocate, lambda _: launch_nothing, workspace=workspace)

    def interpreted(outputs: Any) -> Callable[[], object]:
        return lambda: kernel[grid](*arguments(outputs), **options)

    return Prepared(allocate, interpreted, holds=arguments)


def launch_once(kernel: Any, grid: Sequence[int], arguments: Sequence[Any], outputs: Any, **options: Any) -> None:
    """Launches on the current stream what `prepared` keeps for many calls. An empty grid launches nothing."""
    if not all(grid):
        return
    stream = current_stream()[1] if _several(outputs)[0].is_cuda else 0
    prepared(kernel, grid, stream, lambda: outputs, lambda _: arguments, **options).bind(outputs)()


def bound(kernel: Any, arguments: Sequence[Any], outputs: Any, **options: Any) -> BoundKernel:
    """`kernel` compiled for these arguments; a launch replaces `outputs`. Raises NotImplementedError for clusters."""
    compiled = kernel.run(*arguments, grid=(1, 1, 1), warmup=True, **options)
    return pack_launch(compiled, arguments, outputs, _load_function(compiled))


@cache
def _load_function(compiled: Any) -> int:
    """The compiled kernel's CUfunction on the current GPU. Triton's own loading compiles an unused launcher."""
    import triton

    driver = triton.runtime.driver.active
    device = driver.get_current_device()
    max_shared = driver.utils.get_device_properties(device)["max_shared_mem"]
    if compiled.metadata.shared > max_shared:
        raise triton.OutOfResources(compiled.metadata.shared, max_shared, "shared memory")
    _, function, *_ = driver.utils.load_binary(compiled.name, compiled.kernel, compiled.metadata.shared, device)
    return int(function)


def pack_launch(compiled: Any, arguments: Sequence[Any], outputs: Any, function: int) -> BoundKernel:
    """What `bound` returns, of a kernel that Triton has compiled for these arguments, as `function` on the GPU."""
    metadata = compiled.metadata
    if metadata.global_scratch_size or metadata.profile_scratch_size or metadata.num_ctas != 1:
        raise NotImplementedError(f"{compiled.name} needs scratch memory or a cluster")
    values, offsets = [], []
    for path, (value, kind) in enumerate(leaves(arguments, compiled.src)):
        number = next((number for number, output in enumerate(_several(outputs)) if output is value), None)
        values.append(_plain(value, kind) if number is None else 0)
        if number is not None:
            offsets.append((path, number))
    scratch = 0, 0
    return BoundKernel(
        function, metadata.num_warps, metadata.shared, metadata.launch_pdl, (*values, *scratch), tuple(offsets)
    )


def _several(outputs: Any) -> Sequence[Tensor]:
    return (outputs,) if isinstance(outputs, Tensor) else outputs


def leaves(arguments: Sequence[Any], source: Any) -> Iterator[tuple[Any, str]]:
    """Arguments that a launch passes, with their types in `source`'s signature; constants, and 1, are left out."""
    yield from _leaves(tuple(arguments), tuple(source.signature.values()))


def _leaves(value: Any, kind: Any) -> Iterator[tuple[Any, str]]:
    if isinstance(kind, tuple):
        for element, its_kind in zip(value, kind, strict=True):
            yield from _leaves(element, its_kind)
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
