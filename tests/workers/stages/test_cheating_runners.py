"""A runner that is fast because it does not run the model is refused, in compose and in verify, by a sentence."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch

from kernels import registry
from kernels.measure.latency import ServedBatch
from kernels.model.loading import skeleton
from kernels.model_files import catalogue
from kernels.plan import Plan
from kernels.runners import Generation, by_name
from kernels.runners.eager import EagerRunner
from kernels.runners.whole_model import WholeModel
from tests.workers.conftest import composed_with, context_of, plan_of, stage_input
from tests.workers.stages.kinds import EMBEDDER, documents
from tests.workers.stages.test_compose import composed, quick
from workers.documents.stages import StageInput
from workers.measuring import alternation
from workers.measuring.served_model import load
from workers.planning import fresh_process
from workers.planning.processes import FurtherProcesses
from workers.planning.served_checks import too_fast
from workers.planning.trials import TrialRunner, TrialTimeouts
from workers.planning.verification import Verification

__all__ = ["quick"]
from workers.stages import verify


class ZeroRunner(EagerRunner):
    """Answers a request with zeros at once; its logits are honest. Stands in for the megakernel, which needs a GPU."""

    def __init__(self, model: Any, options: Any = None, ops: Any = None) -> None:
        super().__init__(model, options)

    def generate(self, prompt: torch.Tensor, tokens: int, sampling: Any = None) -> Generation:
        start_ns = time.monotonic_ns()
        return Generation([[0] * tokens] * len(prompt), [start_ns + 1000 * (n + 1) for n in range(tokens)], start_ns)


class EarlyTokens(ZeroRunner):
    """Only the last time that it states is true: the tokens before it are said to come at once."""

    def generate(self, prompt: torch.Tensor, tokens: int, sampling: Any = None) -> Generation:
        made = EagerRunner.generate(self, prompt, tokens, sampling)
        early = [made.start_ns + 1000 * (n + 1) for n in range(tokens - 1)]
        return Generation(made.tokens, [*early, made.times_ns[-1]], made.start_ns)


class LateTokens(ZeroRunner):
    """Says that the first token came with the last one, so that no time lies between them."""

    def generate(self, prompt: torch.Tensor, tokens: int, sampling: Any = None) -> Generation:
        made = EagerRunner.generate(self, prompt, tokens, sampling)
        if tokens > 1:
            time.sleep(0.1)
            made.times_ns[-1] = time.monotonic_ns()
        return Generation(made.tokens, made.times_ns[-1:] * tokens, made.start_ns)


class EarlyTokensMadeUp(EarlyTokens):
    """And makes up the ids of a request for fewer tokens than the workload's, so that these do come at once."""

    def generate(self, prompt: torch.Tensor, tokens: int, sampling: Any = None) -> Generation:
        return (EarlyTokens if tokens >= 8 else ZeroRunner).generate(self, prompt, tokens, sampling)


class LateAnswer(list):
    """Ids that are computed when somebody reads them."""

    def __init__(self, compute: Callable[[], list[list[int]]]) -> None:
        super().__init__()
        self._compute = compute

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self._compute())


class AnswersLater(ZeroRunner):
    """Stops the clock at once and computes the ids after it."""

    def generate(self, prompt: torch.Tensor, tokens: int, sampling: Any = None) -> Generation:
        start_ns = time.monotonic_ns()
        answer = LateAnswer(lambda: EagerRunner.generate(self, prompt, tokens, sampling).tokens)
        return Generation(answer, [start_ns + 1000 * (n + 1) for n in range(tokens)], start_ns)


class ShortAnswers(ZeroRunner):
    """Serves the first two ids of each request and states times of all."""

    def generate(self, prompt: torch.Tensor, tokens: int, sampling: Any = None) -> Generation:
        made = EagerRunner.generate(self, prompt, 2, sampling)
        return Generation(made.tokens, made.times_ns + [made.times_ns[-1]] * (tokens - 2), made.start_ns)


class Remembers(ZeroRunner):
    """Keeps its answers by the ids of the prompt, across measurements."""

    answers: ClassVar[dict[bytes, list[list[int]]]] = {}
    hits: ClassVar[int] = 0

    def prepare(self, batch: int, prompt: int, tokens: int) -> None:
        """Nothing: the same ids come each time."""

    def generate(self, prompt: torch.Tensor, tokens: int, sampling: Any = None) -> Generation:
        start_ns, key = time.monotonic_ns(), prompt.numpy().tobytes()
        if key in self.answers:
            Remembers.hits += 1
        else:
            self.answers[key] = EagerRunner.generate(self, prompt, tokens, sampling).tokens
        return Generation(self.answers[key], [time.monotonic_ns()] * tokens, start_ns)


class NoForward(ZeroRunner):
    """Its output for a comparison is honest; a timed request gets zeros at once."""

    def encode(self, ids: torch.Tensor) -> Generation:
        start_ns = time.monotonic_ns()
        return Generation([], [time.monotonic_ns()], start_ns, output=torch.zeros(len(ids), ids.shape[1], 32))


class WrongSteps(ZeroRunner):
    """What it serves is honest, and so are its logits of a prompt, but behind it they are of something else."""

    generate = EagerRunner.generate

    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        return torch.cat([super().logits(ids)[:, :16], super().logits(ids.flip(1))[:, 16:]], dim=1)


class Zeros(WholeModel):
    name, runner_name = "megakernel", "megakernel"
    summary = "planted"


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    registry.variants()
    monkeypatch.setitem(registry._variants, "megakernel", Zeros())
    monkeypatch.setitem(by_name.RUNNERS, "megakernel", f"{__name__}.ZeroRunner")
    monkeypatch.setattr(alternation, "MIN_SECONDS", 0.0)


@pytest.mark.parametrize(
    ("runner", "said"),
    [
        ("ZeroRunner", "The ids that it served contradict its own logits: over "),
        ("WrongSteps", "Its logits differ from the model's by "),
    ],
)
def test_compose_refuses_made_up_ids_and_logits_that_differ_behind_a_prompt(context, monkeypatch, runner, said):
    monkeypatch.setitem(by_name.RUNNERS, "megakernel", f"{__name__}.{runner}")
    trial = next(item for item in composed(context, []).trials if item.label == "megakernel")
    assert (trial.gate, trial.primary, trial.chosen) == ("fail", None, False)
    assert said in trial.reason


def test_verify_refuses_made_up_ids(context):
    document = stage_input("verify")
    result = verify.run(composed_with(of_cheat(document), document), context)
    assert not result.recommended
    assert result.plan["runner"] == "eager"
    assert result.refusal.startswith("The ids that it served are not the model's")
    assert f"The plan is refused. {result.refusal}" in result.sentence


def of_cheat(document: StageInput) -> Plan:
    return plan_of(document, runner="megakernel")


@pytest.mark.parametrize(
    ("cheat", "said"),
    [
        (AnswersLater, "by the clients' clock its answers could be read"),
        (ShortAnswers, "2 ids or times where 8 were asked for"),
        (EarlyTokens, "token 1 of a request; where 1 were asked for, its ids could be read after"),
        (LateTokens, "token 1 of a request; where 1 were asked for, its ids could be read after"),
        (EarlyTokensMadeUp, ": over 1 ids "),  # not the model's, or contradicting its own logits
    ],
)
def test_what_is_not_whole_when_the_clock_stops_is_refused(context, monkeypatch, cheat, said):
    """In a further process, and for one of them in compose, which asks in the same way."""
    monkeypatch.setitem(by_name.RUNNERS, "megakernel", f"{__name__}.{cheat.__name__}")
    document = stage_input("verify")
    task = fresh_process.VerifyTask(document=document, plan=of_cheat(document), pairs=3, seed=3)
    assert said in fresh_process.measure(task, context).refusal
    if cheat is not EarlyTokens:
        return
    model = load(document, context)
    trial = TrialRunner(document).attempt("cheat", task.plan, lambda: cheat(model), TrialTimeouts(60, 0.2), lossy=False)
    assert trial.gate == "fail"
    assert said in trial.reason


def test_no_measurement_repeats_the_prompts_of_another(context):
    document = stage_input("verify")
    model, plan = load(document, context), of_cheat(document)
    for _ in range(2):
        TrialRunner(document).attempt("memo", plan, lambda: Remembers(model), TrialTimeouts(60, 0.1), lossy=False)
    further = FurtherProcesses(document, context)
    with closing(Verification(document, context, None, further)) as bench:
        for _ in range(2):
            bench._serve_both(Remembers(model), plan, time.monotonic(), context.seconds_left)
    assert len(Remembers.answers) > 20
    assert Remembers.hits == 0


def test_compose_and_verify_refuse_made_up_embeddings(tmp_path, monkeypatch):
    monkeypatch.setitem(by_name.RUNNERS, "megakernel", f"{__name__}.NoForward")
    context, document = context_of(EMBEDDER, tmp_path, 20), documents("verify", EMBEDDER)
    model, text = load(document, context), "Its answer to a timed request differs from "
    times, plan = TrialTimeouts(60, 0.2), of_cheat(document)
    trial = TrialRunner(document).attempt("cheat", plan, lambda: NoForward(model), times, lossy=False)
    assert trial.gate == "fail"
    assert trial.reason.startswith(f"{text}its own output by 100.0 %")
    result = verify.run(composed_with(plan, document), context)
    assert not result.recommended
    assert result.refusal.startswith(f"{text}the model's by 100.0 %")


def test_a_request_faster_than_the_memory_can_be_read_is_refused(context):
    """Llama-3.2-1B's 2.47 GB of weights for each of 64 tokens take 33 ms at an H200's 4.8 TB/s."""
    config, _ = catalogue.entry("llama-3.2-1b")
    runner = SimpleNamespace(model=skeleton(config, "bf16"))
    document = stage_input("verify", gpu_class="h200", traffic={"prompt_tokens": 128, "output_tokens": 64})
    plan = Plan(model_digest="a" * 64, gpu="h200", runner="megakernel", dtype="bf16")
    for ms, impossible in ((20, True), (37, False)):
        served = [ServedBatch(0, 0, (ms * 1_000_000,), 1, 64)]
        clients = SimpleNamespace(kind="decoder", served=served)
        assert bool(too_fast(runner, plan, document, clients)) == impossible
    rounded = plan.model_copy(update={"options": {"weights": "fp8"}})
    clients = SimpleNamespace(kind="decoder", served=[ServedBatch(0, 0, (24_700_000,), 1, 64)])
    assert too_fast(runner, rounded, document, clients) is None
