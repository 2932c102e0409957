"""What a load's requests come to: its steady part, its rates, and the generator's own lag that voids it."""

from types import SimpleNamespace

import pytest

from kernels.cli.bench_serve import ServeBench, line
from kernels.cli.serve_document import ServeCase
from kernels.load.exchange import CANCELLED, Exchange
from kernels.load.figures import LatencyObjective, LoadFigures, drop_warm_up
from kernels.load.generator import LoadTrace
from kernels.load.lag import MAX_LAG_MS, Lag
from kernels.load.lists import Lengths, RequestList
from kernels.load.planned import PlannedRequest
from kernels.load.sharing import merge_results
from workers.loadtest.summary import LoadSummary

MS = 1_000_000


def answered(index: int, begun_ms: float, tokens: int, ms_each: float, at_s: float | None = None) -> Exchange:
    """A request that was sent on time, and whose tokens came every `ms_each`."""
    begun = round(begun_ms * MS)
    times = [begun + round((at + 1) * ms_each * MS) for at in range(tokens)]
    planned = PlannedRequest(index, at_s, 0.0, 4, tokens)
    result = Exchange(planned, begun, begun_ns=begun, sent_ns=begun, end_ns=times[-1], chunk_ns=times, ended="length")
    result.with_text, result.counted_output = [True] * tokens, tokens
    return result


def regular() -> LoadTrace:
    """Two users of two processes, 20 answers of 10 tokens in 100 ms each: 200 tokens and 20 requests a second."""
    users = [[answered(2 * turn + user, 100 * turn, 10, 10) for turn in range(20)] for user in range(2)]
    return drop_warm_up(merge_results([LoadTrace(0, 2000 * MS, item) for item in users]))


def late(sent: LoadTrace, ms: float) -> LoadTrace:
    """The same load, every request of which was begun late."""
    for exchange in sent.exchanges:
        exchange.begun_ns = exchange.intended_ns + round(ms * MS)
    return sent


def test_the_steady_part_and_its_rates_are_those_of_a_regular_load():
    sent = regular()
    assert (sent.counted_from_ns, sent.stopped_ns) == (200 * MS, 2000 * MS)
    result = LoadFigures([sent])
    assert result.seconds == pytest.approx(1.8)
    assert result.tokens_per_second == pytest.approx(200)
    assert result.requests_per_second == result.ended_per_second == pytest.approx(20)
    assert result.percentiles("ttft") == {"p50": 10.0, "p99": 10.0}
    assert result.percentiles("ttf_n", 64) is None
    assert result.goodput_by(LatencyObjective(10, 10).is_met) == pytest.approx(20)
    for promise in (LatencyObjective(9, 10), LatencyObjective(10, 9)):
        assert result.goodput_by(promise.is_met) == 0
    sent.exchanges[6].counted_output = 9
    assert [item.planned.index for item in LoadFigures([sent]).unlike] == [6]


def test_what_is_judged_has_the_figures_of_the_bench():
    """One steady part, one count of tokens and requests, one lag."""
    sent = late(regular(), 7)
    one, other = LoadFigures([sent]), LoadSummary(sent)
    assert (one.seconds, one.tokens_per_second) == (other.seconds, other.tokens_per_second)
    assert [exchange.planned.index for exchange in one.exchanges] == [
        exchange.planned.index for exchange in other.exchanges
    ]
    assert other.metric("ttft").percentiles["p99"].value == one.percentiles("ttft")["p99"]
    lag = other.generator_lag()
    assert (lag.send_p99, lag.void, lag.limit) == (one.lag.send_p99, True, MAX_LAG_MS)


def test_requests_that_were_given_up_or_due_when_sending_had_stopped_do_not_count():
    parts = [LoadTrace(0, 1000 * MS, [answered(0, 10, 2, 1)]), LoadTrace(0, 3000 * MS, [answered(1, 2000, 2, 1)])]
    result = LoadFigures([merge_results(parts)])
    assert [exchange.planned.index for exchange in result.exchanges] == [0]
    assert result.tokens_per_second == pytest.approx(2)
    sent = regular()
    for exchange in sent.exchanges:
        exchange.ended = CANCELLED
    result = LoadFigures([sent])
    assert result.goodput_by(LatencyObjective(10, 10).is_met) == 0
    assert result.percentiles("e2e") is None
    assert result.percentiles("ttft") is not None


@pytest.mark.parametrize(("ms", "void"), [(4.9, False), (5.0, False), (5.1, True)])
def test_a_generator_later_than_the_limit_voids_a_load(ms: float, void: bool):
    assert LoadFigures([late(regular(), ms)]).lag.void == void
    ticks = LoadTrace(0, loop_ns=[round(ms * MS)] * 100)
    assert Lag.of([ticks]).void == void


@pytest.mark.parametrize(("ms", "said"), [(1, ""), (9, "this measurement is void. Its users paused for as long")])
def test_a_row_of_bench_serve_is_marked_where_the_generator_was_late(ms: float, said: str):
    """It keeps its figures, as `workbench measure` does."""
    options = SimpleNamespace(ttft_ms=100, tpot_ms=20)
    lengths = Lengths(4, 10)
    bench = ServeBench(options, SimpleNamespace(dtype="bf16"), [2], lengths, {}, None)
    case = ServeCase(model="m", weights="bf16", prompt=4, tokens=10, arrivals="closed", requests=40, concurrency=2)
    server = SimpleNamespace(variant="kernels", peer=False, settings={})
    requests = RequestList.random(lengths, 40, 100, 1)
    row = bench._measure(server, case, requests, LoadFigures([late(regular(), ms)])).row
    assert said in row.void
    assert bool(row.void) == bool(said) == ("void" in line(row))
    assert row.generator == {"processes": 2, "send_late_ms": ms, "read_late_ms": 0}
    assert row.tokens_per_second == 200
