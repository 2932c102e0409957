from typing import Literal

LoadResultApi = Literal["chat", "completions", "embeddings"]

LOAD_RESULT_API_VALUES: set[LoadResultApi] = {
    "chat",
    "completions",
    "embeddings",
}


def check_load_result_api(value: str) -> LoadResultApi:
    if value in LOAD_RESULT_API_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {LOAD_RESULT_API_VALUES!r}")
