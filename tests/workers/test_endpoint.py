"""The worker at a customer's endpoint: its times are the server's, its failures are sentences, its key is nowhere."""

import statistics
import threading
import time

import psutil
import pytest

from tests import sample_results
from tests.workers.loadtest.stub import Stub, running_stub
from workers.documents.endpoint import Endpoint
from workers.documents.load import LoadCurve
from workers.documents.stages import StageInput
from workers.documents.worker_api import EndpointAccess
from workers.documents.workload import Workload
from workers.loadtest.endpoint.client import MeasurementStopped
from workers.loadtest.endpoint.session import EndpointSession
from workers.shared import addresses
from workers.stats.intervals import distribution

KEY = "sk-kept-secret-0123456789"
INSIDE = ["127.0.0.1"]
AFTER = distribution([5.0] * 20, "ttf_n", 8)


@pytest.fixture(scope="module")
def stub():
    with running_stub() as result:
        yield result


PROMISED = [{"metric": "ttf_n", "n": 8, "limit": 10_000}]


def document(seconds: float = 10, objectives=PROMISED, endpoint=None, load=None, **traffic) -> StageInput:
    made = sample_results.stage_input("verify")
    asked = {"model": "m", "traffic": {"prompt_tokens": 16, "output_tokens": 8} | traffic, "objectives": objectives}
    workload = Workload.model_validate(asked | {"endpoint": endpoint, "load": load})
    return made.model_copy(update={"seconds_left": seconds, "workload": workload})


def at(url: str, model="stub", inside=INSIDE, stop=None, api="completions", seconds=0.8, **kwargs) -> EndpointSession:
    endpoint = Endpoint(url=url, model=model, api=api, hardware="two A100 of the customer")
    access = EndpointAccess(key=KEY, inside=inside)
    session = EndpointSession(document(**kwargs), endpoint, access, stop or threading.Event(), lambda *_: None)
    session.seconds = seconds
    return session


def punctual(there: EndpointSession) -> None:
    """As if this machine had been quiet: the generator's own lag would void what it measured."""
    for _, _, sent in there._rounds:
        sent.loop_ns = [0]
        for exchange in sent.exchanges:
            exchange.begun_ns = exchange.intended_ns


def test_both_rounds_make_one_result_beside_the_plan(stub: Stub):
    there = at(stub.url, batch=3, seconds=2)
    stub.log()
    there.measure("before verify")
    there.measure("after verify")
    written = stub.log()
    punctual(there)
    result = there.result([AFTER.model_dump()])
    assert result.load, result.sentence
    assert [item.when for item in result.rounds] == ["before verify", "after verify"]
    assert result.load.requests == sum(item.requests for item in result.rounds) == result.load.completed
    assert result.load.users == 3, "as many clients as the batch"
    assert [outcome.verdict for outcome in result.load.outcomes] == ["met"]
    served = [row for row in written.values() if len(row["token_ns"]) == 8]
    truth = statistics.median((row["token_ns"][-1] - row["read_ns"]) / 1e6 for row in served)
    metrics = {(metric.metric, metric.n): metric for metric in result.load.metrics}
    assert metrics.keys() >= {("ttf_n", 8), ("ttft", None), ("tpot", None)}
    median = metrics["ttf_n", 8].percentiles["p50"]
    assert truth < median.value + 1, "the way there and back is inside"
    (ratio,) = result.ratios
    assert ratio.ratio.value == pytest.approx(median.value / 5)
    assert ratio.ratio.low == pytest.approx(median.low / 5)
    assert (result.server.kind, result.server.hardware) == ("endpoint", "two A100 of the customer")
    assert "requests of 3 clients in 2 rounds" in result.sentence
    assert any("network" in caveat for caveat in result.server.caveats)
    assert any("batch" in caveat for caveat in result.server.caveats)
    assert KEY not in result.model_dump_json()
    sent = sum(len(sent.exchanges) for _, _, sent in there._rounds)
    assert len(written) == sent + 4, "no prompt was sent twice: those of two rounds, each with two requests before it"


def test_a_promise_relative_to_before_has_its_figure_there_and_no_verdict(stub: Stub):
    there = at(stub.url, seconds=0.5, objectives=[{"metric": "ttf_n", "n": 8, "at_least_faster": 1.5}])
    there.measure("before verify")
    punctual(there)
    result = there.result([AFTER.model_dump()])
    assert ("ttf_n", 8) in {(metric.metric, metric.n) for metric in result.load.metrics}
    assert [(ratio.metric, ratio.n) for ratio in result.ratios] == [("ttf_n", 8)]
    assert (result.load.outcomes, result.load.verdict) == ([], None)
    there._client._endpoint = Endpoint(url=stub.url, model="stub-429")
    there.measure("after verify")
    result = there.result([])
    assert [item.when for item in result.rounds] == ["before verify"], "what was measured before it failed stands"
    assert "Then it failed: The server answered 429" in result.sentence


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        ("stub-302", "302 (Found)"),
        ("stub-401", "401 (Unauthorized): Incorrect API key: …"),
        ("stub-silent", "had not ended 0.3 s after it was due"),
    ],
)
def test_whatever_it_does_is_one_sentence_and_nothing_more_is_sent(stub: Stub, monkeypatch, model, sentence):
    if model == "stub-silent":
        monkeypatch.setattr("workers.loadtest.endpoint.session.MIN_TIME_OUT", 0.3)
        monkeypatch.setattr("workers.loadtest.endpoint.session.TIME_OUT_SHARE", 0.01)
    there = at(stub.url, model)
    there.measure("before verify")
    stub.log()
    there.measure("after verify")
    result = there.result([AFTER.model_dump()])
    assert not stub.log(), "a server that failed is left alone"
    assert (result.load, result.ratios) == (None, [])
    assert result.sentence.startswith("The endpoint was not measured. ")
    assert sentence in result.sentence
    assert KEY not in result.model_dump_json()


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("http://127.0.0.1:1/v1", "127.0.0.1:1 cannot be reached"),
        ("https://localhost:1/v1", "localhost is an address inside a network"),
        ("http://localhost:1/v1", "The address must begin with https://."),
        ("https://169.254.169.254/v1", "169.254.169.254 is an address inside a network"),
        ("https://nowhere.invalid/v1", "nowhere.invalid has no address."),
    ],
)
def test_an_address_that_leads_inside_or_nowhere_is_a_sentence(url, sentence):
    there = at(url)
    there.measure("before verify")
    assert sentence in there.result([]).sentence


def test_it_connects_to_the_address_that_was_checked_and_asks_an_encoder_for_embeddings(stub: Stub, monkeypatch):
    asked: list[str] = []
    real = addresses.socket.getaddrinfo

    def look_up(host, port, *rest, flags=0, **kwargs):
        if host == "pinned.test" and not flags:
            asked.append(host)
            host = "127.0.0.1"
        return real(host, port, *rest, flags=flags, **kwargs)

    monkeypatch.setattr(addresses.socket, "getaddrinfo", look_up)
    asked_for = {"api": "embeddings", "objectives": [{"metric": "batch_latency", "limit": 10_000}]}
    there = at(stub.url.replace("127.0.0.1", "pinned.test"), inside=["pinned.test"], seconds=0.4, **asked_for)
    there.measure("before verify")
    assert [metric.metric for metric in there.result([]).load.metrics] == ["batch_latency"]
    assert asked == ["pinned.test"], "one look for all connections of a round"


def _sends(process: psutil.Process) -> bool:
    """Whether it sends load. A process that has ended does not, also one that another test started."""
    try:
        return any("sender_process" in word for word in process.cmdline())
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("processes", [1, 2])
def test_a_run_that_is_cancelled_stops_it(stub: Stub, monkeypatch, processes: int):
    monkeypatch.setattr("workers.loadtest.sending.max_processes", lambda server_is_local: processes)
    stop = threading.Event()
    there = at(stub.url, stop=stop, seconds=600, batch=9)
    threading.Timer(0.4, stop.set).start()
    begun = time.monotonic()
    with pytest.raises(MeasurementStopped):
        there.measure("before verify")
    assert time.monotonic() - begun < 60
    assert not any(map(_sends, psutil.Process().children()))


def test_what_the_operator_does_not_allow_is_not_sent_to(stub: Stub):
    refused = "The operator does not allow it."
    endpoint = Endpoint(url=stub.url, model="stub")
    there = EndpointSession(document(), endpoint, EndpointAccess(refused=refused), threading.Event(), lambda *_: None)
    stub.log()
    there.measure("before verify")
    assert not stub.log()
    assert refused in there.result([]).sentence


def test_the_stage_keeps_what_the_rounds_leave(stub: Stub):
    wanted, endpoint = document(seconds=100), Endpoint(url=stub.url, model="stub-401")
    there = EndpointSession(wanted, endpoint, EndpointAccess(inside=INSIDE), threading.Event(), lambda *_: None)
    assert there.seconds == 10
    assert 60 < there.left_for(wanted).seconds_left <= 90
    there.measure("before verify")
    assert 90 < there.left_for(wanted).seconds_left <= 100, "no second round follows a failure"


@pytest.mark.parametrize("model", ["stub", "stub-401"])
def test_under_load_it_has_the_load_stages_curve(stub: Stub, monkeypatch, model):
    monkeypatch.setattr("workers.loadtest.endpoint.load_search.MIN_SECONDS", 0.6)
    named = {"url": stub.url, "model": model, "key": KEY}
    asked = document(seconds=8, endpoint=named, load={"most_users": 2}, sampling={"temperature": 1})
    asked = asked.model_copy(update={"stage": "load"})
    messages: list[str] = []
    access = EndpointAccess(key=KEY, inside=INSIDE)
    there = EndpointSession(
        asked, asked.workload.endpoint, access, threading.Event(), lambda _, it: messages.append(it)
    )
    assert 5 <= there.left_for(asked).seconds_left <= 6
    there.before_stage()
    result = {"objectives": [{"metric": "ttf_n", "n": 8, "limit": 10_000}], "notes": ["of the stage"]}
    there.after_stage(result)
    assert messages == ["measuring the endpoint after load"]
    if model == "stub-401":
        assert result["endpoint"] is None
        assert result["notes"][0] == "of the stage"
        assert "401 (Unauthorized): Incorrect API key: …" in result["notes"][1]
    else:
        curve = LoadCurve.model_validate(result["endpoint"])
        assert {load.users for load in curve.limit.loads} == {1, 2}
        assert curve.limit.loads[0].traffic.sampling.temperature == 1, "the workload's own traffic"
        assert (curve.server.kind, result["notes"]) == ("endpoint", ["of the stage"])


def test_an_endpoint_never_shows_its_key():
    endpoint = Endpoint(url="https://models.example/v1", model="m", key=KEY)
    assert KEY not in repr(endpoint) + str(endpoint) + endpoint.model_dump_json() + str(endpoint.model_dump())
    told = document(endpoint={"url": "https://models.example/v1", "model": "m", "key": KEY})
    assert told.workload.endpoint.key.get_secret_value() == KEY
    assert KEY not in told.model_dump_json() + repr(told), "the stage's process reads this document"
