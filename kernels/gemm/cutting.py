"""A cut looked up by the params that name it, in a plan for this size or another. No torch."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

C = TypeVar("C")


def matching(found: Iterable[C], params: Mapping[str, Any], names: Collection[str]) -> C | None:
    """The first of the cuts that is as `params` say of `names`, the best guess where they say nothing; else None."""
    wanted = {name: value for name, value in params.items() if name in names}
    return next((each for each in found if all(getattr(each, name) == value for name, value in wanted.items())), None)


def resized(found: Iterable[Any], params: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    """`params` of another size: all of them where one of the cuts is such, else without `names`."""
    if matching(found, params, names) is not None:
        return params
    return {name: value for name, value in params.items() if name not in names}
