"""The plan is profiled as well as the baseline: what is left, where, and the floor."""

import json

import pytest
import torch

from kernels import registry, runners
from kernels.plan import Plan
from kernels.runners.compiled import CompiledRunner
from tests.workers.conftest import TINY, context_of, plan_of, stage_input
from workers.documents.stages import Results
from workers.harness.context import Context
from workers.measuring.served_model import load
from workers.planning.plan_profile import OPERATIONS, _own_name, _result, profile_plan
from workers.stages import profile
from workers.traces import attribution, reader
from workers.traces.attribution import DeviceWork
from workers.traces.windows import MAX_STEPS, TracedWindows


@pytest.fixture(scope="module")
def before(tmp_path_factory, known_ceilings):
    return profile.run(stage_input("profile"), context_of(TINY, tmp_path_factory.mktemp("profile")))


def test_the_plans_profile_says_what_is_left_and_the_floor(tmp_path, before):
    context = context_of(TINY, tmp_path)
    document = stage_input("verify", results=Results(profile=before))
    plan = plan_of(document)
    runner = runners.apply(load(document, context), plan)
    left = profile_plan(runner, plan, load(document, context), document, torch.ones(1, 16, dtype=torch.int64), context)
    rows, old = ({(row.op, row.phase): row for row in value.rows} for value in (left, before))
    assert left.attributed_share >= 0.95
    assert rows["linear down_proj", "decode"].calls == 7
    product, same = (value["linear down_proj", "decode"] for value in (rows, old))
    assert (product.flops, product.least_bytes, product.floor_ms) == (same.flops, same.least_bytes, same.floor_ms)
    assert left.floor_ms == pytest.approx(sum(row.floor_ms or 0 for row in before.rows))
    assert "A request of the plan takes" in left.sentence
    assert "cannot take less than" in left.sentence
    assert [left.trace, left.timeline.file] == context.saved[-2:]


def test_a_compiled_plans_steps_are_those_of_the_whole_request(tmp_path, before):
    context, steps = context_of(TINY, tmp_path), 3 * MAX_STEPS
    traffic = {"prompt_tokens": 16, "output_tokens": steps + 1}
    document = stage_input("verify", results=Results(profile=before), traffic=traffic)
    plan = plan_of(document, runner="compiled")
    model = load(document, context)
    runner = CompiledRunner(model, {"compile": False})
    left = profile_plan(runner, plan, model, document, torch.ones(1, 16, dtype=torch.int64), context)
    operations = {row.phase: row.launches for row in left.rows if row.op != "idle"}
    assert operations["decode"] > 0.8 * steps * operations["prefill"]


def test_a_sentence_says_why_a_plan_has_no_profile(tmp_path, before):
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    document = stage_input("verify", results=Results(profile=before))
    plan = plan_of(document)

    def said(known, seconds):
        return profile_plan(None, plan, None, known, None, Context(tmp_path, tmp_path, seconds=seconds))

    assert said(stage_input("verify"), 60).endswith(": the run has no profile of what runs today.")
    assert said(document, 0).endswith(": that takes 8 s, and 0 s of the stage were left.")
    context = Context(tmp_path, tmp_path, seconds=60)
    model = load(document, context)
    ids = torch.full((1, 16), TINY["vocab_size"] - 1)
    context.artifacts = tmp_path / "gone"
    left = profile_plan(runners.apply(model, plan), plan, model, document, ids, context)
    assert left.startswith("The plan was not profiled: it could not be traced. ")


def test_of_several_gpus_the_first_ones_kernels_count_and_all_share_the_floor(tmp_path, before):
    """A trace as torch writes it, of a launch on two GPUs."""
    kernel = {"ph": "X", "cat": "kernel", "name": "decode", "ts": 5, "dur": 4000}
    events = [{**kernel, "args": {"correlation": 1, "stream": 7, "device": gpu}} for gpu in (0, 1)]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    trace = reader.read(path).of_gpu(0)
    assert [(item.gpu, item.stream) for item in trace.kernels] == [(0, 7)]
    document = stage_input("verify", results=Results(profile=before))
    plan = plan_of(document, gpu="h200", runner="megakernel")
    work = [item._replace(label="megakernel") for item in attribution.attribute(trace)]
    result = TracedWindows(work=work, steps=7)
    one, two = (
        _result(result, before, document, plan.model_copy(update={"tensor_parallel_size": gpus}), 4.5, 7)
        for gpus in (1, 2)
    )
    assert two.device_ms == pytest.approx(4.0)
    assert two.floor_ms == pytest.approx(one.floor_ms / 2)
    assert "the first of its 2 GPUs" in two.sentence
    assert "GPUs" not in one.sentence


def test_a_megakernel_is_launched_once_a_request_whatever_was_traced(before):
    document = stage_input("verify", results=Results(profile=before))
    plan = plan_of(document, gpu="h200", runner="megakernel")
    launch = DeviceWork(0.0, label="megakernel", phase="decode", kernel="decode", ms=4.0, launch=1)
    other = launch._replace(label="token bookkeeping", kernel="copy", ms=0.1)
    result = TracedWindows(work=3 * [launch] + 15 * [other], steps=15)
    whole = _result(result, before, document, plan, 60, 63)
    by = {row.op: row for row in whole.rows}
    assert (by["megakernel"].launches, by["megakernel"].calls) == (1, 1)
    assert by["token bookkeeping"].launches == 63
    assert whole.launches == 64
    assert by["megakernel"].ms == pytest.approx(3 * 4.0 * 63 / 15)
    assert " ms of it in 64 launches on the device" in whole.sentence


@pytest.mark.parametrize("step", [1, -1], ids=["as registered", "the other way round"])
def test_kernels_of_the_library_are_named_by_the_variant_that_declares_them_and_every_operation_has_a_name(
    step, monkeypatch
):
    variants = registry.variants()
    monkeypatch.setattr(registry, "variants", lambda: variants[::step])
    piece = DeviceWork(0.0, "unattributed", "prefill", "", 1.0, 1)
    plans = {
        name: Plan(model_digest="0" * 64, gpu="h200", runner=name, dtype="bf16") for name in ("kernels", "megakernel")
    }
    names = {"_place_tokens": "routing", "_route_tokens": "routing", "lm_head_join": "lm_head", "grouped": "experts"}
    names |= {"_rmsnorm": "norm and residual", "step_attention": "attention", "_gated": "gated activation"}
    for kernel, operation in (names | {"frobnicate": "unattributed"}).items():
        assert _own_name(piece._replace(kernel=kernel), plans["megakernel"]) == operation
    decode = piece._replace(kernel="decode")
    assert (_own_name(decode, plans["kernels"]), _own_name(decode, plans["megakernel"])) == ("attention", "megakernel")
    assert set(OPERATIONS) == {variant.op for variant in registry.variants() if variant.kernels} - {"model"}
