"""Finds the tile config that a plan's params name, for the planned size or another. Imports without torch."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from kernels.registry import check_params

C = TypeVar("C")


def find_config(candidates: Iterable[C], params: Mapping[str, Any], names: Collection[str]) -> C | None:
    """The first tile config whose fields `names` have the values in `params`; others may be any."""
    selected = {name: value for name, value in params.items() if name in names}
    return next((c for c in candidates if all(getattr(c, name) == value for name, value in selected.items())), None)


def config_of(
    name: str, key: str, candidates: Iterable[C], params: Mapping[str, Any], names: Sequence[str], others: Sequence[str]
) -> C:
    """The tile config that params name, else the best guess. Raises ValueError for an unknown param or value."""
    check_params(name, params, (*names, *others))
    config = find_config(candidates, params, names)
    if config is None:
        raise ValueError(f"{', '.join(names)}: no tile config of {key} has {params}")
    return config


def resize_config(candidates: Iterable[Any], params: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    """`params` of another size: all of them where a tile config has these values, else without `names`."""
    if find_config(candidates, params, names) is not None:
        return params
    return {name: value for name, value in params.items() if name not in names}
