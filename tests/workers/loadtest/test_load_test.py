"""What is measured over HTTP is what the server did: its tokens' times, its counts, its failures."""

import asyncio
import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kernels.load.connection import Address, BadAddress
from kernels.load.generator import LoadDuration, LoadTrace
from kernels.load.sharing import merge_results
from tests.workers.loadtest.stub import Stub, running_stub
from workers.documents.traffic import Traffic
from workers.documents.workload import Objective
from workers.loadtest.load_test import LoadTest, NotMeasurable, calibrate_token_scale, judge_load, measure
from workers.loadtest.prompts import PromptTexts, TokenScale
from workers.loadtest.sending import LoadTarget, sending
from workers.loadtest.summary import LoadSummary

TTFT = Objective(metric="ttft", percentile=50, limit=1000)
KEY = "sk-kept-secret"
COUNTS = TokenScale(1, 1)
"""How the stub counts: a token a word, and one for the beginning."""


@pytest.fixture(scope="module")
def stub():
    with running_stub() as result:
        yield result


def a_test(stub: Stub, model="stub", api="completions", seconds=0.9, objectives=(TTFT,), **traffic) -> LoadTest:
    described = Traffic.model_validate({"prompt_tokens": 20, "output_tokens": 8, "concurrency": 3} | traffic)
    target = LoadTarget(Address.parse(stub.url, KEY), model, api)
    return LoadTest(target, described, list(objectives), LoadDuration(seconds, warm_up_s=0.2))


def sent(test: LoadTest) -> LoadTrace:
    return asyncio.run(sending(test.target, test.traffic, Path(), test.limits, COUNTS).run())


@pytest.mark.parametrize(
    ("api", "arrivals"), [("chat", {"kind": "closed"}), ("completions", {"kind": "poisson", "rate": 30})]
)
def test_times_and_rates_are_those_that_the_server_wrote(stub, api, arrivals):
    test = a_test(stub, api=api, seconds=2, arrivals=arrivals)
    stub.log()
    result = sent(test)
    written, prompts = stub.log(), PromptTexts(test.traffic, COUNTS)
    late = []  # ns from when the server wrote each token until it was read: a row for each request
    for exchange in result.exchanges:
        truth = written[prompts.text(exchange.planned)]["token_ns"]
        assert len(exchange.token_ns) == len(truth) == 8
        assert exchange.begun_ns >= exchange.intended_ns
        late.append([read - wrote for read, wrote in zip(exchange.token_ns, truth, strict=True)])
    assert len(result.counted) > 10
    quickest, longest = [min(token) for token in zip(*late, strict=True)], max(map(max, late))
    assert min(quickest) >= 0
    assert max(quickest) < 2e6, "a busy machine reads some tokens late, and never each of a place"
    load = LoadSummary(result)
    tokens = [at for row in written.values() for at in row["token_ns"]]
    least = sum(result.counted_from_ns <= at < result.stopped_ns - longest for at in tokens)
    most = sum(result.counted_from_ns - longest <= at < result.stopped_ns for at in tokens)
    assert least <= round(load.tokens_per_second * load.seconds) <= most
    ttft = statistics.median_high((item.token_ns[0] - item.intended_ns) / 1e6 for item in result.counted)
    assert load.metric("ttft").percentiles["p50"].value == pytest.approx(ttft)


def test_every_client_of_a_closed_loop_has_one_request_at_a_time(stub):
    result = sent(a_test(stub, concurrency=5))
    assert LoadSummary(result).in_flight == pytest.approx(5, rel=0.1)
    edges = sorted(
        [(exchange.begun_ns, 1) for exchange in result.exchanges]
        + [(exchange.end_ns, -1) for exchange in result.exchanges]
    )
    at_once = 0
    for _, change in edges:
        at_once += change
        assert at_once <= 5


def test_an_open_loop_sends_on_time_however_slow_the_answers_are(stub):
    test = a_test(stub, arrivals={"kind": "gamma", "rate": 60, "cv": 2}, output_tokens=100)
    result = sent(test)
    assert LoadSummary(result).in_flight > 10
    again = sent(test)
    shared = min(len(result.exchanges), len(again.exchanges))
    starts = [
        [exchange.intended_ns - one.exchanges[0].intended_ns for exchange in one.exchanges] for one in (result, again)
    ]
    assert starts[0][:shared] == pytest.approx(starts[1][:shared], abs=2)
    assert all(exchange.begun_ns >= exchange.intended_ns for exchange in result.exchanges)


@pytest.mark.parametrize(
    ("model", "kind", "sentence"),
    [
        ("stub-401", "HTTP 401", "401 (Unauthorized): Incorrect API key: …"),
        ("stub-429", "HTTP 429", "429 (Too Many Requests): Slow down"),
        ("stub-garbage", "garbage", "no JSON: {"),
        ("stub-json", "garbage", "application/json"),
        ("stub-noise", "garbage", "does not speak HTTP"),
        ("stub-upgrade", "garbage", "does not speak HTTP"),
        ("stub-head", "garbage", "more than 65,536 bytes"),
        ("stub-half", "half a stream", "in the middle of an answer, after 4 events"),
        ("stub-nothing", "no answer", "without an answer"),
        ("stub-many", "garbage", "counted 1000000000 tokens in 9 events; 8 were asked for"),
        ("stub-empty", "no token", "without a token"),
        ("stub-silent", "timed out", "had not ended 0.3 s after it was due"),
    ],
)
def test_each_way_to_fail_is_a_sentence_and_counts_against_every_promise(stub, model, kind, sentence):
    test = a_test(stub, model=model, seconds=0.6, time_out_s=0.3 if model == "stub-silent" else 60)
    with pytest.raises(NotMeasurable) as caught:
        asyncio.run(calibrate_token_scale(test))
    assert KEY not in str(caught.value)
    result = judge_load(test, sent(test), "now")
    (failure,) = result.failures
    assert (failure.kind, failure.count, result.completed) == (kind, result.requests, 0)
    assert sentence in failure.sentence
    assert KEY not in result.model_dump_json()
    assert (result.outcomes[0].over, result.outcomes[0].value) == (result.requests, None)


def test_a_generator_that_was_late_voids_its_own_measurement(stub):
    test = a_test(stub)
    outcome = sent(test)
    outcome.loop_ns = [0]
    for exchange in outcome.exchanges:
        exchange.begun_ns = exchange.intended_ns + (6_000_000 if exchange in outcome.exchanges[-5:] else 0)
    result = judge_load(test, outcome, "now")
    assert (result.lag.void, result.verdict, result.lag.send_p99) == (True, None, 6.0)
    assert any("this measurement is void" in note for note in result.notes)
    for exchange in outcome.exchanges:
        exchange.begun_ns = exchange.intended_ns
    assert judge_load(test, outcome, "now").verdict


def split(whole: LoadTrace, parts: int) -> LoadTrace:
    """The same exchanges, as if so many processes had sent them in turn."""
    shares = [replace(whole, exchanges=whole.exchanges[part::parts], loop_ns=[0]) for part in range(parts)]
    return merge_results(shares)


def test_what_several_processes_sent_is_judged_as_what_one_sent(stub):
    test = a_test(stub, seconds=1.5, output_tokens=12, cancellations={"share": 0.2, "after_tokens": 5})
    result = replace(sent(test), loop_ns=[0])
    for exchange in result.exchanges:
        exchange.begun_ns = exchange.intended_ns
    one, three = judge_load(test, result, "now"), judge_load(test, split(result, 3), "now")
    assert (one.lag.processes, three.lag.processes) == (1, 3)
    assert one.verdict
    assert three.model_copy(update={"lag": one.lag}) == one


def test_one_process_that_was_late_voids_the_load_of_all(stub):
    test = a_test(stub)
    outcome = split(replace(sent(test), loop_ns=[0]), 2)
    punctual, late = outcome.by_process
    for exchange in outcome.exchanges:
        exchange.begun_ns = exchange.intended_ns
    assert judge_load(test, outcome, "now").verdict
    punctual.loop_ns, late.loop_ns = [0] * 1000, [6_000_000]  # less than 1 % of all ticks
    outcome.loop_ns = punctual.loop_ns + late.loop_ns
    result = judge_load(test, outcome, "now")
    assert (result.lag.void, result.verdict, result.lag.loop_p99) == (True, None, 6.0)
    assert result.notes[0].startswith("One of the generator's 2 processes was 6.0 ms late at p99")


@pytest.mark.parametrize(("batch", "found", "said"), [(1, "met", False), (16, "not_enough_samples", True)])
def test_requests_that_one_batch_answers_count_as_one(stub, batch, found, said):
    """Ten batches tell little of a p95, however many users each of them answers; as many single requests do."""
    test = a_test(stub, objectives=[Objective(metric="ttft", percentile=95, limit=300)])
    first = sent(test).exchanges[0]
    load = LoadTrace(0, stopped_ns=4 * 10**9)
    late = np.random.default_rng(1).integers(0, 1_000_000, 160).tolist()  # of the network, up to 1 ms
    for request in range(160):
        begun, until = request // batch * batch * 20_000_000, 200_000_000 + late[request]
        told = [begun + until + token * 1_000_000 for token in range(8)]
        load.exchanges.append(replace(first, intended_ns=begun, begun_ns=begun, chunk_ns=told, end_ns=told[-1]))
    result = judge_load(test, load, "now")
    assert result.outcomes[0].verdict == found
    assert any("answered together, are alike" in note for note in result.notes) == said
    interval = result.metrics[0].percentiles["p50"]
    assert (interval.high - interval.low > 2e-1) == said


@pytest.mark.parametrize(
    ("slow", "found"), [(range(50, 56), "not_enough_samples"), (range(10, 200, 33), "met")], ids=["at once", "apart"]
)
def test_seconds_of_one_slow_period_count_as_one(stub, slow, found):
    """Six slow seconds of 200 show that nine of ten are fast, unless they came as one period."""
    fast = Objective(metric="throughput", percentile=90, limit=50, direction="at_least")
    load = LoadTrace(0, stopped_ns=200 * 10**9)
    seen = [second * 10**9 + token * 10**6 for second in range(200) for token in range(10 if second in slow else 100)]
    first = sent(a_test(stub)).exchanges[0]
    first = replace(first, intended_ns=0, begun_ns=0, end_ns=seen[-1], counted_output=None)
    load.exchanges.append(replace(first, chunk_ns=seen, with_text=[True] * len(seen)))
    outcome = LoadSummary(load).outcome(fast)
    assert (outcome.verdict, outcome.over, outcome.requests) == (found, 6, 200)
    assert (outcome.alike > 5) == (found != "met")


def test_the_verdict_on_gaps_is_that_of_the_percentile_that_is_shown(stub):
    """One answer in twenty is a hundred times as long as the others and slow: most gaps are beyond the limit."""
    load, first = LoadTrace(0, stopped_ns=200 * 10**9), sent(a_test(stub)).exchanges[0]
    for request in range(400):
        tokens, gap = (1000, 100_000_000) if request % 20 == 7 else (10, 10_000_000)
        begun = request * 130_000_000
        told = [begun + 20_000_000 + token * gap for token in range(tokens)]
        of_it = {"intended_ns": begun, "begun_ns": begun, "chunk_ns": told, "with_text": [True] * tokens}
        load.exchanges.append(replace(first, **of_it, end_ns=told[-1], counted_output=None))
    outcome = LoadSummary(load).outcome(Objective(metric="itl", percentile=90, limit=50))
    assert outcome.value > 50
    assert outcome.verdict == "missed"
    assert (outcome.over, outcome.requests) == (20, 400)


def test_a_field_that_the_server_refuses_is_left_out_and_named(stub):
    result = measure(a_test(stub, model="stub-strict"))[0]
    assert (result.failures, result.tokens.output) == ([], 8 * result.completed), "by max_completion_tokens"
    text = " ".join(result.notes)
    assert all(f"The server refuses {name}" in text for name in ("ignore_eos", "stream_options", "max_tokens"))


def test_a_load_is_sent_by_several_processes_and_says_so(stub):
    test = a_test(stub, concurrency=9, cancellations={"share": 0.5, "after_tokens": 5})
    result, outcome = measure(replace(test, target=replace(test.target, most_processes=2)))
    assert (result.lag.processes, result.failures) == (2, [])
    assert 5 < result.in_flight < 9.1
    assert result.cancelled
    assert result.requests == len(outcome.counted) == len({item.planned.index for item in outcome.counted})
    assert [exchange.intended_ns for exchange in outcome.exchanges] == sorted(
        exchange.intended_ns for exchange in outcome.exchanges
    )


def test_cancelled_requests_end_early_and_count_for_what_they_had(stub):
    test = a_test(stub, output_tokens=30, cancellations={"share": 0.5, "after_tokens": 5})
    result, outcome = measure(test)
    gone = [item for item in outcome.counted if item.ended == "cancelled"]
    assert (result.failures, result.cancelled) == ([], len(gone))
    assert gone
    assert {len(item.token_ns) for item in gone} == {5}
    assert LoadSummary(outcome).metric("e2e").samples == result.completed == len(outcome.counted) - len(gone)


def test_tokens_are_counted_as_the_server_counts_them(stub):
    pairs, result = measure(a_test(stub, model="stub-pairs"))
    assert not any("in one piece" in note for note in pairs.notes)
    assert pairs.tokens.output == 8 * pairs.completed
    assert pairs.tokens.several == pairs.completed
    assert any("several tokens in one event" in note for note in pairs.notes)
    parts = replace(result, exchanges=[replace(exchange, counted_output=2) for exchange in result.exchanges])
    assert "more events with text than the server counted tokens" in " ".join(
        judge_load(a_test(stub), parts, "now").notes
    )
    late_exchanges = [
        replace(exchange, chunk_ns=[exchange.end_ns] * len(exchange.chunk_ns)) for exchange in result.exchanges
    ]
    notes = judge_load(a_test(stub), replace(result, exchanges=late_exchanges), "now").notes
    assert any(note.startswith(f"{pairs.requests} answers came in one piece: ") for note in notes)
    uncounted = measure(a_test(stub, model="stub-uncounted"))[0]
    assert uncounted.tokens.output == 8 * uncounted.completed
    assert any("came without a count" in note for note in uncounted.notes)
    short = measure(a_test(stub, model="stub-short", objectives=[Objective(metric="ttf_n", n=8, limit=900)]))[0]
    assert f"TTF8 p50 is judged by 0 of {short.requests} requests: the others ended before it." in short.notes
    assert short.ended_early == short.completed
    assert any("shorter than asked for" in note for note in short.notes)


def test_embeddings_are_measured_without_tokens(stub):
    result = measure(a_test(stub, api="embeddings", objectives=[Objective(metric="e2e", limit=500)]))[0]
    assert result.completed == result.requests > 10
    assert {metric.metric for metric in result.metrics} == {"e2e", "batch_latency"}
    with pytest.raises(ValueError, match="embeddings do not have"):
        measure(a_test(stub, api="embeddings"))


def test_an_address_a_server_and_a_promise_that_make_no_load_are_refused(stub):
    for url in ("", "127.0.0.1:8000", "ftp://host/v1", "http://", "http://me:pw@host", "http://h:99999"):
        with pytest.raises(BadAddress):
            Address.parse(url)
    with pytest.raises(NotMeasurable, match=r"127\.0\.0\.1:1 cannot be reached"):
        measure(a_test(Stub(1)))
    with pytest.raises(ValueError, match="needs the price of the server"):
        a_test(stub, objectives=[Objective(metric="cost_per_mtok", limit=1)]).check()
    with pytest.raises(ValueError, match="judged by whole seconds"):
        a_test(stub, objectives=[Objective(metric="throughput", limit=1)]).check()
