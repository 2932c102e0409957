"""What `bench decode` times: fresh prompts, answers held against the model's logits, times against the host's clock."""

import itertools
import time
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch

from kernels import runners
from kernels.cli import bench_decode, bench_decode_run
from kernels.cli.bench_decode import Options
from kernels.cli.bench_decode_run import DecodeRun, Exact, compare
from kernels.cli.bench_lines import row_line
from kernels.hardware import GPUS
from kernels.measure.latency import ServedBatch
from kernels.model_files import catalogue
from kernels.ops import ModelCase
from kernels.runners import Generation
from kernels.runners.clients import KEPT_BATCHES
from kernels.runners.eager import EagerRunner

CASE = ModelCase(model="tiny-llama", weights="fp32", batch=1, prompt=16, tokens=8)
ROUNDS = KEPT_BATCHES + 1


@pytest.fixture(scope="module")
def model():
    config, _ = catalogue.entry(CASE.model)
    return runners.load(None, config, seed=0, generated=True, dtype="fp32", device="cpu")


class Paced(EagerRunner):
    """The eager runner with long pauses."""

    FIRST, STEP = 5.0, 1.0
    ahead_ns: ClassVar[int] = 0
    asked: int = -9
    """Below 0 while it is prepared."""

    def prepare(self, batch, prompt, tokens):
        super().prepare(batch, prompt, tokens)
        self.asked = 0

    def generate(self, prompt, tokens, sampling=None):
        self.asked += 1
        return self.answer(prompt, tokens)

    def answer(self, prompt, tokens):
        """What an honest runner answers."""
        start_ns, times_ns = time.monotonic_ns(), []
        made = EagerRunner.generate(self, prompt, tokens)
        for token in range(tokens):
            Paced.ahead_ns += round(1e9 * (self.STEP if token else self.FIRST))
            times_ns.append(time.monotonic_ns())
        return Generation(made.tokens, times_ns, start_ns)


@pytest.fixture(autouse=True, scope="module")
def paced_clock():
    clock_ns = time.monotonic_ns
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic_ns", lambda: clock_ns() + Paced.ahead_ns)
        yield


class Remembers(Paced):
    """Keeps its answers by the ids of the prompt."""

    answers: ClassVar[dict[bytes, list[list[int]]]] = {}
    hits: ClassVar[int] = 0

    def answer(self, prompt, tokens):
        start_ns, key = time.monotonic_ns(), prompt.numpy().tobytes() + bytes([tokens])
        if key in self.answers:
            Remembers.hits += 1 < self.asked <= 1 + ROUNDS
            return Generation(self.answers[key], [time.monotonic_ns()] * tokens, start_ns)
        made = Paced.answer(self, prompt, tokens)
        self.answers[key] = made.tokens
        return made


class RemembersShapes(Paced):
    """Keeps its answers by the prompt's length: what it made in its first request comes again at once."""

    def __init__(self, model):
        super().__init__(model)
        self.answers = {}

    def answer(self, prompt, tokens):
        start_ns, key = time.monotonic_ns(), (*prompt.shape, tokens)
        if key not in self.answers:
            self.answers[key] = Paced.answer(self, prompt, tokens).tokens
        return Generation(self.answers[key], [time.monotonic_ns()] * tokens, start_ns)


class HonestAtLast(RemembersShapes):
    """Answers timed requests with earlier ids, except the last one."""

    def answer(self, prompt, tokens):
        honest = self.asked == 1 + ROUNDS or tokens < CASE.tokens
        return Paced.answer(self, prompt, tokens) if honest else super().answer(prompt, tokens)


class EarlyClock(Paced):
    """Serves what is asked for and states times that have been over long before."""

    def answer(self, prompt, tokens):
        made = Paced.answer(self, prompt, tokens)
        return Generation(made.tokens, [made.start_ns + 1000 * (n + 1) for n in range(tokens)], made.start_ns)


class EndsSlowly(Paced):
    """Takes a while from the last token until its ids can be read, whatever number was asked for."""

    def answer(self, prompt, tokens):
        made = super().answer(prompt, tokens)
        Paced.ahead_ns += 8 * 10**8
        return made


class LateClock(Paced):
    """States that every other request ended long after it did, so that the next one seems to begin later."""

    def answer(self, prompt, tokens):
        made = Paced.answer(self, prompt, tokens)
        made.times_ns[-1] += 10**9 * (self.asked % 2)
        return made


class EarlyFirst(Paced):
    """Says that the first token came at once, so that its TTFT is short and its decode steps are long."""

    def answer(self, prompt, tokens):
        made = Paced.answer(self, prompt, tokens)
        return Generation(made.tokens, [made.start_ns + 1000, *made.times_ns[1:]], made.start_ns)


class Short(Paced):
    def answer(self, prompt, tokens):
        return Paced.answer(self, prompt, min(2, tokens))


CHEATS = {
    RemembersShapes: "The ids that it served are not the model's: over 128 ids",
    HonestAtLast: "The ids that it served are not the model's: over 128 ids",
    EarlyClock: "ms for a request, but by the clients' clock its answers could be read",
    LateClock: "It states times that cannot be: out of order, before the request, or after its ids could be read.",
    EarlyFirst: "ms until token 1 of a request; where 1 were asked for, its ids could be read after",
    Short: "It answered with 2 ids or times where 8 were asked for.",
}


@pytest.fixture(scope="module")
def rows(model, paced_clock):
    """A row of each runner, beside an honest one, a peer."""
    variants = [
        SimpleNamespace(name=made.__name__, peer=made is Paced, options={}, build=lambda *_, made=made: made)
        for made in (Paced, *CHEATS, EndsSlowly, Remembers)
    ]
    ceilings = {"read_tbps": 10.0, "copy_tbps": 10.0, "matrix_tflops": {"fp32": 1e3}}
    options = Options(rounds=ROUNDS, seconds=600)
    result = bench_decode._measure(options, GPUS["cpu"], ceilings, model, [(variant, CASE) for variant in variants])
    return {row.variant: row for row in result}


@pytest.mark.parametrize("cheat", CHEATS)
def test_bench_decode_refuses_a_runner_that_does_not_do_the_work_while_it_is_timed(rows, cheat):
    row = rows[cheat.__name__]
    assert row.gate == "fail"
    assert CHEATS[cheat] in row.reason
    assert row.ratio_to_best_peer is None


def test_what_every_request_takes_to_end_is_no_lie_and_answers_kept_by_prompts_no_use(rows):
    for name in ("Paced", "EndsSlowly", "Remembers"):
        assert rows[name].gate == "pass", rows[name].reason
        assert (rows[name].rounds, rows[name].judged) == (ROUNDS, KEPT_BATCHES)
    assert rows["EndsSlowly"].ttft_ms >= 5800
    assert len(Remembers.answers) >= 1 + ROUNDS
    assert Remembers.hits == 0


def test_no_two_runners_have_the_same_prompts(model):
    variant, runner = SimpleNamespace(name="planted", peer=False), Paced(model)
    runs = [DecodeRun(variant, CASE, runner, "pass") for _ in range(2)]
    for run in runs:
        run.warm_up()
        for _ in range(3):
            run.serve()
    prompts = [batch.prompt for run in runs for batch in run.clients.kept]
    assert len(prompts) == 6
    assert not any(one.equal(other) for one, other in itertools.combinations(prompts, 2))


def test_bench_decode_fails_a_runner_of_lower_precision_whose_ids_contradict_its_own_logits(model):
    """Its timed requests leave the last layer out; in NVFP4 the model's own logits would allow that."""

    class LeavesOut(Paced):
        def answer(self, prompt, tokens):
            layers = self.model.model.layers
            if self.asked < 1:
                return Paced.answer(self, prompt, tokens)
            last = layers[len(layers) - 1]
            del layers[len(layers) - 1]
            try:
                return Paced.answer(self, prompt, tokens)
            finally:
                layers.append(last)

    case = CASE.model_copy(update={"weights": "nvfp4"})
    runs = [
        DecodeRun(SimpleNamespace(name="planted", peer=False), case, made(model), "pass") for made in (Paced, LeavesOut)
    ]
    for run in runs:
        run.runner.asked = 0
        run.warm_up()
        for _ in range(3):
            run.serve()
    bench_decode_run.judge(runs, runners.runner("eager", model), "fp32")
    honest, cheat = runs
    assert honest.gate == "pass", honest.reason
    assert cheat.gate == "fail"
    assert cheat.reason.startswith("The ids that it served contradict its own logits: over ")


def test_bench_decode_holds_our_runners_against_their_own_logits(model):
    case = ModelCase(model="tiny-llama", weights="fp32", batch=1, prompt=8, tokens=4)
    variant = SimpleNamespace(name="planted", peer=False, in_plans=True)
    run = DecodeRun(variant, case, runners.runner("eager", model), "pass")
    compare([run], Exact.of(model, runners.runner("eager", model), case, 1), case, "fp32")
    assert (run.own.tokens, run.own.largest < 1e-3) == (64, True)
    run.served = [ServedBatch(0, 0, (1_000_000, 2 * 10**9, 4 * 10**9, 10**10), 1, 4)]
    row = bench_decode._row(run, GPUS["cpu"], {}, torch.zeros(1, 8, dtype=torch.int64))
    assert (row.ttft_ms, row.ttf64_ms, row.ms_per_token) == (1.0, 1e4, 3333.0)
    assert (row.own_mean_gap, row.own_largest_gap) == (run.own.mean, run.own.largest)
    assert f"own ids {run.own.mean:.2g} below the best" in row_line(row)
