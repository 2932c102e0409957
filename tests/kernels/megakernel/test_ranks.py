"""A model sharded over several GPUs: what divides, what each rank does, and what the proof of all ranks finds."""

from dataclasses import replace

import pytest

from kernels.megakernel.program.exchange import EXCHANGED
from kernels.megakernel.program.instructions import DOWN, HEAD, OUT, ROUTER
from kernels.megakernel.program.layout import Layout, default_layout
from kernels.megakernel.program.ranks import max_served_batch, programs, shard_of
from kernels.megakernel.program.shape import Unsupported, shape_of
from kernels.megakernel.proof import ordering
from kernels.megakernel.proof.structure import instruction_rows
from kernels.megakernel.proof.validate import InvalidProgram, check_programs, validate
from kernels.model_files import catalogue
from tests.kernels.megakernel.broken import changed, find, one_half, with_one, with_rows, without
from tests.kernels.megakernel.published import CONFIGS
from tests.kernels.megakernel.tiny_models import programs_of

LLAMA = shape_of(CONFIGS["llama-3.2-1b"])
PAIR = programs_of("llama-of-4", out_parts=2, splits=2, tensor_parallel_size=2)
ROUTED = programs_of("mixtral-of-2", batch=3, sms=4, splits=1, down_parts=2, tensor_parallel_size=2)
"""A mixture whose sequences may have two groups of experts."""


def test_columns_of_the_mlp_that_are_no_whole_tiles_are_refused() -> None:
    with pytest.raises(Unsupported, match="intermediate_size 8208: 2 GPUs need a multiple of 32"):
        shard_of(replace(LLAMA, intermediate=8208), 2)


@pytest.mark.parametrize(
    ("weights", "multiple"), [("bf16", 16), ("fp8", 16), ("int8", 32), ("int4_minimum", 32), ("int4_zero", 64)]
)
def test_columns_that_share_a_scale_stay_on_one_gpu(weights: str, multiple: int) -> None:
    fits = replace(LLAMA, intermediate=4 * multiple * 33)
    assert shard_of(fits, 4, weights).intermediate == 33 * multiple
    with pytest.raises(Unsupported, match=rf"intermediate_size \d+: 4 GPUs need a multiple of {4 * multiple}"):
        shard_of(replace(fits, intermediate=fits.intermediate - 4 * multiple // 2), 4, weights)
    narrow = replace(LLAMA, heads=12, kv_heads=4, head_dim=16)
    if narrow.heads * narrow.head_dim % (4 * multiple):
        with pytest.raises(Unsupported, match=r"num_attention_heads x head_dim 192: 4 GPUs need a multiple of"):
            shard_of(narrow, 4, weights)


def test_which_models_of_the_catalogue_divide_and_for_how_many_sequences() -> None:
    """In bf16 and in int8 alike, over two and over four GPUs."""

    def divides(name: str, ranks: int, weights: str) -> bool:
        try:
            return bool(shard_of(shape_of(catalogue.entry(name)[0]), ranks, weights))
        except Unsupported:
            return False

    names = ("llama-3.1-70b", "llama-3.1-8b", "llama-3.2-1b", "qwen2.5-1.5b", "qwen2.5-0.5b")
    for ranks, able in ((2, names), (4, names[:3])):
        for weights in ("bf16", "int8", "int4_zero"):
            assert tuple(name for name in names if divides(name, ranks, weights)) == able, (ranks, weights)
    for name, most in (("qwen3-30b-a3b", [8, 4, 2]), ("llama-3.1-8b", [8, 8, 8])):
        shape = shape_of(catalogue.entry(name)[0])
        assert [max_served_batch(shard_of(shape, ranks), ranks) for ranks in (1, 2, 4)] == most


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_share_the_rows_of_the_vocabulary_and_the_partials_of_one_gpu(ranks: int) -> None:
    shape = replace(shard_of(LLAMA, ranks), layers=2, vocab=4001)
    two_programs = programs(shape, Layout(sms=16, splits=0, out_parts=2, tensor_parallel_size=ranks))
    rows = [words for program in two_programs for table in program.instructions for words in instruction_rows(table)]
    tiles = [tile for w in rows if w["op"] == HEAD for tile in range(w["tile"], w["tile"] + w["units"])]
    assert sorted(tiles) == list(range(-(-4001 // 16)))
    for op, partials in ((OUT, 2 * ranks), (DOWN, ranks)):
        assert {w["partial"] for w in rows if w["op"] == op and w["layer"] == 0} == set(range(partials))
    alone, shared = default_layout(LLAMA), default_layout(shard_of(LLAMA, ranks), tensor_parallel_size=ranks)
    assert shared.out_partials == alone.out_partials
    assert shared.tensor_parallel_size == ranks
    assert shared.copies == 1


@pytest.mark.parametrize(
    ("name", "ranks", "batch", "capacity"),
    [("qwen3-1.7b", 2, 1, 4096), ("llama-3.1-70b", 4, 1, 192), ("qwen3-30b-a3b", 2, 2, 192)],
)
def test_it_accepts_published_models(name: str, ranks: int, batch: int, capacity: int) -> None:
    shape = replace(shard_of(shape_of(catalogue.entry(name)[0]), ranks), layers=2, vocab=4000)
    check_programs(*programs(shape, default_layout(shape, batch, capacity, tensor_parallel_size=ranks)))


# what it rejects ------------------------------------------------------------------------------------------------------


def test_it_names_the_gpu_and_rejects_ranks_that_are_missing_doubled_or_sharded_otherwise() -> None:
    sm, index, _ = find(PAIR[1], DOWN, layer=1)
    with pytest.raises(InvalidProgram, match=r"coverage: .*GPU 1, down of layer 1"):
        check_programs(*with_one(PAIR, without(PAIR[1], sm, index)))
    with pytest.raises(
        InvalidProgram, match=f"bounds: GPU 1, SM {sm}, instruction {index}: down of layer 1: partial 0"
    ):
        check_programs(*with_one(PAIR, changed(PAIR[1], sm, index, partial=0)))
    assert "programs of ranks [0] for 2 GPUs" in str(validate(PAIR[0])[0])
    assert "programs of ranks [0, 0] for 2 GPUs" in str(validate(PAIR[0], PAIR[0])[0])
    other = replace(PAIR[1], layout=replace(PAIR[1].layout, down_parts=2))
    assert "different shapes or layouts" in str(validate(PAIR[0], other)[0])


def test_it_rejects_routers_that_are_sharded_otherwise() -> None:
    """Every row has its logit, but an SM that multiplies other rows may add up in another order than its namesake."""
    rows = {sm: instruction_rows(table) for sm, table in enumerate(ROUTED[1].instructions)}
    routers = [next(w for w in listed if w["op"] == ROUTER and w["layer"] == 1) for listed in rows.values()]
    (busy,), idle = [w for w in routers if w["units"]], next(w for w in routers if not w["units"])
    idle |= {name: busy[name] for name in ("tile", "units", "k_tile", "k_tiles")}
    busy["units"] = 0
    result = validate(ROUTED[0], with_rows(ROUTED[1], rows))
    assert {(problem.kind, problem.rank) for problem in result} == {("router", 1)}


def test_an_inbox_that_layers_use_alike_is_overwritten_before_a_peer_has_read_it(monkeypatch):
    """As on one GPU, `down_partials` has two halves; with one, a rank may overwrite what a slow peer still reads."""
    shape = replace(shard_of(shape_of(CONFIGS["qwen2.5-0.5b"]), 2), layers=3, vocab=4000)
    two_programs = programs(shape, default_layout(shape, tensor_parallel_size=2))
    monkeypatch.setattr(ordering, "effects", one_half)
    problems = validate(*two_programs)
    assert {problem.kind for problem in problems} == {"overwrite"}
    readers = {(problem.rank, problem.sentence.split("of GPU ")[1][0]) for problem in problems}
    assert any(str(writer) != reader for writer, reader in readers)


def test_words_of_one_rank_only_are_waited_for_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were a rank's partials not written into its peer's memory, the peer would wait for ever: a dropped exchange."""
    monkeypatch.setattr(ordering, "EXCHANGED", tuple(name for name in EXCHANGED if name != "out_partials"))
    result = validate(*PAIR)
    assert {problem.kind for problem in result} == {"deadlock"}
    assert "of out_partials is never written" in str(result[0])
