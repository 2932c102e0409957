"""Traffic is one document: today's stays valid, and what makes no sense is refused by a sentence."""

import pydantic
import pytest

from workbench.api.sentences import sentence, sentences
from workers.documents.traffic import Traffic
from workers.documents.workload import Sla, Workload

OBJECTIVES = [{"metric": "ttft", "limit": 100}]
H100 = {"latency_ms": 2, "gpu": "h100", "usd_per_hour": 3}


def refusal(document, **fields):
    with pytest.raises(pydantic.ValidationError) as caught:
        document.model_validate(fields)
    return " ".join(sentence(item) for item in sentences(caught.value))


def test_yesterdays_workload_is_still_one_and_says_what_it_said():
    shape = {"prompt_tokens": 128, "output_tokens": 64, "batch": 2, "concurrency": 4}
    workload = Workload.model_validate({"model": "llama-3.2-1b", "objectives": OBJECTIVES, "traffic": shape})
    assert workload.traffic.model_dump(include=set(shape)) == shape
    assert Workload.model_validate(workload.model_dump(mode="json")) == workload


@pytest.mark.parametrize(
    ("traffic", "reason"),
    [
        ({"arrivals": {"kind": "poisson", "rate": 0}}, "rate: should be greater than or equal to 0.000000001"),
        ({"arrivals": {"kind": "poisson", "rate": 5e-324}}, "rate: should be greater than or equal to 0.000000001"),
        ({"arrivals": {"kind": "gamma", "rate": 3, "cv": 1e-200}}, "cv: should be greater than or equal to 0.01"),
        ({"arrivals": {"kind": "recorded", "speed": 5e-324}}, "speed: should be greater than or equal to 0.000000001"),
        ({"arrivals": {"kind": "poisson", "rate": True}}, "should be a number, not true"),
        ({"arrivals": {"kind": "gamma", "rate": 3}}, "cv: is required"),
        ({"arrivals": {"kind": "bursts"}}, "'closed', 'poisson', 'gamma', 'recorded'"),
        ({"arrivals": {"kind": "closed", "think_s": -1}}, "think_s: should be greater than or equal to 0"),
        ({"arrivals": {"kind": "recorded"}}, "recording: arrivals are recorded, but no recording is named"),
        ({"recording": "calls.csv"}, "nothing is taken from it"),
        ({"prompt_lengths": {"kind": "uniform", "low": 9, "high": 3}}, "low: 9 tokens are more than high, 3"),
        ({"prompt_lengths": {"kind": "log-normal", "median": 9, "sigma": 1, "most": 3}}, "median: 9 tokens are more"),
        ({"output_lengths": {"kind": "fixed", "tokens": 40_000}}, "output_lengths: 40,000 tokens are more than 32,768"),
        ({"shared_prefix": 200}, "shared_prefix: 200 tokens are more than the shortest prompt has, 128"),
        ({"cancellations": {"share": 2}}, "share: should be less than or equal to 1"),
        ({"time_out_s": 0}, "time_out_s: should be greater than or equal to 0.001"),
    ],
)
def test_nonsense_is_refused_by_a_sentence_that_names_the_field(traffic, reason):
    assert reason in refusal(Traffic, **traffic)


@pytest.mark.parametrize(
    ("field", "stated", "least"),
    [
        ("duty_cycle", {"duty_cycle": 5e-324}, "greater than or equal to 0.001"),
        ("usd_per_hour", {"present": H100 | {"usd_per_hour": 1.7e308}}, "1000000"),
        ("latency_ms", {"present": H100 | {"latency_ms": 5e-324}}, "0.001"),
        ("tokens_per_second", {"present": H100 | {"tokens_per_second": 5e-324}}, "0.001"),
        ("requests_per_second", {"load": {"demand": {"requests_per_second": 5e-324}}}, "0.001"),
    ],
)
def test_money_that_would_overflow_is_refused_before_a_run(field, stated, least):
    text = refusal(Sla, objectives=OBJECTIVES, **stated)
    assert f"{field}: should be " in text
    assert least in text


def test_a_promise_about_a_token_that_no_answer_has_is_refused():
    promise = [{"metric": "ttf_n", "n": 64, "limit": 100}]
    lengths = {"kind": "uniform", "low": 8, "high": 32}
    assert "asks for token 64" in refusal(Sla, objectives=promise, traffic={"output_lengths": lengths})
    recorded = {"output_lengths": {"kind": "recorded"}, "recording": "calls.csv"}
    assert Sla.model_validate({"objectives": promise, "traffic": recorded})


def test_a_run_refuses_traffic_that_it_would_not_send_and_vllm_as_before_without_load():
    open_loop = {"arrivals": {"kind": "poisson", "rate": 3}}
    text = refusal(Workload, model="llama-3.2-1b", objectives=OBJECTIVES, traffic=open_loop)
    assert "traffic.arrivals: a run without load measures equal requests" in text
    loaded = {"model": "llama-3.2-1b", "objectives": OBJECTIVES, "load": {}}
    assert Workload.model_validate(loaded | {"traffic": open_loop}).traffic.rate == 3
    assert Sla.model_validate({"objectives": OBJECTIVES, "traffic": open_loop})
    recorded = {"output_lengths": {"kind": "recorded"}, "recording": "calls.csv"}
    text = refusal(Workload, model="llama-3.2-1b", objectives=OBJECTIVES, traffic=recorded, load={})
    assert "traffic.recording: a run names a recording by its SHA-256" in text
    assert Workload.model_validate(loaded | {"traffic": recorded | {"recording": "a" * 64}}).traffic.speed is None
    thinking = {"model": "llama-3.2-1b", "objectives": OBJECTIVES, "traffic": {"arrivals": {"think_s": 2}}}
    thinking["traffic"]["arrivals"]["kind"] = "closed"
    assert "a run without load measures equal requests" in refusal(Workload, **thinking)
    assert Workload.model_validate(thinking | {"load": {"most_users": 8}}).load.most_users == 8
    vllm = {"model": "llama-3.2-1b", "baseline_runner": "vllm", "load": {}}
    assert Workload.model_validate(vllm | {"objectives": OBJECTIVES}).baseline_plan_runner == "eager"
    relative = [{"metric": "ttft", "at_least_faster": 2}]
    assert "at_least_faster is judged without load" in refusal(Workload, **vllm, objectives=relative)
