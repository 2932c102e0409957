"""Where a plan does not fit into memory beside what runs today, each has its turns, and every page says so."""

import json
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
def found(folder: Path) -> VerifyResult:
    return VerifyResult.model_validate_json((folder / "result.json").read_bytes())


def test_before_and_after_take_turns_in_an_order_that_drift_does_not_favour(folder, found):
    ended = sorted(folder.glob("turn-*-result.json"), key=lambda path: path.stat().st_mtime_ns)
    assert [path.name.split("-")[1] for path in ended][:6] == ["after", "before", "before", "after", "after", "before"]
    assert found.turns == len(found.speedup.processes) == len(ended) / 2
    assert found.turns in (3, 5)
    assert all(each.pairs >= 3 for each in found.speedup.processes)
    assert len(found.before[0].samples) >= 3 * found.turns


def test_a_plan_is_confirmed_by_turns_with_its_ids_and_quality_judged(found):
    assert found.recommended
    assert found.verdict != "missed"
    assert found.outcomes[0].before > 6000 > found.outcomes[0].after
    assert found.speedup.ratio.low > 1
    assert found.quality.tokens >= found.quality.needed
    assert found.quality.kl_after == found.quality.kl_before
    assert found.served_ids.acceptable
    assert found.served_ids.tokens >= 8 * 3 * found.turns


def test_sentence_and_scope_say_how_many_turns_there_were(found):
    assert turns_words(found.turns) in found.sentence
    assert f"over {found.turns} turns of each side" in found.sentence
    assert found.order == f"in {found.turns} turns of each"
    assert turns_words(0) == ""
    assert "memory beside it" in found.no_profile


def test_a_plan_that_cannot_run_is_refused_and_today_measured_all_the_same(folder):
    refused = json.loads((folder / "refused.json").read_bytes())
    assert refused["why_not"] == "The plan is refused. Turn 1 of the plan ended with code 1."
    assert refused["turns"] == 1
    assert refused["before"] >= 3
