"""What each rank's prompts compute with and what its launch reads: together they answer as one GPU does."""

import copy
from typing import Any

import numpy as np
import pytest
import torch

from kernels.gemm.hopper_tiles import interleave_gate_up
from kernels.hardware import GPUS
from kernels.megakernel.cli import held_bytes
from kernels.megakernel.host.pack import pack
from kernels.megakernel.host.rank_models import RankModel, form_of, rank_models, with_codes
from kernels.megakernel.host.uploads import uploads
from kernels.megakernel.program.instructions import DOWN, GATE_UP, HEAD, OUT, QKV
from kernels.megakernel.program.weights import FORMATS, nvfp4_codes, nvfp4_mix, nvfp4_registers
from kernels.model.bound_variants import BoundVariants
from kernels.model.decoder import Decoder
from kernels.model.rounding import Rounding, round_weights
from kernels.model.state import State
from kernels.model.tensor_parallel import shard_model
from kernels.model.tensor_parallel_pass import RankShard, TensorParallelPrompts
from kernels.quant.formats import FP8_LAYERS, head_precision
from kernels.quant.quantised_matrix import STORED_ROWS, rounded
from kernels.server.execution.building import megakernel_batches
from tests.kernels.megakernel.interpreter.interpret import DecodeStart, SimulatedGpu, run
from tests.kernels.megakernel.interpreter.units import e2m1_values, matrix_of_unit
from tests.kernels.megakernel.orders import round_robin
from tests.kernels.megakernel.tiny_models import (
    Start,
    as_numpy,
    exact,
    logits_after,
    model,
    own_copy,
    program_of,
    programs_of,
)

LENGTH, CAPACITY, COUNT = 13, 64, 4


def cpus(ranks: int) -> list[torch.device]:
    return [torch.device("cpu")] * ranks


def rank_shard(own: RankModel, batch: int) -> RankShard:
    """A rank's prompts over caches of its own heads, in which only what a prompt writes is a number."""
    shape = own.compact.shapes[0]
    size = (len(own.compact.layers), batch, CAPACITY, shape.kv_heads, shape.head_dim)
    keys, values = (own.compact.embedding.new_full(size, float("nan")) for _ in range(2))
    place, token = torch.zeros(1, dtype=torch.int64), torch.zeros(batch, 1, dtype=torch.int64)
    cos, sin = own.compact.rope_table(CAPACITY)
    state = State(batch, CAPACITY, cos, sin, list(zip(keys, values, strict=True)), place, token)
    return RankShard(own.compact, BoundVariants([], GPUS["cpu"]), state)


def stacked(own: RankShard, which: int) -> np.ndarray:
    return torch.stack([cache[which] for cache in own.state.cache]).float().numpy()


@torch.no_grad()
@pytest.mark.parametrize(
    ("name", "ranks", "source"),
    [
        ("llama-of-4", 4, "whole"), ("llama-of-4", 2, "sharded"), ("qwen2-of-4", 4, "sharded"),
        ("qwen3-of-2", 2, "whole"),
    ],
)  # fmt: skip
def test_a_prompt_that_all_ranks_read_goes_on_in_their_caches(name: str, ranks: int, source: str) -> None:
    """From the prompt's pass to the last token: as near to float32 as transformers in bf16."""
    whole: Any = copy.deepcopy(model(name))
    own = rank_models(
        shard_model(whole, cpus(ranks)) if source == "sharded" else whole, cpus(ranks), "bf16", Rounding()
    )
    prompt = torch.randint(0, whole.config.vocab_size, (1, LENGTH), generator=torch.Generator().manual_seed(3))
    shards = [rank_shard(item, 1) for item in own]
    prompts = TensorParallelPrompts(shards, whole=False)
    prompts.read(prompt)
    first = prompts.state.token[:, 0].numpy()
    made = programs_of(name, tensor_parallel_size=ranks, sms=4)
    gpus = []
    for each, rank, program in zip(shards, own, made, strict=True):
        uploaded = uploads(rank.model, program, CAPACITY, pack(Decoder(rank.model), program, rank.rounded))
        arrays = {key: as_numpy(value) for key, value in uploaded.items()}
        gpus.append(
            SimulatedGpu(program, arrays, DecodeStart(stacked(each, 0), stacked(each, 1), first, LENGTH), COUNT)
        )
    tokens = run(gpus, round_robin())
    result = np.nansum(np.stack([gpu.logits for gpu in gpus]), axis=0)
    begin = Start(prompt, np.zeros(0), np.zeros(0), first)
    expected, rounded = (logits_after(item(name), begin, tokens) for item in (exact, model))
    assert np.abs(result - expected).max() <= 1.5 * np.abs(rounded - expected).max()
    assert (first == model(name)(prompt).logits[:, -1].argmax(-1).numpy()).all()


@pytest.mark.parametrize(
    ("weights", "ranks"), [("fp8", 2), ("nvfp4", 4), ("int8", 2), ("int8", 4), ("int4", 4), ("int4_minimum", 2)]
)
def test_shards_are_rounded_as_the_whole_model_is(weights: str, ranks: int) -> None:
    """Whether the whole model is rounded and then sharded, or each shard on its GPU; the scales are those of all."""
    name = "qwen2-of-4" if ranks == 4 and weights.startswith("int") else "llama-of-4"  # whose columns cut no groups
    first, second = (copy.deepcopy(model(name)) for _ in range(2))
    one = rank_models(first, cpus(ranks), weights, Rounding())
    other = rank_models(shard_model(second, cpus(ranks)), cpus(ranks), weights, Rounding())
    for left, right in zip(one, other, strict=True):
        for held, same in zip(left.rounded.layers, right.rounded.layers, strict=True):
            assert all(torch.equal(held[name].codes, same[name].codes) for name in held)
            assert all(torch.equal(held[name].row_scales, same[name].row_scales) for name in held)
            if weights.startswith("int"):
                assert all(torch.equal(held[name].block_scales, same[name].block_scales) for name in held)
        for layer, same in zip(left.compact.layers, right.compact.layers, strict=True):
            assert torch.equal(layer.dense.down, same.dense.down)
            assert torch.equal(layer.qkv[0], same.qkv[0])
    rows = rank_models(copy.deepcopy(model(name)), cpus(1), weights, Rounding())[0].compact.layers[1]
    assert torch.equal(torch.cat([item.compact.layers[1].dense.down for item in other], dim=1), rows.dense.down)
    assert torch.equal(other[0].compact.embedding, model(name).model.embed_tokens.weight)


def test_a_servers_codes_leave_its_model_as_it_is() -> None:
    """Longer passes multiply by the model's own weights. Every rank has the codes of its shard."""
    sharded = shard_model(model("llama-of-4"), cpus(2))
    before = [parameter.clone() for shard in sharded.shards for parameter in shard.parameters()]
    ranks = with_codes(sharded, [Decoder(shard) for shard in sharded.shards], "int8")
    after = [parameter for shard in sharded.shards for parameter in shard.parameters()]
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    (whole,) = with_codes(model("llama-of-4"), [Decoder(model("llama-of-4"))], "int8")
    assert whole.rounded is not None
    codes = [rank.rounded.layers[1]["down"].codes for rank in ranks if rank.rounded]
    assert torch.equal(torch.cat(codes, dim=1), whole.rounded.layers[1]["down"].codes)


def test_a_server_leaves_the_megakernel_out_where_groups_would_be_cut(capsys: pytest.CaptureFixture[str]) -> None:
    """And keeps no memory for it: 48 columns of the MLP on each of four are no whole groups of 32."""
    sharded = shard_model(model("llama-of-4"), cpus(4))
    assert megakernel_batches(sharded, GPUS["h200"], 64, 8)
    assert not megakernel_batches(sharded, GPUS["h200"], 64, 8, "int8")
    assert "no megakernel: intermediate_size 192: 4 GPUs need a multiple of 128" in capsys.readouterr().err
    assert megakernel_batches(shard_model(model("llama-of-4"), cpus(2)), GPUS["h200"], 64, 8, "int8")


def test_runners_over_a_whole_model_share_its_codes_and_each_rank_rounds_its_own_parts() -> None:
    """A head of its own is rounded where it lies: no second one takes memory beside it."""
    whole: Any = copy.deepcopy(model("qwen3-of-2"))
    whole.lm_head.weight = torch.nn.Parameter(whole.lm_head.weight.detach().clone())
    one, two = (rank_models(whole, cpus(ranks), "fp8", Rounding(method="gptq", sequences=2)) for ranks in (1, 2))
    assert two[0].rounded.lm_head.codes is one[0].rounded.lm_head.codes
    head = two[0].model.lm_head.weight
    assert two[0].compact.lm_head is head
    assert torch.equal(head, one[0].compact.lm_head)
    assert torch.equal(two[1].model.lm_head.weight, whole.lm_head.weight)
    other = rank_models(whole, cpus(1), "fp8", Rounding())
    assert other[0].rounded is not one[0].rounded


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("method", ["nearest", "gptq"])
def test_a_model_that_was_stored_in_fp8_is_streamed_by_its_own_codes(ranks: int, method: str) -> None:
    """Its prompts multiply by the values that it has already; no rounding changes its LM head."""
    whole = own_copy(model("qwen3-of-2"), FP8_LAYERS)
    assert form_of("fp8", whole) == FP8_LAYERS
    first, stored = Decoder(whole).layers[0], whole.model.layers[0].self_attn.o_proj.weight
    ranks_of_model = rank_models(whole, cpus(ranks), FP8_LAYERS, Rounding(method=method))
    assert all(rank.rounded is not None and rank.rounded.lm_head is None for rank in ranks_of_model)
    codes = [rank.rounded.layers[0]["o"] for rank in ranks_of_model if rank.rounded]
    assert all(torch.equal(own.row_scales, getattr(stored, STORED_ROWS)) for own in codes)
    assert torch.equal(torch.cat([own.values() for own in codes], dim=1), first.o)
    assert torch.equal(torch.cat([rank.compact.layers[0].o for rank in ranks_of_model], dim=1), first.o)
    assert all(torch.equal(rank.model.lm_head.weight, whole.lm_head.weight) for rank in ranks_of_model)
    if ranks == 1:
        assert ranks_of_model[0].compact.layers[0].qkv[0].data_ptr() == first.qkv[0].data_ptr()
    delattr(whole.model.layers[1].mlp.down_proj.weight, STORED_ROWS)
    assert form_of("fp8", whole) == "fp8"


def test_a_loaded_model_is_left_as_it_is_and_gptq_needs_it_whole() -> None:
    whole: Any = copy.deepcopy(model("llama-of-4"))
    before = {name: each.clone() for name, each in whole.named_parameters()}
    rank_models(whole, cpus(2), "fp8", Rounding())
    assert all(torch.equal(each, before[name]) for name, each in whole.named_parameters())
    assert Decoder(whole).layers[0].dense.down.shape[1] == whole.config.intermediate_size
    with pytest.raises(ValueError, match="rounding: gptq needs the whole model on one GPU"):
        rank_models(shard_model(model("llama-of-4"), cpus(2)), cpus(2), "fp8", Rounding(method="gptq"))


@pytest.mark.parametrize(("name", "weights"), [("llama-of-4", "bf16"), ("qwen3-of-2", "fp8")])
def test_the_bytes_that_a_gpu_holds_are_those_of_its_tensors(name: str, weights: str) -> None:
    """All that is as large as a matrix. Neither rank holds anything of the whole model's layers."""
    own = rank_models(shard_model(model(name), cpus(2)), cpus(2), weights, Rounding())
    for rank, program in zip(own, programs_of(name, tensor_parallel_size=2, weights=weights, batch=1), strict=True):
        held, there = held_bytes(program, CAPACITY), rank_shard(rank, 1)
        layers = rank.compact.layers
        matrices = [
            value for layer in layers for value in (layer.qkv[0], layer.o, layer.dense.gate_up[0], layer.dense.down)
        ]
        uploaded = uploads(rank.model, program, CAPACITY, pack(Decoder(rank.model), program, rank.rounded))
        assert held == {
            "matrices for prompts": sum(matrix.nbytes for matrix in matrices),
            "stream of the launch": uploaded["weights"].nbytes,
            "embedding": uploaded["embedding"].nbytes,
            "LM head": 0 if rank.model.lm_head.weight is uploaded["embedding"] else rank.model.lm_head.weight.nbytes,
            "keys and values": sum(cache.nbytes for caches in there.state.cache for cache in caches),
        }


@pytest.mark.parametrize(
    ("weights", "before"), [*((name, False) for name in FORMATS), ("fp8", True), ("fp8_layers", True), ("nvfp4", True)]
)
def test_every_stream_holds_its_sections_one_after_the_other(weights: str, before: bool) -> None:
    """Whether the codes are made while the weights are packed, or `before`."""
    name = "qwen2"
    program = program_of(name, out_parts=2, down_parts=3, weights=weights)
    source = copy.deepcopy(model(name))
    own_rounding = round_weights(source, Decoder(source), weights, Rounding()) if before else None
    arrays = {
        key: as_numpy(value)
        for key, value in uploads(source, program, 8, pack(Decoder(source), program, own_rounding)).items()
    }
    block = model(name).model.layers
    matrices = {
        (layer, op): weight
        for layer in range(program.shape.layers)
        for op, weight in (
            (QKV, torch.cat([getattr(block[layer].self_attn, f"{name}_proj").weight for name in "qkv"])),
            (OUT, block[layer].self_attn.o_proj.weight),
            (
                GATE_UP,
                interleave_gate_up(torch.cat([block[layer].mlp.gate_proj.weight, block[layer].mlp.up_proj.weight])),
            ),
            (DOWN, block[layer].mlp.down_proj.weight),
        )
    }
    head = model(name).lm_head.weight
    matrices[program.shape.layers, HEAD] = torch.cat([head, head.new_zeros(-len(head) % 16, head.shape[1])])
    addresses = {
        place: rounded(
            weight.detach(), (head_precision(weights) or "bf16") if place[1] == HEAD else weights, torch.float32
        ).numpy()
        for place, weight in matrices.items()
    }
    assert (arrays["weight_offset"] % 128 == 0).all()
    for sm, sections in enumerate(program.sections):
        at = int(arrays["weight_offset"][sm])
        for s in sections:
            form = program.layout.form_of(s.matrix)
            size = form.unit_bytes(s.k_tiles)
            columns = slice(s.k_tile * 16, (s.k_tile + s.k_tiles) * 16)
            for tile in range(s.tile, s.tile + s.units):
                unit = matrix_of_unit(arrays["weights"][at : at + size], s.k_tiles, form)
                np.testing.assert_array_equal(unit, addresses[s.layer, s.matrix][tile * 16 : tile * 16 + 16, columns])
                at += size
        assert at <= arrays["weight_offset"][sm + 1]
    assert len(arrays["weights"]) == arrays["weight_offset"][-1]


def test_the_bits_of_an_nvfp4_word_are_mixed_without_loss() -> None:
    """Any eight codes have a word, and its registers are their values times 2^-126 as pairs of bf16."""
    codes = np.random.default_rng(0).integers(0, 16, (4096, 8)).astype(np.uint8)
    words = np.zeros(len(codes), dtype=np.uint32)
    for at, mixed in enumerate(nvfp4_mix()):
        words ^= (codes[:, at // 4] >> at % 4 & 1).astype(np.uint32) * np.uint32(mixed)
    np.testing.assert_array_equal(nvfp4_codes(words), codes)
    pairs = np.stack(nvfp4_registers(words), axis=-1)
    halves = np.stack([pairs << 16, pairs & 0xFFFF0000], axis=-1).astype(np.uint32).reshape(-1, 8)
    np.testing.assert_array_equal(halves.view(np.float32), e2m1_values(codes) * np.float32(2.0**-126))
