"""A terminal shows both sides under load, and why a side is missing."""

from rich.console import Console
from sample_loads import under_load

from tests import sample_endpoint, sample_loads
from workbench.cli import load_tables
from workers.documents.load import LoadFailure


def printed(found) -> str:
    console = Console(record=True, width=160)
    load_tables.under_load(found, console)
    return console.export_text()


def test_both_sides_stand_in_one_table_with_the_load_that_holds():
    said = printed(under_load())
    rows = [line.split() for line in said.splitlines() if line.strip("│ ").startswith(("before", "after"))]
    assert len(rows) == 12
    assert "TTF64 p50" in said
    assert "void" in said
    assert "every promise is kept with 20 users at once" in said
    assert "After: This workbench's server with the plan's kernels" in said
    assert "64 of its answers were held against the model's logits" in " ".join(said.split())


def test_the_endpoint_stands_below_them():
    said = printed(sample_endpoint.under_load(sample_loads.results()).load)
    assert len([line for line in said.splitlines() if line.startswith("│your endpoint")]) == 3
    assert "asked by /v1/completions" in said


def test_a_search_says_why_requests_failed_and_what_its_loads_have_to_note():
    failure = LoadFailure(kind="HTTP 429", count=2, sentence="The server answered 429 (Too Many Requests).")
    load = sample_loads.load(1, 10, 1, "met").model_copy(update={"failures": [failure], "notes": ["Words."]})
    limit = under_load().after.limit.model_copy(update={"users": 1, "loads": [load], "saturation": None})
    console = Console(record=True, width=160)
    load_tables.limit_row(load, console)
    load_tables.limit_found(limit, console)
    said = console.export_text()
    assert "2 failed, such as: The server answered 429 (Too Many Requests)." in said
    assert said.endswith("The whole search is judged at 99 % confidence.\nWords.\n")


def test_a_side_that_was_not_measured_leaves_its_note():
    found = under_load().model_copy(update={"after": None, "notes": ["After was not measured under load: no memory."]})
    assert "After was not measured under load: no memory." in printed(found)
