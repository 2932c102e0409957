"""A call that the CUDA driver launches: the first one checks and packs its arguments, later ones look them up."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from kernels.cuda.launch import current_stream, is_capturing

CALLS_KEPT = 512
"""Sets of arguments whose packed launches a built variant keeps. A packed launch takes 1.6 to 2.8 KB."""

OUTPUTS_KEPT = 8
"""Addresses of outputs kept for each set of arguments: torch's allocator gives the same few again and again."""

V = TypeVar("V")

_SEQUENCES = (tuple, list)


class BoundedCache(Generic[V]):
    """A cache of at most `most` entries. A new entry evicts the oldest. Threads may share it."""

    def __init__(self, max_entries: int) -> None:
        self._max_entries, self._entries, self._lock = max_entries, dict[Any, V](), threading.Lock()
        self.get = self._entries.get

    def keep(self, key: Any, value: V) -> None:
        with self._lock:
            while len(self._entries) >= self._max_entries and key not in self._entries:
                del self._entries[next(iter(self._entries))]
            self._entries[key] = value

    def __len__(self) -> int:
        return len(self._entries)


@dataclass(frozen=True)
class Prepared:
    """A call with packed arguments, except for the outputs' addresses.

    `allocate` makes new outputs, `bind` packs launches that write into given ones. Neither holds a tensor of the call.
    `workspace` is the memory that the launches write to and read back. `holds` is an object that must live until the
    launch, such as a padded copy of an argument; such a call is not cached.
    """

    allocate: Callable[[], Any]
    bind: Callable[[Any], Callable[[], object]]
    workspace: object = None
    holds: object = None
    bound: BoundedCache[Callable[[], object]] = field(default_factory=lambda: BoundedCache(OUTPUTS_KEPT))


class Output(NamedTuple):
    """One output of a call: contiguous, of this shape and dtype. An error message names it by `name`."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype


def allocation(outputs: Sequence[Output], device: torch.device) -> Callable[[], Any]:
    """Makes new outputs, a tuple of several. torch.empty reads separate lengths faster than a tuple."""
    allocators = [partial(torch.empty, *output.shape, dtype=output.dtype, device=device) for output in outputs]
    return allocators[0] if len(allocators) == 1 else lambda: tuple([make() for make in allocators])


def layout(values: Iterable[Any]) -> tuple[Any, ...]:
    """Pointer, shape and strides of every tensor; other values as they are; the elements of tuples and lists."""
    facts: list[Any] = []
    for value in values:
        if type(value) is Tensor:  # a tenth of the time that isinstance takes for None
            facts.append((value.data_ptr(), value.shape, value.stride()))
        elif type(value) is tuple:
            facts.append(layout(value))
        else:
            facts.append(_other(value, layout))
    return tuple(facts)


def size_and_strides(values: Iterable[Any]) -> tuple[Any, ...]:
    """`layout` where the case leaves one length of a tensor open at most: the number of elements gives that length."""
    facts: list[Any] = []
    for value in values:
        if type(value) is Tensor:
            facts.append((value.data_ptr(), value.numel(), value.stride()))
        elif type(value) is tuple:
            facts.append(size_and_strides(value))
        else:
            facts.append(_other(value, size_and_strides))
    return tuple(facts)


def size(values: Iterable[Any]) -> tuple[Any, ...]:
    """`size_and_strides` of tensors that must be contiguous."""
    facts: list[Any] = []
    for value in values:
        if type(value) is Tensor:
            facts.append((value.data_ptr(), value.numel()))
        elif type(value) is tuple:
            facts.append(size(value))
        else:
            facts.append(_other(value, size))
    return tuple(facts)


def pointers(values: Iterable[Any]) -> tuple[Any, ...]:
    """`size` of tensors whose shapes the case fixes. The tensors of a named tuple may have any length."""
    facts: list[Any] = []
    for value in values:
        if type(value) is Tensor:
            facts.append(value.data_ptr())
        elif type(value) is tuple:
            facts.append(pointers(value))
        else:
            facts.append(_other(value, size if hasattr(value, "_fields") else pointers))
    return tuple(facts)


def identity(values: Iterable[Any]) -> tuple[Any, ...]:
    """Everything that a check can depend on: all of a tensor but its values. Only empty tensors share address 0."""
    facts: list[Any] = []
    for value in values:
        if type(value) is Tensor:
            facts.append((value.data_ptr() or value.device, value.shape, value.stride(), value.dtype))
        elif type(value) is tuple:
            facts.append(identity(value))
        else:
            facts.append(_other(value, identity))
    return tuple(facts)


def _other(value: Any, read: Callable[[Iterable[Any]], tuple[Any, ...]]) -> Any:
    """What `read` says of the elements of a tuple or list, or of a tensor of a derived class; any other value."""
    if value is None or type(value) in (float, int, bool):
        return value
    if isinstance(value, _SEQUENCES):
        return read(value)
    return read((value.detach().as_subclass(Tensor),))[0] if isinstance(value, Tensor) else value


class CudaCall(ABC):
    """A built variant: `f(*arguments, out=None) -> outputs`, launched on the current stream of torch's current GPU.

    `out` is written and returned in place of new outputs: a tensor, or a tuple where the variant has several, of their
    shapes and dtypes. It must not overlap the arguments. `f` raises ValueError that names a wrong argument.

    The checks and what the launch takes are kept by the pointer, shape, strides, dtype and device of every argument,
    so an address that is freed and used again with another shape is another key. Values in tensors are read by the
    kernel, never by the host.
    """

    workspace: ClassVar[bool] = False
    """Whether a call writes to memory of its own, which under CUDA-graph capture must come from the graph's pool."""
    open_layout: Callable[[Iterable[Any]], tuple[Any, ...]] = staticmethod(layout)
    """What can differ between the arguments of two right calls: their part of the key of an unchecked call."""

    in_order: ClassVar[Any] = None
    """The named tuple of the arguments, where `open_layout` tells them by their places."""

    def __init__(self) -> None:
        self._calls: BoundedCache[Prepared] = BoundedCache(CALLS_KEPT)
        self._launches: BoundedCache[Callable[[], object]] = BoundedCache(CALLS_KEPT)

    def __call__(self, *arguments: Any, out: Any = None, **named: Any) -> Any:
        device, stream = current_stream() if (gpu := _has_gpu()) else (-1, 0)
        key = device, stream, tuple(named), identity((out, *arguments, *named.values()))
        fresh = gpu and self.workspace and is_capturing()
        call = None if fresh else self._calls.get(key)
        if call is None:
            call = self._prepare(True, stream, out, *arguments, **named)
            if call.holds is None and not fresh:
                self._calls.keep(key, call)
        outputs = call.allocate() if out is None else out
        address = tuple([y.data_ptr() for y in outputs]) if isinstance(outputs, tuple) else outputs.data_ptr()
        launch = call.bound.get(address)
        if launch is None:
            launch = call.bind(outputs)
            call.bound.keep(address, launch)
        launch()
        return outputs

    def unchecked(self, *arguments: Any, out: Any, **named: Any) -> Any:
        """The call without checks, into given outputs: wrong arguments give wrong results or a CUDA error."""
        if named and self.in_order is not None:
            arguments, named = self.in_order(*arguments, **named), {}
        device, stream = current_stream()
        key = device, stream, tuple(named), self.open_layout((out, *arguments, *named.values()))
        fresh = self.workspace and is_capturing()
        launch = None if fresh else self._launches.get(key)
        if launch is None:
            call = self._prepare(False, stream, out, *arguments, **named)
            launch = call.bind(out)
            if call.holds is None and not fresh:
                self._launches.keep(key, launch)
        launch()
        return out

    @abstractmethod
    def _prepare(self, check: bool, stream: int, out: Any, /, *arguments: Any, **named: Any) -> Prepared:
        """The call's arguments packed for a stream; with `check`, raises ValueError for a wrong one, `out` included."""

    def _sms(self, device: torch.device) -> int:
        """The streaming multiprocessors that the call's blocks may fill."""
        return int(torch.cuda.get_device_properties(device).multi_processor_count)


class Workspace(Generic[V]):
    """Memory of a built variant's calls, one for each stream; under graph capture each call's from its pool."""

    def __init__(self) -> None:
        self._entries: dict[tuple[int, int], V] = {}

    def take(self, stream: int, make: Callable[[], V]) -> V:
        """What `make` allocated at the first call on this stream of the current GPU."""
        if torch.cuda.is_current_stream_capturing():
            return make()
        key = (torch.cuda.current_device(), stream)
        if key not in self._entries:
            self._entries[key] = make()
        return self._entries[key]


def launch_nothing() -> None:
    """The launch of a call without work."""


@cache
def _has_gpu() -> bool:
    return torch.cuda.is_available()
