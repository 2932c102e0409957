from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.artifact import Artifact
    from ..models.lane_summary import LaneSummary


T = TypeVar("T", bound="RequestTimeline")


@_attrs_define
class RequestTimeline:
    """The timeline that the result page draws of a traced request; `file` is its compressed JSON.

    `sentence` says what was left out, or is "". The profiler slows the host: these times are longer than those that
    verdicts are made of.

        Attributes:
            file (Artifact): A file kept by content hash; `name` is for people, `sha256` finds it.
            duration_ms (float):
            lanes (list[LaneSummary]):
            sentence (str | Unset):  Default: ''.
    """

    file: Artifact
    duration_ms: float
    lanes: list[LaneSummary]
    sentence: str | Unset = ""

    def to_dict(self) -> dict[str, Any]:
        file = self.file.to_dict()

        duration_ms = self.duration_ms

        lanes = []
        for lanes_item_data in self.lanes:
            lanes_item = lanes_item_data.to_dict()
            lanes.append(lanes_item)

        sentence = self.sentence

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "file": file,
                "duration_ms": duration_ms,
                "lanes": lanes,
            }
        )
        if sentence is not UNSET:
            field_dict["sentence"] = sentence

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.artifact import Artifact  # noqa: PLC0415
        from ..models.lane_summary import LaneSummary  # noqa: PLC0415

        d = dict(src_dict)
        file = Artifact.from_dict(d.pop("file"))

        duration_ms = d.pop("duration_ms")

        lanes = []
        _lanes = d.pop("lanes")
        for lanes_item_data in _lanes:
            lanes_item = LaneSummary.from_dict(lanes_item_data)

            lanes.append(lanes_item)

        sentence = d.pop("sentence", UNSET)

        request_timeline = cls(
            file=file,
            duration_ms=duration_ms,
            lanes=lanes,
            sentence=sentence,
        )

        return request_timeline
