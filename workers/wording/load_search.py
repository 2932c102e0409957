"""The sentences of the load stage: of one server's curve, and of both sides. Imports no torch."""

from collections.abc import Sequence

from workers.documents.load import LimitResult, LoadCurve, LoadedServer, LoadResult
from workers.documents.measurement import metric_key
from workers.documents.workload import Objective
from workers.wording.text import (
    capitalised,
    number,
    plain,
    quantity,
    rate_words,
    speed_words,
    traffic_words,
    users_words,
)

IN_ITS_PLACE = "Generate of transformers in batches is before under load in its place."
NO_VLLM = (
    "The workload names vLLM as what runs today, and this worker has no environment of it (WORKER_VLLM). "
    + IN_ITS_PLACE
)
NO_NETWORK = (
    "vLLM was not started: its processes connect to each other, and this host gives a stage no network of its own. "
    + IN_ITS_PLACE
)
AFTER_HERE = "The workload names vLLM with the plan as after. It was not started either, so after is what runs it here."
LATE = "the generator itself was late"
SHARED = "other programs used the machine meanwhile"
MORE_MINUTES = "with more minutes a load lasts longer"


def curve_of(server: LoadedServer, limit: LimitResult) -> LoadCurve:
    return LoadCurve(server=server, limit=limit, sentence=limit_sentence(limit))


def limit_sentence(limit: LimitResult, remedy: str = MORE_MINUTES) -> str:
    """What a search found, which loads could not be measured, and why it ended early. `remedy` is for short loads."""
    too_few = f"served too few requests to say: {remedy}."
    void = [load for load in limit.loads if load.verdict is None]
    judged = len(limit.loads) - len(void)
    if limit.held:
        sentences = _held_sentences(limit, limit.held, too_few)
    else:
        sentences = _unheld_sentences(limit, too_few) if judged else _unmeasured_sentences(void)
    if judged:
        counted = "One load was judged," if judged == 1 else f"{judged} loads were judged, each"
        sentences.append(f"{counted} at {plain(100 * limit.confidence_each, 5)} % confidence.")
        named = ", ".join(traffic_words(load.traffic) for load in void)
        sentences += [f"Not measured, since {_why_void(void)}: {named}."] if void else []
    if limit.saturation:
        at = limit.saturation.users
        sentences.append(f"Above {_level(limit, at)} a higher load hardly brings more tokens per second.")
    if limit.unfinished:
        sentences.append(f"{limit.unfinished} A higher load may hold as well." if limit.held else limit.unfinished)
    return " ".join(sentences)


def _held_sentences(limit: LimitResult, held: LoadResult, too_few: str) -> list[str]:
    """Of a search that found a load, `held`."""
    most = ", the most that was tried" if limit.level == limit.most_level else ""
    sentences = [f"Every objective holds {load_words(limit)}{most}: {number(held.tokens_per_second)} tokens/s."]
    undecided = [load for load in limit.loads if load.verdict == "not_enough_samples" and load.level > held.level]
    if undecided:
        sentences.append(f"Higher loads ({', '.join(traffic_words(load.traffic) for load in undecided)}) {too_few}")
    if limit.speed is not None:
        replayed = (held.warm_up_seconds + held.seconds) * limit.speed
        sentences.append(f"That was shown for the first {plain(replayed)} s of the recording.")
    above = next((load for load in limit.loads if load.level > limit.level), None)
    if above and above.verdict is None:
        sentences.append(
            f"The next load, {traffic_words(above.traffic)}, could not be measured: {_why_void([above])}. "
            "So this limit is not the server's."
        )
    return sentences


def _unheld_sentences(limit: LimitResult, too_few: str) -> list[str]:
    """Of a search that judged loads and found none."""
    first = limit.loads[0]
    least = traffic_words(first.traffic)
    lowest = "" if limit.nearer_above or first.verdict is None else f", not even {least}"
    sentences = [f"No load is shown to hold every objective{lowest}."]
    if all(load.verdict in ("not_enough_samples", None) for load in limit.loads):
        sentences.append(f"Each {too_few}")
    elif first.verdict == "not_enough_samples":
        sentences.append(f"The lowest, {least}, {too_few}")
    return sentences


def _unmeasured_sentences(void: Sequence[LoadResult]) -> list[str]:
    """Of a search whose loads are all void."""
    why = f"be measured: {_why_void(void)}; nothing was judged."
    one = len(void) == 1
    which = f"The load of {traffic_words(void[0].traffic)} could not" if one else f"None of {len(void)} loads could"
    return [f"{which} {why}", void[0].notes[0]]


def _why_void(loads: Sequence[LoadResult]) -> str:
    return SHARED if all(load.telemetry and not load.lag.void for load in loads) else LATE


def load_words(limit: LimitResult) -> str:
    """The highest load that holds: `with 8 users at once`, `at 12.5 requests per second`, `at the recorded speed`."""
    closed = limit.rate is None and limit.speed is None
    return f"with {users_words(limit.users)} at once" if closed else f"at {_level(limit, limit.level)}"


def _level(limit: LimitResult, level: float) -> str:
    if limit.speed is not None:
        return speed_words(level)
    return users_words(round(level)) if limit.rate is None else rate_words(level)


def whole_sentence(before: LoadCurve | None, after: LoadCurve | None, recommended: bool = True) -> str:
    """What the stage found, in one sentence. Before is today where no change is `recommended`."""
    label = "before" if recommended else "today"
    sides = [(name, curve) for name, curve in ((label, before), ("after", after)) if curve]
    if not sides:
        return "No load was measured."
    return " ".join(f"{capitalised(name)}{_vllm_label(curve)}, {limit_words(curve.limit)}." for name, curve in sides)


def unlike_verify(objectives: Sequence[Objective], before: LoadCurve | None) -> str:
    """A sentence where one user of what runs today meets a promise of being faster than it; "" elsewhere.

    The limit of such a promise follows from the median that verify measured, one request at a time.
    """
    lowest = before.limit.loads[0] if before and before.limit.loads else None
    if lowest is None or lowest.traffic.open_loop or lowest.traffic.concurrency != 1:
        return ""
    factors = {metric_key(objective): objective.at_least_faster for objective in objectives}
    for outcome in lowest.outcomes:
        factor, limit = factors.get(metric_key(outcome.objective)), outcome.objective.limit
        if factor and factor > 1 and limit and outcome.verdict == "met" and outcome.value is not None:
            faster = outcome.objective.direction == "at_most"
            verified = quantity(limit * factor if faster else limit / factor, outcome.objective.unit)
            return (
                f"But the median {outcome.objective.title} of what runs today, with one user, was "
                f"{quantity(outcome.value, outcome.objective.unit)} here and {verified} in verify. The two were not "
                f"measured alike, so the limit from verify's median says nothing here: nothing is {factor:g}x as fast "
                "as itself."
            )
    return ""


def choice_of(chosen: LoadCurve, other: LoadCurve) -> str:
    """Which of two ways to run the plan is after, with what both hold."""
    if chosen.limit.held:
        same = chosen.limit.level == other.limit.level
        why = "gave more tokens per second at the highest load that holds, which is the same" if same else "holds more"
        limits = [limit_words(curve.limit) for curve in (chosen, other)]
    else:
        why = "gave more tokens per second, since neither is shown to hold every objective"
        rates = [max(load.tokens_per_second for load in curve.limit.loads) for curve in (chosen, other)]
        limits = [f"{number(rate)} tokens/s at most" for rate in rates]
    one, two = (f"{curve.server.label}: {words}" for curve, words in zip((chosen, other), limits, strict=True))
    return f"Two ways to run the plan were measured, and after is the one that {why}. {capitalised(one)}; {two}."


def server_words(kernels: str, web_servers: int) -> str:
    """How this workbench's server was put under load; `kernels` are whose it computes with."""
    many = f", taken by {web_servers} web server processes for its one engine" if web_servers > 1 else ""
    return f"This workbench's server with {kernels}: continuous batching, over HTTP from this machine{many}."


def batches_words(runner: str) -> str:
    """How a runner, such as `generate of transformers`, was put under load without a server."""
    return (
        f"{capitalised(runner)}, in batches: whenever it is free, it takes all requests that wait as one batch, which "
        "takes as long as its longest request."
    )


def one_api_server(web_servers: int) -> str:
    """What weakens a comparison of vLLM's one API server with so many of this workbench's."""
    return (
        f"vLLM answered HTTP by one process, its default (--api-server-count 1), and this workbench's server by "
        f"{web_servers}. With many users vLLM may serve more tokens per second by several."
    )


def _vllm_label(curve: LoadCurve) -> str:
    return f" ({curve.server.label})" if curve.server.kind == "vllm" else ""


def limit_words(limit: LimitResult) -> str:
    """What a search found, behind a comma: `every promise is kept with 8 users at once: 900 tokens/s`."""
    if not any(load.verdict for load in limit.loads):
        return f"no load could be measured, since {_why_void(limit.loads)}"
    if limit.held is None:
        few = all(load.verdict in ("not_enough_samples", None) for load in limit.loads)
        return f"no load is shown to keep every promise{', since each served too few requests to say' if few else ''}"
    return f"every promise is kept {load_words(limit)}: {number(limit.held.tokens_per_second)} tokens/s"
