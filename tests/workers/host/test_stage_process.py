"""A stage whose process is ended by what it tries goes on without that: real processes, confined as on a worker."""

import json
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.workers.conftest import TINY, stage_input
from tests.workers.stages.confined import confined
from tests.workers.stages.test_compose import ENVIRONMENT, kernels_candidates
from tests.workers.stages.test_confirmed_plans import document_of
from tests.workers.stages.test_explore import ATTENTION, CEILINGS, DECODE, profile, row
from tests.workers.stages.test_load import PLAIN, VLLM, verify_result
from tests.workers.templates import ready_template
from workers.charts import plans
from workers.config import WorkerConfig
from workers.documents.load import UnderLoadResult
from workers.documents.stages import ComposeResult, ExploreResult, Results, StageInput, VerifyResult
from workers.host import stage_process
from workers.host.stage_files import Folders, stage_modules
from workers.host.stage_process import RunProcess
from workers.host.template_process import Template
from workers.shared.scratch import scratch
from workers.wording.load_search import NO_NETWORK

STAGES = "tests.workers.crashing_stages"


@pytest.fixture(scope="module")
def template() -> Iterator[Template]:
    made = ready_template(*stage_modules(STAGES))
    yield made
    made.close()


@pytest.fixture
def run_stage(outside: Path, monkeypatch: pytest.MonkeyPatch, template: Template) -> Callable[[StageInput], Any]:
    """Runs a stage of tests/workers/crashing_stages as the worker does, to this exit code: its document and words."""
    monkeypatch.setenv("WORKBENCH_STAGE_PACKAGE", STAGES)
    monkeypatch.setenv("WORKER_CACHE", str(outside / "cache"))
    monkeypatch.setenv("WORKBENCH_DATA", str(outside / "data"))
    model = outside / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(TINY))

    def run(document: StageInput, code: int = 0) -> Any:
        messages: list[str] = []
        reporter = SimpleNamespace(
            line=lambda line: messages.append(json.loads(line)["message"]), stop=threading.Event()
        )
        with scratch(WorkerConfig.from_environment().scratch) as directory:
            process = RunProcess(WorkerConfig.from_environment(), Folders(directory, model, None), os.environ, template)
            with closing(process):
                end = process.run(document, reporter)
            output = directory / document.stage / "out.json"
            result = json.loads(output.read_text()) if output.exists() else {}
        assert end.status.code == code, messages
        return SimpleNamespace(said=messages, document=result, failure=end.failure)

    return run


def named(name: str) -> StageInput:
    document = stage_input("baseline").model_copy(update={"seconds_left": 60})
    return document.model_copy(update={"workload": document.workload.model_copy(update={"name": name})})


LEFT_OUT = "Left out, since it ended the stage's process"


def test_what_hangs_or_aborts_is_left_out_and_what_was_finished_is_not_done_again(run_stage):
    result = run_stage(named("first hangs second aborts third"))
    first, hangs, second, aborts, third = result.document["runner"].split("; ")
    assert hangs == f"{LEFT_OUT}: it did not end within 1 s."
    assert aborts == f"{LEFT_OUT}: its process was killed by SIGABRT."
    processes = [value.rpartition(" ")[2] for value in (first, second, third)]
    assert len(set(processes)) == 3
    assert f"the plan hangs: {hangs}" in result.said
    assert f"the plan aborts: {aborts}" in result.said


def test_what_hangs_may_exceed_the_stages_time_once(run_stage):
    """Each of them alone may take the stage's second and 2 more; together they may take no more than that."""
    result = run_stage(named("waits1 waits2 waits3 first").model_copy(update={"seconds_left": 1}))
    waits, *others, first = result.document["runner"].split("; ")
    assert 2 <= left_out_after(waits) <= 3
    assert others == ["no time", "no time"]
    assert first.startswith("first by")


def test_a_failure_in_words_ends_the_stage_at_once_and_is_blamed_on_nothing_that_was_tried_before(run_stage):
    assert run_stage(named("first refuses aborts"), 1).document["sentence"] == "It cannot be done."
    aborted = run_stage(named("aborts once"), 1)
    assert aborted.document["sentence"] == "It cannot be done again."
    assert len([item for item in aborted.said if item.startswith("the plan aborts")]) == 1


def test_a_stage_whose_process_dies_again_and_again_fails_with_all_the_names(run_stage, monkeypatch):
    monkeypatch.setattr(stage_process, "MAX_LEFT_OUT", 1)
    aborted = run_stage(named("aborts1 aborts2 first"), -signal.SIGABRT)
    assert "ended 2 times" in aborted.failure.sentence
    assert all(
        f"the plan aborts{value} (its process was killed by SIGABRT)" in aborted.failure.sentence for value in (1, 2)
    )


def test_explore_goes_on_without_variants_that_end_its_process(run_stage):
    document = stage_input("explore", results=Results(profile=profile(row(ATTENTION, 2), row(DECODE, 56))))
    result = run_stage(document.model_copy(update={"seconds_left": 600}))
    candidates = {
        (item["op"], item["variant"], json.dumps(item["params"])): item for item in result.document["candidates"]
    }
    aborts = candidates["linear", "planted_aborts", '{"split": 2}']
    lost = candidates["linear", "planted_loses_the_gpu", "{}"]
    assert (aborts["gate"], aborts["ms"]) == ("error", None)
    assert aborts["reason"] == f"{LEFT_OUT}: its process was killed by SIGABRT."
    assert lost["gate"] == "error"
    assert lost["reason"].startswith(f"{LEFT_OUT}: the GPU no longer answered: CUDA error: unspecified launch failure")
    hangs = candidates["linear", "planted_hangs", "{}"]
    assert (hangs["gate"], hangs["reason"]) == ("error", f"{LEFT_OUT}: it did not end within 10 s.")
    label = "planted_aborts {'split': 2} for linear m=1 n=128 k=64"
    assert any(item.startswith(label) and item.endswith(aborts["reason"]) for item in result.said)
    others = [each for key, each in candidates.items() if each["gate"] == "pass"]
    assert all(other["ms"] for other in others)
    assert {other["variant"] for other in others} >= {"torch_linear", "planted_aborts", "sdpa_math"}
    assert sum(other["chosen"] for other in others) == 2


def test_compose_goes_on_without_plans_and_parts_that_end_its_process(run_stage):
    good = kernels_candidates()
    step = next(item for item in good if item.case.items() >= {"epilogue": "residual", "m": 1, "k": 64}.items())
    part = step.model_copy(update={"id": "part", "variant": "planted_aborts_in_a_model", "params": {"split": 2}})
    explored = ExploreResult(environment=ENVIRONMENT, ceilings=CEILINGS, candidates=[*good, part])
    document = stage_input("compose", results=Results(explore=explored))
    result = run_stage(document.model_copy(update={"seconds_left": 600}))
    trials = {item["label"]: item for item in result.document["trials"]}
    lost = trials["megakernel"]
    assert (lost["gate"], lost["primary"]) == ("error", None)
    assert lost["reason"].startswith(f"{LEFT_OUT}: the GPU no longer answered: CUDA error: unspecified launch failure")
    assert left_out_after(trials["planted_hanging_model"]["reason"]) < 60
    whole = trials["kernels"]
    assert (whole["gate"], trials["eager"]["gate"]) == ("pass", "pass"), whole
    part = trials["a decode step with planted_aborts_in_a_model {'split': 2} for 64×64 residual"]
    assert (part["gate"], part["reason"]) == ("error", f"{LEFT_OUT}: its process was killed by SIGABRT.")
    assert any(part["label"] in item for item in whole["notes"])
    assert "a decode step: " in " ".join(whole["notes"])
    assert not any(op["variant"] == "planted_aborts_in_a_model" for op in whole["plan"]["ops"])
    assert sum(trial["chosen"] for trial in trials.values()) == 1
    assert sum(item.endswith("trying the plan eager") for item in result.said) == 1


def test_verify_goes_on_with_the_next_plan(run_stage):
    lost, next_one = ("megakernel", "fp32", 10), ("eager", "fp32", 20)
    document = document_of(1, ("compiled", "fp32", 200), lost, next_one)
    process = run_stage(document.model_copy(update={"seconds_left": 120}))
    result = VerifyResult.model_validate(process.document)
    assert [check.confirmed for check in result.checks] == [False, True], result.checks
    assert result.checks[0].reason.startswith(f"{LEFT_OUT}: the GPU no longer answered: CUDA error: ")
    assert result.refusal == result.checks[0].reason
    assert result.recommended, result.sentence
    assert result.plan["runner"] == "eager"


def test_verify_leaves_out_plans_that_hang_and_keeps_what_it_measured(run_stage):
    """The composed plan is slower than today's; of those that may take its place one hangs at once, one later."""
    trials = ("eager", "fp32", 200), *(("megakernel", dtype, 10) for dtype in ("fp32", "bf16", "fp16"))
    outcome = run_stage(document_of(1, *trials, name="hangs in time").model_copy(update={"seconds_left": 600}))
    result = VerifyResult.model_validate(outcome.document)
    checks = {check.label: check.reason for check in result.checks}
    assert left_out_after(checks["megakernel in bf16"]) < 60
    assert left_out_after(checks["megakernel in fp16"]) < 60
    assert "median TTF8" in checks["megakernel in fp32"]
    assert outcome.said.count("preparing the plan megakernel in fp32") == 1
    assert (result.recommended, result.plan["runner"]) == (False, "eager")
    assert result.outcomes[0].requests >= 9


def left_out_after(reason: str) -> float:
    """The seconds after which a plan counted as hanging."""
    match = re.fullmatch(f"{LEFT_OUT}: it did not end within ([0-9]+) s.", reason)
    assert match, reason
    return float(match[1])


def test_verify_tries_no_other_plan_where_one_hung_past_its_time(run_stage):
    trials = ("eager", "fp32", 200), ("megakernel", "fp32", 10), ("megakernel", "bf16", 20)
    outcome = run_stage(document_of(1, *trials, name="hangs").model_copy(update={"seconds_left": 1}))
    result = VerifyResult.model_validate(outcome.document)
    checks = {check.label: check.reason for check in result.checks}
    assert re.search("it did not end within [23] s", checks["megakernel in fp32"])
    assert "Time was short to verify megakernel in bf16." in result.sentence
    assert (result.recommended, result.plan["runner"]) == (False, "eager")
    assert result.outcomes[0].after is not None


def test_a_confined_stage_measures_vllm_as_a_peer_and_never_chooses_it(outside: Path, template: Template) -> None:
    without_compiler = {"exclude": ["compiled", "compiled_tuned", "compiled_max_autotune"]}
    document = stage_input("compose", constraints=without_compiler)
    result = ComposeResult.model_validate_json(confined(outside, document, template))
    (outcome,) = result.peers
    assert (outcome.gate, outcome.version, outcome.peer) == ("pass", "0.0", True), outcome.sentence
    assert outcome.primary.value > 0
    assert outcome.served_ids.acceptable
    assert outcome.settings["dtype"] == "float32"
    assert outcome.settings["process_group"] == "fake, of one process"
    assert "a peer, never chosen" in outcome.sentence
    assert result.plan["runner"] == "eager"
    headers, rows = plans.table(Results(compose=result))
    row = dict(zip(headers, next(row for row in rows if row[0] == "vllm 0.0"), strict=True))
    assert (row["chosen"], row["median"]) == ("peer", outcome.primary.value)
    assert plans.figure(Results(compose=result))["data"][0]["y"][0] == "vllm 0.0 (peer)"


def test_a_confined_load_stage_starts_vllms_server(outside: Path, template: Template) -> None:
    plain = verify_result().model_copy(update=PLAIN)
    document = stage_input("load", results=Results(verify=plain), load={"most_users": 2}, **VLLM)
    document = document.model_copy(update={"seconds_left": 5.0})
    result = UnderLoadResult.model_validate_json(confined(outside, document, template))
    assert result.before is not None, result.notes
    if NO_NETWORK in result.notes:  # the machine that runs the tests allows none
        assert result.before.server.kind == "batches"
    else:
        assert result.before.server.label == "vLLM 0.0"
        assert any(load.tokens_per_second for load in result.before.limit.loads)
