"""Variants that are fast because they do not do the work are refused by a sentence, and never chosen."""

import pytest
import torch

from kernels.cases import GROUPS, check_cases
from kernels.hardware import GPUS
from kernels.measure.timing import StoppingRule
from kernels.ops import GatedCase, GroupedCase, LinearCase, LmHeadCase, RopeCase
from kernels.proof.calls import poison_answer
from kernels.proof.reference_cache import ReferenceCache
from kernels.proof.timed_answers import JUDGED, KEPT, ChangingInputs, TimedAnswers
from kernels.registry import variant
from kernels.tune import autotune
from kernels.tune.autotune import TuningContext, try_case
from kernels.tune.trial import Trial
from tests.kernels import planted

CPU = torch.device("cpu")
CASE = LinearCase(m=4, n=48, k=32, dtype="fp32", weights="fp32")


def tried(*names: str, calls: int = 0) -> dict[str, Trial]:
    """Each variant's trial; with `calls` timed so often."""
    rule = StoppingRule(seconds=0.2, least=6, most=30, warmup_seconds=0.0)
    rule = StoppingRule(seconds=600, least=calls, most=calls, warmup_seconds=0.0) if calls else rule
    place = TuningContext(CPU, GPUS["cpu"], {}, rule, only=frozenset({"torch_linear", *names}))
    return {trial.variant: trial for trial in try_case(place, CASE)}


@pytest.mark.parametrize("op", GROUPS["library"])
def test_inputs_of_every_op_are_new_in_each_call(op):
    for case in check_cases(op, cpu=True):
        inputs, met = ChangingInputs(case, CPU), set()
        for _ in range(8):
            inputs.prepare()
            inputs.write()
            met.add(b"".join(value.view(torch.uint8).numpy().tobytes() for value in flat(inputs._tensors.values())))
        numbers = sum(value.numel() for value in flat(inputs._tensors.values()))
        assert len(met) == 8 or numbers < 32, case.key
        assert inputs._signed or not numbers, case.key


def flat(values):
    """The tensors among values and tuples of them, in memory that is contiguous."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value.contiguous()
        elif isinstance(value, tuple | list):
            yield from flat(value)


@pytest.mark.parametrize(
    ("cheat", "calls", "said"),
    [
        (planted.CachedByVersion, 0, "It returned an earlier answer when its input tensors held new values."),
        (planted.RemembersLater, 0, "Its timed calls give other answers than the gate saw, as if it remembered"),
        (planted.AnswersLater, 0, "Its timed calls give other answers than the gate saw, as if it remembered"),
        (planted.NothingLater, 0, "A timed call gave no answer that can be read: AttributeError: "),
        # three values are the same in many calls, and the others are not
        (planted.KnowsThreeValues, 200, "Its timed calls give other answers than the gate saw, as if it remembered"),
    ],
)
def test_a_variant_that_does_not_do_the_work_is_refused(plant, cheat, calls, said):
    plant(cheat)
    trial = tried(cheat.name, calls=calls)
    assert trial[cheat.name].gate == "fail"
    assert trial[cheat.name].reason.startswith(said)
    assert not trial[cheat.name].chosen
    assert trial["torch_linear"].chosen


def test_a_variant_that_knows_whole_inputs_never_meets_them_again(plant):
    """It works in every timed call, so its time is that of the work."""
    plant(planted.KnowsAllValues)
    known = variant("planted_knows_all_values")
    inputs = ChangingInputs(CASE, CPU)
    answers = TimedAnswers(known, {}, known.call, inputs)
    for _ in range(60):
        answers.prepare()
        answers.before()
        answers.after(answers.call())
    assert (len(known.kept), known.hits) == (60, 0)
    assert [answers.refusal(judged, ReferenceCache()) for judged in range(JUDGED)] == [""] * JUDGED


@pytest.mark.parametrize(
    ("kernel", "owner"),
    [("nvjet_sm90_tst_128x128_64x6", "one of cuBLAS"), ("anybodys_kernel", "one that it does not declare")],
)
def test_a_variant_that_runs_anothers_kernels_as_its_own_is_refused(plant, monkeypatch, kernel, owner):
    """Names as a GPU's profile has them: there is none here."""

    class Fast(planted.Planted):
        name = "planted_fast"
        kernels = ("wgmma_mine",)

    def seen(call, device):
        ours = getattr(call.func, "__self__", None) is not None
        return ["wgmma_mine", kernel] if ours else [kernel]

    plant(Fast)
    monkeypatch.setattr(autotune, "kernels_seen", seen)
    trial = tried("planted_fast")
    assert trial["planted_fast"].gate == "fail"
    assert trial["planted_fast"].reason == f"It claims kernels of its own, but runs {owner}: {kernel}."
    assert trial["torch_linear"].chosen


SMALL = {"dtype": "fp32"}


@pytest.mark.parametrize(
    ("case", "name"),
    [
        (CASE, "torch_linear"),
        (GatedCase(m=3, n=8, **SMALL), "torch_gated"),
        (RopeCase(batch=2, q_len=1, heads=4, kv_heads=2, head_dim=8, append=True, **SMALL), "torch_rope"),
        (
            RopeCase(batch=2, q_len=1, heads=4, kv_heads=2, head_dim=8, append=True, kv_dtype="fp8", **SMALL),
            "torch_rope",
        ),
        (GroupedCase(rows=6, experts=3, n=8, k=16, **SMALL), "torch_grouped_loop"),
        (LmHeadCase(m=2, vocab=40, k=16, sampling="top_k_p", weights="fp32", **SMALL), "torch_lm_head_sampling"),
    ],
    ids=lambda each: getattr(each, "op", each),
)
def test_honest_answers_to_changing_inputs_are_right_in_every_op(case, name):
    own = variant(name)
    inputs = ChangingInputs(case, CPU)
    answers = TimedAnswers(own, {}, own.build(case, {}), inputs)
    for _ in range(12):
        answers.prepare()
        answers.before()
        answers.after(answers.call())
    assert len(answers._kept) == KEPT
    assert [answers.refusal(judged, ReferenceCache()) for judged in range(JUDGED)] == [""] * JUDGED


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.int64])
def test_the_memory_of_a_timed_answer_is_spoiled(dtype):
    answer = torch.ones(3, 4).to(dtype).t()
    poison_answer((answer, None))
    assert (answer.float().isnan() | (answer.float() == -1)).all()


def test_weights_and_lengths_stay_while_the_other_inputs_change():
    inputs = ChangingInputs(GroupedCase(rows=6, experts=3, n=8, k=16, **SMALL), CPU)
    own = inputs.arguments(variant("torch_grouped_loop"), {})
    before = {name: (value.clone(), value._version) for name, value in own.items()}
    inputs.prepare()
    inputs.write()
    assert not own["x"].equal(before["x"][0])
    assert own["x"]._version == before["x"][1]
    assert own["w"].equal(before["w"][0])
    assert own["offs"].equal(before["offs"][0])
    for judged in range(JUDGED):
        assert inputs.drawn(judged)["offs"].equal(own["offs"])
