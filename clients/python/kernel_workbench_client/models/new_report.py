from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar
from uuid import UUID

from attrs import define as _attrs_define

T = TypeVar("T", bound="NewReport")


@_attrs_define
class NewReport:
    """The finished run to freeze.

    Attributes:
        run (UUID):
    """

    run: UUID

    def to_dict(self) -> dict[str, Any]:
        run = str(self.run)

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "run": run,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        run = UUID(d.pop("run"))

        new_report = cls(
            run=run,
        )

        return new_report
