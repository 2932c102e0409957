from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..models.endpoint_api import EndpointApi, check_endpoint_api
from ..types import UNSET, Unset

T = TypeVar("T", bound="Endpoint")


@_attrs_define
class Endpoint:
    """A server that speaks OpenAI's API. The worker sends it the workload's traffic around verify.

    `key` goes in and never comes out: it is no part of any JSON that is made of this document.

        Attributes:
            url (str): such as https://models.example.com/v1
            model (str): the model's name there
            api (EndpointApi | Unset): embeddings for a model that generates no tokens Default: 'completions'.
            hardware (str | Unset): what it runs on, as you state it Default: ''.
            key (str | Unset): API key; kept encrypted, handed to the worker for one claim, and given out nowhere Default:
                ''.
    """

    url: str
    model: str
    api: EndpointApi | Unset = "completions"
    hardware: str | Unset = ""
    key: str | Unset = ""

    def to_dict(self) -> dict[str, Any]:
        url = self.url

        model = self.model

        api: str | Unset = UNSET
        if not isinstance(self.api, Unset):
            api = self.api

        hardware = self.hardware

        key = self.key

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "url": url,
                "model": model,
            }
        )
        if api is not UNSET:
            field_dict["api"] = api
        if hardware is not UNSET:
            field_dict["hardware"] = hardware
        if key is not UNSET:
            field_dict["key"] = key

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        url = d.pop("url")

        model = d.pop("model")

        _api = d.pop("api", UNSET)
        api: EndpointApi | Unset
        if isinstance(_api, Unset):
            api = UNSET
        else:
            api = check_endpoint_api(_api)

        hardware = d.pop("hardware", UNSET)

        key = d.pop("key", UNSET)

        endpoint = cls(
            url=url,
            model=model,
            api=api,
            hardware=hardware,
            key=key,
        )

        return endpoint
