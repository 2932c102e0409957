from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.deployment_metric import DeploymentMetric, check_deployment_metric
from ..types import UNSET, Unset

T = TypeVar("T", bound="Deployment")


@_attrs_define
class Deployment:
    """The customer's present deployment, as the customer states it.

    Attributes:
        latency_ms (float):
        gpu (str):
        usd_per_hour (float):
        metric (DeploymentMetric | Unset):  Default: 'ttf_n'.
        n (int | None | Unset):
        tokens_per_second (float | None | Unset): tokens, or what else the model gives, per second
    """

    latency_ms: float
    gpu: str
    usd_per_hour: float
    metric: DeploymentMetric | Unset = "ttf_n"
    n: int | None | Unset = UNSET
    tokens_per_second: float | None | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        latency_ms = self.latency_ms

        gpu = self.gpu

        usd_per_hour = self.usd_per_hour

        metric: str | Unset = UNSET
        if not isinstance(self.metric, Unset):
            metric = self.metric

        n: int | None | Unset
        if isinstance(self.n, Unset):
            n = UNSET
        else:
            n = self.n

        tokens_per_second: float | None | Unset
        if isinstance(self.tokens_per_second, Unset):
            tokens_per_second = UNSET
        else:
            tokens_per_second = self.tokens_per_second

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "latency_ms": latency_ms,
                "gpu": gpu,
                "usd_per_hour": usd_per_hour,
            }
        )
        if metric is not UNSET:
            field_dict["metric"] = metric
        if n is not UNSET:
            field_dict["n"] = n
        if tokens_per_second is not UNSET:
            field_dict["tokens_per_second"] = tokens_per_second

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        latency_ms = d.pop("latency_ms")

        gpu = d.pop("gpu")

        usd_per_hour = d.pop("usd_per_hour")

        _metric = d.pop("metric", UNSET)
        metric: DeploymentMetric | Unset
        if isinstance(_metric, Unset):
            metric = UNSET
        else:
            metric = check_deployment_metric(_metric)

        def _parse_n(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        n = _parse_n(d.pop("n", UNSET))

        def _parse_tokens_per_second(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        tokens_per_second = _parse_tokens_per_second(d.pop("tokens_per_second", UNSET))

        deployment = cls(
            latency_ms=latency_ms,
            gpu=gpu,
            usd_per_hour=usd_per_hour,
            metric=metric,
            n=n,
            tokens_per_second=tokens_per_second,
        )

        return deployment
