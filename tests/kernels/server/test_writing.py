"""A long answer is made and written element by element, so that nobody waits for all of it."""

import asyncio
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kernels.server.http.writing import piece_by_piece, with_list


def written(elements: Iterator[object], others: dict) -> tuple[bytes, int]:
    """The JSON, and how many turns others had meanwhile."""

    async def whole() -> tuple[bytes, int]:
        turns, writing = 0, asyncio.ensure_future(with_list("choices", elements, others))
        while not writing.done():
            turns += 1
            await asyncio.sleep(0)
        return await writing, turns

    return asyncio.run(whole())


@pytest.mark.parametrize("elements", [[], [{"text": 'ä"\n'}], [{"a": at} for at in range(500)]], ids=len)
def test_others_get_a_turn_behind_each_element(elements: list) -> None:
    found, turns = written(iter(elements), {"id": "é", "usage": {"b": None}})
    assert json.loads(found) == {"id": "é", "usage": {"b": None}, "choices": elements}
    assert turns > len(elements)


def test_others_go_on_while_a_large_document_is_written_in_a_thread() -> None:
    document = {"tokens": [*range(500_000)], "token_strs": ["ä"]}
    with ThreadPoolExecutor(1) as pool:
        writing, turns = pool.submit(piece_by_piece, document), 0
        while not writing.done():
            turns += 1
            time.sleep(0.001)
    assert json.loads(writing.result()) == document
    assert turns > 4
