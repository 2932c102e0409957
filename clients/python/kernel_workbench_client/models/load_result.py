from __future__ import annotations

from collections.abc import Mapping
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    TypeVar,
    cast,
)

from attrs import define as _attrs_define

from ..models.load_result_api import LoadResultApi, check_load_result_api
from ..models.load_result_verdict_type_0 import (
    LoadResultVerdictType0,
    check_load_result_verdict_type_0,
)
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.generator_lag import GeneratorLag
    from ..models.interval import Interval
    from ..models.load_failure import LoadFailure
    from ..models.load_metric import LoadMetric
    from ..models.load_outcome import LoadOutcome
    from ..models.load_tokens import LoadTokens
    from ..models.telemetry import Telemetry
    from ..models.traffic import Traffic


T = TypeVar("T", bound="LoadResult")


@_attrs_define
class LoadResult:
    """A load test of one server. Rates are over the steady part, `seconds` from the warm-up's end to the last send.

    Attributes:
        at (str): when sending began, ISO 8601 UTC
        url (str):
        model (str):
        api (LoadResultApi):
        traffic (Traffic): How long requests are, when they arrive, and how their users behave.

            `prompt_tokens`, `output_tokens`, `batch` and `concurrency` describe equal requests in a closed loop, which is
            what
            a run of the workbench verifies. The other fields are for its load stage and for `workbench measure`; see
            `only_under_load`.
        host (str): the machine that sent, not the one that served
        warm_up_seconds (float):
        seconds (float):
        requests (int): counted ones, meant to be sent in the steady part
        completed (int):
        cancelled (int):
        ended_early (int):
        failures (list[LoadFailure]):
        tokens (LoadTokens): Tokens of the counted requests, as the server counted them; `several`: requests with fewer
            events than tokens.
        metrics (list[LoadMetric]):
        requests_per_second (float):
        tokens_per_second (float): output tokens that came in the steady part, by its seconds
        goodput (float | None): requests per second that met every objective about single requests
        in_flight (float): mean number of open requests
        lag (GeneratorLag): The generator's own delay in ms: how late it turned to requests, and how late its event loop
            came to ticks.

            Each figure is that of the latest of its processes.
        outcomes (list[LoadOutcome]):
        verdict (LoadResultVerdictType0 | None): None where the measurement is void or nothing was judged
        notes (list[str]):
        version (Literal[1] | Unset):  Default: 1.
        tokens_per_second_interval (Interval | None | Unset): tokens_per_second with its 95 % interval by batch means;
            None in a short test
        telemetry (None | Telemetry | Unset): of the server's device meanwhile, where it is ours
    """

    at: str
    url: str
    model: str
    api: LoadResultApi
    traffic: Traffic
    host: str
    warm_up_seconds: float
    seconds: float
    requests: int
    completed: int
    cancelled: int
    ended_early: int
    failures: list[LoadFailure]
    tokens: LoadTokens
    metrics: list[LoadMetric]
    requests_per_second: float
    tokens_per_second: float
    goodput: float | None
    in_flight: float
    lag: GeneratorLag
    outcomes: list[LoadOutcome]
    verdict: LoadResultVerdictType0 | None
    notes: list[str]
    version: Literal[1] | Unset = 1
    tokens_per_second_interval: Interval | None | Unset = UNSET
    telemetry: None | Telemetry | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.interval import Interval  # noqa: PLC0415
        from ..models.telemetry import Telemetry  # noqa: PLC0415

        at = self.at

        url = self.url

        model = self.model

        api: str = self.api

        traffic = self.traffic.to_dict()

        host = self.host

        warm_up_seconds = self.warm_up_seconds

        seconds = self.seconds

        requests = self.requests

        completed = self.completed

        cancelled = self.cancelled

        ended_early = self.ended_early

        failures = []
        for failures_item_data in self.failures:
            failures_item = failures_item_data.to_dict()
            failures.append(failures_item)

        tokens = self.tokens.to_dict()

        metrics = []
        for metrics_item_data in self.metrics:
            metrics_item = metrics_item_data.to_dict()
            metrics.append(metrics_item)

        requests_per_second = self.requests_per_second

        tokens_per_second = self.tokens_per_second

        goodput: float | None
        goodput = self.goodput

        in_flight = self.in_flight

        lag = self.lag.to_dict()

        outcomes = []
        for outcomes_item_data in self.outcomes:
            outcomes_item = outcomes_item_data.to_dict()
            outcomes.append(outcomes_item)

        verdict: None | str
        if isinstance(self.verdict, str):
            verdict = self.verdict
        else:
            verdict = self.verdict

        notes = self.notes

        version = self.version

        tokens_per_second_interval: dict[str, Any] | None | Unset
        if isinstance(self.tokens_per_second_interval, Unset):
            tokens_per_second_interval = UNSET
        elif isinstance(self.tokens_per_second_interval, Interval):
            tokens_per_second_interval = self.tokens_per_second_interval.to_dict()
        else:
            tokens_per_second_interval = self.tokens_per_second_interval

        telemetry: dict[str, Any] | None | Unset
        if isinstance(self.telemetry, Unset):
            telemetry = UNSET
        elif isinstance(self.telemetry, Telemetry):
            telemetry = self.telemetry.to_dict()
        else:
            telemetry = self.telemetry

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "at": at,
                "url": url,
                "model": model,
                "api": api,
                "traffic": traffic,
                "host": host,
                "warm_up_seconds": warm_up_seconds,
                "seconds": seconds,
                "requests": requests,
                "completed": completed,
                "cancelled": cancelled,
                "ended_early": ended_early,
                "failures": failures,
                "tokens": tokens,
                "metrics": metrics,
                "requests_per_second": requests_per_second,
                "tokens_per_second": tokens_per_second,
                "goodput": goodput,
                "in_flight": in_flight,
                "lag": lag,
                "outcomes": outcomes,
                "verdict": verdict,
                "notes": notes,
            }
        )
        if version is not UNSET:
            field_dict["version"] = version
        if tokens_per_second_interval is not UNSET:
            field_dict["tokens_per_second_interval"] = tokens_per_second_interval
        if telemetry is not UNSET:
            field_dict["telemetry"] = telemetry

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.generator_lag import GeneratorLag  # noqa: PLC0415
        from ..models.interval import Interval  # noqa: PLC0415
        from ..models.load_failure import LoadFailure  # noqa: PLC0415
        from ..models.load_metric import LoadMetric  # noqa: PLC0415
        from ..models.load_outcome import LoadOutcome  # noqa: PLC0415
        from ..models.load_tokens import LoadTokens  # noqa: PLC0415
        from ..models.telemetry import Telemetry  # noqa: PLC0415
        from ..models.traffic import Traffic  # noqa: PLC0415

        d = dict(src_dict)
        at = d.pop("at")

        url = d.pop("url")

        model = d.pop("model")

        api = check_load_result_api(d.pop("api"))

        traffic = Traffic.from_dict(d.pop("traffic"))

        host = d.pop("host")

        warm_up_seconds = d.pop("warm_up_seconds")

        seconds = d.pop("seconds")

        requests = d.pop("requests")

        completed = d.pop("completed")

        cancelled = d.pop("cancelled")

        ended_early = d.pop("ended_early")

        failures = []
        _failures = d.pop("failures")
        for failures_item_data in _failures:
            failures_item = LoadFailure.from_dict(failures_item_data)

            failures.append(failures_item)

        tokens = LoadTokens.from_dict(d.pop("tokens"))

        metrics = []
        _metrics = d.pop("metrics")
        for metrics_item_data in _metrics:
            metrics_item = LoadMetric.from_dict(metrics_item_data)

            metrics.append(metrics_item)

        requests_per_second = d.pop("requests_per_second")

        tokens_per_second = d.pop("tokens_per_second")

        def _parse_goodput(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        goodput = _parse_goodput(d.pop("goodput"))

        in_flight = d.pop("in_flight")

        lag = GeneratorLag.from_dict(d.pop("lag"))

        outcomes = []
        _outcomes = d.pop("outcomes")
        for outcomes_item_data in _outcomes:
            outcomes_item = LoadOutcome.from_dict(outcomes_item_data)

            outcomes.append(outcomes_item)

        def _parse_verdict(data: object) -> LoadResultVerdictType0 | None:
            if data is None:
                return data
            try:
                if not isinstance(data, str):
                    raise TypeError()
                verdict_type_0 = check_load_result_verdict_type_0(data)

                return verdict_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(LoadResultVerdictType0 | None, data)

        verdict = _parse_verdict(d.pop("verdict"))

        notes = cast(list[str], d.pop("notes"))

        version = cast(Literal[1] | Unset, d.pop("version", UNSET))
        if version != 1 and not isinstance(version, Unset):
            raise ValueError(f"version must match const 1, got '{version}'")

        def _parse_tokens_per_second_interval(data: object) -> Interval | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                tokens_per_second_interval_type_0 = Interval.from_dict(data)

                return tokens_per_second_interval_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(Interval | None | Unset, data)

        tokens_per_second_interval = _parse_tokens_per_second_interval(d.pop("tokens_per_second_interval", UNSET))

        def _parse_telemetry(data: object) -> None | Telemetry | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                telemetry_type_0 = Telemetry.from_dict(data)

                return telemetry_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | Telemetry | Unset, data)

        telemetry = _parse_telemetry(d.pop("telemetry", UNSET))

        load_result = cls(
            at=at,
            url=url,
            model=model,
            api=api,
            traffic=traffic,
            host=host,
            warm_up_seconds=warm_up_seconds,
            seconds=seconds,
            requests=requests,
            completed=completed,
            cancelled=cancelled,
            ended_early=ended_early,
            failures=failures,
            tokens=tokens,
            metrics=metrics,
            requests_per_second=requests_per_second,
            tokens_per_second=tokens_per_second,
            goodput=goodput,
            in_flight=in_flight,
            lag=lag,
            outcomes=outcomes,
            verdict=verdict,
            notes=notes,
            version=version,
            tokens_per_second_interval=tokens_per_second_interval,
            telemetry=telemetry,
        )

        return load_result
