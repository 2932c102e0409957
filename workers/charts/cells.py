"""Table cells as text, so that page and report print the same figures."""

from workers.charts.base import Cell, Table
from workers.wording.text import MISSING, number


def cell(value: Cell) -> str:
    if value is None or value == "":
        return MISSING
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else number(value)


def rows(table: Table) -> list[list[tuple[str, bool]]]:
    """Each cell as (text, is a number); a column with any number in it is right-aligned throughout."""
    _, body = table
    columns = range(len(body[0]) if body else 0)
    numeric = [any(isinstance(row[column], int | float) for row in body) for column in columns]
    return [[(cell(value), numeric[column]) for column, value in enumerate(row)] for row in body]


def headers(table: Table) -> list[tuple[str, bool]]:
    """Each header as (text, is above numbers)."""
    names, body = table
    numeric = [any(isinstance(row[column], int | float) for row in body) for column in range(len(names))]
    return list(zip(names, numeric, strict=True))
