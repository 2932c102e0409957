"""The program: every SM's list, its shares, and layouts fitted to small models."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.megakernel.program import build_program
from kernels.megakernel.program.instructions import ATTENTION, DOWN, END, GATE_UP, HEAD, OUT, QKV, WORDS
from kernels.megakernel.program.layout import (
    Layout,
    attention_work,
    default_layout,
    fit_layout,
    partition_tiles,
    serving_layout,
)
from kernels.megakernel.program.ranks import shard_of
from kernels.megakernel.program.shape import shape_of
from kernels.model_files import catalogue
from tests.kernels.megakernel.published import CONFIGS


@given(
    st.integers(1, 400), st.integers(1, 64), st.integers(1, 8), st.integers(16, 140), st.integers(0, 999), st.booleans()
)
def test_shares_cover_a_matrix_once(tiles, columns, parts, sms, rotation, in_pairs):
    parts, sms = min(parts, columns), sms - sms % 2 if in_pairs else sms
    used = np.zeros((tiles, columns), dtype=int)
    found_shares = partition_tiles(tiles, columns, parts, sms, rotation, 2 if in_pairs else 1)
    assert not in_pairs or [found_share[2:] for found_share in found_shares[::2]] == [
        found_share[2:] for found_share in found_shares[1::2]
    ]
    for tile, units, k_tile, k_tiles, part in found_shares:
        used[tile : tile + units, k_tile : k_tile + k_tiles] += 1
        assert 0 <= part < parts
    assert (used == 1).all()


def test_every_sm_ends_and_keeps_its_residual() -> None:
    shape = shape_of(CONFIGS["llama-3.2-1b"])
    program = build_program(shape, Layout())
    assert len(program.instructions) == 132
    for table in program.instructions:
        ops = table[:, 0].tolist()
        assert table.dtype == np.int32
        assert table.shape[1] == WORDS
        assert ops[-1] == END
        assert (ops.count(QKV), ops.count(GATE_UP), ops.count(HEAD)) == (16, 16, 1)


@pytest.mark.parametrize("name", ["llama-3.2-1b", "llama-3.1-8b", "qwen2.5-7b", "qwen3-4b"])
def test_streams_are_balanced_and_hold_every_weight(name: str) -> None:
    shape = shape_of(CONFIGS[name])
    sizes = build_program(shape, Layout()).stream_bytes()
    padding = -shape.vocab % 16 * shape.hidden * 2
    assert sizes.sum() == shape.step_bytes + padding
    assert sizes.max() < 1.05 * sizes.mean()


def test_small_models_use_fewer_sms() -> None:
    shape = shape_of(CONFIGS["llama-3.2-1b"] | {"intermediate_size": 64, "hidden_size": 64, "num_hidden_layers": 2})
    layout = fit_layout(shape, Layout(out_parts=300, down_parts=9))
    assert (layout.sms, layout.out_parts, layout.down_parts) == (8, 8, 4)
    assert build_program(shape, Layout()).layout.sms == 8


ALONE, SPLIT = {"splits": 0}, {"sliced": True, "splits": 16}


@pytest.mark.parametrize(
    ("name", "options", "wanted"),
    [
        # SMs beyond an even deal are left out in bf16
        ("llama-3.2-1b", {}, {"sms": 128}),
        ("qwen2.5-1.5b", {}, {"sms": 132}),
        ("llama-3.2-1b", {"batch": 2}, {"sms": 132}),
        ("llama-3.2-1b", {"weights": "fp8"}, {"sms": 132}),
        ("llama-3.2-1b", {"sms": 114}, {"sms": 114}),
        # one sequence slices a large residual and splits its keys: else every SM would add up all partials of 8,192
        # columns, and attend with all heads of its columns of OUT
        ("llama-3.1-70b", {"tensor_parallel_size": 2, "capacity": 192}, SPLIT),
        ("llama-3.1-70b", {"tensor_parallel_size": 4, "capacity": 192, "weights": "fp8"}, SPLIT),
        ("llama-3.1-8b", {"tensor_parallel_size": 2, "capacity": 192}, {"sliced": False, "splits": 0}),
        # OUT attends by itself behind a short context of one sequence, if a part has few heads of keys
        ("qwen2.5-1.5b", {"capacity": 192}, ALONE | {"pairs": True}),
        ("qwen2.5-1.5b", {"capacity": 1088}, {"splits": 32}),
        ("qwen2.5-1.5b", {"capacity": 192, "batch": 2}, {"sliced": True, "splits": 5, "pairs": False}),
        ("smollm2-1.7b", {"capacity": 192}, {"splits": 4}),
        # a long context is split until every SM attends; neighbours share the splits where a part has few columns
        ("llama-3.2-1b", {"capacity": 16384}, {"splits": 16, "pairs": False}),
        ("qwen2.5-1.5b", {"capacity": 16384}, {"splits": 64, "pairs": True, "heads": 6}),
        ("qwen2.5-1.5b", {"capacity": 16384, "batch": 2}, {"pairs": False}),
        ("qwen2.5-7b", {"capacity": 16384}, {"heads": 7, "splits": 32, "pairs": False}),
        ("smollm2-135m", {"capacity": 16384}, {"heads": 4, "splits": 44, "pairs": True}),
        # words are copied where each copy of each part is read
        ("qwen2.5-0.5b", {"capacity": 192}, {"copies": 4}),
        ("llama-3.2-1b", {"capacity": 192}, {"copies": 1}),
        # a small model has as few parts as its columns allow
        ("qwen3-0.6b", {"capacity": 192}, {"out_parts": 8, "down_parts": 4, "pairs": True}),
        ("qwen3-4b", {"capacity": 192}, {"out_parts": 4}),
        # 48 blocks are two chunks of 24; in a long context a chunk must hold rows of keys
        ("qwen2.5-1.5b", {"capacity": 192, "weights": "fp8"}, {"chunk_blocks": 24}),
        ("qwen2.5-1.5b", {"capacity": 1088, "weights": "fp8"}, {"chunk_blocks": 32}),
        ("qwen2.5-1.5b", {"capacity": 192, "weights": "nvfp4"}, {"chunk_blocks": 32}),
    ],
    ids=str,
)
def test_the_layout_that_is_chosen(name: str, options: dict[str, Any], wanted: dict[str, Any]) -> None:
    shape = shard_of(shape_of(catalogue.entry(name)[0]), options.get("tensor_parallel_size", 1))
    layout = default_layout(shape, **options)
    assert {field: getattr(layout, field) for field in wanted} == wanted
    work = attention_work(shape, layout)
    assert len(work) <= layout.sms
    assert all(words["heads"] <= layout.heads for words in work)
    ops = {int(op) for table in build_program(replace(shape, layers=1), layout).instructions for op in table[:, 0]}
    assert (ATTENTION in ops) == bool(layout.splits)


@pytest.mark.parametrize(
    ("name", "field", "plain", "others"),
    [
        ("qwen2.5-0.5b", "copies", 1, [{"sms": 130}, {"splits": 16}, {"batch": 2}, {"out_parts": 44}]),
        ("qwen2.5-1.5b", "pairs", False,
         [{"sms": 131}, {"batch": 2}, {"out_parts": 1}, {"sms": 130, "out_parts": 130}]),
    ],
)  # fmt: skip
def test_copies_and_pairs_are_for_layouts_that_can_have_them(name, field, plain, others):
    shape = shape_of(CONFIGS[name])
    layout = default_layout(shape, capacity=192)
    assert getattr(layout, field) != plain
    for other in others:
        assert getattr(fit_layout(shape, replace(layout, **other)), field) == plain


@pytest.mark.parametrize("name", ["llama-3.2-1b", "llama-3.1-8b", "qwen3-0.6b", "qwen3-1.7b", "tinyllama-1.1b"])
def test_no_sm_has_more_row_tiles_for_the_sms_left_out(name: str) -> None:
    shape = replace(shape_of(CONFIGS[name]), layers=1)

    def most(sms: int) -> list[int]:
        tables = build_program(shape, replace(default_layout(shape), sms=sms)).instructions
        return [max(int(table[table[:, 0] == op, 2].sum()) for table in tables) for op in (QKV, OUT, GATE_UP, DOWN)]

    assert default_layout(shape).sms == 128
    assert most(128) == most(132)


@pytest.mark.parametrize("name", ["llama-3.2-1b", "qwen2.5-1.5b", "llama-3.1-8b"])
def test_instances_of_a_server_for_two_sequences_and_more_share_a_stream(name: str) -> None:
    shape = replace(shape_of(catalogue.entry(name)[0]), layers=2)
    layouts = [serving_layout(shape, batch, 2048, "int8", 132) for batch in (2, 4, 8)]
    first, *others = (build_program(shape, layout) for layout in layouts)
    assert all(first.streams_as(other) for other in others)
    assert not first.streams_as(build_program(shape, replace(layouts[0], weights="bf16")))
    assert not first.streams_as(build_program(shape, replace(layouts[0], down_parts=2)))
