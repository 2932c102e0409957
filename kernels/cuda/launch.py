"""One kernel launch with all that the driver needs packed once, so that a repeated launch is one call of the driver.

Programmatic dependent launch (PDL): a kernel starts while the one before it in its stream still runs. It may start once
every block of the previous kernel has run `griddepcontrol.launch_dependents` or ended. It must run
`griddepcontrol.wait` before it reads or writes anything that earlier kernels touch. Source: CUDA C++ programming guide,
"Programmatic Dependent Launch and Synchronization".
"""

import ctypes
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernels.cuda.driver import Attribute, config, driver

INVALID_CONTEXT = 201
"""CUDA_ERROR_INVALID_CONTEXT: the thread has not used the GPU yet."""


class Launch:
    """A kernel with its grid, stream and the bytes of its arguments. A call enqueues it; threads may share it.

    `kernel` is what `nvrtc.load` returned, or the address of a CUfunction, `stream` the raw handle of a CUDA stream. A
    tensor is passed as its `data_ptr()`, a struct as a numpy scalar or 0-d array; an int takes 8 bytes, a float is a
    double. Nothing that the pointers point to is kept alive.

    With `pdl` the kernel may start before the stream's previous kernel has ended. Works under CUDA-graph capture. A
    call raises RuntimeError with CUDA's code.
    """

    __slots__ = ("_launch", "_packed")

    def __init__(
        self,
        kernel: Any,
        grid: Sequence[int],
        threads: int,
        arguments: Sequence[Any],
        stream: int,
        shared_bytes: int = 0,
        pdl: bool = False,
    ) -> None:
        x, y, z = (*grid, 1, 1)[:3]
        packed = [pack_argument(argument) for argument in arguments]
        pointers = (ctypes.c_void_p * len(packed))(*map(ctypes.addressof, packed))
        launch = config((x, y, z), threads, shared_bytes, stream, pdl_attribute() if pdl else None)
        address = kernel if isinstance(kernel, int) else kernel.kernel.ptr
        function = ctypes.c_void_p.from_param(address)  # converted once, as byref does
        self._packed = packed  # the bytes that `pointers` points to
        self._launch = partial(driver().cuLaunchKernelEx, ctypes.byref(launch), function, ctypes.byref(pointers), None)

    def __call__(self) -> None:
        failed = self._launch()
        if failed == INVALID_CONTEXT:
            _make_context_current()
            failed = self._launch()
        if failed:
            raise RuntimeError(f"cuLaunchKernelEx failed with CUDA error {failed}")


def pack_struct(dtype: np.dtype, **values: Any) -> Any:
    """A struct as a numpy scalar: a tensor by its address, None as 0. What is not given is 0."""
    fields = np.zeros((), dtype)
    for name, value in values.items():
        fields[name] = 0 if value is None else value.data_ptr() if isinstance(value, Tensor) else value
    return fields


def current_stream() -> tuple[int, int]:
    """The index of torch's current GPU and the raw handle of its current stream."""
    device = torch._C._cuda_getDevice()  # torch.cuda.current_device without its question whether CUDA is initialised
    return device, torch._C._cuda_getCurrentRawStream(device)


def raw_stream(device: int) -> int:
    """The raw handle of torch's current stream on this GPU."""
    return torch._C._cuda_getCurrentRawStream(device)


def is_capturing() -> bool:
    """Whether a CUDA graph captures torch's current stream."""
    return torch._C._cuda_isCurrentStreamCapturing()


def pack_argument(value: Any) -> Any:
    """One kernel argument as a ctypes object that holds its bytes. Raises TypeError for anything else."""
    if isinstance(value, bool):
        return ctypes.c_bool(value)
    if isinstance(value, int):
        return ctypes.c_int64(value) if value < 1 << 63 else ctypes.c_uint64(value)
    if isinstance(value, float) and not hasattr(value, "tobytes"):
        return ctypes.c_double(value)
    if hasattr(value, "tobytes"):
        content = value.tobytes()
        return ctypes.create_string_buffer(content, len(content))
    raise TypeError(f"a kernel argument is {type(value).__name__}: int, float, bool or a numpy scalar is needed")


def _make_context_current() -> None:
    """Makes the current GPU's context that of this thread, as its first call of the CUDA runtime would."""
    import cupy

    cupy.cuda.runtime.setDevice(torch.cuda.current_device())


PROGRAMMATIC_STREAM_SERIALIZATION = 6
"""CUlaunchAttributeID of the permission to start before the stream's previous kernel has ended."""


def pdl_attribute() -> Attribute:
    """The launch attribute that gives the permission."""
    return Attribute(PROGRAMMATIC_STREAM_SERIALIZATION, 0, (1,))
