"""Every control of docs/security.md names a test, and every test that it names exists."""

import re

from tests.programs import ROOT

PLACES = ("", "tests/workbench/", "tests/workers/", "tests/")
HEADINGS = ("What is worth protecting", "Who may try, and what stops them", "Boundaries", "What is left to you")


def _rows() -> list[list[str]]:
    text = (ROOT / "docs" / "security.md").read_text()
    table = text.split("| Who | What they try |")[1].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_every_control_names_a_test_that_exists() -> None:
    rows = _rows()
    assert len(rows) > 15
    for row in rows:
        named = re.findall(r"`([^`]+)`", row[-1])
        assert named or "is walked" in row[-1], f"no test: {row[1]}"
        for name in named:
            assert any((ROOT / place / name).exists() for place in PLACES), f"{name} does not exist ({row[1]})"


def test_assets_actors_and_boundaries_are_named() -> None:
    text = (ROOT / "docs" / "security.md").read_text()
    for heading in HEADINGS:
        assert f"\n## {heading}\n" in text
