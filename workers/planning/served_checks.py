"""Whether what a runner served is the model's, as late as it states, and no faster than its chip could ever be."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from statistics import median

from kernels.engine import Runner
from kernels.engine.clients import KEPT_BATCHES, Clients, KeptBatch
from kernels.engine.loading import answer_of, kind_of
from kernels.engine.model_case import case_of_shapes, model_case
from kernels.hardware import GPUS
from kernels.measure.roofline import CACHED_BYTES, exceeds_peak
from kernels.ops import BYTES
from kernels.plan import Plan
from kernels.proof.logit_gate import LARGEST_DIFFERENCE, difference
from kernels.proof.served_ids import judge
from workers.documents.measurement import ServedIds
from workers.documents.stages import StageInput
from workers.measuring.judged_ids import served_ids
from workers.planning.precision import rounding_of, weights_of

MOST_LATE, MOST_LATE_S = 0.1, 1e-3
"""The median answer may be read later than the runner states by this share of a request and this many seconds."""


FEWEST_ALTERNATIONS, ALTERNATIONS = 3, 25
"""Whole requests and requests for exactly the first tokens alternate at least and at most as often as this."""

JudgeIds = Callable[[Sequence[KeptBatch]], ServedIds | None]
"""Judges the ids of batches that one runner served; None where there are none."""


def judge_served(
    reference: Runner, runner: Runner, plan: Plan, document: StageInput, clients: Clients, batches: int = KEPT_BATCHES
) -> tuple[ServedIds | None, str]:
    """The ids of so many timed batches, and why what `runner` served to `clients` is not valid; "" where it is.

    Ids and outputs are held against `reference`, times against the clients' clock and the chip. `runner` is asked for
    a few tokens more, so it must still be prepared for the workload's requests.
    """
    judge_batches, kept = partial(judge_ids, reference, runner, plan), clients.kept[:batches]
    judged = judge_batches(kept)
    wrong = judged.sentence if judged is not None and not judged.acceptable else None
    wrong = wrong or _other_outputs(reference, runner, plan, kept)
    wrong = wrong or _too_few(kept, clients, document.workload.traffic.output_tokens)
    wrong = wrong or _late(clients) or too_fast(runner, plan, document, clients)
    return judged, wrong or _other_clock(judge_batches, document, clients) or ""


def _too_few(kept: Sequence[KeptBatch], clients: Clients, asked: int) -> str | None:
    """A sentence when a request was answered with another number of ids or times than was asked for, else None."""
    if clients.kind != "decoder":
        return None
    counts = {len(row) for batch in kept for row in batch.tokens} | {len(each.times_ns) for each in clients.served}
    other = next((each for each in sorted(counts) if each != asked), None)
    return None if other is None else f"It answered with {other:,} ids or times where {asked:,} were asked for."


def _other_outputs(reference: Runner, runner: Runner, plan: Plan, kept: Sequence[KeptBatch]) -> str | None:
    """A sentence when timed answers of a model that does not generate are not the right ones, else None.

    Those are the reference's, and as of ids, the runner's own where its plan lowers the precision.
    """
    if kind_of(runner.model) == "decoder":
        return None
    allowed, activations = LARGEST_DIFFERENCE[rounding_of(plan)], LARGEST_DIFFERENCE[plan.dtype]
    sides = [(reference, "the model's", allowed)] if reference is not runner else []
    sides += [(runner, "its own output", activations)] if reference is runner or allowed > activations else []
    for batch, (side, whose, most) in product(kept, sides):
        expected = side.logits(batch.prompt)[batch.row : batch.row + 1].float().cpu()
        if batch.output is None or batch.output.shape != expected.shape:
            return "A timed request has no answer, or one of another shape than the model's."
        found = difference(batch.output.float(), expected, answer_of(runner.model).boxes)
        if not found <= most:
            return f"Its answer to a timed request differs from {whose} by {found:.1%}; rounding explains {most:.0%}."
    return None


def _late(clients: Clients) -> str | None:
    """A sentence when the median answer could be read later than the runner says, by the clients' clock, else None."""
    late, stated = median(clients.unstated_s), median(each.service_s for each in clients.served)
    if late <= MOST_LATE_S + MOST_LATE * stated:
        return None
    return (
        f"It states {1e3 * stated:.3g} ms for a request, but by the clients' clock its answers could be read "
        f"{1e3 * late:.3g} ms later."
    )


def _other_clock(judge_batches: JudgeIds, document: StageInput, clients: Clients) -> str | None:
    """A sentence when the times stated of the first token, or of one that is promised, are not true, else None."""
    output = document.workload.traffic.output_tokens
    asked = {1, *(each.n for each in document.workload.objectives if each.n)} if clients.kind == "decoder" else ()
    said = (_of_early_tokens(judge_batches, clients, n) for n in sorted(asked) if n < output)
    return next((each for each in said if each), None)


def _of_early_tokens(judge_batches: JudgeIds, clients: Clients, tokens: int) -> str | None:
    """A sentence when whole requests and those for exactly their first `tokens` do not take as long till there.

    They alternate until the fastest of each agree: other programs only ever make a request slower.
    """
    whole, took, stated = clients.served[-1], float("inf"), float("inf")
    for done in range(1, ALTERNATIONS + 1):
        batch, seconds = clients.ask(tokens)
        took, stated = min(took, seconds), min(stated, (whole.times_ns[tokens - 1] - whole.start_ns) / 1e9)
        early = took > stated + MOST_LATE_S + MOST_LATE * stated
        late = stated > took + MOST_LATE_S + MOST_LATE * whole.service_s
        if done >= FEWEST_ALTERNATIONS and not early and not late:
            break
        whole = clients.serve()
        clients.served.pop()  # it is none of those that are measured
    else:
        return (
            f"It states {1e3 * stated:.3g} ms until token {tokens:,} of a request; where {tokens:,} were asked for, "
            f"its ids could be read after {1e3 * took:.3g} ms, each the fastest of {ALTERNATIONS} requests in turn."
        )
    if any(len(row) != tokens for row in batch.tokens):
        return f"It answered with another number of ids where {tokens:,} were asked for."
    judged = judge_batches([batch])
    return None if judged is None or judged.acceptable else judged.sentence


def judge_ids(reference: Runner, runner: Runner, plan: Plan, served: Sequence[KeptBatch]) -> ServedIds | None:
    """The ids of timed requests, teacher-forced through `reference`; None where no ids were served.

    Those of a plan of lower precision are also held against the logits of the `runner` that served them, which are
    judged themselves as fidelity (`kernels.proof.served_ids.judge`).
    """
    batches = [(batch.prompt, batch.tokens) for batch in served if batch.tokens]
    if not batches:
        return None
    found = judge(reference, runner, batches, (rounding_of(plan), plan.dtype))
    gaps, own = found.gaps, None if reference is runner else found.own
    said = f"Over {gaps.tokens:,} ids of {len(batches)} timed batches the largest logit gap is {gaps.largest:.2g}."
    if own is not None:
        said += f" By the plan's own logits the mean gap is {own.mean:.2g} and the largest {own.largest:.2g}."
    return served_ids(gaps, found.refusal, said, own)


def of_processes(judged: Sequence[ServedIds]) -> ServedIds | None:
    """The judged ids of several processes as one; None of none."""
    if len(judged) < 2:
        return judged[0] if judged else None
    tokens, largest = sum(each.tokens for each in judged), max(each.largest_gap for each in judged)
    own = [(each.tokens, each.own_mean_gap) for each in judged if each.own_mean_gap is not None]
    wrong = next((each.sentence for each in judged if not each.acceptable), "")
    return ServedIds(
        tokens=tokens,
        mean_gap=sum(each.mean_gap * each.tokens for each in judged) / tokens,
        largest_gap=largest,
        own_mean_gap=sum(count * mean for count, mean in own) / sum(count for count, _ in own) if own else None,
        own_largest_gap=max(
            (each.own_largest_gap for each in judged if each.own_largest_gap is not None), default=None
        ),
        acceptable=not wrong,
        sentence=wrong
        or f"Over {tokens:,} ids of timed batches in {len(judged)} processes the largest logit gap is {largest:.2g}.",
    )


def too_fast(runner: Runner, plan: Plan, document: StageInput, clients: Clients) -> str | None:
    """A sentence when the median request was served in less time than the chip could ever take, else None."""
    traffic, gpu = document.workload.traffic, GPUS[document.gpu]
    if clients.kind != "decoder" or gpu.gpu_class == "cpu" or not clients.served:
        return None
    shape = (traffic.batch, traffic.prompt_tokens, traffic.output_tokens)
    name, shared = document.model.digest, plan.gpus if plan.gpus > 1 else None
    if shared is None:
        case = model_case(runner.model, name, plan.dtype, *shape)
    else:
        case = case_of_shapes(document.model.config, name, plan.dtype, *shape)
    fewest = min(weights_of(plan), key=lambda name: BYTES[name])
    if case.parameters * BYTES[fewest] < CACHED_BYTES:
        return None
    case = case.with_weights(fewest).model_copy(update={"gpus": shared})
    return exceeds_peak(case, 1e3 * median(each.service_s for each in clients.served), gpu)
