"""Where a plan does not fit into memory beside what runs today, each has its turns, and every page says so."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from workers.documents.stages import VerifyResult
from workers.planning.verdict_words import turns_words

RUN = "import sys, pathlib; from tests.workers.stages import short_memory; short_memory.run(pathlib.Path(sys.argv[1]))"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That of a verify stage whose memory holds its model once, by the kernel's own limit."""
    folder = tmp_path_factory.mktemp("turns")
    subprocess.run([sys.executable, "-c", RUN, str(folder)], check=True, timeout=900)
    return folder


@pytest.fixture(scope="module")
def result(folder: Path) -> VerifyResult:
    return VerifyResult.model_validate_json((folder / "result.json").read_bytes())


def test_before_and_after_take_turns_in_an_order_that_drift_does_not_favour(folder, result):
    ended = sorted(folder.glob("turn-*-result.json"), key=lambda path: path.stat().st_mtime_ns)
    assert [path.name.split("-")[1] for path in ended][:6] == ["after", "before", "before", "after", "after", "before"]
    assert result.turns == len(result.speedup.processes) == len(ended) / 2
    assert result.turns in (3, 5)
    assert all(process.pairs >= 3 for process in result.speedup.processes)
    assert len(result.before[0].samples) >= 3 * result.turns


def test_a_plan_is_confirmed_by_turns_with_its_ids_and_quality_judged(result):
    assert result.recommended
    assert result.verdict != "missed"
    assert result.outcomes[0].before > 6000 > result.outcomes[0].after
    assert result.speedup.ratio.low > 1
    assert result.quality.tokens >= result.quality.needed
    assert result.quality.kl_after == result.quality.kl_before
    assert result.served_ids.acceptable
    assert result.served_ids.tokens >= 8 * 3 * result.turns


def test_sentence_and_scope_say_how_many_turns_there_were(result):
    assert turns_words(result.turns, result.turns) in result.sentence
    assert f"over {result.turns} turns of each side" in result.sentence
    assert result.order == f"in {result.turns} turns of each"
    assert turns_words(0, 0) == ""
    assert "memory beside it" in result.no_profile


def test_a_plan_that_cannot_run_is_refused_and_today_measured_until_it_is_decided(folder):
    refused = VerifyResult.model_validate_json((folder / "refused.json").read_bytes())
    why = r"The plan is refused. Turn 1 of the plan ended with code 1: .+ \(\w+Error\)\."
    assert re.fullmatch(why, refused.checks[0].reason)
    assert refused.sentence.count("ended with code 1") == 1
    assert refused.sentence.endswith(turns_words(1, refused.turns))
    assert len(list((folder / "refused").glob("turn-before-*-result.json"))) == refused.turns > 1
    assert refused.verdict == "met"
    assert len(refused.before[0].samples) >= refused.outcomes[0].needed


def test_a_plan_without_time_for_its_turns_is_left_out_with_the_minutes_that_they_take(folder):
    short = VerifyResult.model_validate_json((folder / "short.json").read_bytes())
    assert not short.recommended
    assert "No other plan can be verified. Time was short to verify eager in fp32." in short.sentence
    assert short.minutes_wanted > 0.5
    assert short.turns == 0
    assert not list((folder / "short").glob("turn-*"))
