"""Judges the ids that a runner served greedily, teacher-forced through a reference runner.

Right logits do not prove right ids: generation may use another code path, a stale buffer or an invented answer. So the
ids of timed requests are judged themselves. The *logit gap* of an id is the distance of its logit from the largest one
at its position in the reference, in standard deviations of that position's logits. It is 0 for the reference's own
choice, up to a few per cent where rounding decides between close logits, and about 4 for a random id among 100,000.

What a lower precision of the weights changes is in the logits of the runner as well as in its ids. So the ids of such a
runner are held against its own logits too, by limits as narrow as those of its activations; how far these logits are
from the model's is judged separately, as fidelity.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernels.proof.logit_gate import MAX_DIFFERENCE

if TYPE_CHECKING:
    import torch

    from kernels.runners import Runner

MAX_OVER_MEAN = 4.0
"""The largest gap may be this many times the allowed mean gap: the errors of logits are approximately normal.

Of trained weights they are not. An H200's megakernel served 99,136 greedy ids of SmolLM2-135M-Instruct after random
prompts (benchmarks/results/h200/served-gaps-smollm2-135m.json). By torch's bf16 the gap of 11 is above 0.24, at most
1.4, in six of 1,549 answers. In five of the six that of float32 is too. In four so is that of the megakernel's own
logits, when it reads the prompt itself: generation reads prompts by another pass, which rounds keys and values anew.
So where the mean gap is small, the runner's own logits decide, behind a prompt that is read as in generation.
"""

OUTLIER_MEAN_SHARE = 0.2
"""The runner's own logits decide up to this share of the mean gap allowed. The mean of those 99,136 gaps is 0.0002."""
MAX_OUTLIER_GAP = 2.0
"""The largest gap allowed then. The gap of a random id is about 4."""
OUTLIER_ANSWERS = 0.02
"""The share of a server's answers that may have larger gaps than MAX_OVER_MEAN allows; one answer always may. A
server's own logits are not known.
"""

MAX_OVER_MEAN_LOSSY = 6.0
"""The same of precisions below 16 bits, by the reference's logits.

16 bits err by a third of what is allowed. fp8 errs by 15 to 20 %, where 25 % are allowed. At 19.6 % the largest of
1,024 gaps was above 1, four times what is allowed, in 5 of 80 simulated trials, and once on an H200: 1.1. With 6 a
runner that errs by all of the 25 % passes too (test_served_ids.py).
"""

OWN_MEAN_SHARE = 0.1
"""Of the mean gap allowed by a reference's logits, the share allowed by the logits of the runner that served.

Nothing lies between these ids and logits but the roundings of its passes over prompts and its decode steps. On an H200
honest runners in bf16, fp8 and NVFP4 gave a mean gap of 0.00034 and a largest of 0.034
(benchmarks/results/h200/decode-lossy-own-ids.json), where bf16 allows 0.006 and 0.24.
"""

OWN_REQUESTS = 16
"""Requests whose ids are held against their own runner's logits."""


@dataclass(frozen=True)
class LogitGaps:
    """Mean and largest logit gap over `tokens` served ids."""

    mean: float
    largest: float
    tokens: int

    def refusal(self, allowed: float, explained: bool = False) -> str | None:
        """Why the ids are not the model's, in a sentence; None where they are.

        `allowed` is the relative difference of the logits that rounding to the runner's precision explains. Of few ids
        one alone may have the largest gap allowed. In 16 bits single gaps may be larger, up to MAX_OUTLIER_GAP, where
        they are `explained`, as by the runner's own logits.
        """
        lossy = allowed > MAX_DIFFERENCE["bf16"]
        if explained and not lossy and self.mean <= OUTLIER_MEAN_SHARE * allowed and self.largest <= MAX_OUTLIER_GAP:
            return None
        largest = (MAX_OVER_MEAN_LOSSY if lossy else MAX_OVER_MEAN) * allowed
        beyond = self._beyond(allowed + (largest - allowed) / self.tokens, largest, "the reference's")
        return f"The ids that it served are not the model's: {beyond}" if beyond else None

    def own_refusal(self, allowed: float) -> str | None:
        """Why ids contradict the logits of the runner that served them; else None. `allowed` is what rounding to its
        *activations* explains. Of few ids one alone may have the largest gap allowed.
        """
        largest = MAX_OVER_MEAN * allowed
        beyond = self._beyond(min(allowed, OWN_MEAN_SHARE * allowed + largest / self.tokens), largest, "its own")
        return f"The ids that it served contradict its own logits: {beyond}" if beyond else None

    def _beyond(self, mean: float, largest: float, whose: str) -> str:
        """The end of a sentence on gaps beyond these limits; "" where they are within both."""
        if self.mean <= mean and self.largest <= largest:
            return ""
        return (
            f"over {self.tokens:,} ids {whose} logits lie {self.mean:.2g} standard deviations below the largest on "
            f"average and {self.largest:.2g} at most, where rounding explains {mean:.2g} and {largest:.2g}."
        )


@dataclass(frozen=True)
class Judged:
    """What was found of served ids: `gaps` and `own` ones; `refusal` says why they do not count, else None."""

    gaps: LogitGaps
    own: LogitGaps | None
    refusal: str | None


def judge(
    reference: "Runner",
    runner: "Runner",
    served: "Sequence[tuple[torch.Tensor, Sequence[Sequence[int]]]]",
    precisions: tuple[str, str],
) -> Judged:
    """Judges batches (prompt, ids) that `runner` served; there is one at least.

    `precisions` are the one in the runner that rounds most, such as that of its weights, and that of its activations.
    Where the first is the lower one, or `reference` is the runner itself or refuses the ids, they are held against the
    runner's own logits too, whose distance from the model is judged separately. Raises ValueError as `logit_gaps`.
    """
    allowed, activations = (MAX_DIFFERENCE[precision] for precision in precisions)
    gaps = joined([logit_gaps(reference, *batch) for batch in served])
    if reference is runner:
        return Judged(gaps, gaps, gaps.own_refusal(activations))
    refusal = gaps.refusal(allowed)
    if not runner.gives_logits or (allowed <= activations and not refusal):
        return Judged(gaps, None, refusal)
    own = joined([logit_gaps(runner, *batch) for batch in served])
    return Judged(gaps, own, gaps.refusal(allowed, explained=True) or own.own_refusal(activations))


def logit_gaps(reference: "Runner", prompt: "torch.Tensor", served: Sequence[Sequence[int]]) -> LogitGaps:
    """The gaps of ids `served` [batch][new] after `prompt` [batch, length] by `reference`. Raises ValueError for an id
    outside the vocabulary or unequal rows.
    """
    import torch

    ids = torch.tensor(served, dtype=torch.int64, device=prompt.device)
    if ids.dim() != 2 or len(ids) != len(prompt) or not ids.numel():
        raise ValueError(f"served: [batch][new] ids of {len(prompt)} prompts are needed, not {list(ids.shape)}")
    vocabulary = reference.model.config.vocab_size
    if bool((ids < 0).any()) or bool((ids >= vocabulary).any()):
        raise ValueError(f"served: an id lies outside of the vocabulary of {vocabulary:,}")
    logits = reference.logits(torch.cat([prompt, ids], dim=1))[:, prompt.shape[1] - 1 : -1].float()
    chosen = logits.gather(-1, ids.to(logits.device).unsqueeze(-1)).squeeze(-1)
    gaps = (logits.amax(-1) - chosen) / logits.std(-1)
    return LogitGaps(mean=float(gaps.mean()), largest=float(gaps.max()), tokens=ids.numel())


def own_gaps(runner: "Runner", shape: tuple[int, int, int]) -> LogitGaps:
    """The gaps of what a runner serves by its own teacher-forced logits: over OWN_REQUESTS of random ids from a seed.

    `shape` is [batch, prompt, new] of each. A runner of lower precision chooses other ids than the model; by its own
    logits they are the best ones, as far as its passes over prompts and its decode steps agree.
    """
    import torch

    generator, (batch, length, new) = torch.Generator().manual_seed(7), shape
    vocabulary, device = runner.model.config.vocab_size, runner.model.device
    parts = []
    for _ in range(OWN_REQUESTS):
        prompt = torch.randint(vocabulary, (batch, length), generator=generator).to(device)
        parts.append(logit_gaps(runner, prompt, runner.generate(prompt, new).tokens))
    return joined(parts)


def answer_gaps(reference: "Runner", prompt: Sequence[int], served: Sequence[int], device: str) -> LogitGaps:
    """The gaps of one answer: ids `served` after the ids `prompt`. Raises as `logit_gaps`."""
    import torch

    return logit_gaps(reference, torch.tensor([list(prompt)], dtype=torch.int64, device=device), [served])


def answers_refusal(answers: Sequence[LogitGaps], allowed: float) -> str | None:
    """Why a server's answers are not the model's, by their gaps, in a sentence; else None. `allowed` as in
    `LogitGaps.refusal`; in 16 bits OUTLIER_ANSWERS may have larger gaps, the means of none.
    """
    beyond = [answer for answer in answers if answer.largest > MAX_OVER_MEAN * allowed]
    few = len(beyond) <= max(1, OUTLIER_ANSWERS * len(answers))
    return joined(answers).refusal(allowed, few and all(answer.mean <= allowed for answer in beyond))


def joined(parts: Sequence[LogitGaps]) -> LogitGaps:
    """The gaps of all ids together; `parts` has one at least."""
    ids = sum(part.tokens for part in parts)
    return LogitGaps(
        mean=sum(part.mean * part.tokens for part in parts) / ids,
        largest=max(part.largest for part in parts),
        tokens=ids,
    )
