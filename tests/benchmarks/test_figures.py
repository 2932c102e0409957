"""Tables in the documents are those of the committed results; no time in lower precision lacks its fidelity."""

import re
from functools import cache
from pathlib import Path

import pytest

from benchmarks import figures, tables
from benchmarks.documents import RESULTS, document
from benchmarks.tables import several_gpus
from benchmarks.tables.writing import NOT_MEASURED
from kernels.measure.roofline import MAX_FLOOR_SHARE

ROOT = Path(__file__).parents[2]
TABLES = {name: cache(made) for name, made in tables.TABLES.items()}
"""Each is made once for all tests: some take seconds."""
NO_SUMMARIES = {"README", "predictions", "serving", "simulations"}
SUMMARIES = [path for path in sorted((ROOT / "benchmarks").glob("*.md")) if path.stem not in NO_SUMMARIES]
LOWER = "fp8|nvfp4|int4"
OF_OPS = {
    *("compiled-peers", "every-op", "rmsnorm", "skinny-lossy", "lm-head-lossy", "host-cost"),
    "decode-attention-fp8",
}
"""Tables of single ops in lower precision. Their reference has the same rounded weights, within the gate's limits."""
OF_ERRORS = {"predicted-latencies"}
"""Tables that show how far times are off, and no times."""
BORROWED = (
    "¹ Some products of the prompt ran on cuBLAS",
    "¹ These ran kernels that are not this library's, for the first token alone",
)


@pytest.fixture(autouse=True)
def made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "TABLES", TABLES)


def prose(path: Path) -> str:
    """A document without its generated tables and without comments."""
    return re.sub(r"<!--.*?-->", "", figures.TABLE.sub("", path.read_text()))


@pytest.mark.parametrize("name", sorted(set(TABLES) - OF_OPS - OF_ERRORS))
def test_a_model_in_lower_precision_has_its_fidelity_in_its_line_or_none_is_said_to_be_measured(name):
    header, _, *lines = ([cell.strip() for cell in line.split("|")[1:-1]] for line in TABLES[name]().splitlines())
    assert not re.search(LOWER, " ".join(header), re.I)
    judged = [at for at, cell in enumerate(header) if cell in ("KL, nats", "other tokens")]
    for line in lines:
        times = [cell for at, cell in enumerate(line) if re.match(r"\d", cell) and at not in judged]
        if re.search(LOWER, " ".join(line), re.I) and times:
            assert judged, line
            assert all(line[at] == NOT_MEASURED or re.match(r"\d", line[at]) for at in judged), line


@pytest.mark.parametrize("path", figures.documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_tables_are_those_of_the_results_and_what_marks_a_figure_is_explained_below(path):
    """No fidelity, none of its own, and kernels of others."""
    text = path.read_text()
    assert figures.filled(text) == text, "run python -m benchmarks.figures"
    for table in figures.TABLE.finditer(text):
        behind = text[table.end() :].lstrip()
        notes = behind.split("\n\n")[:2]
        explained = any(re.match("² .*no fidelity was measured", note) for note in notes)
        assert explained == (NOT_MEASURED in table[3]), table[2]
        assert any(note.startswith("³ Its own fidelity was not measured") for note in notes) == ("³" in table[3])
        assert behind.startswith(BORROWED) == ("¹" in table[3]), table[2]


@pytest.mark.parametrize(("name", "folders"), [("several-gpus", ("h200x2", "h200x4")), ("several-h100s", ("h100x4",))])
def test_what_kernels_of_others_took_part_in_on_several_gpus_is_marked(name, folders):
    lines = [[cell.strip() for cell in line.split("|")[2:5]] for line in TABLES[name]().splitlines()[2:]]
    for (_, source, weights, *_), cells in zip(several_gpus.CASES, lines, strict=True):
        for gpus, cell in zip((None, 2, 4), cells, strict=True):
            result = filter(None, (several_gpus._row(folder, source, weights, gpus) for folder in folders))
            row = next(result, None)
            assert cell.startswith("–") if row is None else ("¹" in cell) == (row["own"] is False), (source, gpus)
    assert any("¹" in cell for cells in lines for cell in cells)


def test_the_rows_beside_vllm_that_ran_cublas_are_those_of_the_document():
    rows = document("decode-vllm")["rows"]
    borrowed = [row for row in rows if row["own"] is False]
    assert len(borrowed) == TABLES["vllm"]().count("¹")
    assert borrowed
    assert all(any(name.startswith("nvjet") for name in row["kernels"]) for row in borrowed)


@pytest.mark.parametrize("name", sorted(TABLES))
def test_no_table_shows_a_share_that_is_impossible(name):
    header, _, *lines = ([cell.strip() for cell in line.split("|")] for line in TABLES[name]().splitlines())
    shares = [at for at, cell in enumerate(header) if cell.startswith(("share of", "less 3.0"))]
    shown = [line[at] for line in lines for at in shares if re.fullmatch(r"[\d.]+", line[at])]
    assert all(float(item) <= MAX_FLOOR_SHARE for item in shown)


def test_every_table_is_in_a_document_and_written_anew_between_its_markers():
    named = {name for path in figures.documents() for _, name, *_ in figures.TABLE.findall(path.read_text())}
    assert named == set(TABLES)
    assert [line.split(" | ")[-1] for line in TABLES["gated"]().splitlines()[2:]] == ["impossible, above 1.05 |"] * 2
    assert figures.filled("<!-- table: step -->\nold\n<!-- end -->").splitlines()[1].startswith("| heads, head_dim |")
    with pytest.raises(ValueError, match="there is no table 'nothing'"):
        figures.filled("<!-- table: nothing -->\n<!-- end -->")


@pytest.mark.parametrize("path", SUMMARIES, ids=lambda path: path.stem)
def test_a_summary_is_at_most_600_words(path):
    assert len(prose(path).split()) <= 600


@pytest.mark.parametrize(
    "path", sorted({*RESULTS.iterdir()} - {*RESULTS.glob("*.plan.json")}), ids=lambda path: path.name
)
def test_the_index_names_every_document_and_it_names_its_commit(path):
    assert (ROOT / "benchmarks" / "README.md").read_text().count(f"(results/h200/{path.name})") >= 1
    if path.suffix == ".json" and path.stem != "chain-study":
        facts = document(path.stem)
        facts = facts.get("environment", facts)
        assert all("commit" in item for item in ([facts] if "commit" in facts else facts["rows"]))
