"""One plain sentence for each bottleneck."""

import pytest

from workers.documents.measurement import Ceilings
from workers.documents.profile import OpRow
from workers.traces.attribution import DeviceWork
from workers.traces.bottlenecks import HostPace, RequestFacts, bottlenecks, paces, waits
from workers.traces.op_counter import CountedOp
from workers.traces.table import TraceScale, add_idle, attributed_share, beyond, rows

CEILINGS = Ceilings(read_tbps=4.0, copy_tbps=4.0, matrix_tflops={"bf16": 600.0}, launch_us=2.0)


def row(op: str, bound: str, ms: float = 10.0, floor_ms: float | None = 2.0, **changes) -> OpRow:
    fields = {"phase": "decode", "kernel": "k", "share": 0.5, "calls": 100, "least_bytes": 8e6, "headroom_ms": 8.0}
    return OpRow(op=op, bound=bound, ms=ms, floor_ms=floor_ms, **(fields | changes))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (row("idle", "idle"), "between 4,000 launches"),
        (row("linear q_proj", "memory"), "0.8 GB/s of the 4,000 GB/s"),
        (row("linear q_proj", "memory", floor_ms=9.0), "90 % of the roofline already"),
        (row("linear q_proj", "compute", phase="prefill"), "20 % of the measured matrix rate"),
        (row("norm input_layernorm", "launch", ms=0.3), "an empty launch takes 2.0 µs"),
        (row("rope", "launch", ms=1.71, launches=400), "400 kernel launches in 100 calls take 4.3 µs each"),
        (row("attention", "memory", kernel="softmax_warp_forward"), "FlashAttention"),
        (row("attention", "memory", kernel="flash_fwd_splitkv"), "reads the KV cache at 20 %"),
        (row("attention", "memory", kernel="flash_fwd_splitkv", floor_ms=0.01), "reads the KV cache at <1 % of the"),
        (row("kv cache update", "memory"), "copies the whole cache"),
        (row("mlp (SlowMLP) sort", "memory", floor_ms=None), "own code of mlp"),
        (row("mlp (SlowMLP) sort", "memory", floor_ms=None, calls=1), ": 1 call of k in the model's own code of mlp"),
        (row("convolution projection", "compute", phase="forward"), "20 % of the measured matrix rate"),
        (row("experts", "memory"), "a grouped GEMM made for few rows would help"),
        (row("experts", "compute", phase="prefill"), "a better grouped GEMM would help"),
        (row("sampling", "memory", floor_ms=None), "bookkeeping around the model"),
        (row("elementwise", "memory", floor_ms=None), "no roofline floor"),
        (row("unattributed", "launch", kernel="frobnicate"), "of which frobnicate takes longest"),
    ],
)
def test_a_bottleneck_says_what_it_costs_and_what_would_help(found, words):
    (named,) = bottlenecks([found], RequestFacts(CEILINGS, True, 4000))
    assert words in named.sentence
    assert f"{found.ms:.3g} ms, 50 % of the request" in named.sentence


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (row("idle", "idle"), "recording the pass as one CUDA graph takes the host out of the way."),
        (row("norm layernorm_before", "launch", ms=0.3), "fusing it with its neighbours could save up to"),
        (row("convolution projection", "compute"), "20 % of the measured matrix rate"),
        (row("input and output", "memory", floor_ms=None), "makes the model's input and reads its answer"),
        (row("embeddings (ViTEmbeddings) cat", "memory", floor_ms=None, calls=1), ": 1 call of k in the model's own"),
    ],
)
def test_a_model_that_does_not_generate_is_not_advised_to_make_tokens_faster(found, words):
    forward = found.model_copy(update={"phase": "forward"})
    (named,) = bottlenecks([forward], RequestFacts(CEILINGS, True, 4000, generates=False))
    assert words in named.sentence
    assert not any(value in named.sentence for value in ("megakernel", "token", "step"))


def test_bottlenecks_are_ranked_and_small_ones_left_out():
    table = [row("a", "memory", ms=1.0, share=0.01), row("b", "memory", ms=5.0), row("c", "memory", ms=9.0)]
    ranked = [(bottleneck.rank, bottleneck.op) for bottleneck in bottlenecks(table, RequestFacts(CEILINGS, True, 1))]
    assert ranked == [(1, "c"), (2, "b")]


def test_the_table_joins_time_and_floor_and_scales_decode_steps():
    counted = [CountedOp("linear q_proj", "decode", 2e9, 4e9, "1×2×3", "bf16") for _ in range(2)]
    work = [
        DeviceWork(0.0, "linear q_proj", "decode", "gemv", 2.0, 1),
        DeviceWork(1.0, "linear q_proj", "decode", "gemv", 2.0, 2),
        DeviceWork(2.0, "sampling", "decode", "argmax", 0.001, 3),
    ]
    first, last = rows(work, counted, CEILINGS, TraceScale(decode=10))
    assert (first.ms, first.calls, first.floor_ms, first.headroom_ms) == (40.0, 20, 20.0, 20.0)
    assert first.bound == "memory"
    assert (last.op, last.bound) == ("sampling", "launch")
    shares = add_idle([first, last], 70.0)
    assert [share.op for share in shares] == ["linear q_proj", "idle", "sampling"]
    assert sum(share.share for share in shares) == pytest.approx(1)
    work = [DeviceWork(0.0, "lm_head", "decode", "gemv", 3.0, 1), DeviceWork(1.0, "unattributed", "", "odd", 1.0, 2)]
    assert attributed_share(rows(work, [], CEILINGS, TraceScale())) == pytest.approx(0.75)
    counted = [CountedOp("rope", "decode", 1.0, 1.0, "1", "bf16")]
    work = [DeviceWork(float(at), "rope", "decode", "mul", 0.004, at) for at in range(4)]
    (rope,) = rows(work, counted, CEILINGS, TraceScale(decode=10))
    assert (rope.calls, rope.launches, rope.bound) == (10, 40, "launch")


@pytest.mark.parametrize(("bound", "phase"), [("memory", "decode"), ("compute", "prefill")])
def test_a_saving_behind_the_host_is_told_from_one_that_counts_now(bound, phase):
    table = [row("linear q_proj", bound, phase=phase)]
    waiting = waits(table, {phase: 40.0})
    assert waiting == {phase: 0.75}
    (behind,) = bottlenecks(table, RequestFacts(CEILINGS, True, 9, waiting))
    assert "8 ms once the host is out of the way, next to nothing now" in behind.sentence
    assert "waits for the host 75 %" in behind.sentence
    (now,) = bottlenecks(table, RequestFacts(CEILINGS, True, 9, waits(table, {phase: 10.1})))
    assert "could save 8 ms;" in now.sentence


def fused_says(table: list[OpRow], wall_ms: float, on_gpu: bool = True) -> str:
    wall = {"decode": wall_ms}
    facts = RequestFacts(CEILINGS, on_gpu, 9, waits(table, wall), paces=paces(table, wall))
    return bottlenecks(table[:1], facts)[0].sentence.partition("or a megakernel ")[2]


def test_what_fusing_launches_saves_now_is_told_from_what_it_saves_later():
    """A phase of 40 ms with 1,000 launches that keep the device busy for 10 ms: the host takes 40 µs for each."""
    launches = row("rope", "launch", ms=1.71, floor_ms=None, headroom_ms=None, launches=400)
    table = [launches, row("linear q_proj", "memory", ms=8.29, launches=600)]
    assert paces(table, {"decode": 40.0}) == {"decode": HostPace(pytest.approx(0.04), pytest.approx(30))}
    both = fused_says(table, 40.0)
    assert all(
        value in both for value in ("up to 16 ms now", "40 µs that the host takes", "and 1.71 ms of the device's")
    )
    assert paces(table, {"decode": 10.5}) == {}
    assert fused_says(table, 10.5) == "could save up to 1.71 ms."
    known = launches.model_copy(update={"headroom_ms": 1.5})
    assert fused_says([known, table[1]], 40.0, on_gpu=False) == "could save up to 1.5 ms."


def test_a_row_below_its_floor_is_flagged_and_no_argument():
    """10 GB in 1 ms where the memory gives 4 in that time: no floor, no share, no "already"."""
    counted = [CountedOp("linear q_proj", "decode", 2e9, 1e10, "1×2×3", "bf16")]
    work = [DeviceWork(0.0, "linear q_proj", "decode", "gemv", 1.0, 1)]
    (result,) = rows(work, counted, CEILINGS, TraceScale(decode=10))
    assert (result.floor_ms, result.headroom_ms) == (None, None)
    assert result.doubt.startswith("Its 10 ms lie below the floor of 25 ms ")
    (named,) = bottlenecks([result], RequestFacts(CEILINGS, True, 4000))
    assert "its 10 ms lie below the floor of 25 ms " in named.sentence
    assert "%" not in named.sentence.split(": ", 1)[1]


def test_more_time_on_the_device_than_a_request_takes_is_flagged():
    assert beyond(60.0, 58.0) == ""
    text = beyond(133.0, 58.0)
    assert "133 ms, more than the 58 ms" in text
    (named,) = bottlenecks([row("c", "memory", ms=90.0)], RequestFacts(CEILINGS, True, 1, doubtful=True))
    assert "50 % of what was traced" in named.sentence
    assert "90" not in named.sentence
