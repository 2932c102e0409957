"""Plans and models that a server takes, and the sentences about those that it does not."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kernels.hardware import GPUS
from kernels.plan import Plan, PlannedOp, Serving
from kernels.runners.plan_files import PlanRefused
from kernels.server.execution.building import (
    build_backends,
    build_engine,
    drop_foreign_measurements,
    plan_refusal,
)
from kernels.server.execution.served_plans import plan_sentence, precision_refusal
from kernels.server.execution.server_config import ServerConfig, drop_other_sizes, server_config
from kernels.server.execution.shapes import default_decodes, pass_shapes, smallest_holding
from kernels.server.execution.sizing import RequestedSize
from kernels.server.scheduler.batching import SchedulerLimits
from kernels.server.scheduler.requests import Request, ScheduledTokens, Step
from kernels.server.spec import Spec
from kernels.server.starting import Phases
from tests.kernels.runners.engine_models import load

ROOT = Path(__file__).parents[3]
CASE = {"op": "linear", "m": 1, "n": 64, "k": 64, "dtype": "bf16", "weights": "fp8", "epilogue": "none"}

FACTS = {"device": "NVIDIA H200", "driver": "590.2", "versions": {"torch": "2.11"}}
EXPECTED = {
    "metric": "e2e", "unit": "ms", "value": 1, "low": 1, "high": 1, "device": "NVIDIA H200", "batch": 1,
    "prompt_tokens": 8, "output_tokens": 8,
}  # fmt: skip


def plan(**kwargs) -> Plan:
    return Plan(**({"model_digest": "0" * 64, "gpu": "h200", "runner": "kernels"} | kwargs))


@pytest.mark.parametrize(
    ("given", "gpu", "said"),
    [
        ({"runner": "megakernel", "options": {"weights": "nvfp4"}}, "h200", "megakernel in nvfp4 rounds weights"),
        ({"ops": [PlannedOp(op="linear", case=CASE | {"weights": "int8"}, variant="int8_dynamic_cpu")]}, "h200",
         "rounds"),
        ({}, "cpu", "made for h200"),
        ({"expected": EXPECTED | {"driver": "580.1"}}, "h200", "driver 580.1 and this is 590.2"),
        ({"expected": EXPECTED | {"torch": "2.10"}}, "h200", "torch 2.10 and this is 2.11"),
        ({"expected": EXPECTED | {"device": "NVIDIA H100"}}, "h200", "device NVIDIA H100"),
        ({"ops": [PlannedOp(op="linear", case=CASE, variant="skinny_fp8")]}, "h200", "skinny_fp8 rounds weights"),
    ],
)  # fmt: skip
def test_a_plan_that_cannot_be_served_is_refused_in_a_sentence(given: dict, gpu: str, said: str) -> None:
    assert said in (plan_refusal(plan(**given), GPUS[gpu], FACTS) or "")


def test_a_plan_for_this_device_is_served() -> None:
    made = plan(expected=EXPECTED | {"driver": "590.2", "torch": "2.11"})
    int8 = PlannedOp(op="linear", case=CASE | {"weights": "int8"}, variant="skinny_int8")
    int4 = PlannedOp(op="linear", case=CASE | {"weights": "int4_zero"}, variant="skinny_int4_zero")
    lower = [plan(runner="megakernel", options={"weights": weights}) for weights in ("int8", "int4")]
    for value in (made, plan(ops=[int8]), plan(ops=[int8, int4]), *lower):
        assert plan_refusal(value, GPUS["h200"], FACTS) is None
    assert "bf16, int8 weights and 8 requests" in plan_sentence(
        plan(ops=[int8], serving=Serving(max_num_seqs=8)), "bf16", 8
    )
    for runner in ("eager", "compiled", "kernels", "megakernel"):
        assert plan_refusal(plan(gpu="cpu", runner=runner), GPUS["cpu"], FACTS) is None


def test_fp8_is_served_where_the_model_was_stored_in_it() -> None:
    """Its products and its megakernel hold the checkpoint's own codes."""
    ops = [
        PlannedOp(op="linear", case=CASE | {"m": m, "weights": "fp8"}, variant=variant)
        for m, variant in ((8, "skinny_fp8"), (32, "small_gemm_fp8"))
    ]
    kernels, megakernel = (
        plan(ops=ops, options={"weights": "fp8"}),
        plan(runner="megakernel", options={"weights": "fp8"}),
    )
    assert plan_refusal(kernels, GPUS["h200"], FACTS, "fp8") is None
    assert "skinny_fp8 rounds weights" in (plan_refusal(kernels, GPUS["h200"], FACTS) or "")
    assert plan_refusal(megakernel, GPUS["h200"], FACTS, "fp8") is None
    assert "megakernel in fp8 rounds weights" in (plan_refusal(megakernel, GPUS["h200"], FACTS) or "")


def test_integers_are_served_on_several_gpus_and_where_a_kernel_multiplies_them() -> None:
    for weights, served in (("int8", True), ("int4_zero", True), ("fp8", False)):
        sharded = plan(runner="megakernel", options={"weights": weights}, tensor_parallel_size=2)
        assert (precision_refusal(sharded) is None) == served, weights
    with pytest.raises(ValueError, match=r"--weights: int8 is not served on .*, only Hopper GPUs have its products"):
        build_backends(load("llama"), ServerConfig(RequestedSize(64, 4), weights="int8"))


def test_a_server_names_what_it_takes_of_a_plan_and_of_the_megakernel() -> None:
    served_plan = plan(serving=Serving(max_num_seqs=8))
    for dtype, running in (("bf16", 8), ("bf16", 4), ("fp32", 8), ("fp32", 4)):
        taken = plan_sentence(served_plan, dtype, running).partition(", and")[0]
        assert ("bf16" in taken, "8 requests at once" in taken) == (dtype == "bf16", running == 8)
    assert "at once" not in plan_sentence(plan(), "bf16", 8)
    measured = plan(serving=Serving(megakernel_up_to=2))
    batches = [ServerConfig(RequestedSize(64, most), measured).max_megakernel_batch for most in (1, 64)]
    assert batches == [1, 2]
    for value in (None, plan()):
        assert ServerConfig(RequestedSize(64, 64), value).max_megakernel_batch == 8
    assert ServerConfig(RequestedSize(64, 64), exclude=["megakernel"]).max_megakernel_batch == 0


def test_the_operators_options_go_before_the_plans_and_these_before_the_defaults() -> None:
    """The engine and the process that compiles ahead of it both resolve these."""
    serving = Serving(max_num_seqs=8, kv_bytes=2**20, graph_rows=[1, 8], exclude=["skinny"], kv_cache_dtype="fp8")
    options = {"weights": "int8"}
    made = plan(runner="megakernel", dtype="fp16", serving=serving, tensor_parallel_size=2, options=options)
    resolved = server_config(Spec("m", max_num_seqs=8), made)
    assert resolved.size == RequestedSize(None, 8, 2**20, None, "fp8")
    assert (resolved.dtype, resolved.tensor_parallel_size, resolved.weights) == ("fp16", 2, "int8")
    assert (resolved.exclude, resolved.decodes, resolved.ops) == (["megakernel", "skinny"], [1, 8], ())
    larger = server_config(Spec("m", max_num_seqs=64, dtype="bf16", weights="int4", kv_cache_dtype="auto"), made)
    assert larger.size == RequestedSize(None, 64, None, None, "auto")
    assert (larger.dtype, larger.weights, larger.exclude, larger.decodes) == ("bf16", "int4", ["skinny"], [])
    with pytest.raises(ValueError, match="--tensor-parallel-size: 4, and the plan is for 2 GPUs"):
        server_config(Spec("m", tensor_parallel_size=4), made)
    assert [server_config(Spec("m"), None, device).dtype for device in ("cuda", "cpu")] == ["bf16", "fp32"]


def test_what_a_server_chose_is_taken_where_it_was_measured_and_measured_again_elsewhere(capsys) -> None:
    here: dict[str, str | None] = {"device": "NVIDIA H200", "driver": "590.2", "torch": "2.11"}
    times = {1: {"kernels": 0.99, "megakernel": 0.57}}
    made = Serving(basis="measured", max_num_seqs=8, kv_bytes=2**20, megakernel_up_to=1, token_ms=times, **here)
    read = Serving.model_validate_json(made.model_dump_json())
    assert drop_foreign_measurements(read, here) == made
    assert drop_foreign_measurements(None, here) is None
    asked = Spec("m", max_model_len=read.max_model_len, max_num_seqs=8)
    assert drop_other_sizes(read, asked) == read
    for other in (replace(asked, max_num_seqs=256), replace(asked, max_model_len=512)):
        larger = drop_other_sizes(read, other)
        assert (larger.kv_bytes, larger.megakernel_up_to) == (None, 1)
    again = drop_foreign_measurements(read, here | {"driver": "600.1"})
    assert (again.megakernel_up_to, again.kv_bytes, again.max_num_seqs) == (None, None, 8)
    assert "measured with driver 590.2, this host has 600.1: measuring again" in capsys.readouterr().err
    fp8 = Serving.model_validate_json(made.model_copy(update={"kv_cache_dtype": "fp8"}).model_dump_json())
    for kept in (
        drop_foreign_measurements(fp8, here | {"driver": "600.1"}),
        drop_other_sizes(fp8, replace(asked, max_num_seqs=256)),
    ):
        assert kept.kv_cache_dtype == "fp8"
    without = drop_foreign_measurements(read.model_copy(update={"megakernel_up_to": 0}), here | {"driver": "600.1"})
    assert without.megakernel_up_to == 0
    assert set(Serving().model_dump()) == {
        "basis", "max_model_len", "max_num_seqs", "kv_bytes", "graph_rows", "megakernel_up_to",
    }  # fmt: skip


def test_a_plan_of_another_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(plan(gpu="cpu").model_dump_json())
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps({"model_type": "llama"}))
    with pytest.raises(PlanRefused, match="the plan is for the model 000000000000"):
        build_engine(Spec(str(tmp_path / "model"), plan=str(path), device="cpu"), Phases())


def test_a_model_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from workbench.cli import app; app()"]
    called = [*command, "serve", "--model", str(tmp_path / "none")]
    done = subprocess.run(called, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert "is no directory" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_plan_names_the_passes_that_a_server_captures_by_itself() -> None:
    assert default_decodes(64) == [1, 2, 4, 8, 16, 32, 48, 64]
    assert default_decodes(12) == [1, 2, 4, 8, 12]
    limits = SchedulerLimits(pages=100, page_size=16, max_num_seqs=64, max_model_len=256, max_num_batched_tokens=64)
    assert pass_shapes(limits) == pass_shapes(limits, default_decodes(64))


def test_a_pass_with_chunks_is_hardly_longer_than_what_it_holds() -> None:
    limits = SchedulerLimits(
        pages=100, page_size=16, max_num_seqs=64, max_model_len=4096, max_num_batched_tokens=2048, chunk_rows=8
    )
    result, request = pass_shapes(limits), Request("a", [1], 1)
    assert len(result) == 48  # as docs/serving.md says

    def rows(decodes: int, tokens: int) -> int:
        parts = [ScheduledTokens(request, 0, value, True, 1) for value in (1, tokens)]
        return smallest_holding(result, Step([parts[0]] * decodes, [parts[1]])).rows

    assert [rows(32, tokens) for tokens in (128, 1100, 2016)] == [192, 1280, 2048]
    assert [rows(0, tokens) for tokens in (128, 1100, 2048)] == [128, 1280, 2048]
    for decodes in (0, 20, 32, 64):
        counted = next(value for value in (0, 32, 64) if value >= decodes)
        for tokens in range(32, limits.prefill_budget(decodes) + 1):
            assert rows(decodes, tokens) < max(1.5 * (counted + tokens), 65)
