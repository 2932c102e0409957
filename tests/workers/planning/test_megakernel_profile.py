"""What goes on inside a plan's megakernel: its row of the profile divided by kind of instruction."""

import pytest
import torch

from kernels.megakernel.host import record, trace
from kernels.megakernel.host.token_breakdown import token_breakdown
from kernels.megakernel.program.instructions import OP_NAMES
from tests.kernels.megakernel.recorded import llama, made_up
from tests.kernels.megakernel.tiny_models import programs_of
from workers.documents.measurement import Ceilings
from workers.documents.profile import OpRow, PlanProfile
from workers.planning import megakernel_profile
from workers.planning.megakernel_profile import BUILD_SECONDS, RECORD_SECONDS, rows_of, with_breakdown

STEPS, READ_TBPS = 63, 4.39
CEILINGS = Ceilings(read_tbps=READ_TBPS, copy_tbps=3.9, matrix_tflops={"bf16": 700.0}, launch_us=4.0)
PROMPT = torch.ones(1, 128, dtype=torch.int64)
ROW = OpRow(
    op="megakernel", phase="decode", kernel="decode", ms=36.3, share=0.95, calls=13, launches=13, bound="memory"
)
OTHER = OpRow(
    op="linear", phase="prefill", kernel="small_gemm", ms=1.9, share=0.05, calls=61, launches=61, bound="memory"
)


def profile() -> PlanProfile:
    """That of the committed run of Llama-3.2-1B, in two rows."""
    return PlanProfile(
        request_ms=38.2, device_ms=38.2, launches=193, attributed_share=1, rows=[ROW, OTHER], sentence="A request."
    )


@pytest.fixture
def recorded(monkeypatch):
    """The recorded token of an H200 in place of a launch; nothing has to be compiled."""
    asked = []

    def timeline(runner, prompt, tokens):
        asked.append((runner, prompt, tokens))
        return [llama()]

    monkeypatch.setattr(record, "timeline", timeline)
    monkeypatch.setattr(record, "unmade", lambda runner: [])
    return asked


def test_the_row_is_divided_and_the_times_still_add_up(recorded):
    result = with_breakdown(profile(), "runner", PROMPT, STEPS, CEILINGS, 60)
    assert recorded == [("runner", PROMPT, STEPS + 1)]
    assert OTHER in result.rows
    inside = [row for row in result.rows if row is not OTHER]
    assert [row.ms for row in result.rows] == sorted((row.ms for row in result.rows), reverse=True)
    assert sum(row.ms for row in inside) == pytest.approx(ROW.ms)
    assert sum(row.share for row in inside) == pytest.approx(ROW.share)
    by = {row.op: row for row in inside}
    assert set(by) == {
        "megakernel, q, k and v projections", "megakernel, q, k and v projections: waits for its input",
        "megakernel, attention", "megakernel, output projection", "megakernel, gate and up projections",
        "megakernel, gate and up projections: waits for its input", "megakernel, down projection",
        "megakernel, down projection: waits for its input", "megakernel, LM head",
        "megakernel, LM head: waits for its input", "megakernel, between instructions",
    }  # fmt: skip
    gate = by["megakernel, gate and up projections"]
    assert (gate.calls, gate.phase, gate.launches, gate.headroom_ms) == (16 * STEPS, "decode", None, None)
    assert gate.ms == pytest.approx(ROW.ms * 0.2652, rel=1e-3)
    assert gate.least_bytes == 2 * 2 * 2048 * 8192 * 16 * STEPS
    assert gate.floor_ms == pytest.approx(gate.least_bytes / READ_TBPS / 1e9)
    waits = by["megakernel, gate and up projections: waits for its input"]
    assert (waits.least_bytes, waits.floor_ms) == (None, None)
    assert (result.request_ms, result.device_ms, result.launches) == (38.2, 38.2, 193)
    assert set(megakernel_profile.NAMES) == set(OP_NAMES), "words of every instruction"
    program, raw = llama()
    shares = token_breakdown(trace.timeline_of([(program, raw)]), [program], 160)
    floor = sum(row.floor_ms or 0 for row in rows_of(ROW, shares, STEPS, READ_TBPS))
    assert floor == pytest.approx(shares.read_bytes * STEPS / READ_TBPS / 1e9), "that of the token"


@pytest.mark.parametrize(("batch", "ranks"), [(1, 2), (2, 1), (1, 4)])
def test_several_gpus_are_said_and_batches_are_divided_as_well(monkeypatch, batch, ranks):
    programs = programs_of("llama-of-4", sms=4, tensor_parallel_size=ranks, batch=batch, sliced=batch > 1)
    monkeypatch.setattr(record, "timeline", lambda *_: [(program, made_up(program)) for program in programs])
    monkeypatch.setattr(record, "unmade", lambda runner: [])
    result = with_breakdown(profile(), None, PROMPT.repeat(batch, 1), STEPS, CEILINGS, 60)
    assert sum(row.ms for row in result.rows) == pytest.approx(ROW.ms + OTHER.ms)
    names = {row.op for row in result.rows}
    assert ("megakernel, residual" in names) == (batch > 1)
    assert {"megakernel, next token", "megakernel, next token: waits for its input"} <= names
    assert (f"the mean of {ranks} GPUs" in result.sentence) == ("GB on each GPU" in result.sentence) == (ranks > 1)


def test_without_time_for_the_build_the_row_stays_whole_and_says_so(monkeypatch):
    monkeypatch.setattr(record, "unmade", lambda runner: ["a build"])
    monkeypatch.setattr(record, "timeline", lambda *_: pytest.fail("it must not be recorded"))
    result = with_breakdown(profile(), None, PROMPT, STEPS, CEILINGS, 20.4)
    assert result.rows == [ROW, OTHER]
    assert result.sentence.startswith("A request. ")
    assert result.sentence.endswith(" take 23 s, and 20 s are left.")
    assert BUILD_SECONDS + RECORD_SECONDS == 23


@pytest.mark.parametrize(
    "error", [RuntimeError("decode.cu: too many registers\nmore"), trace.BadTrace("no marks"), OSError("disk")]
)
def test_a_build_that_fails_leaves_the_row_whole_and_says_so(monkeypatch, error):
    def fails(*_):
        raise error

    monkeypatch.setattr(record, "unmade", lambda runner: [])
    monkeypatch.setattr(record, "timeline", fails)
    result = with_breakdown(profile(), None, PROMPT, STEPS, CEILINGS, 60)
    assert result.rows == [ROW, OTHER]
    assert f"({str(error).splitlines()[0]} ({type(error).__name__}))" in result.sentence
