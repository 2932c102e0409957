"""The load stage of a tiny model on the CPU: a curve of each side, and a sentence where a side cannot be measured.

Nothing here asks for a verdict or a time: on a busy machine every load may be void.
"""

import json
from pathlib import Path

import pytest

from kernels.plan import Plan
from kernels.runners.plan_files import digested
from tests.kernels.runners import vllm_stand_in
from tests.workers.conftest import TINY, stage_input
from tests.workers.stages.confined import confined
from workers.charts import under_load
from workers.documents.base import Verdict
from workers.documents.load import UnderLoadResult
from workers.documents.recording import Recording
from workers.documents.stages import ObjectiveOutcome, Results, VerifyResult
from workers.harness.context import Context, StageError
from workers.loadtest.recording import facts
from workers.loadtest.servers import curve, judging, sides
from workers.measuring.served_model import watched
from workers.stages import load
from workers.wording import serving
from workers.wording.load_search import AFTER_HERE, NO_NETWORK, NO_VLLM

RELATIVE = [{"metric": "ttf_n", "n": 8, "at_least_faster": 1.5}]
SHA256 = "a" * 64
CALLS = "arrival_s,prompt_tokens,output_tokens\n" + "".join(
    f"{at / 20},{9 + at % 5},{3 + at % 3}\n" for at in range(801)
)
CPU = {"gpu_classes": ["cpu"]}
SHORT = {"load": {"most_users": 4}, "objectives": RELATIVE}


@pytest.fixture(scope="module")
def verified() -> VerifyResult:
    document = stage_input("verify", **SHORT)
    with watched(document) as environment:
        pass
    met: Verdict = "met"
    outcome = ObjectiveOutcome(
        objective=document.workload.objectives[0],
        before=3000.0,
        after=1000.0,
        verdict_before=met,
        verdict=met,
        samples=20,
        over=0,
        needed=9,
    )
    plan = Plan(model_digest=document.model.digest, gpu="cpu", runner="kernels", dtype="fp32")
    return VerifyResult(
        environment=environment(),
        plan=plan.model_dump(),
        before=[],
        after=[],
        tokens_per_second_before=1,
        tokens_per_second_after=3,
        speedup=None,
        outcomes=[outcome],
        quality=None,
        verdict=met,
        sentence="",
    )


def run(tmp_path, monkeypatch, verified: VerifyResult, config: str = json.dumps(TINY), **sla):
    monkeypatch.setattr(curve, "LEAST_SECONDS", 0.4)
    monkeypatch.setattr(sides, "START_SECONDS", 300.0)
    for module in (sides, judging):  # a load of a busy machine has fewer requests than four
        monkeypatch.setattr(module, "ASKED_OF", 1)
    model, scratch = tmp_path / "model", tmp_path / "scratch"
    for folder in (model, scratch):
        folder.mkdir(parents=True)
    (model / "config.json").write_text(config)
    document = stage_input("load", results=Results(verify=verified), **(SHORT | sla))
    if document.workload.traffic.recording:
        (tmp_path / document.workload.traffic.recording).write_text(CALLS)
        found = facts(tmp_path / document.workload.traffic.recording)
        document.recording = Recording(name="calls.csv", sha256=SHA256, size=len(CALLS), **found.model_dump())
    return load.run(document, Context(model, scratch, seconds=0, recordings=tmp_path))


def test_both_sides_have_a_curve_of_three_loads(tmp_path, monkeypatch, verified):
    """After is the server with a plan over several GPUs."""
    plan = verified.plan | {"runner": "megakernel", "tensor_parallel_size": 2}
    verified = verified.model_copy(update={"plan": plan})
    found = run(tmp_path, monkeypatch, verified, constraints=CPU | {"exclude": ["step_hopper", "skinny", "eager"]})
    assert found.notes == []
    assert found.after.server.label == "this workbench's server, the plan's kernels"
    assert found.after.server.gpus == 2
    assert any("skinny and step_hopper" in each for each in found.after.server.caveats)
    assert [each.limit for each in found.objectives] == [2000.0]  # 3000 ms before, 1.5 times faster
    assert found.after.server.kind == "server"
    assert found.before.server.kind == "batches"
    for side in (found.before, found.after):
        loads = side.limit.loads
        assert [each.users for each in loads][:2] == [1, 2]
        assert len(loads) >= 3
        assert any(each.tokens_per_second for each in loads)
        assert not any(each.failures for each in loads)
        assert side.limit.users in {0, *(each.users for each in loads if each.verdict == "met")}
        assert side.served_ids.acceptable
        assert side.served_ids.tokens % stage_input("load").workload.traffic.output_tokens == 0
        assert side.served_ids.largest_gap < 0.01
        assert "held against the model's logits" in side.served_ids.sentence

    chosen = serving.served_plan(Results(verify=verified, load=found))["serving"]
    assert (chosen["basis"], chosen["max_num_seqs"], chosen["graph_rows"]) == ("measured", 4, [1, 2, 4])
    assert chosen["exclude"] == ["skinny", "step_hopper"]
    assert chosen["kv_bytes"] > 0
    assert Plan.model_validate(verified.plan | {"serving": chosen}).serving.device == found.after.server.hardware
    assert found.sentence.startswith("Before, ")
    assert ". After, " in found.sentence
    assert "each at 99.9 % confidence." in found.before.sentence


def test_users_who_think_and_go_away_are_served_in_batches(tmp_path, monkeypatch, verified):
    traffic = {
        "prompt_tokens": 16,
        "output_tokens": 8,
        "output_lengths": {"kind": "uniform", "low": 3, "high": 8},
        "arrivals": {"kind": "closed", "think_s": 0.01},
        "cancellations": {"share": 1, "after_tokens": 2},
    }
    plain = verified.model_copy(update={"recommended": False})
    found = run(tmp_path, monkeypatch, plain, traffic=traffic, objectives=[{"metric": "ttft", "limit": 10_000}])
    assert found.after is None
    assert found.notes == ["No change is recommended, so only what runs today was put under load."]
    loads = found.before.limit.loads
    assert sum(each.cancelled for each in loads)
    assert not sum(each.completed for each in loads)
    assert all("e2e" not in {metric.metric for metric in each.metrics} for each in loads)


def test_an_open_loop_has_its_rates_searched_in_batches(tmp_path, monkeypatch, verified):
    traffic = {
        "prompt_tokens": 16,
        "output_tokens": 8,
        "output_lengths": {"kind": "log-normal", "median": 4, "sigma": 0.5, "most": 8},
        "arrivals": {"kind": "poisson", "rate": 640},
    }
    plain = verified.model_copy(update={"recommended": False})
    found = run(tmp_path, monkeypatch, plain, traffic=traffic, objectives=[{"metric": "ttft", "limit": 10_000}])
    loads = found.before.limit.loads
    assert [each.rate for each in loads][:3] == [10, 20, 40]
    assert any(each.tokens_per_second for each in loads)
    assert all(each.outcomes[0].alike >= 1 for each in loads)
    assert found.before.limit.most_rate == 640
    assert found.before.limit.rate in {0, *(each.rate for each in loads if each.verdict == "met")}
    assert "request" in found.before.sentence


def test_a_recording_is_replayed_to_both_sides_at_rising_speed(tmp_path, monkeypatch, verified):
    recorded = {"kind": "recorded"}
    traffic = {
        "prompt_tokens": 16,
        "output_tokens": 8,
        "prompt_lengths": recorded,
        "output_lengths": recorded,
        "arrivals": recorded | {"speed": 16},
        "recording": SHA256,
    }
    found = run(tmp_path, monkeypatch, verified, traffic=traffic, objectives=[{"metric": "ttft", "limit": 10_000}])
    assert found.notes == []
    assert found.recording.words == "calls.csv: 801 requests over 40 s"
    for side in (found.before, found.after):
        loads = side.limit.loads
        assert [each.speed for each in loads][:3] == [0.25, 0.5, 1]
        assert not any(each.failures for each in loads)
        assert all(3 * each.completed <= each.tokens.output <= 5 * each.completed for each in loads)
        assert any(each.tokens_per_second for each in loads)
        assert side.limit.most_speed == 16
        assert side.limit.speed in {0, *(each.speed for each in loads if each.verdict == "met")}
        assert "recorded speed" in side.sentence or not any(each.verdict for each in loads)
    results = Results(load=found)
    assert under_load.table(results)[0][1] == "times the recorded speed"
    assert under_load.figure(results)["layout"]["xaxis"]["title"]["text"] == "times the recorded speed"


@pytest.mark.parametrize(("excluded", "why"), [([], ""), (["kernels"], "the workload excludes kernels, of which the")])
def test_a_side_that_cannot_be_measured_leaves_a_sentence(tmp_path, monkeypatch, verified, excluded, why):
    for place in ("workers.loadtest.servers.sides.load_today", "workers.measuring.served_model.load"):
        monkeypatch.setattr(place, _fails)
    found = run(tmp_path, monkeypatch, verified, config="{", constraints=CPU | {"exclude": excluded})
    assert (found.before, found.after) == (None, None)
    before, server, after = found.notes
    assert server.startswith(f"This workbench's server does not run the model: {why}")
    assert after == "After was not measured under load: The model does not fit."
    assert before == "Before was not measured under load: The model does not fit."
    assert found.sentence == "No load was measured."


def test_of_a_plan_of_another_runner_after_is_the_form_that_holds_more(tmp_path, monkeypatch, verified):
    monkeypatch.setattr(load, "TWO_FORMS_SECONDS", float("-inf"))
    plan = verified.plan | {"runner": "eager"}
    found = run(tmp_path, monkeypatch, verified.model_copy(update={"plan": plan}))
    assert found.notes == []
    labels = {
        "server": "this workbench's server, the library's kernels",
        "batches": "generate of transformers in batches",
    }
    taken = labels.pop(found.after.server.kind)
    assert found.after.server.label == taken
    assert f". {taken[:1].upper()}{taken[1:]}: " in found.choice
    assert f"; {labels.popitem()[1]}: " in found.choice
    assert found.after.served_ids.acceptable
    assert len(found.after.limit.loads) >= 3


def test_a_plan_in_a_hurry_is_in_batches_alone(tmp_path, monkeypatch, verified):
    for place in ("workers.loadtest.servers.sides.load_today", "workers.measuring.served_model.load"):
        monkeypatch.setattr(place, _fails)
    found = run(tmp_path, monkeypatch, verified.model_copy(update={"plan": verified.plan | {"runner": "compiled"}}))
    said = "After is in batches, and this workbench's server was not measured beside them: both take 40 s, and 0 s "
    assert found.notes[1:] == [
        f"{said}were left for after.",
        "After was not measured under load: The model does not fit.",
    ]


VLLM = {"baseline_runner": "vllm", "objectives": [{"metric": "ttft", "limit": 10_000}]}


def test_vllms_server_is_before_with_its_version_and_settings(tmp_path, monkeypatch, verified):
    monkeypatch.setenv("KERNELS_VLLM_PYTHON", str(vllm_stand_in.environment(tmp_path / "vllm")))
    plain = verified.model_copy(update={"recommended": False})
    found = run(tmp_path, monkeypatch, plain, **VLLM)
    assert found.notes == ["No change is recommended, so only what runs today was put under load."]
    server, loads = found.before.server, found.before.limit.loads
    assert (server.kind, server.label, server.version) == ("vllm", "vLLM 0.0", "0.0")
    assert server.settings["options"] in server.sentence
    assert "--dtype float32 --max-model-len 88 --max-num-seqs 4" in server.settings["options"]
    assert len(loads) >= 3
    assert not any(each.failures for each in loads)
    assert {each.tokens.prompt for each in loads} == {each.tokens.prompt_wanted for each in loads}
    assert any(each.tokens_per_second for each in loads)
    assert found.before.served_ids is None
    none = "None of its answers was held against the model's logits: none that ended gave its ids."
    assert server.caveats[-1] == none


KERNELS = "INFO [vllm_interface.py] KERNELS_PLAN: skinny in steps of 1, 2, 4 sequences"
REFUSED = "WARNING KERNELS_PLAN is not used, and vLLM goes on without it: dtype is torch.float32"


@pytest.mark.parametrize(
    ("log", "why"),
    [
        (KERNELS, ""),
        (REFUSED, "vLLM runs without the plan: dtype is torch.float32."),
        ("", "vLLM was not started: WORKER_VLLM: {python} has no kernel-workbench-vllm."),
    ],
)
def test_after_in_vllm_is_vllm_that_says_it_runs_the_plan(tmp_path, monkeypatch, verified, log, why):
    python = vllm_stand_in.environment(tmp_path / "vllm", log=log)
    monkeypatch.setenv("KERNELS_VLLM_PYTHON", str(python))
    found = run(tmp_path, monkeypatch, verified, **VLLM, after_runner="vllm")
    assert found.before.server.label == "vLLM 0.0"
    if why:
        assert found.notes == [f"After was not measured under load: {why.format(python=python)}"]
        return
    server = found.after.server
    assert (server.kind, server.label) == ("vllm", "vLLM 0.0 with the plan")
    assert server.sentence.endswith(" Of the plan it runs skinny in steps of 1, 2, 4 sequences.")
    assert ". After (vLLM 0.0 with the plan), " in found.sentence
    assert len(found.after.limit.loads) >= 3
    (plan,) = tmp_path.rglob("vllm-plan.json")
    digest = digested(plan.with_name("vllm-model"), 0)[-1]
    assert Plan.model_validate_json(plan.read_text()).model_digest == digest, "the plug-in refuses other files"


def test_a_confined_load_stage_starts_vllms_server(outside: Path, verified: VerifyResult) -> None:
    plain = verified.model_copy(update={"recommended": False})
    document = stage_input("load", results=Results(verify=plain), load={"most_users": 2}, **VLLM)
    document = document.model_copy(update={"seconds_left": 5.0})
    found = UnderLoadResult.model_validate_json(confined(outside, document))
    assert found.before is not None, found.notes
    if NO_NETWORK in found.notes:  # the machine that runs the tests allows none
        assert found.before.server.kind == "batches"
    else:
        assert found.before.server.label == "vLLM 0.0"
        assert any(each.tokens_per_second for each in found.before.limit.loads)


def test_a_vllm_that_does_not_start_is_a_sentence_with_the_end_of_its_log(tmp_path, monkeypatch, verified):
    last = "ValueError: Free memory on device is less than desired."
    script = f'if [ "$1" = -c ]; then echo 0.0; else echo "INFO ready soon" >&2; echo "{last}" >&2; exit 1; fi'
    monkeypatch.setenv("KERNELS_VLLM_PYTHON", str(vllm_stand_in.program(tmp_path / "vllm", script)))
    plain = verified.model_copy(update={"recommended": False})
    found = run(tmp_path, monkeypatch, plain, **VLLM)
    assert found.before is None
    assert found.notes[:1] == [f"Before was not measured under load: vLLM ended; its log ends: {last.rstrip('.')}."]


def test_without_an_environment_of_vllm_transformers_is_before_and_a_note_says_so(tmp_path, monkeypatch, verified):
    monkeypatch.delenv("KERNELS_VLLM_PYTHON", raising=False)
    plain = verified.model_copy(update={"recommended": False})
    found = run(tmp_path, monkeypatch, plain, **VLLM)
    assert found.notes[0] == NO_VLLM
    assert found.before.server.kind == "batches"
    monkeypatch.setattr(load.Sides, "server", _fails)
    found = run(tmp_path / "again", monkeypatch, verified, **VLLM, after_runner="vllm")
    assert found.notes[:2] == [NO_VLLM, AFTER_HERE]


def test_a_server_whose_answers_are_not_the_models_does_not_count(tmp_path, monkeypatch, verified):
    python = vllm_stand_in.environment(tmp_path / "vllm", honest=False)
    monkeypatch.setenv("KERNELS_VLLM_PYTHON", str(python))
    found = run(tmp_path, monkeypatch, verified.model_copy(update={"recommended": False}), **VLLM)
    assert found.before is None
    assert found.notes[1].startswith(
        "The loads of before do not count: The ids that it served are not the model's: over "
    )
    assert found.sentence == "No load was measured."


def _fails(*arguments, **more):
    raise StageError("The model does not fit.")


def test_without_a_limit_or_a_verified_plan_it_says_so(tmp_path, monkeypatch, verified):
    found = run(tmp_path, monkeypatch, verified.model_copy(update={"outcomes": []}))
    assert found.sentence == "No load was measured: no objective has a limit to hold."
    with pytest.raises(StageError, match="no verified plan"):
        load.run(stage_input("load", **SHORT), Context(tmp_path, tmp_path))
