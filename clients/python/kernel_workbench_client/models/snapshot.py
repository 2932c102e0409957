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

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.model_manifest import ModelManifest
    from ..models.price_book import PriceBook
    from ..models.results import Results
    from ..models.stage_time import StageTime
    from ..models.workload import Workload


T = TypeVar("T", bound="Snapshot")


@_attrs_define
class Snapshot:
    """A run with everything its pages show, so that it reads the same years later. Times are ISO 8601 UTC.

    Attributes:
        run_id (str):
        created_at (str):
        finished_at (str):
        gpu_class (str):
        workload (Workload): An SLA together with the model it is about.

            `model` is the name of a catalogue entry, or a digest of an uploaded model: the content digest names exactly
            one,
            and the model digest the newest that has it.
        model (ModelManifest): A model as a stage and its worker know it.

            `digest` covers what changes the outputs and names the model in plans; `content_digest` covers all of `files`
            and
            names what is stored and served (`kernels.model_files.digests`). Without weights among the files, they are
            `generated` from `seed`. Results of older versions have no `content_digest`.
        prices (PriceBook): Prices as they were on `date` (ISO 8601), and where they come from.
        stages (list[StageTime]):
        results (Results): The stages done so far.
        version (Literal[1] | Unset):  Default: 1.
        customer (str | Unset):  Default: ''.
        logo (str | Unset):  Default: ''.
    """

    run_id: str
    created_at: str
    finished_at: str
    gpu_class: str
    workload: Workload
    model: ModelManifest
    prices: PriceBook
    stages: list[StageTime]
    results: Results
    version: Literal[1] | Unset = 1
    customer: str | Unset = ""
    logo: str | Unset = ""

    def to_dict(self) -> dict[str, Any]:
        run_id = self.run_id

        created_at = self.created_at

        finished_at = self.finished_at

        gpu_class = self.gpu_class

        workload = self.workload.to_dict()

        model = self.model.to_dict()

        prices = self.prices.to_dict()

        stages = []
        for stages_item_data in self.stages:
            stages_item = stages_item_data.to_dict()
            stages.append(stages_item)

        results = self.results.to_dict()

        version = self.version

        customer = self.customer

        logo = self.logo

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "run_id": run_id,
                "created_at": created_at,
                "finished_at": finished_at,
                "gpu_class": gpu_class,
                "workload": workload,
                "model": model,
                "prices": prices,
                "stages": stages,
                "results": results,
            }
        )
        if version is not UNSET:
            field_dict["version"] = version
        if customer is not UNSET:
            field_dict["customer"] = customer
        if logo is not UNSET:
            field_dict["logo"] = logo

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.model_manifest import ModelManifest  # noqa: PLC0415
        from ..models.price_book import PriceBook  # noqa: PLC0415
        from ..models.results import Results  # noqa: PLC0415
        from ..models.stage_time import StageTime  # noqa: PLC0415
        from ..models.workload import Workload  # noqa: PLC0415

        d = dict(src_dict)
        run_id = d.pop("run_id")

        created_at = d.pop("created_at")

        finished_at = d.pop("finished_at")

        gpu_class = d.pop("gpu_class")

        workload = Workload.from_dict(d.pop("workload"))

        model = ModelManifest.from_dict(d.pop("model"))

        prices = PriceBook.from_dict(d.pop("prices"))

        stages = []
        _stages = d.pop("stages")
        for stages_item_data in _stages:
            stages_item = StageTime.from_dict(stages_item_data)

            stages.append(stages_item)

        results = Results.from_dict(d.pop("results"))

        version = cast(Literal[1] | Unset, d.pop("version", UNSET))
        if version != 1 and not isinstance(version, Unset):
            raise ValueError(f"version must match const 1, got '{version}'")

        customer = d.pop("customer", UNSET)

        logo = d.pop("logo", UNSET)

        snapshot = cls(
            run_id=run_id,
            created_at=created_at,
            finished_at=finished_at,
            gpu_class=gpu_class,
            workload=workload,
            model=model,
            prices=prices,
            stages=stages,
            results=results,
            version=version,
            customer=customer,
            logo=logo,
        )

        return snapshot
