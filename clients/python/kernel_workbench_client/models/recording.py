from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="Recording")


@_attrs_define
class Recording:
    """A recording of an organisation; a workload names it by `sha256`.

    Attributes:
        requests (int):
        seconds (float):
        longest_prompt (int):
        longest_output (int):
        name (str):
        sha256 (str):
        size (int): bytes
    """

    requests: int
    seconds: float
    longest_prompt: int
    longest_output: int
    name: str
    sha256: str
    size: int

    def to_dict(self) -> dict[str, Any]:
        requests = self.requests

        seconds = self.seconds

        longest_prompt = self.longest_prompt

        longest_output = self.longest_output

        name = self.name

        sha256 = self.sha256

        size = self.size

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "requests": requests,
                "seconds": seconds,
                "longest_prompt": longest_prompt,
                "longest_output": longest_output,
                "name": name,
                "sha256": sha256,
                "size": size,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        requests = d.pop("requests")

        seconds = d.pop("seconds")

        longest_prompt = d.pop("longest_prompt")

        longest_output = d.pop("longest_output")

        name = d.pop("name")

        sha256 = d.pop("sha256")

        size = d.pop("size")

        recording = cls(
            requests=requests,
            seconds=seconds,
            longest_prompt=longest_prompt,
            longest_output=longest_output,
            name=name,
            sha256=sha256,
            size=size,
        )

        return recording
