"""On a GPU: work on another stream, somebody else's kernels, and what changing inputs do to honest times."""

import pytest
import torch
import torch.nn.functional as F

from kernels import registry
from kernels.hardware import GPUS
from kernels.measure.environment import current_device
from kernels.measure.timing import StoppingRule, time_interleaved
from kernels.ops import AttentionCase, Case, GatedCase, LinearCase
from kernels.proof import gate
from kernels.proof.timed_answers import ChangingInputs, TimedAnswers
from kernels.tune.autotune import TuningContext, try_case
from kernels.tune.trial import Trial
from tests.kernels import planted

pytestmark = pytest.mark.gpu

CASE = LinearCase(m=2048, n=4096, k=4096)
CUDA = torch.device("cuda")


class Beside(planted.Planted):
    """Works on a stream of its own, and joins it on both sides."""

    name = "planted_beside"
    begins, ends = True, True

    def __init__(self):
        self.stream = None

    def call(self, x, w, bias=None, residual=None):
        self.stream = self.stream or torch.cuda.Stream()
        if self.begins:
            self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            y = F.linear(x, w)
        if self.ends:
            torch.cuda.current_stream().wait_stream(self.stream)
        return y


class NotWaitedFor(Beside):
    """The caller's stream does not wait for the work."""

    name = "planted_not_waited_for"
    ends = False


class DoesNotWait(Beside):
    """The work does not wait for what the caller's stream writes into its inputs."""

    name = "planted_does_not_wait"
    begins = False


class HonestBeside(Beside):
    """Joins its stream in the calls of the gate and not when it is timed."""

    name = "planted_honest_beside"
    calls = 0

    def call(self, x, w, bias=None, residual=None):
        self.calls += 1
        self.ends = self.calls <= planted.HonestAtFirst.honest
        return super().call(x, w)


def tried(*names: str) -> dict[str, Trial]:
    place = TuningContext(CUDA, GPUS["h200"], {}, StoppingRule(seconds=0.3), only=frozenset({"torch_linear", *names}))
    return {trial.variant: trial for trial in try_case(place, CASE)}


def test_a_stream_that_is_joined_is_allowed():
    report = gate.check(Beside(), CASE, "cuda")
    assert report.passed, report.sentence


@pytest.mark.parametrize("cheat", [NotWaitedFor, DoesNotWait])
def test_a_stream_that_is_not_joined_fails_the_gate(cheat):
    report = gate.check(cheat(), CASE, "cuda")
    print(report.sentence)
    assert report.gate == "fail"


@pytest.mark.parametrize("cheat", [HonestBeside, planted.RemembersLater, planted.CachedByVersion])
def test_a_variant_that_cheats_only_while_it_is_timed_is_refused(plant, cheat):
    plant(cheat)
    result = tried(cheat.name)
    print(result[cheat.name].ms, result[cheat.name].reason)
    assert result[cheat.name].gate in ("fail", "impossible")  # what remembers may also be faster than its chip
    assert result["torch_linear"].chosen


def test_cublas_under_another_name_is_refused(plant):
    plant(planted.Right)
    result = tried("planted_right")
    print(result["planted_right"].reason)
    assert result["planted_right"].gate == "fail"
    assert result["planted_right"].reason.startswith("It claims kernels of its own, but runs one of cuBLAS: ")
    assert result["torch_linear"].gate == "pass"


CASES: list[tuple[Case, str]] = [
    (LinearCase(m=1, n=4096, k=4096), "skinny"),
    (LinearCase(m=64, n=2048, k=2048), "torch_linear"),
    (LinearCase(m=4096, n=4096, k=4096), "gemm_hopper"),
    (GatedCase(m=128, n=8192), "gated_triton"),
    (GatedCase(m=16_384, n=8192), "gated_triton"),
    (AttentionCase(kind="decode", head_dim=128, heads=32, kv_heads=8, batch=8, q_len=1, kv_len=8192), "decode_hopper"),
]


def _answers(case: Case, name: str) -> TimedAnswers:
    variant = registry.variant(name)
    params = variant.space(case)[0]
    return TimedAnswers(variant, params, variant.build(case, params), ChangingInputs(case, CUDA))


def test_inputs_that_change_do_not_change_an_honest_time():
    """Each case on inputs that stay and on inputs that change, interleaved; the L2 is emptied after the writing."""
    assert current_device()[0].type == "cuda"
    for case, name in CASES:
        answers = _answers(case, name)
        calls = {"stay": answers.call, "change": answers.call, "stay again": answers.call}
        rule = StoppingRule(seconds=3, width=0.005, least=200)
        result = time_interleaved(calls, CUDA, rule, watches={"change": answers})
        ratio, noise = result["change"].ms / result["stay"].ms, result["stay again"].ms / result["stay"].ms
        print(f"{case.key}: {result['stay'].ms:.5f} ms, changing {ratio:.4f}x, A/A {noise:.4f}x")
        assert abs(ratio - 1) <= 0.02 + abs(noise - 1)
