"""Chrome traces: read as a stream, every kernel finds its operation, graph replays too."""

import gzip
import json
import tracemalloc
from pathlib import Path

import pytest

from workers.documents.measurement import Ceilings
from workers.traces import attribution, graph_replays, reader, table
from workers.traces.labels import TraceScope
from workers.traces.op_counter import CountedOp

CEILINGS = Ceilings(read_tbps=4.0, copy_tbps=4.0, matrix_tflops={"bf16": 600.0}, launch_us=2.0)


def event(cat: str, name: str, ts: float, dur: float = 0, tid: int = 1, **args) -> dict:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args}


def scope(kind: str, name: str, owner: str, ts: float, dur: float) -> dict:
    return event("user_annotation", TraceScope(kind, name, owner).record, ts, dur)


def write(path: Path, events: list[dict]) -> Path:
    with gzip.open(path, "wt") as stream:
        json.dump({"schemaVersion": 1, "traceEvents": events}, stream)
    return path


def attributed(folder: Path, *events: dict) -> list[attribution.DeviceWork]:
    return attribution.attribute(reader.read(write(folder / "t.json.gz", list(events))))


def replayed(*names: str) -> list[dict]:
    kernels = [event("kernel", name, 10 + n, 1, tid=7, correlation=5) for n, name in enumerate(names)]
    return [event("cuda_runtime", "cudaGraphLaunch", 0, 2, correlation=5), *kernels]


def test_kernels_belong_to_the_scope_and_operation_that_launched_them(tmp_path):
    work = attributed(
        tmp_path,
        event("kernel", "late_gemm", 900, 40, tid=7, correlation=11),
        event("kernel", "softmax", 950, 10, tid=7, correlation=12),
        event("kernel", "argmax", 990, 5, tid=7, correlation=13),
        event("kernel", "orphan", 999, 1, tid=7, correlation=99),
        scope("step", "prefill", "", 0, 100),
        scope("own", "model", "LlamaModel", 1, 98),
        scope("unit", "linear q_proj", "Linear", 10, 20),
        event("cpu_op", "aten::linear", 11, 15),
        event("cpu_op", "aten::mm", 12, 10),
        event("cuda_runtime", "cudaLaunchKernel", 13, 2, correlation=11),
        scope("own", "self_attn", "LlamaAttention", 40, 30),
        event("cpu_op", "aten::softmax", 45, 10),
        event("cuda_runtime", "cudaLaunchKernel", 47, 2, correlation=12),
        event("cpu_op", "aten::argmax", 120, 10),
        event("cuda_runtime", "cudaLaunchKernel", 122, 2, correlation=13),
    )
    named_work = {item.kernel: (item.label, item.phase) for item in work}
    assert named_work == {
        "late_gemm": ("linear q_proj", "prefill"),
        "softmax": ("attention", "prefill"),
        "argmax": ("sampling", "prefill"),
        "orphan": ("unattributed", "prefill"),
    }


def test_without_kernels_an_outermost_operation_owns_its_time_once(tmp_path):
    inner = [event("cpu_op", "aten::linear", 11, 20), event("cpu_op", "aten::mm", 12, 10)]
    (work,) = attributed(tmp_path, scope("unit", "linear q_proj", "Linear", 10, 30), *inner)
    assert (work.label, work.ms) == ("linear q_proj", 0.02)


def test_a_large_trace_is_never_held_whole(tmp_path):
    path = tmp_path / "big.json"
    line = json.dumps(event("python_function", "x" * 1000, 1, 1))
    with path.open("w") as stream:
        stream.write('{"traceEvents": [' + ",".join([line] * 8_000) + "]}")
    assert path.stat().st_size > 8e6
    tracemalloc.start()
    assert sum(1 for _ in reader.events(path)) == 8_000
    assert reader.read(path).kernels == []
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2e6


def test_a_shortened_trace_still_opens_and_one_that_is_cut_off_is_an_error(tmp_path):
    path = write(tmp_path / "t.json.gz", [event("kernel", f"k{index}", index, 1) for index in range(1000)])
    short = reader.shorten(path, tmp_path / "short.json.gz", 20_000)
    kept = list(reader.events(short))
    assert 50 < len(kept) < 1000
    assert kept[0]["name"] == "k0"
    path = tmp_path / "cut.json"
    path.write_text('{"traceEvents": [{"ph": "X", "cat"')
    with pytest.raises(reader.ijson.JSONError):
        reader.read(path)


def counted(name: str, phase: str) -> CountedOp:
    return CountedOp(name, phase, 1.0, 1.0, "1×1×1", "bf16")


LAYER = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
PACKED_KERNELS = [
    ("triton_red_fused_embedding_mean_rsqrt_0", "norm and residual"),
    ("nvjet_tst_64x8_64x16_qkv", "linear q_proj, k_proj, v_proj"),
    ("void cublasLt::splitKreduce_kernel<32>", "linear q_proj, k_proj, v_proj"),
    ("triton_poi_fused_cat_index_copy_neg_1", "rope and kv cache update"),
    ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7", "attention"),
    ("triton_red_fused_softmax_2", "attention"),
    ("nvjet_tst_o", "linear o_proj"),
    ("nvjet_tst_gu", "linear gate_proj, up_proj"),
    ("triton_poi_fused_mul_silu_3", "gated activation"),
    ("nvjet_tst_down", "linear down_proj"),
    ("nvjet_tst_head", "lm_head"),
    ("triton_red_fused_argmax_4", "sampling"),
]


def test_replayed_kernels_are_named_by_their_place_and_their_name(tmp_path):
    launches = [event("cuda_runtime", "cudaGraphLaunch", 10 * step, 2, correlation=step) for step in range(3)]
    kernels = [
        event("kernel", name, 100 * step + index, 1, tid=7, correlation=step)
        for step in range(3)
        for index, (name, _) in enumerate(PACKED_KERNELS)
    ]
    once = [f"linear {name}" for name in LAYER] + ["lm_head"]
    counts = [counted(name, "prefill") for name in once] + [counted(name, "decode") for name in 2 * once]
    named_work = graph_replays.name_replays(attributed(tmp_path, *launches, *kernels), counts)
    assert [work.phase for work in named_work].count("prefill") == len(PACKED_KERNELS)
    assert [work.label for work in named_work] == [expected for _, expected in PACKED_KERNELS] * 3


MIXTURE = [
    ("nvjet_tst_qkv", "linear q_proj, k_proj, v_proj"),
    ("fmha_cutlassF", "attention"),
    ("nvjet_tst_o", "linear o_proj"),
    ("nvjet_tst_router", "linear router"),
    ("_route_tokens", "routing"),
    ("_order_rows", "routing"),
    ("grouped", "unattributed"),
    ("_combine_rows", "routing"),
    ("nvjet_tst_head", "lm_head"),
]
"""`grouped` gets its name from the variant that declares it."""


@pytest.mark.parametrize("product", ["grouped", "cutlass_grouped_gemm"])
def test_replays_of_a_mixture_are_named_whether_names_tell_its_products_or_not(tmp_path, product):
    kernels = [(product if name == "grouped" else name, named_work) for name, named_work in MIXTURE]
    once = ["linear q_proj", "linear k_proj", "linear v_proj", "linear o_proj", "linear router", "experts", "lm_head"]
    work = attributed(tmp_path, *replayed(*(name for name, _ in kernels)))
    named_work = graph_replays.name_replays(work, [counted(name, "prefill") for name in once])
    expected = ["experts" if name == "cutlass_grouped_gemm" else wanted for name, wanted in kernels]
    assert [piece.label for piece in named_work] == expected


INVENTED = ["frobnicate", "void enormous_kernel<float>", "cosmos_v2", "business_logic_kernel", "photocopying"]


def test_replays_that_fit_no_sequence_are_named_by_kind_and_invented_ones_not_at_all(tmp_path):
    counts = [counted(f"linear {name}", "prefill") for name in LAYER]
    named_work = graph_replays.name_replays(attributed(tmp_path, *replayed("nvjet_tst_64", "mystery")), counts)
    assert [work.label for work in named_work] == ["linear", "unattributed"]
    named_work = graph_replays.name_replays(attributed(tmp_path, *replayed(*INVENTED)), [])
    assert [work.label for work in named_work] == ["unattributed"] * len(INVENTED)
    assert table.attributed_share(table.rows(named_work, [], CEILINGS, table.TraceScale())) == 0


def test_replays_of_a_model_that_does_not_generate_are_its_forward_pass(tmp_path):
    copied = event("kernel", "Memcpy HtoD", 5, 1, tid=7, correlation=6)
    counts = [counted(f"linear {name}", "forward") for name in ("fc1", "fc2")]
    named_work = graph_replays.name_replays(attributed(tmp_path, copied, *replayed("nvjet_a", "nvjet_b")), counts)
    assert {work.phase for work in named_work} == {"forward"}
    assert [work.label for work in named_work[1:]] == ["linear fc1", "linear fc2"]


GENERIC = {
    "x_elementwise_kernel": "elementwise",
    "x_fill": "copies",
    "my_copy_kernel": "copies",
    "rows_gather": "copies",
    "Memcpy DtoD (Device -> Device)": "copies",
    "triton_poi_fused_add_7": "elementwise",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>": "elementwise",
}


def test_kernels_whose_names_tell_their_kind_alone_are_not_attributed(tmp_path):
    """In a CUDA graph; where a module or a function launched them, their place tells the operation."""
    named = event("kernel", "triton_red_fused_argmax_4", 50, len(GENERIC), tid=7, correlation=5)
    named_work = graph_replays.name_replays(attributed(tmp_path, *replayed(*GENERIC), named), [])
    assert [piece.label for piece in named_work] == [*GENERIC.values(), "sampling"]
    share = table.attributed_share(table.rows(named_work, [], CEILINGS, table.TraceScale()))
    assert share == pytest.approx(0.5)

    events = [scope("step", "decode", "", 0, 100), scope("unit", "rope", "", 10, 80)]
    for at, name in enumerate(GENERIC):
        events.append(event("cuda_runtime", "cuLaunchKernel", 20 + at, 1, correlation=at))
        events.append(event("kernel", name, 200 + at, 1, tid=7, correlation=at))
    work = attributed(tmp_path, *events)
    assert {piece.label for piece in work} == {"rope"}
    assert table.attributed_share(table.rows(work, [], CEILINGS, table.TraceScale())) == 1
