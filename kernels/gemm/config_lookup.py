"""Finds the tile config that a plan's params name, for the planned size or another. Imports without torch."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

C = TypeVar("C")


def matching(candidates: Iterable[C], params: Mapping[str, Any], names: Collection[str]) -> C | None:
    """The first tile config whose fields `names` have the values in `params`; others may be any."""
    wanted = {name: value for name, value in params.items() if name in names}
    return next((c for c in candidates if all(getattr(c, name) == value for name, value in wanted.items())), None)


def resized(candidates: Iterable[Any], params: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    """`params` of another size: all of them where a tile config has these values, else without `names`."""
    if matching(candidates, params, names) is not None:
        return params
    return {name: value for name, value in params.items() if name not in names}
