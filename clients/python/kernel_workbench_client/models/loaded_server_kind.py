from typing import Literal

LoadedServerKind = Literal["batches", "endpoint", "server", "vllm"]

LOADED_SERVER_KIND_VALUES: set[LoadedServerKind] = {
    "batches",
    "endpoint",
    "server",
    "vllm",
}


def check_loaded_server_kind(value: str) -> LoadedServerKind:
    if value in LOADED_SERVER_KIND_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {LOADED_SERVER_KIND_VALUES!r}")
