"""Whether what a runner served to `Clients` is the model's, and came when the runner says: a sample of what was served
is judged, and stated times are held against the clients' clock.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from kernels.model.loading import answer_of, kind_of
from kernels.proof.logit_gate import MAX_DIFFERENCE, difference
from kernels.proof.served_ids import Judged, LogitGaps, joined, judge, logit_gaps
from kernels.runners.base import Runner
from kernels.runners.clients import KEPT_BATCHES, Clients, KeptBatch

MAX_LATE_SHARE, MAX_LATE_S = 0.1, 1e-3
"""The median answer may be read later than the runner states by this share of a request and this many seconds."""
ALTERNATIONS, CONTRADICTIONS = 14, 12
"""Of so many pairs of a whole request and one for exactly the first tokens, so many have to contradict the times.

Of equal requests chance alone does that in one check of 20,000, however long other programs stop them (simulated).
"""

Precisions = tuple[str, str]
"""The precision of a runner that rounds most, such as that of its weights, and that of its activations."""
JudgeIds = Callable[[Sequence[KeptBatch]], Judged | None]
"""Judges the ids of batches that one runner served; None where there are none."""


@dataclass(frozen=True)
class JudgedAnswers:
    """A sample of timed batches, `kept`, with the judgement of its `ids` (None: none served) and the `refusal`: why it
    is not valid, "" where it is.
    """

    kept: list[KeptBatch]
    ids: Judged | None
    refusal: str


def judge_answers(
    reference: Runner, clients: Clients, precisions: Precisions, early: Sequence[int] = (), batches: int = KEPT_BATCHES
) -> JudgedAnswers:
    """Judges at most so many timed `batches` of the clients, drawn at random, and the times that their runner states.

    Ids and outputs are held against `reference`, and where the runner lowers the precision against its own logits and
    outputs too, by what rounding to `precisions` explains. Times are held against the clients' clock: of whole
    requests, and till each of the tokens `early`, counted from 1. The runner is asked for some requests more, so it
    must still be prepared for the clients' traffic. Raises as `logit_gaps` for ids that the vocabulary has not.
    """
    sampled, judge_batches = clients.sample(batches), partial(judge_ids, reference, clients.runner, precisions)
    ids = judge_batches(sampled)
    wrong = ids.refusal if ids is not None else None
    wrong = wrong or _other_outputs(reference, clients, sampled, precisions)
    wrong = wrong or _other_number(sampled, clients) or _other_times(clients)
    return JudgedAnswers(sampled, ids, wrong or _other_clock(judge_batches, clients, early) or "")


def judge_ids(reference: Runner, runner: Runner, precisions: Precisions, served: Sequence[KeptBatch]) -> Judged | None:
    """The ids of all batches, teacher-forced (`kernels.proof.served_ids.judge`); None where no ids were served."""
    batches = [(batch.prompt, batch.tokens) for batch in served if batch.tokens]
    return judge(reference, runner, batches, precisions) if batches else None


def judge_kept(
    reference: Runner, batches: Sequence[KeptBatch], precision: str, explained: bool
) -> tuple[LogitGaps | None, str]:
    """The gaps of the ids that a runner of another process served, by `reference`, and why these batches are not the
    model's; "" where they are. `precision` is the runner's that rounds most; the ids are `explained` where its own
    logits give them.
    """
    most = MAX_DIFFERENCE[precision]
    if kind_of(reference.model) != "decoder":
        return None, _other_output(reference, "the model's", batches, most) or ""
    gaps = joined([logit_gaps(reference, batch.prompt, batch.tokens) for batch in batches])
    return gaps, gaps.refusal(most, explained) or ""


def _other_outputs(
    reference: Runner, clients: Clients, batches: Sequence[KeptBatch], precisions: Precisions
) -> str | None:
    """A sentence when timed answers that are no ids are wrong, by the reference and the runner's own; else None."""
    if clients.kind == "decoder":
        return None
    runner, (allowed, activations) = clients.runner, (MAX_DIFFERENCE[precision] for precision in precisions)
    sides = [(reference, "the model's", allowed)] if reference is not runner else []
    sides += [(runner, "its own output", activations)] if reference is runner or allowed > activations else []
    return next(filter(None, (_other_output(side, whose, batches, most) for side, whose, most in sides)), None)


def _other_output(side: Runner, whose: str, batches: Sequence[KeptBatch], max_distance: float) -> str | None:
    for batch in batches:
        expected = side.logits(batch.prompt)[batch.row : batch.row + 1].float().cpu()
        if batch.output is None or batch.output.shape != expected.shape:
            return "A timed request has no answer, or one of another shape than the model's."
        problem = difference(batch.output.float(), expected, answer_of(side.model).boxes)
        if not problem <= max_distance:
            explained = f"rounding explains {100 * max_distance:g} %"
            return f"Its answer to a timed request differs from {whose} by {100 * problem:.1f} %; {explained}."
    return None


def _other_number(batches: Sequence[KeptBatch], clients: Clients) -> str | None:
    """A sentence when a request was answered with another number of ids or times than was asked for, else None."""
    if clients.kind != "decoder":
        return None
    planned = clients.traffic.output_tokens
    counts = {len(row) for batch in batches for row in batch.tokens} | {
        len(served.times_ns) for served in clients.served
    }
    other = next((count for count in sorted(counts) if count != planned), None)
    return None if other is None else f"It answered with {other:,} ids or times where {planned:,} were asked for."


def _other_times(clients: Clients) -> str | None:
    """A sentence when stated times cannot be, or the median answer came later than stated; else None. All by the
    clients' clock: a stated time ahead of it would make the next request short.
    """
    stated_ns = [(served.start_ns, *served.times_ns) for served in clients.served]
    if any(list(times) != sorted(times) for times in stated_ns) or min(clients.unstated_s) < 0:
        return "It states times that cannot be: out of order, before the request, or after its ids could be read."
    late, stated = median(clients.unstated_s), median(served.service_s for served in clients.served)
    if late <= MAX_LATE_S + MAX_LATE_SHARE * stated:
        return None
    return (
        f"It states {1e3 * stated:.3g} ms for a request, but by the clients' clock its answers could be read "
        f"{1e3 * late:.3g} ms later."
    )


def _other_clock(judge_batches: JudgeIds, clients: Clients, early: Sequence[int]) -> str | None:
    """A sentence when the times stated of the tokens `early` are not true, else None."""
    output = clients.traffic.output_tokens
    counts = sorted(set(early)) if clients.kind == "decoder" else []
    problems = (_of_early_tokens(judge_batches, clients, n) for n in counts if n < output)
    return next((problem for problem in problems if problem), None)


def _of_early_tokens(judge_batches: JudgeIds, clients: Clients, tokens: int) -> str | None:
    """A sentence when whole requests and those for exactly their first `tokens` do not take as long till there.

    Either goes first in turn (A B B A ...), so that both of a pair follow the same kind of request: a whole one leaves
    the caches cold, and a host that throttles has done so. Other programs delay both alike. So a time contradicts the
    others only where it lies below the fastest of the other kind that followed the same. A request for fewer tokens may
    also take as long as a whole request does from its last token until its ids can be read.
    """
    batches, batches_s, stated_s = [], [], []
    for pair in range(1, ALTERNATIONS + 1):
        for whole in (pair % 2 == 0, pair % 2 == 1):
            if whole:
                served = clients.serve()
                clients.served.pop()  # it is none of those that are measured
                stated_s.append((served.times_ns[tokens - 1] - served.start_ns) / 1e9)
            else:
                batch, seconds = clients.ask(tokens)
                batches.append(batch)
                batches_s.append(seconds)
        early = _below(stated_s, batches_s, MAX_LATE_SHARE, MAX_LATE_S + min(clients.unstated_s))
        late = _below(batches_s, stated_s, 0.0, MAX_LATE_S + MAX_LATE_SHARE * served.service_s)
        if max(early, late) >= CONTRADICTIONS:
            return (
                f"It states {1e3 * min(stated_s):.3g} ms until token {tokens:,} of a request; where {tokens:,} were "
                f"asked for, its ids could be read after {1e3 * min(batches_s):.3g} ms, each the fastest of {pair} "
                "requests in turn."
            )
        if max(early, late) + ALTERNATIONS - pair < CONTRADICTIONS:
            break
    if any(len(row) != tokens for batch in batches for row in batch.tokens):
        return f"It answered with another number of ids where {tokens:,} were asked for."
    judged = judge_batches(batches[-1:])
    return judged.refusal if judged is not None else None


def _below(seconds: Sequence[float], others: Sequence[float], share: float, more_s: float) -> int:
    """How many, with a `share` of themselves and `more_s` added, are below all others of the same place in a pair."""
    pairs = [(seconds[place::2], others[place::2]) for place in (0, 1)]
    return sum((1 + share) * mine + more_s < min(theirs) for these, theirs in pairs for mine in these)
