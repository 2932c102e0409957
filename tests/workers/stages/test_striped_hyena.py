"""A decoder of long convolutions through the stages on the CPU: they are cases, and a plan's variant gets a verdict."""

import json
from pathlib import Path

import pytest

from kernels.model_files import catalogue
from kernels.ops import FftConvCase, case_from
from kernels.plan import Plan, PlannedOp
from tests.workers.conftest import manifest, stage_input
from workers.documents.stages import ComposeResult, Results
from workers.harness.context import Context
from workers.stages import baseline, explore, profile, verify

pytestmark = pytest.mark.usefixtures("known_ceilings")
CONFIG = catalogue.entry("tiny-striped-hyena")[0] | {"num_hidden_layers": 2, "attn_layer_idxs": [1]}
PROMPT, WIDTH = 64, 128


def test_its_convolution_is_a_case_whose_variant_gets_a_verdict(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    context, model, found = Context(tmp_path, tmp_path, seconds=20), manifest(CONFIG), Results()
    traffic = {
        "traffic": {"prompt_tokens": PROMPT, "output_tokens": 2},
        "objectives": [{"metric": "ttft", "limit": 1e5}],
    }
    case = FftConvCase(batch=1, width=WIDTH, length=PROMPT, filter=PROMPT, dtype="fp32")
    short = case.model_copy(update={"width": 3 * WIDTH, "filter": 3, "gated": False})
    for name, stage in (("baseline", baseline), ("profile", profile)):
        setattr(found, name, stage.run(stage_input(name, model, found, **traffic), context))
    (row,) = (row for row in found.profile.rows if row.op == "convolution long_filter")
    assert (row.phase, row.calls, row.flops) == ("prefill", 1, pytest.approx(case.flops))
    listed = [each for each in found.profile.cases if each["op"] == "fft_conv"]
    assert {case_from.validate_python(each["case"]) for each in listed} == {case, short}
    assert {each["per_request"] for each in listed} == {1}
    document = stage_input("explore", model, found, **traffic)
    assert {case, short} <= {each.case for each in explore.wanted_cases(document, found.profile)[0]}
    planned = {"torch_fft": case, "torch_conv1d": short}
    ops = [PlannedOp(op=each.op, case=each.model_dump(), variant=name) for name, each in planned.items()]
    plan = Plan(model_digest=model.digest, gpu="cpu", runner="eager", dtype="fp32", ops=ops)
    found.compose = ComposeResult(environment=found.baseline.environment, trials=[], plan=plan.model_dump())
    verified = verify.run(stage_input("verify", model, found, **traffic), context)
    assert verified.verdict in ("met", "not_enough_samples")
    assert len(verified.checks) == 1
