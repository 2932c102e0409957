"""The gate lets right variants pass and stops each kind of wrong one with its own sentence."""

import pytest
import torch

from kernels.ops import LinearCase, LmHeadCase, ModelCase
from kernels.proof import gate, inputs
from kernels.proof.gate import PoisonedEmpty
from kernels.proof.kernel_names import kernels_seen
from kernels.proof.reference_cache import ReferenceCache
from kernels.registry import Variant, variant, variants
from tests.kernels import planted

CASE = LinearCase(m=4, n=48, k=32, dtype="fp32", weights="fp32")


def test_right_variant_passes():
    report = gate.check(planted.Right(), CASE, "cpu")
    assert report.passed
    assert 0 < report.error <= report.limit


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (planted.Wrong, "Its error on normal inputs"), (planted.WrongInOnePlace, "Its error on normal inputs"),
        (planted.CachedByAddress, "returned an earlier answer when its input tensors held new values"),
        (planted.CachedByVersion, "returned an earlier answer when its input tensors held new values"),
        (planted.SharedBuffer, "the calls share one output buffer"), (planted.ChangesInput, "It changed its input 'x'"),
        (planted.HalfWritten, "never written"), (planted.Nan, "NaN or infinite"),
        (planted.WrongShape, "It returned shape [192]"), (planted.BreaksOnLarge, "on large inputs"),
        (planted.LosesTiny, "on tiny inputs"),
    ],
)  # fmt: skip
def test_wrong_variants_fail_with_their_own_sentence(wrong, said):
    report = gate.check(wrong(), CASE, "cpu")
    assert not report.passed
    assert report.gate == "fail"
    assert said in report.sentence
    assert "\n" not in report.sentence


def test_cached_output_is_recognised_when_only_new_inputs_tell():
    class CachedFromTheFourthKind(planted.Cached):
        """Answers honestly while the gate tries magnitudes, then stops computing."""

        calls = 0

        def call(self, x, w, bias=None, residual=None):
            self.calls += 1
            return planted.Planted.call(self, x, w) if self.calls <= 6 else super().call(x, w)

    report = gate.check(CachedFromTheFourthKind(), CASE, "cpu")
    assert report.sentence == "It returned an earlier answer for new inputs."
    assert gate.check(planted.Cached(), CASE, "cpu").gate == "fail"


def test_what_cannot_run_or_be_tested_is_one_line():
    report = gate.check(planted.Raises(), CASE, "cpu")
    assert report.gate == "error"
    assert report.sentence == "It could not run: RuntimeError: no kernel image is available"
    case = ModelCase(model="tiny-llama", batch=1, prompt=1, tokens=1)
    assert "no test inputs for" in gate.check(variant("torch_lm_head"), case, "cpu").sentence


@pytest.mark.parametrize(
    "one", [one for one in variants() if one.lossy and one.op != "model"], ids=lambda one: one.name
)
def test_every_lossy_variant_says_how_it_rounds(one: Variant) -> None:
    assert type(one).rounded is not Variant.rounded


def test_lossy_variant_is_held_to_its_rounded_weights_and_reports_the_rounding():
    case = LinearCase(m=4, n=64, k=96, dtype="fp32", weights="int8", epilogue="bias")
    report = gate.check(variant("int8_dynamic_cpu"), case, "cpu")
    assert report.passed
    assert report.limit < 1e-5
    assert 0.001 < report.quantisation < 0.05
    assert "Rounding its inputs alone changes the result by" in report.sentence

    class Off(type(variant("int8_dynamic_cpu"))):
        def build(self, case, params):
            right = super().build(case, params)
            return lambda x, w, bias=None: right(x, w, bias) * 1.001

    report = gate.check(Off(), LinearCase(m=4, n=64, k=96, dtype="fp32", weights="int8"), "cpu")
    assert report.gate == "fail"


def test_next_token_may_only_differ_within_rounding():
    class SecondBest(planted.Planted):
        op = "lm_head"

        def call(self, x, w):
            return (x @ w.T).topk(2, dim=-1).indices[:, 1]

    case = LmHeadCase(m=3, vocab=97, k=32, dtype="fp32", weights="fp32")
    assert gate.check(variant("torch_lm_head"), case, "cpu").passed
    assert gate.check(SecondBest(), case, "cpu").gate == "fail"


def test_poison_reaches_what_python_allocates():
    usual = torch.empty
    with PoisonedEmpty():
        assert torch.empty(3).isnan().all()
        assert torch.empty_like(torch.ones(2, dtype=torch.int64)).eq(-1).all()
        assert torch.ones(2).new_empty(4).isnan().all()
    assert torch.empty is usual


def test_compiled_variant_is_still_compiled_after_the_gate():
    """Called under a torch dispatch mode, Dynamo would give the function up and eager code would be timed."""
    case = LinearCase(m=3, n=16, k=24, dtype="fp32", weights="fp32", epilogue="swiglu")
    report, function = gate.prove(variant("torch_linear_compiled"), case, "cpu")
    assert report.passed, report.sentence
    drawn = inputs.draw(case, "cpu", 1)
    with torch.no_grad():
        names = kernels_seen(lambda: function(**drawn), "cpu")
    assert "aten::silu" not in names
    assert any("Compiled" in name for name in names)


def test_references_are_computed_once_for_equal_inputs_and_judge_every_variant(monkeypatch):
    computed, compute, references = [], gate.compute, ReferenceCache()
    monkeypatch.setattr(gate, "compute", lambda *args, **how: computed.append(1) or compute(*args, **how))
    assert gate.check(planted.Right(), CASE, "cpu", references=references).passed
    once = len(computed)
    assert not gate.check(planted.Wrong(), CASE, "cpu", references=references).passed
    assert gate.check(planted.Right(), CASE, "cpu", references=references).passed
    assert len(computed) == once == 4  # four draws
    assert gate.check(planted.Right(), CASE, "cpu", seed=1, references=references).passed
    assert len(computed) > once


def test_references_of_rounded_inputs_are_not_those_of_others():
    references = ReferenceCache()
    x = {"x": torch.ones(3)}
    first = references.of(("case", 0), x, lambda: ("first", None))
    x["x"] += 1  # as a variant that writes into its inputs would
    assert references.of(("case", 0), {"x": torch.ones(3)}, lambda: ("second", None)) == first
    assert references.of(("case", 0), {"x": torch.ones(3) + 1e-6}, lambda: ("other", None)) == ("other", None)
    assert references.of(("case", 1), {"x": torch.ones(3)}, lambda: ("other draw", None)) == ("other draw", None)
    assert references.of(("case", 2), {"top_k": 50}, lambda: ("of 50", None)) == ("of 50", None)
    assert references.of(("case", 2), {"top_k": 40}, lambda: ("of 40", None)) == ("of 40", None)
