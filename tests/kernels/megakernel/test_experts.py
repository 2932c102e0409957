"""Mixtures of experts: the interpreter agrees with transformers, and the CUDA source on a CPU with the interpreter."""

import copy
import itertools
from typing import Any

import numpy as np
import pytest
import torch

from kernels.hardware import GPUS
from kernels.megakernel.cli import held_bytes
from kernels.megakernel.host.pack import experts_in_mxfp4, quantise
from kernels.megakernel.program import Program
from kernels.megakernel.program.instructions import DOWN, GATE_UP, ROUTER
from kernels.megakernel.program.layout import deal_tiles
from kernels.megakernel.program.ranks import shard_of
from kernels.megakernel.program.shape import Unsupported, shape_of
from kernels.megakernel.proof.validate import check_programs
from kernels.model.expert_tiles import tile_experts, tiles_of
from kernels.model.experts import experts_of
from kernels.server.execution.building import megakernel_batches
from kernels.server.execution.megakernel_instance import instance_bytes
from tests.kernels.megakernel.broken import changed, find, kinds, swapped
from tests.kernels.megakernel.cuda_on_cpu import CpuRun
from tests.kernels.megakernel.interpreter.interpret import DecodeStart, SimulatedGpu
from tests.kernels.megakernel.interpreter.sm import matrix_of_tiles
from tests.kernels.megakernel.orders import laggard, round_robin, shuffled
from tests.kernels.megakernel.tiny_models import (
    arrays_of,
    as_numpy,
    exact,
    gpu,
    logits_after,
    model,
    program_of,
    rounded_model,
    start,
)

LAYOUTS: dict[str, dict[str, Any]] = {
    "splits": {"out_parts": 2},
    "attending": {"splits": 0, "down_parts": 2, "sms": 5},
    "batch 2": {"batch": 2, "down_parts": 2},
    "batch 5": {"batch": 5, "down_parts": 3, "sms": 4},
}


def distances(name: str, program: Program, count: int) -> tuple[np.ndarray, ...]:
    """The largest difference from float32's logits of each token, of the interpreter and of torch's bf16, both of the
    weights in the program's precision; and of the interpreter from the model before they were rounded.
    """
    weights = program.layout.weights
    begin = start(name, program.layout.batch, 21, 64, weights)
    machine = gpu(name, program, begin, count, split_keys=8)
    tokens = machine.run(round_robin())
    models = exact(name, weights), rounded_model(name, weights), exact(name)
    expected, torchs, before = (logits_after(item, begin, tokens) for item in models)
    pairs = (machine.logits, expected), (torchs, expected), (machine.logits, before)
    return tuple(np.abs(one - other).max(axis=-1) for one, other in pairs)


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("qwen3_moe", "splits"), ("qwen3_moe", "batch 5"), ("gpt_oss", "attending"), ("gpt_oss", "batch 2"),
        ("olmoe", "attending"), ("olmoe", "batch 5"), ("mixtral", "splits"),
    ],
)  # fmt: skip
def test_it_generates_what_transformers_generates(name: str, layout: str) -> None:
    program = program_of(name, **LAYOUTS[layout])
    check_programs(program)
    own, torchs, _ = distances(name, program, 5)
    assert np.median(own) <= np.median(torchs)
    assert np.median(own) < 0.05


@pytest.mark.parametrize("layout", ["attending", "batch 2", "batch 5"])
def test_with_experts_in_mxfp4_it_is_the_model_of_the_rounded_weights(layout: str) -> None:
    program = program_of("gpt_oss", weights="mxfp4", **LAYOUTS[layout])
    check_programs(program)
    own, torchs, unrounded = distances("gpt_oss", program, 5)
    assert np.median(own) <= np.median(torchs)
    assert np.median(unrounded) > 5 * np.median(own)


@pytest.mark.parametrize("order", [shuffled(3), laggard(0), laggard(4)], ids=["shuffled", "first late", "last late"])
def test_any_order_gives_the_same_bits(order: Any) -> None:
    program, begin = program_of("olmoe", batch=3, down_parts=2, sms=5), start("olmoe", 3, 9, 64)
    runs = [gpu("olmoe", program, begin, 2, split_keys=4) for _ in range(2)]
    for machine, how in zip(runs, (round_robin(), order), strict=True):
        machine.run(how)
    np.testing.assert_array_equal(runs[0].logits, runs[1].logits)


def with_equal_gates(program: Program, name: str) -> dict[str, np.ndarray]:
    """What is uploaded for the model, with a router of zeros."""
    arrays = dict(arrays_of(name, program.layout))
    if program.shape.expert_bias:
        arrays["router_bias"] = np.zeros_like(arrays["router_bias"])
    arrays["weights"] = arrays["weights"].copy()
    for sections, begin in zip(program.sections, arrays["weight_offset"].tolist(), strict=False):
        at = begin
        for section in sections:
            size = program.section_bytes(section)
            if section.matrix == ROUTER:
                arrays["weights"][at : at + size] = 0
            at += size
    return arrays


def test_experts_lie_in_units_with_a_gate_and_its_up_eight_rows_apart() -> None:
    experts = model("qwen3_moe").model.layers[1].mlp.experts
    tiles, (hidden, inner) = as_numpy(tiles_of(model("qwen3_moe"))[1, 7]), experts.down_proj.shape[1:]
    both = np.stack(np.split(experts.gate_up_proj[7].detach().float().numpy().reshape(-1, 8, hidden), 2), axis=1)
    unit = matrix_of_tiles(tiles[5 * 16 * hidden : 6 * 16 * hidden])
    np.testing.assert_array_equal(unit, both[5].reshape(16, hidden))
    down, rows = tiles[2 * inner * hidden :], experts.down_proj[7].detach().float().numpy()[16:32]
    np.testing.assert_array_equal(matrix_of_tiles(down[16 * inner : 32 * inner]), rows)
    w = experts_of(model("gpt_oss").config, model("gpt_oss").model.layers[1].mlp)
    own, hidden = as_numpy(tiles_of(model("gpt_oss"))[1, 7]), w.down.shape[1]
    unit = matrix_of_tiles(own[3 * 16 * hidden : 4 * 16 * hidden])
    rows = w.gate_up[7, 48:64].detach().float().numpy()
    np.testing.assert_array_equal(unit, np.concatenate((rows[::2], rows[1::2])))


def test_launches_share_one_copy_of_the_experts_and_a_model_that_has_tiles_needs_none() -> None:
    copied = tiles_of(model("olmoe"))
    assert tiles_of(model("olmoe")) is copied
    own = copy.deepcopy(model("olmoe"))
    sizes = [parameter.nbytes for parameter in own.parameters()]
    tile_experts(own)
    assert [parameter.nbytes for parameter in own.parameters()] == sizes
    tiles = tiles_of(own)
    assert torch.equal(tiles, copied)
    for layer, its in zip(own.model.layers, tiles, strict=True):
        assert layer.mlp.experts.gate_up_proj.data_ptr() == its.data_ptr()
        assert layer.mlp.experts.down_proj.untyped_storage().data_ptr() == tiles.data_ptr()


def test_the_bytes_that_are_held_count_shared_experts_once() -> None:
    """Twice beside prompts; an instance of a server lacks those of the model or, in MXFP4, of the first instance."""
    result = held_bytes(program_of("qwen3_moe"), 64)
    layers = model("qwen3_moe").model.layers
    matrices = [parameter for layer in layers for parameter in layer.parameters() if parameter.ndim > 1]
    assert result["matrices for prompts"] == sum(matrix.nbytes for matrix in matrices)
    assert result["experts of the launch"] == tiles_of(model("qwen3_moe")).nbytes
    own = copy.deepcopy(model("olmoe"))
    copied = instance_bytes(own, 1, 64)
    tile_experts(own)
    experts = sum(parameter.numel() for name, parameter in own.named_parameters() if ".experts." in name)
    matrices = sum(parameter.numel() for parameter in own.model.layers.parameters()) + own.lm_head.weight.numel()
    keys = 2 * 2 * 2 * 64 * 3 * 32
    assert instance_bytes(own, 1, 64) == 2 * (matrices - experts) + keys == copied - 2 * experts
    assert instance_bytes(model("olmoe"), 2, 64) == 2 * (matrices - experts) + 2 * keys
    own = model("gpt_oss")
    codes = experts_in_mxfp4(own)
    assert experts_in_mxfp4(own) is codes
    assert held_bytes(program_of("gpt_oss", weights="mxfp4"), 64)["experts of the launch"] == codes.nbytes
    one, two = (instance_bytes(own, batch, 64, "mxfp4") for batch in (1, 2))
    assert one - two == codes.nbytes - 2 * 2 * 2 * 64 * 2 * 32
    assert list(megakernel_batches(own, GPUS["h200"], 64, 8, "mxfp4")) == [1, 2, 4, 8]
    assert not megakernel_batches(own, GPUS["h200"], 64, 8, "int8")


@pytest.mark.parametrize("rotation", [0, 5])
@pytest.mark.parametrize("at_work", [1, 7, 12, 30])
def test_units_are_dealt_evenly_however_many_are_at_work(at_work: int, rotation: int) -> None:
    dealt = [[t for t in range(first, 30, 7)[:n] if t < at_work] for first, n in deal_tiles(30, 7, rotation)]
    assert sorted(itertools.chain(*dealt)) == list(range(at_work))
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 1


@pytest.mark.parametrize(("op", "after"), [(ROUTER, 1), (GATE_UP, 1), (ROUTER, 2)])
def test_the_router_comes_before_the_experts(op: int, after: int) -> None:
    """Else the producer would wait for a choice that the consumers make later, or the input would be another's."""
    program = program_of("olmoe", batch=2, splits=0, down_parts=2)
    sm, index, _ = find(program, op, layer=1)
    assert "router" in kinds(swapped(program, sm, index, index + after))


def test_a_group_that_may_be_idle_orders_nothing() -> None:
    """Experts that another group has are multiplied there: a wrong group is a coverage, and never waited for."""
    program = program_of("olmoe", batch=3, splits=2, down_parts=2)
    for op in (GATE_UP, DOWN):
        sm, index, words = find(program, op, layer=1, group=2)
        assert kinds(changed(program, sm, index, group=1)) & {"bounds", "coverage", "router"}
        assert kinds(changed(program, sm, index, group=words["group"] + 1)) == {"bounds"}


def test_what_is_not_served_is_named() -> None:
    shape = shape_of(model("qwen3_moe").config.to_dict())
    with pytest.raises(Unsupported, match="intermediate size of an expert 48: 2 GPUs need a multiple of 32"):
        shard_of(shape, 2)
    with pytest.raises(Unsupported, match="weights fp8: the megakernel streams the experts of a mixture in bf16 or mx"):
        program_of("qwen3_moe", weights="fp8")
    with pytest.raises(Unsupported, match="size of an expert 48: the megakernel needs multiples of 64 in mxfp4"):
        program_of("qwen3_moe", weights="mxfp4")
    with pytest.raises(Unsupported, match="weights mxfp4: only experts are held so"):
        shard_of(shape_of(model("llama").config.to_dict()), 1, "mxfp4")
    with pytest.raises(ValueError, match="too large for the megakernel's mxfp4"):
        quantise(torch.full((16, 64), 4000.0), "mxfp4")


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("qwen3_moe", {"sms": 2, "splits": 0}),
        ("olmoe", {"sms": 2, "splits": 2, "batch": 2, "down_parts": 2}),
        ("gpt_oss", {"sms": 2, "splits": 2, "batch": 2, "down_parts": 2}),
        ("gpt_oss", {"sms": 2, "splits": 0, "down_parts": 2, "weights": "mxfp4"}),
        ("gpt_oss", {"sms": 2, "splits": 2, "batch": 3, "weights": "mxfp4"}),
    ],
    ids=["one", "two", "sinks and biases", "mxfp4", "mxfp4 of three"],
)
def test_the_cuda_source_computes_the_same_on_a_cpu(name: str, layout: dict[str, Any]) -> None:
    """Every thread of every SM, with copies that land late, in an order drawn by chance."""
    program, begin = program_of(name, **layout), start(name, layout.get("batch", 1), 21, 64)
    for arrays in (arrays_of(name, program.layout), with_equal_gates(program, name)):
        run = CpuRun(program, arrays, begin, 2, seed=7)
        assert (run.ended, run.fault) == (0, 0)
        context = DecodeStart(begin.keys.copy(), begin.values.copy(), begin.first, 21)
        machine = SimulatedGpu(program, arrays, context, 2)
        np.testing.assert_array_equal(run.tokens, machine.run(round_robin()))
        assert np.abs(run.logits - machine.logits).max() < 0.03
    assert machine.sms[0].experts.tolist() == list(range(program.shape.top_k))
    shares = 1 / (program.shape.top_k if program.shape.normalised else program.shape.experts)
    np.testing.assert_allclose(machine.sms[0].shares, shares, rtol=1e-6)
