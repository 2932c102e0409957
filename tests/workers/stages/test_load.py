"""The load stage of a tiny model on the CPU; no verdict or time is asked for: a busy machine may void every load."""

import json

import pytest

from kernels.plan import Plan
from kernels.runners.plan_files import digested
from tests.kernels.runners import vllm_stand_in
from tests.workers.conftest import TINY, stage_input
from workers.charts import under_load
from workers.documents.base import Verdict
from workers.documents.load import UnderLoadResult
from workers.documents.recording import Recording
from workers.documents.stages import ObjectiveOutcome, Results, VerifyResult
from workers.harness.context import Context, StageError
from workers.loadtest.recording import facts
from workers.loadtest.servers import curve, judging, sides
from workers.measuring.served_model import watch_device
from workers.stages import load
from workers.wording import serving
from workers.wording.load_search import AFTER_HERE, NO_VLLM

RELATIVE = [{"metric": "ttf_n", "n": 8, "at_least_faster": 1.5}]
SHA256 = "a" * 64
CALLS = "".join(f"{at / 20},{9 + at % 5},{3 + at % 3}\n" for at in range(801))
CALLS = f"arrival_s,prompt_tokens,output_tokens\n{CALLS}"
CPU = {"gpu_classes": ["cpu"]}
SHORT = {"load": {"most_users": 4}, "objectives": RELATIVE}
TTFT = [{"metric": "ttft", "limit": 10_000}]
PLAIN = {"recommended": False}
ALONE = "No change is recommended, so only what runs today was put under load."


def verify_result() -> VerifyResult:
    document = stage_input("verify", **SHORT)
    with watch_device(document) as environment:
        pass
    met: Verdict = "met"
    figures = {"before": 3000.0, "after": 1000.0, "samples": 20, "over": 0, "needed": 9}
    objective = document.workload.objectives[0]
    outcome = ObjectiveOutcome(objective=objective, verdict_before=met, verdict=met, **figures)
    plan = Plan(model_digest=document.model.digest, gpu="cpu", runner="kernels", dtype="fp32").model_dump()
    rates = {"tokens_per_second_before": 1, "tokens_per_second_after": 3, "speedup": None, "quality": None}
    facts = {"plan": plan, "before": [], "after": [], "outcomes": [outcome], "verdict": met, "sentence": ""}
    return VerifyResult(environment=environment(), **rates, **facts)


@pytest.fixture(scope="module")
def verified() -> VerifyResult:
    return verify_result()


@pytest.fixture
def run(tmp_path, monkeypatch, verified):
    """Runs the stage after a verify that `changes` replace fields of."""
    monkeypatch.setattr(curve, "MIN_SECONDS", 0.4)
    monkeypatch.setattr(sides, "START_SECONDS", 300.0)
    for module in (sides, judging):  # a load of a busy machine has fewer requests than four
        monkeypatch.setattr(module, "ASKED_OF", 1)
    model, scratch = tmp_path / "model", tmp_path / "scratch"
    model.mkdir()
    scratch.mkdir()

    def _run(changes=None, config: str = json.dumps(TINY), **sla) -> UnderLoadResult:
        (model / "config.json").write_text(config)
        results = Results(verify=verified.model_copy(update=changes or {}))
        document = stage_input("load", results=results, **(SHORT | sla))
        if document.workload.traffic.recording:
            (tmp_path / document.workload.traffic.recording).write_text(CALLS)
            known = facts(tmp_path / document.workload.traffic.recording)
            document.recording = Recording(name="calls.csv", sha256=SHA256, size=len(CALLS), **known.model_dump())
        return load.run(document, Context(model, scratch, seconds=0, recordings=tmp_path))

    return _run


@pytest.fixture
def unloadable(monkeypatch) -> None:
    for place in ("workers.loadtest.servers.sides.load_baseline", "workers.measuring.served_model.load"):
        monkeypatch.setattr(place, _fails)


def test_both_sides_have_a_curve_of_three_loads(run, verified):
    """After is the server with a plan over several GPUs."""
    plan = {"plan": verified.plan | {"runner": "megakernel", "tensor_parallel_size": 2}}
    result = run(plan, constraints=CPU | {"exclude": ["step_hopper", "skinny", "eager"]})
    assert result.notes == []
    assert "the plan's kernels" in result.after.server.label
    assert result.after.server.gpus == 2
    assert any("skinny and step_hopper" in caveat for caveat in result.after.server.caveats)
    assert [objective.limit for objective in result.objectives] == [2000.0]  # 3000 ms before, 1.5 times faster
    assert result.after.server.kind == "server"
    assert result.before.server.kind == "batches"
    for side in (result.before, result.after):
        loads = side.limit.loads
        assert [item.users for item in loads][:2] == [1, 2]
        assert len(loads) >= 3
        assert any(item.tokens_per_second for item in loads)
        assert not any(item.failures for item in loads)
        assert side.limit.users in {0, *(item.users for item in loads if item.verdict == "met")}
        assert side.served_ids.acceptable
        assert side.served_ids.tokens % stage_input("load").workload.traffic.output_tokens == 0
        assert side.served_ids.largest_gap < 0.01
        assert "held against the model's logits" in side.served_ids.sentence

    chosen = serving.served_plan(Results(verify=verified.model_copy(update=plan), load=result))["serving"]
    assert (chosen["basis"], chosen["max_num_seqs"], chosen["graph_rows"]) == ("measured", 4, [1, 2, 4])
    assert chosen["exclude"] == ["skinny", "step_hopper"]
    assert chosen["kv_bytes"] > 0
    assert Plan.model_validate(plan["plan"] | {"serving": chosen}).serving.device == result.after.server.hardware
    assert result.sentence.startswith("Before, ")
    assert ". After, " in result.sentence
    assert "each at 99.9 % confidence." in result.before.sentence


def test_users_who_think_and_go_away_are_served_in_batches(run):
    traffic = {"prompt_tokens": 16, "output_tokens": 8, "output_lengths": {"kind": "uniform", "low": 3, "high": 8}}
    traffic |= {"arrivals": {"kind": "closed", "think_s": 0.01}, "cancellations": {"share": 1, "after_tokens": 2}}
    result = run(PLAIN, traffic=traffic, objectives=TTFT)
    assert result.after is None
    assert result.notes == [ALONE]
    loads = result.before.limit.loads
    assert sum(item.cancelled for item in loads)
    assert not sum(item.completed for item in loads)
    assert all("e2e" not in {metric.metric for metric in item.metrics} for item in loads)


def test_a_recording_is_replayed_to_both_sides_and_forms_of_after_at_rising_speed(run, verified, monkeypatch):
    """Of a plan of another runner than the server's, after is the form that holds more."""
    monkeypatch.setattr(load, "TWO_FORMS_SECONDS", float("-inf"))
    recorded = {"kind": "recorded"}
    lengths = {"prompt_tokens": 16, "output_tokens": 8, "prompt_lengths": recorded, "output_lengths": recorded}
    traffic = lengths | {"arrivals": recorded | {"speed": 16}, "recording": SHA256}
    result = run({"plan": verified.plan | {"runner": "eager"}}, traffic=traffic, objectives=TTFT)
    assert result.notes == []
    labels = {"server": "this workbench's server, the library's kernels"}
    labels["batches"] = "generate of transformers in batches"
    taken = labels.pop(result.after.server.kind)
    assert result.after.server.label == taken
    assert f". {taken[:1].upper()}{taken[1:]}: " in result.choice
    assert f"; {labels.popitem()[1]}: " in result.choice
    assert result.after.served_ids.acceptable
    assert result.recording.words == "calls.csv: 801 requests over 40 s"
    for side in (result.before, result.after):
        loads = side.limit.loads
        assert [item.speed for item in loads][:3] == [0.25, 0.5, 1]
        assert not any(item.failures for item in loads)
        assert all(3 * item.completed <= item.tokens.output <= 5 * item.completed for item in loads)
        assert any(item.tokens_per_second for item in loads)
        assert all(item.outcomes[0].alike >= 1 for item in loads)
        assert side.limit.most_speed == 16
        assert side.limit.speed in {0, *(item.speed for item in loads if item.verdict == "met")}
        assert "recorded speed" in side.sentence or not any(item.verdict for item in loads)
    results = Results(load=result)
    assert under_load.table(results)[0][1] == "times the recorded speed"
    assert under_load.figure(results)["layout"]["xaxis"]["title"]["text"] == "times the recorded speed"


@pytest.mark.usefixtures("unloadable")
def test_a_side_that_cannot_be_measured_leaves_a_sentence(run, verified):
    for excluded, why in (([], ""), (["kernels"], "the workload excludes kernels, of which the")):
        result = run(config="{", constraints=CPU | {"exclude": excluded})
        assert (result.before, result.after, result.sentence) == (None, None, "No load was measured.")
        before, server, after = result.notes
        assert f"server does not run the model: {why}" in server
        assert after == "After was not measured under load: The model does not fit."
        assert before == "Before was not measured under load: The model does not fit."
    result = run({"plan": verified.plan | {"runner": "compiled"}})
    hurry, after = result.notes[1:]
    assert "both take 40 s, and 0 s were left for after" in hurry, "it is in batches alone"
    assert after == "After was not measured under load: The model does not fit."


@pytest.mark.parametrize(("recommended", "share"), [(True, 1 - load.SHARE_OF_AFTER), (False, 1.0)])
def test_what_before_leaves_of_its_time_is_that_of_after(tmp_path, monkeypatch, verified, recommended, share):
    left, given = [100.0], {}
    monkeypatch.setattr(Context, "seconds_left", property(lambda self: left[0]))

    def before(document, sides, starting, until):
        given["before"] = left[0] - until
        left[0] -= 8

    def after(verify, sides, until, notes, in_vllm):
        given["after"] = left[0] - until
        return None, ""

    monkeypatch.setattr(load, "_before", before)
    monkeypatch.setattr(load, "_after", after)
    verify = verified.model_copy(update={"recommended": recommended})
    load.run(stage_input("load", results=Results(verify=verify), **SHORT), Context(tmp_path, tmp_path, seconds=1))
    searching = 100 * (1 - judging.SHARE)
    expected = {"before": pytest.approx(searching * share), "after": pytest.approx(searching - 8)}
    assert list(given.items()) == list(expected.items())


VLLM = {"baseline_runner": "vllm", "objectives": TTFT}


KERNELS = "INFO [vllm_interface.py] KERNELS_PLAN: skinny in steps of 1, 2, 4 sequences"
REFUSED = "WARNING KERNELS_PLAN is not used, and vLLM goes on without it: dtype is torch.float32"


@pytest.mark.parametrize(
    ("log", "why"),
    [
        (REFUSED, "vLLM runs without the plan: dtype is torch.float32."),
        ("", "vLLM was not started: WORKER_VLLM: {python} has no kernel-workbench-vllm."),
    ],
)
def test_a_vllm_that_does_not_say_that_it_runs_the_plan_is_not_after(tmp_path, monkeypatch, run, log, why):
    python = vllm_stand_in.environment(tmp_path / "vllm", log=log)
    monkeypatch.setenv("KERNELS_VLLM_PYTHON", str(python))
    monkeypatch.setattr(load, "_before", lambda *args: None)
    result = run(**VLLM, after_runner="vllm")
    assert result.notes == [f"After was not measured under load: {why.format(python=python)}"]


def test_before_and_after_in_vllm_have_its_version_and_settings(tmp_path, monkeypatch, run):
    python = vllm_stand_in.environment(tmp_path / "vllm", log=KERNELS)
    monkeypatch.setenv("KERNELS_VLLM_PYTHON", str(python))
    result = run(**VLLM, after_runner="vllm")
    server, loads = result.before.server, result.before.limit.loads
    assert (server.kind, server.label, server.version) == ("vllm", "vLLM 0.0", "0.0")
    assert server.settings["options"] in server.sentence
    assert "--dtype float32 --max-model-len 88 --max-num-seqs 4" in server.settings["options"]
    assert len(loads) >= 3
    assert not any(item.failures for item in loads)
    assert {item.tokens.prompt for item in loads} == {item.tokens.prompt_wanted for item in loads}
    assert any(item.tokens_per_second for item in loads)
    assert result.before.served_ids is None
    assert "none that ended gave its ids" in server.caveats[-1]
    server = result.after.server
    assert (server.kind, server.label) == ("vllm", "vLLM 0.0 with the plan")
    assert server.sentence.endswith(" skinny in steps of 1, 2, 4 sequences.")
    assert ". After (vLLM 0.0 with the plan), " in result.sentence
    assert len(result.after.limit.loads) >= 3
    (plan,) = tmp_path.rglob("vllm-plan.json")
    digest = digested(plan.with_name("vllm-model"), 0)[-1]
    assert Plan.model_validate_json(plan.read_text()).model_digest == digest, "the plug-in refuses other files"


def test_a_vllm_that_does_not_start_is_a_sentence_with_the_end_of_its_log(tmp_path, monkeypatch, run):
    last = "ValueError: Free memory on device is less than desired."
    script = f'if [ "$1" = -c ]; then echo 0.0; else echo "INFO ready soon" >&2; echo "{last}" >&2; exit 1; fi'
    monkeypatch.setenv("KERNELS_VLLM_PYTHON", str(vllm_stand_in.program(tmp_path / "vllm", script)))
    result = run(PLAIN, **VLLM)
    assert result.before is None
    assert result.notes[0].endswith(f"its log ends: {last.rstrip('.')}.")


def test_without_an_environment_of_vllm_transformers_is_before_and_a_note_says_so(monkeypatch, run):
    forms = []
    monkeypatch.delenv("KERNELS_VLLM_PYTHON", raising=False)
    monkeypatch.setattr(load.Sides, "server", _fails)
    monkeypatch.setattr(load.Sides, "batches", lambda _, *args: forms.append(args[:2]) or _fails())
    notes = run(**VLLM, after_runner="vllm").notes
    assert (notes[0], AFTER_HERE in notes) == (NO_VLLM, True)
    assert forms == [("before", "eager")]


def test_a_server_whose_answers_are_not_the_models_does_not_count(tmp_path, monkeypatch, run):
    python = vllm_stand_in.environment(tmp_path / "vllm", honest=False)
    monkeypatch.setenv("KERNELS_VLLM_PYTHON", str(python))
    result = run(PLAIN, **VLLM)
    assert (result.before, result.sentence) == (None, "No load was measured.")
    assert result.notes[0] == ALONE
    assert "The ids that it served are not the model's: over " in result.notes[1]


def _fails(*arguments, **kwargs):
    raise StageError("The model does not fit.")


def test_without_a_limit_or_a_verified_plan_it_says_so(tmp_path, run):
    assert run({"outcomes": []}).sentence.startswith("No load was measured: ")
    with pytest.raises(StageError, match="no verified plan"):
        load.run(stage_input("load", **SHORT), Context(tmp_path, tmp_path))
