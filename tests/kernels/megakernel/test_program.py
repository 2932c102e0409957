"""The program: every SM's list, its shares, and layouts fitted to small models."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.megakernel.host import device
from kernels.megakernel.program import build_program
from kernels.megakernel.program.instructions import ATTENTION, DOWN, END, GATE_UP, HEAD, OUT, QKV, WORDS
from kernels.megakernel.program.layout import Layout, attention_work, default_layout, fitted, serving_layout, shares
from kernels.megakernel.program.ranks import part_of
from kernels.megakernel.program.shape import shape_of
from kernels.megakernel.proof.validate import check_programs
from kernels.model_files import catalogue
from tests.kernels.megakernel.published import CONFIGS


@given(
    st.integers(1, 400), st.integers(1, 64), st.integers(1, 8), st.integers(16, 140), st.integers(0, 999), st.booleans()
)
def test_shares_cover_a_matrix_once(
    tiles: int, columns: int, parts: int, sms: int, rotation: int, in_pairs: bool
) -> None:
    parts, sms = min(parts, columns), sms - sms % 2 if in_pairs else sms
    used = np.zeros((tiles, columns), dtype=int)
    found_shares = shares(tiles, columns, parts, sms, rotation, 2 if in_pairs else 1)
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
    layout = fitted(shape, Layout(out_parts=300, down_parts=9))
    assert (layout.sms, layout.out_parts, layout.down_parts) == (8, 8, 4)
    assert build_program(shape, Layout()).layout.sms == 8


@pytest.mark.parametrize(
    ("name", "options", "wanted"),
    [
        ("llama-3.2-1b", {}, 128),
        ("mistral-7b", {}, 128),
        ("qwen2.5-1.5b", {}, 132),
        ("llama-3.2-1b", {"batch": 2}, 132),
        ("llama-3.2-1b", {"weights": "fp8"}, 132),
        ("llama-3.2-1b", {"sms": 114}, 114),
    ],
)
def test_sms_beyond_an_even_deal_are_left_out_in_bf16(name: str, options: dict[str, Any], wanted: int) -> None:
    assert default_layout(shape_of(CONFIGS[name]), **options).sms == wanted


@pytest.mark.parametrize("name", ["llama-3.2-1b", "llama-3.1-8b", "qwen3-0.6b", "qwen3-1.7b", "tinyllama-1.1b"])
def test_no_sm_has_more_row_tiles_for_the_sms_left_out(name: str) -> None:
    shape = replace(shape_of(CONFIGS[name]), layers=1)

    def most(sms: int) -> list[int]:
        tables = build_program(shape, replace(default_layout(shape), sms=sms)).instructions
        return [max(int(table[table[:, 0] == op, 2].sum()) for table in tables) for op in (QKV, OUT, GATE_UP, DOWN)]

    assert default_layout(shape).sms == 128
    assert most(128) == most(132)


@pytest.mark.parametrize(
    ("name", "splits"), [("llama-3.2-1b", 16), ("qwen2.5-1.5b", 64), ("smollm2-1.7b", 4), ("smollm2-360m", 26)]
)
def test_a_long_context_is_split_until_every_sm_attends(name: str, splits: int) -> None:
    shape = shape_of(CONFIGS[name])
    layout = default_layout(shape, capacity=16384)
    assert layout.splits == splits
    assert len(attention_work(shape, layout)) <= layout.sms


@pytest.mark.parametrize(
    ("name", "ranks", "wanted"),
    [("llama-3.1-70b", 2, (True, 16)), ("llama-3.1-70b", 4, (True, 16)), ("llama-3.1-8b", 2, (False, 0))],
)
def test_one_sequence_slices_a_large_residual_and_splits_its_keys(
    name: str, ranks: int, wanted: tuple[bool, int]
) -> None:
    """Else every SM would add up all partials of 8,192 columns, and attend with all heads of its columns of OUT."""
    shape = part_of(shape_of(catalogue.entry(name)[0]), ranks)
    for weights in ("bf16", "fp8"):
        layout = default_layout(shape, 1, 192, weights, tensor_parallel_size=ranks)
        assert (layout.sliced, layout.splits) == wanted
    assert default_layout(shape, 1, 4096, tensor_parallel_size=ranks).sliced == wanted[0]


@pytest.mark.parametrize("name", ["llama-3.2-1b", "qwen2.5-1.5b", "llama-3.1-8b"])
def test_instances_of_a_server_for_two_sequences_and_more_share_a_stream(name: str) -> None:
    shape = replace(shape_of(catalogue.entry(name)[0]), layers=2)
    layouts = [serving_layout(shape, batch, 2048, "int8", 132) for batch in (2, 4, 8)]
    first, *others = (build_program(shape, layout) for layout in layouts)
    assert all(first.streams_as(other) for other in others)
    assert not first.streams_as(build_program(shape, replace(layouts[0], weights="bf16")))
    assert not first.streams_as(build_program(shape, replace(layouts[0], down_parts=2)))


def test_out_attends_by_itself_behind_a_short_context_of_one_sequence() -> None:
    shape = shape_of(CONFIGS["qwen2.5-1.5b"])
    assert default_layout(shape, capacity=192).splits == 0
    assert (build_program(shape, default_layout(shape, capacity=192)).instructions[0][:, 0] != ATTENTION).all()
    assert default_layout(shape, capacity=1088).splits > 0
    assert default_layout(shape, batch=2, capacity=192).splits > 0
    assert default_layout(replace(shape, heads=36, kv_heads=4), capacity=192).splits > 0  # nine heads share their keys
    assert default_layout(shape_of(CONFIGS["qwen3-1.7b"]), capacity=192).splits == 0
    assert (
        default_layout(shape_of(CONFIGS["smollm2-1.7b"]), capacity=192).splits == 4
    )  # eight heads of keys in a quarter


def test_neighbours_share_the_splits_of_few_key_value_heads_behind_a_very_long_context() -> None:
    shape = shape_of(CONFIGS["qwen2.5-1.5b"])
    layout = default_layout(shape, capacity=16384)
    assert layout.pairs
    assert {(words["kv_head"], words["heads"]) for words in attention_work(shape, layout)} == {(0, 6), (1, 6)}
    assert not default_layout(shape, capacity=8192).pairs
    assert not default_layout(shape, batch=2, capacity=16384).pairs
    assert default_layout(shape_of(CONFIGS["llama-3.2-1b"]), capacity=16384) == default_layout(
        shape_of(CONFIGS["llama-3.2-1b"]), capacity=8192
    )
    assert not fitted(shape, replace(layout, out_parts=2)).pairs  # 768 columns


@pytest.mark.parametrize(
    ("name", "heads", "splits", "pairs"),
    [
        ("tinyllama-1.1b", 8, 32, False),
        ("qwen2.5-7b", 7, 32, False),
        ("smollm2-135m", 4, 44, True),
        ("smollm2-360m", 4, 26, True),
    ],
)
def test_keys_are_read_once_behind_a_very_long_context(name: str, heads: int, splits: int, pairs: bool) -> None:
    """By neighbours who share their splits where a part of OUT has few columns."""
    shape = shape_of(CONFIGS[name])
    layout = default_layout(shape, capacity=16384)
    assert (layout.heads, layout.splits, layout.pairs) == (heads, splits, pairs)
    assert {words["heads"] for words in attention_work(shape, layout)} == {shape.heads // shape.kv_heads}
    check_programs(build_program(replace(shape, layers=2), layout))


def test_words_are_copied_where_each_copy_of_each_part_is_read() -> None:
    shape = shape_of(CONFIGS["qwen2.5-0.5b"])
    layout = default_layout(shape, capacity=192)
    assert layout.copies == 4
    assert default_layout(shape_of(CONFIGS["llama-3.2-1b"]), capacity=192).copies == 1
    for other in ({"sms": 130}, {"splits": 16}, {"batch": 2}, {"out_parts": 44}):
        assert fitted(shape, replace(layout, **other)).copies == 1


def test_a_small_model_reads_its_keys_at_once() -> None:
    shape = shape_of(CONFIGS["qwen3-0.6b"])
    layout = default_layout(shape, capacity=192)
    assert (layout.out_parts, layout.down_parts, layout.pairs) == (8, 4, True)
    assert device.attention_sizes(build_program(shape, layout))["ATTENDED_GROUPS"] == 1
    assert [default_layout(shape_of(CONFIGS[name]), capacity=192).out_parts for name in ("qwen3-1.7b", "qwen3-4b")] == [
        8,
        4,
    ]


def test_neighbours_share_keys_where_each_has_a_part_in_it() -> None:
    shape = shape_of(CONFIGS["qwen2.5-1.5b"])
    layout = default_layout(shape, capacity=192)
    assert layout.pairs
    rows = [
        {tuple(row[[1, 4, 5]]) for row in table if row[0] == OUT} for table in build_program(shape, layout).instructions
    ]
    assert rows[::2] == rows[1::2]
    for other in ({"sms": 131}, {"batch": 2}, {"out_parts": 1}, {"sms": 130, "out_parts": 130}):
        assert not fitted(shape, replace(layout, **other)).pairs
    assert not default_layout(replace(shape, hidden=256), capacity=192).pairs  # 16 row tiles for groups of 34 SMs


def test_chunks_are_shorter_where_row_tiles_then_fill_them() -> None:
    """48 blocks are two chunks of 24; in a long context a chunk must hold rows of keys."""
    shape = shape_of(CONFIGS["qwen2.5-1.5b"])
    assert default_layout(shape, capacity=192, weights="fp8").chunk_blocks == 24
    assert default_layout(shape, capacity=1088, weights="fp8").chunk_blocks == 32
    assert {default_layout(shape, capacity=192, weights=name).chunk_blocks for name in ("bf16", "nvfp4")} == {32}
    assert default_layout(shape_of(CONFIGS["llama-3.2-1b"]), capacity=192, weights="fp8").chunk_blocks == 32
