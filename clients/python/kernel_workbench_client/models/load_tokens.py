from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

T = TypeVar("T", bound="LoadTokens")


@_attrs_define
class LoadTokens:
    """Tokens of the counted requests, as the server counted them; `several`: requests with fewer events than tokens.

    Attributes:
        prompt_wanted (int):
        prompt (int | None):
        output_wanted (int):
        output (int):
        several (int):
        uncounted (int): requests without the server's own count; one event was taken for one token
    """

    prompt_wanted: int
    prompt: int | None
    output_wanted: int
    output: int
    several: int
    uncounted: int

    def to_dict(self) -> dict[str, Any]:
        prompt_wanted = self.prompt_wanted

        prompt: int | None
        prompt = self.prompt

        output_wanted = self.output_wanted

        output = self.output

        several = self.several

        uncounted = self.uncounted

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "prompt_wanted": prompt_wanted,
                "prompt": prompt,
                "output_wanted": output_wanted,
                "output": output,
                "several": several,
                "uncounted": uncounted,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        prompt_wanted = d.pop("prompt_wanted")

        def _parse_prompt(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        prompt = _parse_prompt(d.pop("prompt"))

        output_wanted = d.pop("output_wanted")

        output = d.pop("output")

        several = d.pop("several")

        uncounted = d.pop("uncounted")

        load_tokens = cls(
            prompt_wanted=prompt_wanted,
            prompt=prompt,
            output_wanted=output_wanted,
            output=output,
            several=several,
            uncounted=uncounted,
        )

        return load_tokens
