"""A terminal shows both sides under load."""

from rich.console import Console
from sample_loads import under_load

from workbench.cli import load_tables


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
