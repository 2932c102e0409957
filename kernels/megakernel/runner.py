"""The megakernel runner: the prompt by composed variants under a CUDA graph, every later token by one launch."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import cupy
import numpy as np
import torch
from torch import Tensor

from kernels.cuda.current import device_guard
from kernels.measure.gpu_entry import gpu_of
from kernels.megakernel.host.device import Tuning
from kernels.megakernel.host.machine import DecodeRequest, Rank, SingleGpuMegakernel
from kernels.megakernel.host.rank_models import RankModel, form_of, rank_models
from kernels.megakernel.host.ranked_machine import RankedMachine
from kernels.megakernel.program import Program
from kernels.megakernel.program.layout import check_precision, default_layout
from kernels.megakernel.program.ranks import shard_of
from kernels.megakernel.program.shape import shape_of
from kernels.megakernel.program.weights import format_of_dense
from kernels.model.bound_variants import BoundVariants
from kernels.model.layer_ops import BatchShape, LayerOps
from kernels.model.prompt_ops import PACKS_HEAD, prompt_ops
from kernels.model.prompts import PromptReader, room_for
from kernels.model.rounding import Rounding
from kernels.model.state import State
from kernels.model.tensor_parallel import TensorParallelModel
from kernels.model.tensor_parallel_pass import RankShard, TensorParallelPrompts
from kernels.ops.sampling import Samplings, expand_samplings
from kernels.runners.base import Generation, Runner, check_request, prompt_length
from kernels.runners.readers import LOOK_NS

MAX_FORCED_STEPS = 1024
"""Steps of one teacher-forced launch."""


def allocate_pinned(count: int, fill: int) -> tuple[Any, np.ndarray]:
    """Pinned host memory of `count` int32, and a numpy view of it. The memory must outlive the view."""
    memory = cupy.cuda.alloc_pinned_memory(4 * count)
    array = np.frombuffer(memory, np.int32, count)
    array[:] = fill
    return memory, array


class MegakernelRunner(Runner):
    """Options: `weights` (a name of `FORMATS`, or mxfp4 for experts alone, with which prompts take the model's own;
    int4 and fp8 become the form that the model was stored in), `rounding` (fields
    of `Rounding`; without it, to nearest), `layout` and `tuning` (their fields), and `devices`: the numbers of the GPUs
    that run the model together, the model's first (ranked_machine.py); a GPU that is named twice runs two ranks side by
    side.

    A model that is `TensorParallelModel` already runs on the GPUs of its shards, and each GPU holds its shard alone;
    `model` is then the first shard. Another one is sharded here, and stays on the first GPU beside that GPU's shard.

    The prompt's pass runs the plan's `variants`; without any, it runs the default ones for the longest prompt that the
    cache was made for. In lower precision it multiplies by the same rounded weights, from a bf16 copy that `prepare`
    makes; the embedding is not rounded. A model that is sharded already is rounded in place, another one is not
    changed. Raises ValueError that names the feature of a model, device, dtype or precision that it does not serve.
    """

    name = "megakernel"

    def __init__(
        self,
        model: Any,
        options: dict[str, Any] | None = None,
        variants: BoundVariants | None = None,
    ) -> None:
        shards = model.shards if isinstance(model, TensorParallelModel) else []
        super().__init__(shards[0] if shards else model, options)
        self._source = model
        self.shape = shape_of(model.config.to_dict())
        weight = self.model.lm_head.weight
        if weight.device.type != "cuda" or torch.cuda.get_device_capability(weight.device) != (9, 0):
            raise ValueError("device: the megakernel needs a Hopper GPU (compute capability 9.0)")
        if weight.dtype != torch.bfloat16:
            raise ValueError(f"dtype: the megakernel needs bf16 weights, not {weight.dtype}")
        wanted = self.options.get("weights", "bf16")
        format_of_dense(wanted)
        check_precision(self.shape, wanted)
        self.weights = form_of(wanted, self.model)
        if "weights" in self.options.get("layout", {}):
            raise ValueError("layout: the precision is named by the option weights, for the prompt's pass as well")
        self._rounding = Rounding.model_validate(self.options.get("rounding", {}))
        self._models: list[RankModel] = []
        self._machine: SingleGpuMegakernel | RankedMachine | None = None
        numbers = self.options.get("devices", [weight.device.index])
        self._gpus = [shard.device for shard in shards] or [torch.device("cuda", number) for number in numbers]
        if self._gpus[0] != weight.device:
            raise ValueError(f"devices: the model is on {weight.device}, which must come first")
        if len(self._gpus) > 1 and variants:
            raise ValueError("ops: the prompt's pass over several GPUs takes the default variants, and none of a plan")
        self._shard = shard_of(self.shape, len(self._gpus), self.weights)
        self._variants = variants
        self._rank_shards: list[RankShard] = []
        self._prompts: PromptReader | None = None
        self._forced_prompts: PromptReader | None = None
        self._served = 0
        self._cancel = allocate_pinned(1, 0)
        self._beside = torch.cuda.Stream(weight.device)

    @torch.no_grad()
    def prepare(self, batch: int, prompt: int, tokens: int) -> None:
        if not 1 <= batch <= self.shape.batch_most:
            raise ValueError(f"batch: the megakernel serves 1 to {self.shape.batch_most} of this model, not {batch}")
        if self._prompts is None or not self._prompts.fits(batch, prompt, tokens):
            capacity = room_for(prompt, tokens)
            self._machine = self._prompts = self._forced_prompts = None
            self._models = self._models or rank_models(self._source, self._gpus, self.weights, self._rounding)
            self._machine = self._machine_of(batch, capacity)
            self._rank_shards = self._shards_of(self._machine, BatchShape(batch, prompt, tokens))
            self._prompts = self._prompt_reader(whole=False)
        self.generate(torch.zeros(batch, prompt, dtype=torch.int64, device=self.model.device), tokens)

    def _machine_of(self, batch: int, capacity: int) -> SingleGpuMegakernel | RankedMachine:
        ranks, tuning = len(self._gpus), Tuning(**self.options.get("tuning", {}))
        sms = torch.cuda.get_device_properties(self.model.device).multi_processor_count
        sms //= max(Counter(self._gpus).values())
        layout = default_layout(self._shard, batch, capacity, self.weights, sms, ranks)
        layout = replace(layout, **self.options.get("layout", {}))
        if ranks == 1:
            return SingleGpuMegakernel(self.model, self.shape, layout, capacity, tuning, self._models[0].rounded)
        return RankedMachine(self._models, self._shard, layout, capacity, tuning)

    def _shards_of(self, machine: SingleGpuMegakernel | RankedMachine, traffic: BatchShape) -> list[RankShard]:
        """What the prompt's passes work with: they leave the keys and values of each rank's heads in its caches."""
        shards = []
        for own, rank in zip(self._models, machine.ranks, strict=True):
            with device_guard(rank.gpu):
                gpu, several = gpu_of(rank.gpu), len(machine.ranks) > 1
                beside = PACKS_HEAD if several else ()
                ops = [] if self._variants else prompt_ops(LayerOps(own.compact, traffic), gpu, beside, sharded=several)
                variants = self._variants or BoundVariants(ops, gpu)
                cos, sin = own.compact.rope_table(machine.capacity)
                caches = list(zip(rank.keys, rank.values, strict=True))
                position = torch.zeros(1, dtype=torch.int64, device=rank.gpu)
                token = torch.zeros(traffic.batch, 1, dtype=torch.int64, device=rank.gpu)
            state = State(traffic.batch, machine.capacity, cos, sin, caches, position, token)
            shards.append(RankShard(own.compact, variants, state))
        return shards

    def _prompt_reader(self, *, whole: bool) -> PromptReader:
        shards = self._rank_shards
        return PromptReader(*shards[0], whole=whole) if len(shards) == 1 else TensorParallelPrompts(shards, whole=whole)

    def cancel(self) -> None:
        """Ends the current generation after its next token; `generate` then returns the tokens so far."""
        self._cancel[1][0] = 1

    @torch.no_grad()
    def generate(
        self, prompt: Tensor, tokens: int, sampling: Samplings = None, *, stop: Sequence[int] = ()
    ) -> Generation:
        """See `Runner.generate`. It may end early: when every sequence has met one of at most 4 tokens `stop`.

        If all sequences are greedy, the prompt's pass makes the first token. Otherwise the kernel makes it, and reads
        the prompt's last token once more.
        """
        check_request(prompt, tokens)
        batch, length = prompt.shape
        greedy = all(how.greedy for how in expand_samplings(sampling, batch))
        if self._prompts is None or not self._prompts.fits(batch, length, tokens):
            self.prepare(batch, length, tokens)
        prompts, machine = self._prompts, self._machine
        assert prompts is not None
        assert machine is not None
        prompts.capture(length)
        self._served = length
        memory, made = allocate_pinned(tokens * batch, -1)
        self._cancel[1][0] = 0
        before = machine.launches
        start_ns = time.monotonic_ns()
        prompts.read(prompt)
        times_ns, rows = [], []
        with self._waiting_for(machine):
            if greedy:
                first, arrival = self._on_its_way(prompts.state.token)
                if tokens > 1:
                    machine.launch(DecodeRequest(prompts.state.token, length, tokens - 1, stop), made, self._cancel[1])
                arrival.synchronize()
                times_ns.append(time.monotonic_ns())
                prompts.check()
                rows.append(first[:, 0].tolist())
            else:
                last = prompt[:, -1].to(machine.gpu).contiguous()
                request = DecodeRequest(last, length - 1, tokens, stop, first_made=False, sampling=sampling)
                machine.launch(request, made, self._cancel[1])
            for row in made.reshape(tokens, batch)[: tokens - len(rows)]:
                if not self._arrived(row, machine):
                    break
                times_ns.append(time.monotonic_ns())
                rows.append(row.tolist())
        del memory
        return Generation(
            [list(row) for row in zip(*rows, strict=True)], times_ns, start_ns, {"launches": machine.launches - before}
        )

    @contextmanager
    def _waiting_for(self, machine: SingleGpuMegakernel | RankedMachine) -> Iterator[None]:
        """Delays exceptions of its body until the launch has ended: before, the kernel writes into pinned memory."""
        try:
            yield
        except BaseException:
            self.cancel()
            torch.cuda.current_stream(machine.gpu).synchronize()
            raise

    def _on_its_way(self, token: Tensor) -> tuple[Tensor, torch.cuda.Event]:
        """A pinned copy of `token` that overlaps the current stream's next work, and the event of its arrival."""
        arrival = torch.cuda.Event()
        self._beside.wait_stream(torch.cuda.current_stream(token.device))
        with torch.cuda.stream(self._beside):
            copy = torch.empty_like(token, device="cpu", pin_memory=True).copy_(token, non_blocking=True)
            arrival.record()
        return copy, arrival

    def _arrived(self, row: np.ndarray, machine: SingleGpuMegakernel | RankedMachine) -> bool:
        """Waits for the row's tokens; False if the launch ended without them."""
        began = time.monotonic_ns()
        while row.min() < 0:
            if time.monotonic_ns() - began > LOOK_NS and torch.cuda.current_stream(machine.gpu).query():
                machine.check()
                return bool(row.min() >= 0)
        return True

    @torch.no_grad()
    def logits(self, ids: Tensor) -> Tensor:
        """Logits [rows, length, vocab] float32 by the prompt's pass and by steps (`prompt_length`). Raises ValueError
        for unknown ids.
        """
        machine = self._machine_for(ids)
        self._forced_prompts = prompts = self._forced_prompts or self._prompt_reader(whole=True)
        length, parts = prompt_length(ids.shape[1], self._served, self.weights != "bf16"), []
        for rows in ids.to(machine.gpu).split(machine.layout.batch):
            filled = torch.nn.functional.pad(rows[:, :length], (0, 0, 0, machine.layout.batch - len(rows)))
            of_prompt = prompts.logits(filled)[: len(rows)].float()
            parts.append(torch.cat([of_prompt, self._forced(machine, rows, length)], dim=1))
            prompts.check()
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _machine_for(self, ids: Tensor) -> SingleGpuMegakernel | RankedMachine:
        """The machine, prepared for sequences such as ids [rows, length]. Raises ValueError for unknown ids."""
        check_request(ids, 1)
        if ids.min() < 0 or ids.max() >= self.shape.vocab:
            raise ValueError(f"ids: {int(ids.min())} to {int(ids.max())} are not all of 0 to {self.shape.vocab - 1}")
        length, machine = ids.shape[1], self._machine
        if machine is None or not self._holds(length, machine.capacity):
            self.prepare(machine.layout.batch if machine else 1, length, 1)
        assert self._machine is not None
        return self._machine

    def _holds(self, length: int, capacity: int) -> bool:
        return length <= capacity and self._models[0].compact.rotates_alike(length, capacity)

    def _forced(self, machine: SingleGpuMegakernel | RankedMachine, ids: Tensor, start: int) -> Tensor:
        """Logits [rows, length - start, vocab] float32 of ids [rows, length] from `start` on, behind cached keys."""
        self._cancel[1][0] = 0
        (rows, length), batch, vocab = ids.shape, machine.layout.batch, self.shape.vocab
        out = torch.empty(rows, length - start, vocab, dtype=torch.float32, device=machine.gpu)
        filled = torch.nn.functional.pad(ids, (0, 1, 0, batch - rows)).T.contiguous()
        for at in range(start, length, MAX_FORCED_STEPS):
            count = min(MAX_FORCED_STEPS, length - at)
            made = torch.empty(count, batch, vocab, dtype=torch.float32, device=machine.gpu)
            memory, host = allocate_pinned(count * batch, -1)
            forced = filled[at : at + count + 1].contiguous()
            with self._waiting_for(machine):
                machine.launch(DecodeRequest(forced, at, count, forced=forced, logits=made), host, self._cancel[1])
                machine.check()
            del memory
            out[:, at - start : at - start + count] = made.transpose(0, 1)[:rows]
        return out

    @property
    def ranks(self) -> list[Rank]:
        """The shard of each GPU. Raises ValueError when nothing is prepared."""
        if self._machine is None:
            raise ValueError("ranks: the runner is not prepared")
        return list(self._machine.ranks)

    @property
    def program(self) -> Program:
        """The program of the prepared shape, of several ranks the first one's. Raises ValueError as `ranks`."""
        return self.ranks[0].program

    def close(self) -> None:
        self._machine = self._prompts = self._forced_prompts = self._variants = None
        self._source, self._models, self._rank_shards = None, [], []
        super().close()
