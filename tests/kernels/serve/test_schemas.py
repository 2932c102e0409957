"""What a body costs that is wrong in many places: a server of others must not look at all of them."""

import pytest
from pydantic import BaseModel, ValidationError

from kernels.serve.embeddings import EmbeddingAsked
from kernels.serve.schemas import ChatAsked, CompletionAsked, Message


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (CompletionAsked, {"prompt": [1.5] * 1000}),
        (CompletionAsked, {"prompt": [[1.5]] * 1000}),
        (CompletionAsked, {"prompt": [None] * 1000}),
        (EmbeddingAsked, {"input": [1.5] * 1000}),
        (ChatAsked, {"messages": [{}] * 1000}),
        (Message, {"role": "user", "content": [{"type": "text"}] * 1000}),
    ],
)
def test_checking_a_list_ends_at_its_first_mistake(kind: type[BaseModel], given: dict) -> None:
    with pytest.raises(ValidationError) as raised:
        kind.model_validate({"model": "m"} | given)
    assert raised.value.error_count() <= 2
    inner = raised.value.errors()[0].get("ctx", {}).get("error")
    if inner is not None:  # one for each kind that the field may be
        assert inner.__cause__.error_count() <= 4


@pytest.mark.parametrize(("asked", "served"), [(0, 0), (1e-300, 0.01), (0.001, 0.01), (0.01, 0.01), (0.7, 0.7)])
def test_almost_greedy_is_the_least_temperature_that_is_drawn_with(asked: float, served: float) -> None:
    assert CompletionAsked.model_validate({"model": "m", "prompt": "a", "temperature": asked}).temperature == served
