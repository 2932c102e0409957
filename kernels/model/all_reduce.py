"""The sum over all ranks that each half of a layer of a sharded model ends with."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernels.cuda import nvrtc
from kernels.cuda.current import device_guard, enable_peer_access
from kernels.cuda.launch import Launch, raw_stream

SOURCE = Path(__file__).with_name("all_reduce.cu")
BLOCKS, THREADS = 64, 512
"""The grid, smaller than the SMs of any GPU that has such peers, since its blocks wait for each other."""
FETCH_THREADS = 128
TIMEOUT_NS = 2_000_000_000
"""How long a rank waits for another's partial sum before all give up."""
VECTOR = 8
"""Values of bf16 that a thread takes at once."""


class AllReduce(ABC):
    """Adds the partial sums [m, hidden] of all ranks to the residual stream of every rank: in float32, rank 0's first,
    rounded once. So all streams stay equal.
    """

    @abstractmethod
    def reduce(self, streams: Sequence[Tensor], partials: Sequence[Tensor]) -> list[Tensor]:
        """Each rank's stream with all partials, in order with all else on the devices' current streams."""

    @abstractmethod
    def broadcast(self, rank: int, tensor: Tensor) -> Tensor:
        """The first rank's int64 tensor on the device of `rank`, whose current stream follows what wrote it."""

    @abstractmethod
    def check(self) -> None:
        """Raises RuntimeError when a rank waited too long for another, once the sums are over."""


class AllReduceByCopies(AllReduce):
    """Sums by torch's own copies, on any devices, also where several ranks share one."""

    def __init__(self, devices: Sequence[torch.device]) -> None:
        self._devices = devices

    def reduce(self, streams: Sequence[Tensor], partials: Sequence[Tensor]) -> list[Tensor]:
        return [torch.stack([x, *(partial.to(x.device) for partial in partials)]).sum(0) for x in streams]

    def broadcast(self, rank: int, tensor: Tensor) -> Tensor:
        return tensor.to(self._devices[rank])

    def check(self) -> None:
        """Nothing: no rank waits in a copy."""


class AllReduceByPeerAccess(AllReduce):
    """Sums by `all_reduce.cu` on each GPU, into the memory of the others, in bf16 for up to `rows` rows. A rank that
    waits longer than TIMEOUT_NS gives up, and so do all: their sums are NaN, and `check` names it.
    """

    def __init__(self, gpus: Sequence[torch.device], rows: int, hidden: int) -> None:
        """Raises ValueError for GPUs out of each other's reach and a hidden size that is no multiple of 8."""
        if hidden % VECTOR:
            raise ValueError(f"hidden_size {hidden}: sums over several GPUs need a multiple of {VECTOR}")
        enable_peer_access(gpus)
        ranks, self._gpus, self._most = len(gpus), gpus, rows * hidden // VECTOR
        self._fault = torch.zeros(1, dtype=torch.int64, pin_memory=True)
        self._slots: list[Tensor] = []
        self._flags: list[Tensor] = []
        self._launches: list[Tensor] = []
        self._sums: list[Any] = []
        self._fetches: list[Any] = []
        for gpu in gpus:
            with device_guard(gpu):
                size = 2, ranks, rows, hidden
                self._slots.append(torch.empty(size, dtype=torch.bfloat16, device=gpu))
                self._flags.append(torch.zeros(ranks, BLOCKS, dtype=torch.int32, device=gpu))
                self._launches.append(torch.zeros(BLOCKS, dtype=torch.int32, device=gpu))
                self._sums.append(nvrtc.load(build_of(ranks), "all_reduce").kernel)
                self._fetches.append(nvrtc.load(build_of(ranks), "fetch").kernel)
                torch.cuda.synchronize(gpu)  # the other GPUs' launches do not follow these zeros otherwise

    def reduce(self, streams: Sequence[Tensor], partials: Sequence[Tensor]) -> list[Tensor]:
        return [self._sum(rank, *call) for rank, call in enumerate(zip(streams, partials, strict=True))]

    def _sum(self, rank: int, stream: Tensor, partial: Tensor) -> Tensor:
        stream, partial = stream.contiguous(), partial.contiguous()
        total, gpu = torch.empty_like(stream), self._gpus[rank]
        params = np.zeros((), dtype=params_of(len(self._gpus)))
        values = {
            "stream": stream.data_ptr(), "partial": partial.data_ptr(), "sum": total.data_ptr(),
            "slots": [slot.data_ptr() for slot in self._slots], "flags": [flag.data_ptr() for flag in self._flags],
            "launches": self._launches[rank].data_ptr(), "fault": self._fault.data_ptr(), "timeout_ns": TIMEOUT_NS,
            "vectors": partial.numel() // VECTOR, "most": self._most, "rank": rank,
        }  # fmt: skip
        for name, value in values.items():
            params[name] = value
        with device_guard(gpu):
            Launch(self._sums[rank].ptr, (BLOCKS,), THREADS, [params], raw_stream(gpu.index))()
        return total

    def broadcast(self, rank: int, tensor: Tensor) -> Tensor:
        gpu = self._gpus[rank]
        copy = torch.empty(tensor.shape, dtype=tensor.dtype, device=gpu)
        with device_guard(gpu):
            arguments = [copy.data_ptr(), tensor.data_ptr(), tensor.numel()]
            blocks = min(BLOCKS, -(-tensor.numel() // FETCH_THREADS))
            Launch(self._fetches[rank].ptr, (blocks,), FETCH_THREADS, arguments, raw_stream(gpu.index))()
        return copy

    def check(self) -> None:
        word = int(self._fault.item())
        if not word:
            return
        for gpu, flags, launches in zip(self._gpus, self._flags, self._launches, strict=True):
            torch.cuda.synchronize(gpu)
            flags.zero_()
            launches.zero_()
            torch.cuda.synchronize(gpu)
        self._fault.zero_()
        receiver, sender = divmod(word - 1, len(self._gpus))
        raise RuntimeError(f"GPU {receiver} waited too long for a partial sum of GPU {sender}")


def all_reduce(devices: Sequence[torch.device], rows: int, like: Tensor) -> AllReduce:
    """The sum over ranks on these devices, of up to `rows` rows of the size and dtype of `like` [.., hidden]."""
    apart = len(set(devices)) == len(devices) > 1 and devices[0].type == "cuda"
    if apart and like.dtype == torch.bfloat16:
        return AllReduceByPeerAccess(devices, rows, like.shape[-1])
    return AllReduceByCopies(devices)


def params_of(tensor_parallel_size: int) -> np.dtype:
    """The dtype of `Params` in all_reduce.cu."""
    of_each = ("u8", (tensor_parallel_size,))
    fields = [*((name, "u8") for name in ("stream", "partial", "sum")), ("slots", *of_each), ("flags", *of_each)]
    fields += [(name, "u8") for name in ("launches", "fault", "timeout_ns")]
    return np.dtype([*fields, *((name, "u4") for name in ("vectors", "most", "rank", "unused"))])


def build_of(tensor_parallel_size: int) -> nvrtc.Build:
    """What `tensor_parallel_size` GPUs compile."""
    return nvrtc.Build.of(
        SOURCE,
        {"RANKS": tensor_parallel_size, "THREADS": THREADS, "PARAMS_BYTES": params_of(tensor_parallel_size).itemsize},
    )
