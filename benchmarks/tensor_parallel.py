"""The peer on several GPUs: Llama's decode step in torch, tensor parallel, compiled, under a CUDA graph.

    torchrun --nproc-per-node 2 -m benchmarks.tensor_parallel llama-3.1-8b --sum symm_mem --json peer.json

Heads, MLP columns and vocabulary are sharded as by the megakernel, weights are random, batch is 1. Each layer has two
sums over the GPUs: by NCCL, or by torch's one-shot kernel over symmetric memory, without multicast. A step is one graph
with both, its token feeds the next step, and the host reads each token. Prints ms a token, the median of `--rounds`
requests of 64 tokens behind 128, with machine, versions and commit beside it. `--device cpu` proves the division by
gloo, without graphs.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernels.hardware import NO_MULTICAST

os.environ |= NO_MULTICAST

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from kernels.measure.environment import environment_info
from kernels.model_files import catalogue

PROMPT, TOKENS = 128, 64
Weights = dict[str, Tensor]


class Shard:
    """A rank's weights and caches. Every rank draws the same whole matrices and keeps its shard."""

    def __init__(self, config: dict[str, Any], device: torch.device, dtype: torch.dtype) -> None:
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.hidden, self.device, self.dtype = config["hidden_size"], device, dtype
        heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.head_dim = config.get("head_dim") or self.hidden // heads
        self.heads, self.kv_heads = heads // self.ranks, kv_heads // self.ranks
        self._chance = torch.Generator(device=device).manual_seed(3)
        q, kv, inner = heads * self.head_dim, kv_heads * self.head_dim, config["intermediate_size"]
        self.layers: list[Weights] = []
        for _ in range(config["num_hidden_layers"]):
            rows = [self._shard_of(self._random(n, self.hidden), 0) for n in (q, kv, kv, inner, inner)]
            self.layers.append({
                "qkv": torch.cat(rows[:3]), "gate_up": torch.cat(rows[3:]),
                "out": self._shard_of(self._random(self.hidden, q), 1),
                "down": self._shard_of(self._random(self.hidden, inner), 1),
            })  # fmt: skip
        self.vocab = config["vocab_size"] // self.ranks
        self.embedding = self._random(config["vocab_size"], self.hidden)
        self.head = self._shard_of(self.embedding[: self.vocab * self.ranks], 0)
        size = (len(self.layers), 2, self.kv_heads, PROMPT + TOKENS, self.head_dim)
        self.cache = torch.zeros(size, dtype=dtype, device=device)
        self.norm = torch.ones(self.hidden, dtype=dtype, device=device)
        angles = torch.arange(size[3])[:, None] / 500000.0 ** (torch.arange(0, self.head_dim, 2) / self.head_dim)
        self.cos, self.sin = (table.to(device, dtype) for table in (angles.cos(), angles.sin()))

    def _random(self, rows: int, columns: int) -> Tensor:
        whole = torch.randn(rows, columns, generator=self._chance, device=self.device) * columns**-0.5
        return whole.to(self.dtype)

    def _shard_of(self, tensor: Tensor, dim: int) -> Tensor:
        return tensor.chunk(self.ranks, dim)[self.rank].contiguous()


def attend(shard: Shard, w: Weights, cache: Tensor, x: Tensor, summed: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
    """The residual with the last sum, and this rank's partial sum of the output projection, [1, hidden] each."""
    x = x + summed
    d, heads, kv = shard.head_dim, shard.heads, shard.kv_heads
    q, k, v = F.linear(F.rms_norm(x, (shard.hidden,), shard.norm), w["qkv"]).split([heads * d, kv * d, kv * d], dim=1)
    cos, sin = shard.cos[at], shard.sin[at]
    q, k = (_rotated(projected.view(-1, d), cos, sin) for projected in (q, k))
    cache[0].index_copy_(1, at, k[:, None])
    cache[1].index_copy_(1, at, v.view(kv, 1, d))
    seen = torch.arange(cache.shape[2], device=x.device) <= at
    out = F.scaled_dot_product_attention(q[None, :, None], cache[:1], cache[1:], seen[None], enable_gqa=True)
    return x, F.linear(out.reshape(1, heads * d), w["out"])


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    low, high = x.chunk(2, dim=1)
    return torch.cat([low * cos - high * sin, high * cos + low * sin], dim=1)


def mlp(shard: Shard, w: Weights, x: Tensor, summed: Tensor) -> tuple[Tensor, Tensor]:
    """The same with this rank's partial sum of the down projection."""
    x = x + summed
    gate, up = F.linear(F.rms_norm(x, (shard.hidden,), shard.norm), w["gate_up"]).chunk(2, dim=1)
    return x, F.linear(F.silu(gate) * up, w["down"])


def best(shard: Shard, x: Tensor, summed: Tensor) -> Tensor:
    """Each rank's largest logit and its token, float32 [ranks * 2]; this rank fills its own two."""
    logits = F.linear(F.rms_norm(x + summed, (shard.hidden,), shard.norm), shard.head)[0].float()
    best = torch.zeros(shard.ranks, 2, device=x.device)
    best[shard.rank] = torch.stack([logits.max(), logits.argmax() + shard.rank * shard.vocab])
    return best.flatten()


def summing(how: str, shard: Shard) -> Callable[[Tensor], Tensor]:
    """The sum over all ranks of [1, hidden] or of the few float32 of `best`."""
    if how != "symm_mem":

        def by_collective(x: Tensor) -> Tensor:
            x = x.clone()
            dist.all_reduce(x)
            return x

        return by_collective
    from torch.distributed import _symmetric_memory as symmetric

    buffers, group = {}, dist.group.WORLD
    assert group is not None
    for dtype, size in ((shard.dtype, (1, shard.hidden)), (torch.float32, (max(8, 2 * shard.ranks),))):
        buffers[dtype] = symmetric.empty(size, dtype=dtype, device=shard.device)
        symmetric.rendezvous(buffers[dtype], group)

    def by_one_shot(x: Tensor) -> Tensor:
        buffer = buffers[x.dtype]
        buffer.flatten()[: x.numel()].copy_(x.flatten())
        total = torch.ops.symm_mem.one_shot_all_reduce(buffer, "sum", group.group_name)
        return total.flatten()[: x.numel()].view(x.shape)

    return by_one_shot


def stepping(shard: Shard, how: str, compiled: bool) -> tuple[Callable[[], None], Tensor, Tensor]:
    """A step that reads token and position and writes both; the token, and the position."""
    token = torch.ones(1, dtype=torch.int64, device=shard.device)
    at = torch.full((1,), PROMPT, dtype=torch.int64, device=shard.device)
    add = summing(how, shard)
    build: Any = torch.compile(dynamic=False) if compiled else lambda call: call
    attends, multiplies, chooses = build(attend), build(mlp), build(best)

    def step() -> None:
        x = F.embedding(token, shard.embedding)
        summed = torch.zeros_like(x)
        for w, cache in zip(shard.layers, shard.cache, strict=True):
            x, own = attends(shard, w, cache, x, summed, at)
            x, own = multiplies(shard, w, x, add(own))
            summed = add(own)
        candidates = add(chooses(shard, x, summed)).view(shard.ranks, 2)
        best_rank = candidates[:, 0].argmax(dim=0, keepdim=True)
        token.copy_(candidates[:, 1].index_select(0, best_rank).long())  # no index that the host would read
        at.add_(1)

    return step, token, at


@torch.no_grad()
def serve_request(step: Callable[[], object], token: Tensor, at: Tensor) -> tuple[list[int], float]:
    """The ids of a request behind the prompt, and ms a token as the host reads them."""
    token.fill_(1)
    at.fill_(PROMPT)
    ids = []
    for token_index in range(TOKENS):
        if token_index == 1:
            began = time.perf_counter()
        step()
        ids.append(int(token.item()))
    return ids, (time.perf_counter() - began) / (TOKENS - 1) * 1e3


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--sum", choices=["nccl", "symm_mem"], default="nccl")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    on_gpu = options.device == "cuda"
    dist.init_process_group("nccl" if on_gpu else "gloo")
    device = torch.device("cuda", dist.get_rank()) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    shard = Shard(catalogue.entry(options.model)[0], device, torch.bfloat16 if on_gpu else torch.float32)
    step, token, at = stepping(shard, options.sum if on_gpu else "gloo", on_gpu)
    run: Callable[[], object] = step
    if on_gpu:
        side_stream = torch.cuda.Stream()
        with torch.cuda.stream(side_stream):
            for _ in range(3):
                at.fill_(PROMPT)
                step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        run = graph.replay
    rounds = [serve_request(run, token, at) for _ in range(options.rounds)]
    row = {
        "peer": f"torch.compile, {options.sum}" if on_gpu else "gloo", "model": options.model, "gpus": shard.ranks,
        "ms_per_token": statistics.median(ms for _, ms in rounds), "rounds": options.rounds,
        "same_ids": all(ids == rounds[0][0] for ids, _ in rounds), "ids": rounds[0][0][:8],
    }  # fmt: skip
    if shard.rank == 0:
        row |= environment_info(device=options.device)
        print(json.dumps(row), flush=True)
        if options.json:
            options.json.write_text(json.dumps(row, indent=1) + "\n")
    if on_gpu:
        del run, graph  # NCCL waits, on destruction, for the graphs that hold its communicator
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
