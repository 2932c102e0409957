"""Where a token's time went: shares by kind of instruction, and what each reads."""

from pathlib import Path

import numpy as np
import pytest

from kernels.__main__ import main
from kernels.megakernel.host import trace
from kernels.megakernel.host.token_breakdown import TokenBreakdown, bytes_of, token_breakdown
from kernels.megakernel.program import Program
from kernels.megakernel.program.instructions import END, OP_NAMES, OUT
from kernels.megakernel.proof.structure import instruction_rows
from tests.kernels.megakernel.recorded import PAUSE, PUBLISHED, WAITED, WORKED, llama, made_up
from tests.kernels.megakernel.tiny_models import programs_of

KEYS = 160
TOKEN_US = 570.24
"""The recorded token, from the first mark to the last."""


def shares(name: str, with_end: bool = True, **layout) -> TokenBreakdown:
    recorded = [(program, made_up(program, with_end)) for program in programs_of(name, **layout)]
    return token_breakdown(trace.timeline_of(recorded), [program for program, _ in recorded], KEYS)


def test_the_recorded_token_of_an_h200_is_divided_as_its_marks_say():
    """OUT attends in its first phase; every weight counts where it is read, and keys and values once."""
    program, raw = llama()
    timeline = trace.timeline_of([(program, raw)])
    result = token_breakdown(timeline, [program], KEYS)
    assert result.token_us == pytest.approx(TOKEN_US)
    spent = trace.summary(timeline)
    by = {kind.op: kind for kind in result.kinds}
    for op in ("qkv", "gate_up", "down", "head"):
        waited, worked, published = spent[op]
        assert by[op].waits * result.token_us == pytest.approx(waited)
        assert by[op].works * result.token_us == pytest.approx(worked + published)
    assert (by["gate_up"].places, by["head"].places) == (16, 1)
    assert sum(kind.waits + kind.works for kind in result.kinds) + result.between == pytest.approx(1)
    assert 0.03 < result.between < 0.04
    waited, worked, published = spent["out"]
    assert (by["attention"].waits, by["out"].waits) == (0, 0)
    assert by["attention"].works * TOKEN_US == pytest.approx(waited)
    assert by["out"].works * TOKEN_US == pytest.approx(worked + published)
    read = bytes_of([program], KEYS)
    assert read["attention"] == 2 * 2 * KEYS * 8 * 64 * 16  # keys and values, bf16, 8 heads of 64, 16 layers
    assert read["gate_up"] == 2 * 2 * 2048 * 8192 * 16
    assert sum(read.values()) - read["attention"] == program.stream_bytes().sum()


def test_of_a_mixture_the_experts_of_the_sequences_are_counted():
    """Of 20 experts a token has 4, and three tokens have 20 · (1 − (16/20)³) = 9.76 between them."""
    for batch, experts in ((1, 4), (3, 9.76)):
        read = bytes_of(programs_of("olmoe", batch=batch), KEYS)
        assert read["gate_up"] == pytest.approx(2 * read["down"])
        assert read["gate_up"] == pytest.approx(2 * 2 * 2 * 96 * 80 * experts)
        assert read["router"] == 2 * 2 * 96 * 32


@pytest.mark.parametrize("weights", ["bf16", "fp8", "nvfp4"])
@pytest.mark.parametrize(
    "layout",
    [{}, {"splits": 0, "out_parts": 2}, {"batch": 2, "sliced": True}, {"batch": 3, "splits": 2}],
    ids=["splits", "attending", "sliced", "batch"],
)
def test_shares_and_bytes_of_every_layout_add_up(weights, layout):
    program = programs_of("llama", weights=weights, **layout)[0]
    result = shares("llama", weights=weights, **layout)
    assert sum(kind.waits + kind.works for kind in result.kinds) + result.between == pytest.approx(1)
    assert result.between > 0
    batch = layout.get("batch", 1)
    cached = 2 * 2 * KEYS * 2 * 64 * 2 * batch
    assert result.read_bytes == pytest.approx(program.stream_bytes().sum() + cached)
    kinds = {kind.op for kind in result.kinds}
    wanted = {"qkv", "attention", "out", "gate_up", "down", "head", "end"} | ({"add"} if "sliced" in layout else set())
    assert kinds == wanted


def test_waits_and_work_are_those_of_the_mean_sm():
    result = shares("llama", sms=1, heads=4)
    longest = len(programs_of("llama", sms=1, heads=4)[0].instructions[0])
    whole = longest * (WAITED + WORKED + PUBLISHED + PAUSE) - PAUSE
    assert result.token_us == pytest.approx(whole / 1000)
    gate = next(kind for kind in result.kinds if kind.op == "gate_up")
    assert (gate.waits, gate.works) == pytest.approx((2 * WAITED / whole, 2 * (WORKED + PUBLISHED) / whole))
    assert result.between == pytest.approx((longest - 1) * PAUSE / whole)


@pytest.mark.parametrize("ranks", [2, 4])
def test_over_several_gpus_shares_and_bytes_are_those_of_the_mean_gpu(ranks):
    programs = programs_of("llama-of-4", sms=4, tensor_parallel_size=ranks)
    result = shares("llama-of-4", sms=4, tensor_parallel_size=ranks)
    assert result.gpus == ranks
    assert sum(kind.waits + kind.works for kind in result.kinds) + result.between == pytest.approx(1)
    streamed = sum(int(program.stream_bytes().sum()) for program in programs) / ranks
    assert result.read_bytes == pytest.approx(streamed + 2 * 2 * KEYS * (4 // ranks) * 32 * 2)


def test_spans_have_the_marks_of_end_and_a_timeline_has_marks():
    program = programs_of("llama")[0]
    timeline = trace.timeline_of([(program, made_up(program))])
    ends = [span for span in timeline.spans if span.op == "end"]
    assert (len(ends), {span.layer for span in ends}) == (6, {2})
    assert "E end" in trace.draw_activity(timeline, 2, [0])[0]
    assert OP_NAMES[OUT] in trace.summary(timeline)
    empty = trace.timeline_of([(program, np.zeros_like(made_up(program)))])
    with pytest.raises(trace.BadTrace, match="the timeline has no marks"):
        token_breakdown(empty, [program], KEYS)


PHASE_NS, LOADED_NS, CONSUMED_NS, DONE_NS = 1000, 300, 600, 700
AHEAD = (0, 5_000_123, -70_045, 12)
"""By how many nanoseconds the clock of each GPU is ahead of the first one's."""


def marks(program: Program) -> trace.Trace:
    """Every operation of a layer takes one microsecond on all SMs of all GPUs at the same time."""
    stamps = np.zeros((len(program.instructions), max(map(len, program.instructions)), 8), dtype=np.uint64)
    for sm, table in enumerate(program.instructions):
        for index, words in enumerate(instruction_rows(table)):
            if words["op"] != END:
                start = 9_000_000 + AHEAD[program.rank] + PHASE_NS * (8 * words["layer"] + words["op"])
                stamps[sm, index, :4] = [start, start + LOADED_NS, start + CONSUMED_NS, start + DONE_NS]
    return stamps


@pytest.mark.parametrize("ranks", [2, 4])
def test_all_gpus_are_drawn_by_one_clock(tmp_path: Path, ranks: int, capsys: pytest.CaptureFixture[str]) -> None:
    recorded = [(program, marks(program)) for program in programs_of("llama-of-4", sms=4, tensor_parallel_size=ranks)]
    trace.save(tmp_path / "raw.npz", recorded)
    timeline = trace.timeline_of(trace.load(tmp_path / "raw.npz"))
    gap = PHASE_NS - CONSUMED_NS + LOADED_NS  # from partials of OUT to the sum that GATE_UP begins with
    assert (timeline.gpus, timeline.sms, timeline.doubt_ns) == (ranks, 4, gap)
    assert {span.gpu for span in timeline.spans} == set(range(ranks))
    origin = min(span.marks[trace.START] for span in timeline.spans)
    starts: dict[tuple[str, int], set[int]] = {}
    for span in timeline.spans:
        starts.setdefault((span.op, span.layer), set()).add(span.marks[trace.START] - origin)
    assert all(len(times) == 1 for times in starts.values())
    assert main(["megakernel", "trace", str(tmp_path / "raw.npz"), "-o", str(tmp_path / "all.json.gz")]) == 0
    drawn = capsys.readouterr().out
    assert "to ±0.70 µs" in drawn
    assert f"GPU {ranks - 1} SM   3 |" in drawn
    reread = trace.read_chrome(tmp_path / "all.json.gz")
    assert (reread.gpus, reread.doubt_ns, len(reread.spans)) == (ranks, gap, len(timeline.spans))
    expected = {name: pytest.approx(spent) for name, spent in trace.summary(timeline).items()}
    assert trace.summary(reread) == expected


def test_a_gpu_that_is_late_or_silent_is_not_taken_for_a_clock() -> None:
    one, other = programs_of("llama-of-4", sms=4, tensor_parallel_size=2)
    stamps = [marks(one), marks(other)]
    late = 500
    for program, own, first_late in ((one, stamps[0], 4), (other, stamps[1], 3)):
        for sm, table in enumerate(program.instructions):
            for index, words in enumerate(instruction_rows(table)):
                if words["op"] != END and 8 * words["layer"] + words["op"] >= 8 + first_late:
                    own[sm, index, :4] += np.uint64(late)
    timeline = trace.timeline_of([(one, stamps[0]), (other, stamps[1])])
    gates = [
        min(
            span.marks[trace.START] for span in timeline.spans if (span.gpu, span.op, span.layer) == (gpu, "gate_up", 1)
        )
        for gpu in (0, 1)
    ]
    assert abs(gates[0] - gates[1]) <= timeline.doubt_ns
    timeline = trace.timeline_of([(one, marks(one)), (other, np.zeros_like(marks(other)))])
    assert (timeline.gpus, timeline.doubt_ns, {span.gpu for span in timeline.spans}) == (2, 0, {0})
