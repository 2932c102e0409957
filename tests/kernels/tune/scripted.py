"""A bench whose times are given, so that its choices can be foretold."""

import torch

from kernels.hardware import GPUS
from kernels.measure.timing import StoppingRule
from kernels.ops import LinearCase
from kernels.tune.autotune import TuningContext
from tests.kernels import planted

CASE = LinearCase(m=4, n=48, k=32, dtype="fp32", weights="fp32")
QUICK = StoppingRule(seconds=0.2, least=6, most=30, warmup_seconds=0.0)


class FakeTimer:
    """Runs the call and says what `ms` makes of it, a little more every other time."""

    def __init__(self, ms, jitter=0.0):
        self.ms, self.jitter, self.count = ms, jitter, 0

    def __call__(self, call, watch=None):
        self.count += 1
        call()
        return self.ms(call) * (1 + self.jitter * (self.count % 5))


class Fast(planted.Planted):
    name = "planted_fast"


class Slow(planted.Planted):
    name = "planted_slow"


def by_name(trials):
    return {trial.variant: trial for trial in trials}


def scripted(gpu, ms, jitter=0.0):
    """A bench whose times are given per planted class; only these run."""

    def look(call):
        return ms[call.func.__self__.name]

    return TuningContext(
        torch.device("cpu"), GPUS[gpu], {}, QUICK, FakeTimer(look, jitter), frozenset({*ms, "planted_wrong"})
    )
