"""A model made ready for the megakernel: packed weights, caches, buffers, and the launch on one GPU."""

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernels.cuda.current import device_guard
from kernels.cuda.launch import Launch, raw_stream
from kernels.cuda.nvrtc import Build
from kernels.megakernel.host import device
from kernels.megakernel.host.pack import pack
from kernels.megakernel.host.uploads import uploads
from kernels.megakernel.program.exchange import word_shapes
from kernels.megakernel.program.instructions import OP_NAMES
from kernels.megakernel.program.layout import Layout
from kernels.megakernel.program.ranks import TENSOR_PARALLEL_SIZES
from kernels.megakernel.program.shape import ModelShape, positions_of
from kernels.model.decoder import Decoder
from kernels.model.rounding import RoundedWeights
from kernels.ops.sampling import Samplings, expand_samplings
from kernels.tiles.maps import named

_LOCK = threading.Lock()
_LAST: dict[int, torch.cuda.Event] = {}


@contextmanager
def exclusive_launch(device: torch.device, beside: Sequence[torch.cuda.Stream] = ()) -> Iterator[None]:
    """Orders its body's launch after all earlier exclusive launches on this GPU. It uses torch's current stream.

    The blocks of a megakernel wait for each other and take every SM, so two whose blocks are mixed would wait for ever.
    Each launch waits, on the GPU, for the event of the one before, whatever its stream and model. A launch over several
    GPUs also uses the streams `beside`, of its other ranks; the body leaves the current stream waiting for them.
    """
    stream = torch.cuda.current_stream(device)
    with _LOCK:
        for queue in (stream, *beside):
            if queue.device_index in _LAST:
                queue.wait_event(_LAST[queue.device_index])
        yield
        done = torch.cuda.Event()
        done.record(stream)
        _LAST.update((queue.device_index, done) for queue in (stream, *beside))


TIMEOUT_NS = 500_000_000
"""How long one wait inside the kernel may take before the launch gives up."""
WORD_ALIGNMENT = 16


class MegakernelFault(RuntimeError):
    """The kernel gave up; the message names the SM and the instruction that waited, and of several GPUs the one."""


def fault_sentence(word: int, ranks: int = 1) -> str:
    """Which instruction waited too long, on which GPU of several: `give_up` of machine.cuh writes it. "" for 0."""
    if not word:
        return ""
    rank, sm, index, op = word >> 56 & 0x7F, word >> 32 & 0xFFFFFF, word >> 8 & 0xFFFFFF, word & 0xFF
    where = f"GPU {rank}, SM {sm}" if ranks > 1 else f"SM {sm}"
    return f"{where} waited too long at instruction {index} ({OP_NAMES[op]})"


@dataclass(frozen=True)
class DecodeRequest:
    """What one launch makes: `count` tokens of each sequence.

    `first` [batch] int64 are the tokens at `position`, one for all sequences or one for each; keys and values of what
    precedes lie in the caches. The launch ends when every sequence has met one of the tokens `stop`; `first` counts
    when it is `first_made`, that is no token of the prompt. `sampling` says how tokens are chosen; `forced`
    [count + 1, batch] int64 replaces what is chosen. `logits` [count, batch, vocab] float32 is filled.
    """

    first: Tensor
    position: int | Sequence[int]
    count: int
    stop: Sequence[int] = ()
    first_made: bool = True
    forced: Tensor | None = None
    logits: Tensor | None = None
    sampling: Samplings = None


class Rank:
    """A GPU's shard made ready: weights, caches, words, launch. `keys` and `values` [layers, batch, capacity, kv_heads,
    head_dim] bf16 of its heads; `peers`: bytes to each other rank's words.
    """

    def __init__(
        self,
        model: Any,
        made: device.MegakernelBuild,
        rank_and_gpu: tuple[int, torch.device],
        capacity: int,
        tuning: device.Tuning,
        rounded: RoundedWeights | None = None,
        beside: Sequence["Rank"] = (),
    ) -> None:
        """`rank_and_gpu`: the rank and its GPU, the current one. The rank's model and `rounded` codes are there.
        `beside` are ranks of the same model and GPU: one whose weights stream in the same order lends them.
        """
        self.rank, self.gpu = rank_and_gpu
        self.capacity, self.tuning = capacity, tuning
        self.program, self.constants = made.programs[self.rank], made.constants
        self.shape, self.layout = self.program.shape, self.program.layout
        self.kernel = device.compile_kernel(self.constants)
        alike = next((rank for rank in beside if rank.program.streams_as(self.program)), None)
        self.packed: tuple[Tensor, Tensor]
        self.packed = alike.packed if alike else pack(Decoder(model), self.program, rounded)
        self._arrays: dict[str, Tensor] = uploads(model, self.program, capacity, self.packed) | self._caches()
        self.keys, self.values = self._arrays["k_cache"], self._arrays["v_cache"]
        self._maps = self._maps_of_caches() if self.constants["KEYS_IN_RING"] else {}
        self.longest = max(len(instruction) for instruction in self.program.instructions)
        self.trace = self._zeros(self.layout.sms, self.longest, 8, dtype=torch.int64)
        self._logits = self._zeros(self.layout.batch, self.shape.vocab)
        self.peers = np.zeros(max(TENSOR_PARALLEL_SIZES) - 1, dtype=np.int64)
        self._place_words()
        noted = self._words.numel() // 32 + 1 if tuning.debug else 0
        self.touched = self._zeros(self.layout.sms, self.longest, 2, noted, dtype=torch.int32)

    def _zeros(self, *size: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros(size, dtype=dtype, device=self.gpu)

    def _caches(self) -> dict[str, Tensor]:
        shape = self.shape
        size = (shape.layers, self.layout.batch, self.capacity, shape.kv_heads, shape.head_dim)
        return {name: self._zeros(*size, dtype=torch.bfloat16) for name in ("k_cache", "v_cache")}

    def _maps_of_caches(self) -> dict[str, Any]:
        caches = zip(device.MAPS, (self.keys, self.values), strict=True)
        return {
            name: named(name, cache.flatten(0, 2), device.RING_BOX, device.RING_PROMOTION) for name, cache in caches
        }

    def _place_words(self) -> None:
        sizes = {name: math.prod(size) for name, size in word_shapes(self.shape, self.layout).items()}
        aligned = {name: -(-size // WORD_ALIGNMENT) * WORD_ALIGNMENT for name, size in sizes.items()}
        total = sum(aligned.values())
        both = self._zeros(total + WORD_ALIGNMENT, dtype=torch.int64)  # so that a peer reaches the fault as the words
        self._words, self._fault = both[:total], both[total : total + 1]
        self._word_pointers, self.word_starts, at = {}, {}, 0
        for name, size in aligned.items():
            self._word_pointers[name], self.word_starts[name] = self._words.data_ptr() + 8 * at, at
            at += size

    def params(self, request: DecodeRequest, tokens: int, host_cancel: np.ndarray) -> np.ndarray:
        """A launch's parameters; `tokens` gets int32 [count, batch]. Raises ValueError for a wrong context or stops."""
        count, stop, logits = request.count, request.stop, request.logits
        positions = positions_of(request.position, self.layout.batch)
        if count < 1 or min(positions) < 0 or max(positions) + count > self.capacity:
            raise ValueError(f"count: {count} tokens from position {request.position} do not fit in {self.capacity}")
        if len(stop) > device.STOP_TOKENS:
            raise ValueError(f"stop: at most {device.STOP_TOKENS} stop tokens, not {len(stop)}")
        params = np.zeros((), dtype=device.params_of(self.layout.tensor_parallel_size))
        batch, vocab = self.layout.batch, self.shape.vocab
        how = expand_samplings(request.sampling, batch)
        params["sampling"][:batch] = device.sampling_words(how, vocab)
        stride = 0 if logits is None else batch * vocab
        if logits is None and not all(sampling.greedy for sampling in how):
            logits = self._logits
        pointers = {name: tensor.data_ptr() for name, tensor in self._arrays.items()} | self._word_pointers
        tensors = {"first_token": request.first, "fault": self._fault, "trace": self.trace}
        tensors |= {
            name: tensor for name, tensor in (("forced", request.forced), ("logits", logits)) if tensor is not None
        }
        pointers |= {name: tensor.data_ptr() for name, tensor in tensors.items()}
        pointers |= {"host_tokens": tokens, "host_cancel": host_cancel.ctypes.data}
        scalars = {
            "timeout_ns": TIMEOUT_NS, "logits_stride": stride, "count": count,
            "capacity": self.capacity, "trace_length": self.longest,
            "first_made": int(request.first_made), "words": self._words.numel(),
        }  # fmt: skip
        if self.tuning.debug:
            self.touched.zero_()
            self.residuals = self._zeros(count, 2 * self.shape.layers + 1, batch, self.shape.hidden)
            pointers |= {"touched": self.touched.data_ptr(), "residuals": self.residuals.data_ptr()}
        for name, value in (self._maps | pointers | scalars).items():
            params[name] = value
        params["positions"][:batch] = positions
        params["stop"] = [*stop, *[-1] * (device.STOP_TOKENS - len(stop))]
        if self.layout.tensor_parallel_size > 1:
            params["peers"], params["rank"] = self.peers, self.rank
        return params

    def run(self, params: np.ndarray) -> None:
        """Enqueues the kernel on torch's current stream."""
        with device_guard(self.gpu):
            shared, stream = device.shared_bytes(self.constants), raw_stream(self.gpu.index)
            Launch(self.kernel, (self.layout.sms,), device.THREADS, [params], stream, shared)()

    @property
    def traced_build(self) -> Build:
        """The build of its kernel that notes times."""
        return device.traced_build(self.program, self.tuning)

    @contextmanager
    def traced(self) -> Iterator[None]:
        """Launches inside the block run the traced build and fill `trace`. Raises RuntimeError with its log."""
        usual = self.kernel
        with device_guard(self.gpu):
            self.kernel = device.load(self.traced_build, self.constants)
        self.trace.zero_()
        torch.cuda.synchronize(self.gpu)
        try:
            yield
        finally:
            self.kernel = usual

    def clear(self) -> None:
        """Enqueues zeros for all words. Called after a launch, so that the next one need not wait for them."""
        self._words.zero_()

    def clear_fault(self) -> None:
        self._fault.zero_()

    def words_at(self) -> int:
        return self._words.data_ptr()

    def check(self) -> None:
        """Raises MegakernelFault when the last launch gave up; waits for it to end."""
        word = int(self._fault.item()) & (1 << 64) - 1
        if word:
            raise MegakernelFault(fault_sentence(word, self.layout.tensor_parallel_size))


class SingleGpuMegakernel(Rank):
    """The megakernel of a bf16 model for `layout.batch` sequences on one GPU; `rounded`, `beside` as for `Rank`."""

    def __init__(
        self,
        model: Any,
        shape: ModelShape,
        layout: Layout,
        capacity: int,
        tuning: device.Tuning,
        rounded: RoundedWeights | None = None,
        beside: Sequence[Rank] = (),
    ) -> None:
        gpu = model.lm_head.weight.device
        device.check_sms(layout.sms, torch.cuda.get_device_properties(gpu).multi_processor_count)
        super().__init__(model, device.build_layout(shape, layout, tuning), (0, gpu), capacity, tuning, rounded, beside)
        self.launches, self.ranks = 0, [self]

    def launch(self, request: DecodeRequest, host_tokens: np.ndarray, host_cancel: np.ndarray) -> None:
        """Enqueues one launch on the current stream; `host_tokens` int32 [count, batch], pinned, get tokens as made;
        `host_cancel` int32 [1] too. Raises ValueError for a wrong context or too many stop tokens.
        """
        params = self.params(request, host_tokens.ctypes.data, host_cancel)
        with exclusive_launch(self.gpu):
            self.clear_fault()
            self.run(params)
            self.clear()
        self.launches += 1
