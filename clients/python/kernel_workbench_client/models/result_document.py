from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast
from uuid import UUID

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.result_document_state import (
    ResultDocumentState,
    check_result_document_state,
)
from ..models.result_document_verdict_type_0 import (
    ResultDocumentVerdictType0,
    check_result_document_verdict_type_0,
)

if TYPE_CHECKING:
    from ..models.results import Results


T = TypeVar("T", bound="ResultDocument")


@_attrs_define
class ResultDocument:
    """Everything the stages that are done have found.

    Attributes:
        run (UUID):
        state (ResultDocumentState):
        verdict (None | ResultDocumentVerdictType0):
        results (Results): The stages done so far.
    """

    run: UUID
    state: ResultDocumentState
    verdict: None | ResultDocumentVerdictType0
    results: Results
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        run = str(self.run)

        state: str = self.state

        verdict: None | str
        if isinstance(self.verdict, str):
            verdict = self.verdict
        else:
            verdict = self.verdict

        results = self.results.to_dict()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "run": run,
                "state": state,
                "verdict": verdict,
                "results": results,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.results import Results  # noqa: PLC0415

        d = dict(src_dict)
        run = UUID(d.pop("run"))

        state = check_result_document_state(d.pop("state"))

        def _parse_verdict(data: object) -> None | ResultDocumentVerdictType0:
            if data is None:
                return data
            try:
                if not isinstance(data, str):
                    raise TypeError()
                verdict_type_0 = check_result_document_verdict_type_0(data)

                return verdict_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | ResultDocumentVerdictType0, data)

        verdict = _parse_verdict(d.pop("verdict"))

        results = Results.from_dict(d.pop("results"))

        result_document = cls(
            run=run,
            state=state,
            verdict=verdict,
            results=results,
        )

        result_document.additional_properties = d
        return result_document

    @property
    def additional_keys(self) -> list[str]:
        return list(self.additional_properties.keys())

    def __getitem__(self, key: str) -> Any:
        return self.additional_properties[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.additional_properties[key] = value

    def __delitem__(self, key: str) -> None:
        del self.additional_properties[key]

    def __contains__(self, key: str) -> bool:
        return key in self.additional_properties
