"""Variants that are wrong on purpose, each in its own way."""

import re
import threading

import torch
import torch.nn.functional as F

from kernels.registry import Variant


class Planted(Variant):
    """A linear that is right, until a subclass breaks it."""

    name = "planted"
    op = "linear"
    summary = "planted by a test"

    def __init_subclass__(cls):
        if cls.__module__ == __name__ and "name" not in cls.__dict__:
            cls.name = "planted" + re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", cls.__name__)

    def serves(self, case, gpu):
        return None

    def build(self, case, params):
        return self.call

    def call(self, x, w, bias=None, residual=None):
        return F.linear(x, w, bias)


class Wrong(Planted):
    """Off by a per cent."""

    def call(self, x, w, bias=None, residual=None):
        return F.linear(x, w) * 1.01


class WrongInOnePlace(Planted):
    """One row of many is slightly off."""

    name = "planted_wrong_row"

    def call(self, x, w, bias=None, residual=None):
        y = F.linear(x, w)
        y[-1, -1] += 0.01 * y.abs().max()
        return y


class Cached(Planted):
    """Returns its first answer for ever."""

    def __init__(self):
        self.kept = {}

    def call(self, x, w, bias=None, residual=None):
        return self.kept.setdefault("y", F.linear(x, w)).clone()


class CachedByAddress(Planted):
    """Recognises its input tensors and trusts that their contents are the same."""

    def __init__(self):
        self.kept = {}

    def call(self, x, w, bias=None, residual=None):
        if id(x) not in self.kept:
            self.kept[id(x)] = x, F.linear(x, w)
        return self.kept[id(x)][1].clone()


class CachedByVersion(Planted):
    """Recognises its input tensors, and asks torch's version counter whether their contents are the same."""

    def __init__(self):
        self.kept = {}

    def call(self, x, w, bias=None, residual=None):
        key = id(x), x._version, id(w), w._version
        if key not in self.kept:
            self.kept[key] = x, w, F.linear(x, w)
        return self.kept[key][2].clone()


class HonestAtFirst(Planted):
    """Right in the calls of the gate; `cheat` is what it does when it is timed."""

    calls, honest = 0, 11  # ten calls of the gate, one to warm up

    def call(self, x, w, bias=None, residual=None):
        self.calls += 1
        return F.linear(x, w) if self.calls <= self.honest else self.cheat(x, w)

    def cheat(self, x, w):
        raise NotImplementedError


class RemembersLater(HonestAtFirst):
    """Returns the answer of its first timed call ever after."""

    kept = None

    def cheat(self, x, w):
        self.kept = F.linear(x, w) if self.kept is None else self.kept
        return self.kept.clone()


class KnowsContents(Planted):
    """Keeps its answers by the contents of its input, as `key` sees them."""

    def __init__(self):
        self.kept, self.hits = {}, 0

    def call(self, x, w, bias=None, residual=None):
        key = self.key(x)
        self.hits += key in self.kept
        if key not in self.kept:
            self.kept[key] = F.linear(x, w)
        return self.kept[key].clone()

    def key(self, x):
        raise NotImplementedError


class KnowsThreeValues(KnowsContents):
    """Recognises its input by three values."""

    def key(self, x):
        return tuple(x.flatten()[: 3 * 7 : 7].tolist())


class KnowsAllValues(KnowsContents):
    """Recognises its input by all of its values."""

    def key(self, x):
        return x.numpy().tobytes()


class AnswersLater(HonestAtFirst):
    """Returns before the work is done, which a thread does beside."""

    def cheat(self, x, w):
        y = torch.zeros(x.shape[0], w.shape[0], dtype=x.dtype, device=x.device)
        worker = threading.Timer(0.05, lambda: y.copy_(F.linear(x, w)))
        worker.daemon = True
        worker.start()
        return y


class NothingLater(HonestAtFirst):
    """Returns nothing when it is timed."""

    def cheat(self, x, w):
        return None


class SharedBuffer(Planted):
    """Writes every answer into the same memory."""

    def __init__(self):
        self.buffer = None

    def call(self, x, w, bias=None, residual=None):
        y = F.linear(x, w)
        self.buffer = y if self.buffer is None or self.buffer.shape != y.shape else self.buffer.copy_(y)
        return self.buffer


class ChangesInput(Planted):
    """Scales its input in place and undoes nothing."""

    def call(self, x, w, bias=None, residual=None):
        y = F.linear(x, w)
        x.mul_(2)
        return y


class HalfWritten(Planted):
    """Leaves the last column of its output as the allocator gave it."""

    def call(self, x, w, bias=None, residual=None):
        y = torch.empty(x.shape[0], w.shape[0], dtype=x.dtype, device=x.device)
        y[:, :-1] = F.linear(x, w[:-1])
        return y


class Nan(Planted):
    """Has a NaN where large values overflow."""

    def call(self, x, w, bias=None, residual=None):
        y = F.linear(x, w)
        return torch.where(y.abs() > 20, torch.nan, y)


class WrongShape(Planted):
    """Forgets a dimension."""

    def call(self, x, w, bias=None, residual=None):
        return F.linear(x, w).flatten()


class BreaksOnLarge(Planted):
    def call(self, x, w, bias=None, residual=None):
        return F.linear(x.clamp(-8, 8), w)


class LosesTiny(Planted):
    def call(self, x, w, bias=None, residual=None):
        return F.linear(torch.where(x.abs() < 1e-4, 0.0, x), w)


class Raises(Planted):
    """Cannot run."""

    def call(self, x, w, bias=None, residual=None):
        raise RuntimeError("no kernel image is available\nfor this device")


class Right(Planted):
    """Nothing wrong with it."""
