"""Requests and their texts are as their traffic says, the same each time; a recording is read as a stream."""

import itertools
import json
import tracemalloc

import numpy as np
import pytest

from kernels.load.planned import PlannedRequest
from workers.documents.traffic import Traffic
from workers.loadtest import recording
from workers.loadtest.load_test import PROBES
from workers.loadtest.planned import requests
from workers.loadtest.prompts import PromptTexts, TokenScale
from workers.loadtest.recording import InvalidRecording, facts, read


def taken(count, folder, **traffic):
    return list(itertools.islice(requests(Traffic.model_validate(traffic), folder), count))


def test_todays_traffic_is_equal_requests_in_a_closed_loop(tmp_path):
    result = taken(5, tmp_path, prompt_tokens=100, output_tokens=20)
    assert {(item.at_s, item.think_s, item.prompt_tokens, item.output_tokens) for item in result} == {
        (None, 0, 100, 20)
    }
    assert [item.index for item in result] == [0, 1, 2, 3, 4]


def test_a_seed_gives_the_same_requests_and_another_seed_others(tmp_path):
    traffic = {
        "prompt_lengths": {"kind": "log-normal", "median": 300, "sigma": 0.8, "most": 4000},
        "output_lengths": {"kind": "uniform", "low": 10, "high": 90},
        "arrivals": {"kind": "gamma", "rate": 20, "cv": 2},
        "cancellations": {"share": 0.3},
    }
    assert taken(3000, tmp_path, **traffic) == taken(3000, tmp_path, **traffic)
    assert taken(50, tmp_path, **traffic) != taken(50, tmp_path, seed=1, **traffic)
    others = taken(50, tmp_path, **traffic | {"arrivals": {"kind": "poisson", "rate": 1}})
    assert [other.prompt_tokens for other in others] == [item.prompt_tokens for item in taken(50, tmp_path, **traffic)]


def test_lengths_and_pauses_have_the_distribution_that_is_stated(tmp_path):
    result = taken(
        20_000,
        tmp_path,
        prompt_lengths={"kind": "log-normal", "median": 300, "sigma": 0.8, "most": 4000},
        output_lengths={"kind": "uniform", "low": 10, "high": 90},
        cancellations={"share": 0.3, "after_tokens": 5},
    )
    logs = np.log([item.prompt_tokens for item in result])
    assert np.median(logs) == pytest.approx(np.log(300), abs=0.03)
    assert logs.std() == pytest.approx(0.8, abs=0.03)
    assert max(item.prompt_tokens for item in result) <= 4000
    outputs = [item.output_tokens for item in result]
    assert (min(outputs), max(outputs), np.mean(outputs)) == (10, 90, pytest.approx(50, abs=1))
    assert np.mean([item.cancel_after == 5 for item in result]) == pytest.approx(0.3, abs=0.015)
    thinking = taken(20_000, tmp_path, arrivals={"kind": "closed", "think_s": 2})
    assert np.mean([item.think_s for item in thinking]) == pytest.approx(2, rel=0.03)


@pytest.mark.parametrize(
    ("arrivals", "cv"), [({"kind": "poisson", "rate": 40}, 1), ({"kind": "gamma", "rate": 40, "cv": 3}, 3)]
)
def test_open_loops_have_the_rate_and_the_spread_that_are_stated(tmp_path, arrivals, cv):
    gaps = np.diff([item.at_s for item in taken(40_000, tmp_path, arrivals=arrivals)])
    assert gaps.min() >= 0
    assert gaps.mean() == pytest.approx(1 / 40, rel=0.06)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.06)


RECORDED = {
    "arrivals": {"kind": "recorded", "speed": 2},
    "prompt_lengths": {"kind": "recorded"},
    "output_lengths": {"kind": "recorded"},
}


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_recording_comes_back_at_its_speed_and_then_ends(tmp_path, form):
    rows = [(0, 10, 5, "a"), (1.5, 20, 6, ""), (4, 30, 7, "a")]
    if form == "csv":
        text = "arrival_s,prompt_tokens,output_tokens,conversation,city\n"
        text += "\n".join(f"{a},{p},{o},{c},here" for a, p, o, c in rows)
    else:
        keys = ("arrival_s", "prompt_tokens", "output_tokens", "conversation")
        text = "\n\n".join(json.dumps(dict(zip(keys, row, strict=True))) for row in rows)
    (tmp_path / "calls").write_text(text)
    result = taken(10, tmp_path, recording="calls", **RECORDED)
    assert [(item.at_s * 2, item.prompt_tokens, item.output_tokens, item.conversation) for item in result] == rows


def test_time_begins_with_the_first_line_whatever_clock_was_recorded(tmp_path):
    (tmp_path / "calls.csv").write_text("arrival_s,prompt_tokens,output_tokens\n1700000000.5,9,5\n1700000002,6,9\n")
    assert [item.arrival_s for item in read(tmp_path / "calls.csv")] == [0, 1.5]
    result = facts(tmp_path / "calls.csv")
    assert (result.requests, result.seconds, result.longest_prompt, result.longest_output) == (2, 1.5, 9, 9)


HEADING = "arrival_s,prompt_tokens,output_tokens\n"
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
BURST = "Timestamp,Session ID,Model,Request tokens,Response tokens\n"
HASHED = '{"timestamp": %s, "input_length": 6, "output_length": 5, "hash_ids": [1, 2]}\n'


@pytest.mark.parametrize(
    ("text", "arrivals", "note"),
    [
        (AZURE + "2023-11-16 18:15:46.6805900,6,5\n2023-11-16 18:15:50.1805900,6,5\n", [0, 3.5], "dates in TIMESTAMP"),
        (AZURE + "2024-05-10 00:00:00.5+00:00,6,5\n2024-05-10 02:00:02+02:00,6,5\n", [0, 1.5], "dates in TIMESTAMP"),
        (BURST + "5,a,GPT-4,6,5\n45.5,,GPT-4,6,5\n", [0, 40.5], "seconds in Timestamp"),
        (HASHED % 3000 + HASHED % 4500, [0, 1.5], "milliseconds in timestamp"),
        (HASHED.replace("[1, 2]", '[], "chat_id": 1') % 61.1, [0], "seconds in timestamp"),
        (HASHED.replace(', "hash_ids": [1, 2]', "") * 2 % (7, 7.25), [0, 0.25], "seconds in timestamp"),
        (
            "timestamp_ms; prompt_tokens; output_tokens\n500; 6; 5\n1000; 6; 5\n",
            [0, 0.5],
            "milliseconds in timestamp_ms",
        ),
        ("arrival_s, prompt_tokens, output_tokens\n0, 6, 5\n3, 6, 5\n", [0, 3], None),
    ],
    ids=["Azure 2023", "Azure 2024", "BurstGPT", "Mooncake", "Bailian", "guidellm", "semicolons", "blanks"],
)
def test_traces_are_read_as_they_are_published(tmp_path, text, arrivals, note):
    file = tmp_path / "trace"
    file.write_text(text)
    result = list(read(file))
    assert [item.arrival_s for item in result] == pytest.approx(arrivals, abs=1e-6)
    assert {(item.prompt_tokens, item.output_tokens) for item in result} == {(6, 5)}
    notes = facts(file).notes
    assert [item.partition(".")[0] for item in notes] == ([f"Arrivals are the {note}"] if note else [])
    guessed = note is not None and note.startswith("seconds") and "chat_id" not in text
    assert any("Name it timestamp_ms" in item for item in notes) == guessed
    assert result[0].conversation == ("a" if "Session ID" in text else "")


def test_requests_of_0_tokens_are_left_out_and_too_many_are_refused_by_their_line(tmp_path, monkeypatch):
    (tmp_path / "calls.csv").write_text(HEADING + "0,9,0\n1,9,5\n2,0,5\n4,6,9\n")
    result = facts(tmp_path / "calls.csv")
    assert (result.requests, result.seconds, result.notes) == (2, 3, ["2 requests of 0 tokens left out."])
    assert facts(tmp_path / "calls.csv", until_s=2).seconds == 2, "no further than it is sent"
    monkeypatch.setattr(recording, "MAX_REQUESTS", 2)
    (tmp_path / "calls.csv").write_text("prompt_tokens,output_tokens\n" + "1,1\n" * 3)
    with pytest.raises(InvalidRecording, match="line 4: has request 3; a recording has at most 2"):
        facts(tmp_path / "calls.csv")


def test_recorded_lengths_start_again_in_a_loop_that_does_not_end(tmp_path):
    (tmp_path / "calls.csv").write_text("prompt_tokens,output_tokens\n10,5\n20,6\n")
    result = taken(5, tmp_path, recording="calls.csv", prompt_lengths={"kind": "recorded"}, output_tokens=9)
    assert [(item.prompt_tokens, item.output_tokens) for item in result] == [
        (10, 9),
        (20, 9),
        (10, 9),
        (20, 9),
        (10, 9),
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (HEADING + "0,10,5\n1,many,5\n", "line 3: prompt_tokens is no number: 'many'"),
        (HEADING + "0,10,5\n1,10\n", "line 3: output_tokens is missing"),
        (HEADING + "0,10,5\n\n1,-1,5\n", "line 4: prompt_tokens is -1; a length is a whole number from 1"),
        (HEADING + "0,0,5\n", "holds no request"),
        (AZURE + "2026-01-02 03:04:05,1,1\nlater,1,1\n", "line 3: TIMESTAMP is no date: 'later'"),
        ("timestamp;input_length;output_length\n0;1;1\n1;many;1\n", "line 3: input_length is no number: 'many'"),
        (HEADING + "0,10,2.5\n", "line 2: output_tokens is 2.5"),
        (HEADING + "2,10,5\n1,10,5\n", "line 3: arrival_s 1 is before that of the line above, 2"),
        (HEADING + "-1,10,5\n", "line 2: arrival_s is -1"),
        (HEADING + "nan,10,5\n", "line 2: arrival_s is no number"),
        (HEADING + "0,10,5\n4e7,10,5\n", "line 3: arrival_s is 40,000,000 s after the first one"),
        (HEADING + "0,10,5" + "," * 100_000, "line 2: is longer than 100,000 bytes"),
        (HEADING + '"\n",' * 60_000, "is longer than 100,000 bytes"),
        ('{"prompt_tokens": 1' + "0" * 400 + "}", "line 1: prompt_tokens is no number"),
        ('{"prompt_tokens": 3, "output_tokens": 1, "conversation": "\\ud800"}', "line 1: conversation holds an escape"),
        (f'{{"prompt_tokens": 3, "output_tokens": 1, "conversation": "{"x" * 201}"}}', "conversation is longer than"),
        (HEADING + "0,1,024,5\n", "line 2: has more fields than the heading, 3"),
        (HEADING + "0,1,5,,\n0,1\n", "line 3: output_tokens is missing"),
        ("when, size\n0,1\n", "line 1: the heading names when, size; it needs prompt_tokens and output_tokens"),
        (HEADING, "holds no request"),
        ("", "holds no request"),
        ('[{"prompt_tokens": 3, "output_tokens": 1}]', "is a JSON array; a recording in JSON Lines has one object"),
        ('{"prompt_tokens": 3, "output_tokens": 1}\n{"prompt_tokens": 3,\n', "line 2: is no JSON"),
        ('{"prompt_tokens": true, "output_tokens": 1}\n', "line 1: prompt_tokens is no number: 'True'"),
        ('{"prompt_tokens": 3, "output_tokens": 1}\n[1]\n', "line 2: is no object"),
    ],
)
def test_a_broken_line_is_named_by_its_number(tmp_path, text, reason):
    file = tmp_path / "calls"
    file.write_text(text)
    with pytest.raises(InvalidRecording) as caught:
        list(read(file))
    assert str(caught.value).startswith(f"{file}: ")
    assert reason in str(caught.value)


def test_a_file_that_is_not_there_and_one_of_bytes_are_sentences(tmp_path):
    with pytest.raises(InvalidRecording, match="No such file"):
        list(read(tmp_path / "none.csv"))
    (tmp_path / "bytes").write_bytes(f"{HEADING}0,10,5\n".encode() + b"1,1\xff,5\n")
    with pytest.raises(InvalidRecording, match="line 3: is not text in UTF-8"):
        list(read(tmp_path / "bytes"))
    (tmp_path / "marked").write_bytes(b"\xef\xbb\xbf" + f"{HEADING}0,10,5\n".encode())
    assert len(list(read(tmp_path / "marked"))) == 1


def test_a_long_recording_is_read_as_a_stream(tmp_path):
    file, lines = tmp_path / "calls.csv", 100_000
    file.write_text(HEADING + "".join(f"{index / 100},128,64\n" for index in range(lines)))
    tracemalloc.start()
    count = sum(1 for _ in itertools.islice(read(file), 20_000))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (count, most < 1_000_000) == (20_000, True)


def _size(traffic: Traffic, scale: TokenScale, tokens: int, index: int) -> int:
    return len(PromptTexts(traffic, scale).text(PlannedRequest(index, None, 0.0, tokens, 1)).encode())


@pytest.mark.parametrize("tokens", [16, 128, 1024])
def test_a_server_that_reads_bytes_gets_prompts_of_the_wanted_length(tokens: int) -> None:
    """Words of unlike lengths would have other numbers of bytes in the probes than in the requests."""
    traffic = Traffic(prompt_tokens=tokens, output_tokens=1)
    probes = [_size(traffic, TokenScale(), words, 100 + words) for words in PROBES]
    scale = TokenScale.from_counts(PROBES, (probes[0], probes[1]))
    for index in range(20):
        assert abs(_size(traffic, scale, tokens, index) - tokens) <= 2


def test_a_server_that_counts_next_to_nothing_gets_no_endless_prompts() -> None:
    assert TokenScale.from_counts(PROBES, (10, 11)).words(131_072) == 131_072
    assert TokenScale.from_counts(PROBES, (16, 80)).words(128) == 256
