"""One model made ready for the megakernel on several GPUs, a rank on each, driven by one process: words are addresses
in peers' kernels without handles, events order the launches of all GPUs, and one host thread reads tokens and hears of
faults.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernels.cuda.current import device_guard, enable_peer_access
from kernels.megakernel.host import device
from kernels.megakernel.host.machine import DecodeRequest, Rank, exclusive_launch
from kernels.megakernel.host.rank_models import RankModel
from kernels.megakernel.program.layout import Layout, head_tiles
from kernels.megakernel.program.shape import ModelShape

Params = np.ndarray[Any, Any]


class RankedMachine:
    """The megakernel of a sharded model (bf16) over several GPUs: a rank on the GPU of each of `models`.

    A GPU that is named twice has two ranks side by side, each on SMs of its own. `shape` is a rank's shard of the model
    and `layout` that of one rank. The prompt's pass writes the keys and values of each rank's heads to `ranks[r].keys`
    and `.values`. `beside` are the ranks of other launches of the same models, as for `Rank`.
    """

    def __init__(
        self,
        models: Sequence[RankModel],
        shape: ModelShape,
        layout: Layout,
        capacity: int,
        tuning: device.Tuning,
        beside: Sequence[Rank] = (),
    ) -> None:
        gpus = [model.compact.embedding.device for model in models]
        enable_peer_access(gpus)
        ranks_on_one_gpu = max(Counter(gpus).values())
        for gpu in gpus:
            device.check_sms(ranks_on_one_gpu * layout.sms, torch.cuda.get_device_properties(gpu).multi_processor_count)
        with device_guard(gpus[0]):
            made = device.build_layout(shape, layout, tuning, ranks_on_one_gpu)
        self.capacity, self.tuning, self.gpu, self.launches = capacity, tuning, gpus[0], 0
        self.ranks = []
        for rank_and_gpu, rank_model in zip(enumerate(gpus), models, strict=True):
            with device_guard(rank_and_gpu[1]):
                same = [rank for rank in beside if rank.rank == rank_and_gpu[0]]
                self.ranks.append(
                    Rank(rank_model.model, made, rank_and_gpu, capacity, tuning, rank_model.rounded, same)
                )
        for rank in self.ranks:
            others = [other.words_at() - rank.words_at() for other in self.ranks if other is not rank]
            rank.peers[: len(others)] = others
        self.program, self.layout = made.programs[0], made.programs[0].layout
        self._others = [torch.cuda.Stream(gpu) for gpu in gpus[1:]]
        self.tokens: list[Tensor] = []

    def launch(self, decode: DecodeRequest, host_tokens: np.ndarray, host_cancel: np.ndarray) -> None:
        """Enqueues a launch on every GPU; torch's current stream then waits for all. `tokens` are then what each other
        rank chooses, int32 [count, batch] on its GPU.
        """
        streams = [torch.cuda.current_stream(self.gpu), *self._others]
        with exclusive_launch(self.gpu, self._others):
            for stream in self._others:
                stream.wait_stream(streams[0])
            requests = [self._on_rank(decode, rank, stream) for rank, stream in zip(self.ranks, streams, strict=True)]
            self.tokens, made = [], []
            for rank, request, stream in zip(self.ranks, requests, streams, strict=True):
                with torch.cuda.stream(stream):
                    tokens = host_tokens.ctypes.data
                    if rank.rank:
                        size = decode.count, self.layout.batch
                        self.tokens.append(torch.full(size, -1, dtype=torch.int32, device=rank.gpu))
                        tokens = self.tokens[-1].data_ptr()
                    made.append(rank.params(request, tokens, host_cancel))
                    rank.clear_fault()
            self._run(made, streams)
            for stream in self._others:
                streams[0].wait_stream(stream)
        self._gather(decode, requests)
        self.launches += 1

    def _on_rank(self, request: DecodeRequest, rank: Rank, stream: torch.cuda.Stream) -> DecodeRequest:
        """The request with its tensors on the rank's GPU, and logits of its own."""
        if not rank.rank:
            return request
        with torch.cuda.stream(stream):
            forced = None if request.forced is None else request.forced.to(rank.gpu)
            logits = None if request.logits is None else torch.empty_like(request.logits, device=rank.gpu)
            return replace(request, first=request.first.to(rank.gpu), forced=forced, logits=logits)

    def _run(self, params: Sequence[Params], streams: Sequence[torch.cuda.Stream]) -> None:
        """Runs all kernels, one behind the other since each waits for the others; words are emptied when all end."""
        ended = []
        for rank, stream, rank_params in zip(self.ranks, streams, params, strict=True):
            with device_guard(rank.gpu), torch.cuda.stream(stream):
                rank.run(rank_params)
                ended.append(stream.record_event())
        for rank, stream in zip(self.ranks, streams, strict=True):
            with torch.cuda.stream(stream):
                for event in ended:
                    stream.wait_event(event)
                rank.clear()

    def _gather(self, decode: DecodeRequest, requests: Sequence[DecodeRequest]) -> None:
        """Copies the logits of every rank's shard of the vocabulary to those that were asked for."""
        for rank, request in zip(self.ranks, requests, strict=True):
            if decode.logits is not None and request.logits is not None and rank.rank:
                tiles = head_tiles(rank.shape, rank.layout, rank.rank)
                rows = slice(tiles.start * 16, min(tiles.stop * 16, rank.shape.vocab))
                decode.logits[..., rows].copy_(request.logits[..., rows])

    def check(self) -> None:
        """Raises MegakernelFault when the last launch gave up, which all ranks then did; waits for it to end."""
        torch.cuda.current_stream(self.gpu).synchronize()
        for rank in self.ranks:
            rank.check()
