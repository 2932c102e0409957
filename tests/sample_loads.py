"""A made-up result of the load stage, for pages and reports. The figures are invented."""

from tests.sample_results import ENVIRONMENT, manifest
from tests.sample_results import results as without_load
from tests.sample_results import workload as plain
from workers.documents.base import Verdict
from workers.documents.load import (
    GeneratorLag,
    LimitResult,
    LoadCurve,
    LoadedServer,
    LoadMetric,
    LoadOutcome,
    LoadResult,
    LoadTokens,
    UnderLoadResult,
)
from workers.documents.measurement import Interval, ServedIds, Telemetry
from workers.documents.recording import Recording
from workers.documents.stages import Results
from workers.documents.traffic import Traffic
from workers.documents.workload import LoadSearch, Workload, unit_of
from workers.loadtest.highest_load import LimitSearch, saturation
from workers.stages.price import price
from workers.wording.load_search import batches_words, curve_of, server_words, whole_sentence

SECONDS, OUTPUT = 8.0, 64
SEARCH = LimitSearch(64, 3)


SETTINGS = {"basis": "measured", "max_model_len": 4096, "max_num_seqs": 64, "kv_bytes": 2**30, "graph_rows": [1, 8, 64]}
SETTINGS |= {"megakernel_up_to": 8, "device": "NVIDIA H200", "driver": "590.2", "torch": "2.11"}
SETTINGS |= {"token_ms": {"1": {"kernels": 0.73, "megakernel": 0.58}, "8": {"kernels": 0.81, "megakernel": 0.71}}}
"""What the server after chose when it started."""


def workload() -> Workload:
    """The sample workload, asking for load."""
    return plain().model_copy(update={"load": LoadSearch(most_users=SEARCH.most)})


def _spread(value: float) -> dict[str, Interval]:
    factors = {"p50": 1.0, "p90": 1.1, "p95": 1.15, "p99": 1.3}
    result = {name: value * factor for name, factor in factors.items()}
    return {name: Interval(value=each, low=each * 0.98, high=each * 1.03) for name, each in result.items()}


def load(users: int, ttft_ms: float, tpot_ms: float, verdict: Verdict | None) -> LoadResult:
    """One load at which every request has about these times."""
    promised = plain().objectives
    whole = ttft_ms + tpot_ms * (OUTPUT - 1)
    rate = 1e3 * users * OUTPUT / whole
    requests = round(rate / OUTPUT * SECONDS)
    times = {("ttf_n", 64): whole, ("ttft", None): ttft_ms, ("tpot", None): tpot_ms, ("itl", None): tpot_ms}
    return LoadResult(
        at="2026-11-20T12:00:00+00:00", url="", model="model", api="completions",
        traffic=plain().traffic.model_copy(update={"concurrency": users}), host="x86_64, 16 cores, Linux",
        warm_up_seconds=2, seconds=SECONDS, requests=requests, completed=requests, cancelled=0, ended_early=0,
        failures=[],
        tokens=LoadTokens(
            prompt_wanted=128 * requests, prompt=129 * requests, output_wanted=OUTPUT * requests,
            output=OUTPUT * requests, several=0, uncounted=0,
        ),
        metrics=[
            LoadMetric(metric=metric, n=n, unit=unit_of(metric), samples=requests, percentiles=_spread(value))
            for (metric, n), value in times.items()
        ],
        requests_per_second=requests / SECONDS, tokens_per_second=rate,
        tokens_per_second_interval=Interval(value=rate, low=rate * 0.97, high=rate * 1.03),
        goodput=requests / SECONDS if verdict == "met" else 0.3 * requests / SECONDS, in_flight=float(users),
        lag=GeneratorLag(send_p50=0.1, send_p99=0.6, send_max=1.2, loop_p99=0.8, limit=5, void=verdict is None),
        outcomes=[
            LoadOutcome(
                objective=item, value=whole, verdict=verdict or "too_close", requests=requests,
                over=0 if verdict == "met" else requests // 2, needed=15,
            )
            for item in promised[:1]
        ],
        verdict=verdict, telemetry=Telemetry(power_w_median=380.0 + users),
        notes=[] if verdict else ["The generator itself was 7.1 ms late at p99, more than 5: it is void."],
    )  # fmt: skip


def _limit(loads: list[LoadResult], users: int) -> LimitResult:
    return LimitResult(
        users=users, most=SEARCH.most, confidence=0.99, confidence_each=SEARCH.confidence, loads=loads,
        saturation=saturation([(item.users, item.tokens_per_second) for item in loads if item.verdict]),
    )  # fmt: skip


def under_load() -> UnderLoadResult:
    """Four users before and twenty after."""
    before = curve_of(
        LoadedServer(
            kind="batches", label="generate of transformers in batches",
            sentence=batches_words("generate of transformers"), hardware="NVIDIA H200", gpu_class="h200",
            caveats=["No HTTP and no tokenizer stand between users and runner: that is in its favour."],
        ),
        _limit([load(1, 9, 4.2, "missed"), load(2, 9.4, 4.2, "missed"), load(4, 12, 4.3, "missed")], 0),
    )  # fmt: skip
    after = curve_of(
        LoadedServer(
            kind="server", label="this workbench's server, the plan's kernels",
            sentence=server_words("the plan's kernels", 4), hardware="NVIDIA H200", gpu_class="h200",
            settings=SETTINGS,
        ),
        _limit(
            [
                *[load(users, 2 + users / 8, 1 + users / 60, "met") for users in (1, 2, 4, 8, 16)],
                load(20, 9, 1.38, "met"), load(22, 12, 1.41, "too_close"), load(24, 14, 1.45, None),
                load(32, 22, 2.1, "missed"),
            ],
            20,
        ),
    )  # fmt: skip
    text = "64 of its answers were held against the model's logits: over 4,096 ids the largest logit gap is 0.03."
    judged = ServedIds(tokens=4096, mean_gap=0.001, largest_gap=0.03, acceptable=True, sentence=text)
    return UnderLoadResult(
        environment=ENVIRONMENT, traffic=plain().traffic, objectives=plain().objectives[:1], before=before,
        after=after.model_copy(update={"served_ids": judged}), sentence=whole_sentence(before, after),
    )  # fmt: skip


RECORDING = Recording(
    name="calls.csv", sha256="c" * 64, size=300_000, requests=12_000, seconds=600, longest_prompt=120,
    longest_output=60,
)  # fmt: skip


def replayed_traffic(speed: float) -> Traffic:
    """Everything as in RECORDING, so many times as fast."""
    recorded = {"kind": "recorded"}
    lengths = {"prompt_lengths": recorded, "output_lengths": recorded}
    return Traffic.model_validate(lengths | {"arrivals": recorded | {"speed": speed}, "recording": RECORDING.sha256})


def replayed(found: UnderLoadResult) -> UnderLoadResult:
    """The same figures, as if each user were a tenth of the recorded speed."""

    def side(curve: LoadCurve | None) -> LoadCurve | None:
        if curve is None:
            return None
        loads = [
            item.model_copy(update={"traffic": replayed_traffic(item.users / 10), "in_flight": float(item.users)})
            for item in curve.limit.loads
        ]
        flat = curve.limit.saturation
        changed = {
            "loads": loads,
            "speed": curve.limit.users / 10,
            "most_speed": curve.limit.most / 10,
            "saturation": flat and flat.model_copy(update={"users": flat.users / 10}),
        }
        return curve_of(curve.server, curve.limit.model_copy(update=changed))

    before, after, endpoint = map(side, (found.before, found.after, found.endpoint))
    made = {"before": before, "after": after, "endpoint": endpoint, "sentence": whole_sentence(before, after)}
    return found.model_copy(update=made | {"traffic": replayed_traffic(6.4), "recording": RECORDING})


def results() -> Results:
    """The sample results with the load stage's, and the prices at the loads that it found."""
    result, loaded = without_load(), under_load()
    assert result.verify
    assert result.price
    priced = price(plain(), result.price.book, "h200", result.verify, manifest(), loaded)
    return result.model_copy(update={"load": loaded, "price": priced})
