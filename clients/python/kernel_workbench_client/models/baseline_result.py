from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.distribution import Distribution
    from ..models.environment import Environment


T = TypeVar("T", bound="BaselineResult")


@_attrs_define
class BaselineResult:
    """The measurement of what the customer runs today.

    Attributes:
        environment (Environment): The device, the libraries and the commit that a figure was measured with; `at` is ISO
            8601 UTC.
        runner (str):
        dtype (str):
        requests (int):
        distributions (list[Distribution]):
        tokens_per_second (float):
        peak_memory_gib (float | None | Unset):
    """

    environment: Environment
    runner: str
    dtype: str
    requests: int
    distributions: list[Distribution]
    tokens_per_second: float
    peak_memory_gib: float | None | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        environment = self.environment.to_dict()

        runner = self.runner

        dtype = self.dtype

        requests = self.requests

        distributions = []
        for distributions_item_data in self.distributions:
            distributions_item = distributions_item_data.to_dict()
            distributions.append(distributions_item)

        tokens_per_second = self.tokens_per_second

        peak_memory_gib: float | None | Unset
        if isinstance(self.peak_memory_gib, Unset):
            peak_memory_gib = UNSET
        else:
            peak_memory_gib = self.peak_memory_gib

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "environment": environment,
                "runner": runner,
                "dtype": dtype,
                "requests": requests,
                "distributions": distributions,
                "tokens_per_second": tokens_per_second,
            }
        )
        if peak_memory_gib is not UNSET:
            field_dict["peak_memory_gib"] = peak_memory_gib

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.distribution import Distribution  # noqa: PLC0415
        from ..models.environment import Environment  # noqa: PLC0415

        d = dict(src_dict)
        environment = Environment.from_dict(d.pop("environment"))

        runner = d.pop("runner")

        dtype = d.pop("dtype")

        requests = d.pop("requests")

        distributions = []
        _distributions = d.pop("distributions")
        for distributions_item_data in _distributions:
            distributions_item = Distribution.from_dict(distributions_item_data)

            distributions.append(distributions_item)

        tokens_per_second = d.pop("tokens_per_second")

        def _parse_peak_memory_gib(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        peak_memory_gib = _parse_peak_memory_gib(d.pop("peak_memory_gib", UNSET))

        baseline_result = cls(
            environment=environment,
            runner=runner,
            dtype=dtype,
            requests=requests,
            distributions=distributions,
            tokens_per_second=tokens_per_second,
            peak_memory_gib=peak_memory_gib,
        )

        return baseline_result
