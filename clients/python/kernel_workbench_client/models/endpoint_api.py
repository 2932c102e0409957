from typing import Literal

EndpointApi = Literal["chat", "completions", "embeddings"]

ENDPOINT_API_VALUES: set[EndpointApi] = {
    "chat",
    "completions",
    "embeddings",
}


def check_endpoint_api(value: str) -> EndpointApi:
    if value in ENDPOINT_API_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {ENDPOINT_API_VALUES!r}")
