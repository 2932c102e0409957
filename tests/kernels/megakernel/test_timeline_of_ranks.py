"""The timeline of a token over several GPUs: one clock for all of them, found from what they exchange."""

from pathlib import Path

import numpy as np
import pytest

from kernels.__main__ import main
from kernels.megakernel.host import trace
from kernels.megakernel.program import Program
from kernels.megakernel.program.instructions import END
from kernels.megakernel.proof.structure import instruction_rows
from tests.kernels.megakernel.tiny_models import programs_of

PHASE_NS, LOADED_NS, CONSUMED_NS, DONE_NS = 1000, 300, 600, 700
AHEAD = (0, 5_000_123, -70_045, 12)
"""By how many nanoseconds the clock of each GPU is ahead of the first one's."""


def marks(program: Program) -> trace.Trace:
    """Every operation of a layer takes one microsecond on all SMs of all GPUs at the same time."""
    made = np.zeros((len(program.instructions), max(map(len, program.instructions)), 8), dtype=np.uint64)
    for sm, table in enumerate(program.instructions):
        for index, words in enumerate(instruction_rows(table)):
            if words["op"] != END:
                start = 9_000_000 + AHEAD[program.rank] + PHASE_NS * (8 * words["layer"] + words["op"])
                made[sm, index, :4] = [start, start + LOADED_NS, start + CONSUMED_NS, start + DONE_NS]
    return made


@pytest.mark.parametrize("ranks", [2, 4])
def test_all_gpus_are_drawn_by_one_clock(tmp_path: Path, ranks: int, capsys: pytest.CaptureFixture[str]) -> None:
    recorded = [(program, marks(program)) for program in programs_of("llama-of-4", sms=4, tensor_parallel_size=ranks)]
    trace.save(tmp_path / "raw.npz", recorded)
    found = trace.timeline_of(trace.load(tmp_path / "raw.npz"))
    gap = PHASE_NS - CONSUMED_NS + LOADED_NS  # from partials of OUT to the sum that GATE_UP begins with
    assert (found.gpus, found.sms, found.doubt_ns) == (ranks, 4, gap)
    assert {span.gpu for span in found.spans} == set(range(ranks))
    origin = min(span.marks[trace.START] for span in found.spans)
    starts: dict[tuple[str, int], set[int]] = {}
    for span in found.spans:
        starts.setdefault((span.op, span.layer), set()).add(span.marks[trace.START] - origin)
    assert all(len(times) == 1 for times in starts.values())
    assert main(["megakernel", "trace", str(tmp_path / "raw.npz"), "-o", str(tmp_path / "all.json.gz")]) == 0
    drawn = capsys.readouterr().out
    assert "to ±0.70 µs" in drawn
    assert f"GPU {ranks - 1} SM   3 |" in drawn
    kept = trace.read_chrome(tmp_path / "all.json.gz")
    assert (kept.gpus, kept.doubt_ns, len(kept.spans)) == (ranks, gap, len(found.spans))
    expected = {name: pytest.approx(spent) for name, spent in trace.summary(found).items()}
    assert trace.summary(kept) == expected


def test_a_gpu_that_is_late_narrows_the_bounds_and_is_not_taken_for_a_clock() -> None:
    """Where the second GPU makes its partials later in one layer, the first one's input comes later too."""
    one, other = programs_of("llama-of-4", sms=4, tensor_parallel_size=2)
    made = [marks(one), marks(other)]
    late = 500
    for program, own, first_late in ((one, made[0], 4), (other, made[1], 3)):
        for sm, table in enumerate(program.instructions):
            for index, words in enumerate(instruction_rows(table)):
                if words["op"] != END and 8 * words["layer"] + words["op"] >= 8 + first_late:
                    own[sm, index, :4] += np.uint64(late)
    found = trace.timeline_of([(one, made[0]), (other, made[1])])
    gates = [
        min(span.marks[trace.START] for span in found.spans if (span.gpu, span.op, span.layer) == (gpu, "gate_up", 1))
        for gpu in (0, 1)
    ]
    assert abs(gates[0] - gates[1]) <= found.doubt_ns


def test_a_gpu_without_marks_leaves_the_clocks_alone() -> None:
    one, other = programs_of("llama-of-4", sms=4, tensor_parallel_size=2)
    found = trace.timeline_of([(one, marks(one)), (other, np.zeros_like(marks(other)))])
    assert (found.gpus, found.doubt_ns, {span.gpu for span in found.spans}) == (2, 0, {0})
