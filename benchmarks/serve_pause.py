"""How long `kernels serve` answers nobody while it reads a large body: in its own process, and in one beside it.

    python -m benchmarks.serve_pause --json FILE

No model and no GPU. Each body has almost 8 MiB, the most that the server takes. A task of the event loop notes when it
gets a turn, as streams do; `pause_ms` is the longest time between two turns until the body's document is there or
refused, the median of several times, and `largest_pause_ms` the largest one.
"""

import argparse
import asyncio
import json
import statistics
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from starlette.requests import Request

from benchmarks.host import load_average, machine
from kernels.measure.environment import commit
from kernels.server.http.bodies import LARGEST_BODY, document_of
from kernels.server.http.body_process import BodyReader
from kernels.server.http.errors import ApiError
from kernels.server.http.schemas import ChatCompletionRequest, CompletionRequest
from kernels.server.starting import settle

TIMES = 7
CONTEXT = 8192
HEAD = '{"model": "m", '


def filled(before: str, each: str, after: str, most: int | None = None) -> bytes:
    """A body of `each` as often as it fits, or `most` times."""
    room = (LARGEST_BODY - len(before) - len(after)) // len(each)
    return (before + ",".join([each.rstrip(",")] * min(room, most or room)) + after).encode()


def bodies() -> dict[str, tuple[type[BaseModel], bytes]]:
    """A large body of each kind with its schema, by what it holds."""
    ids = ",".join(["[" + ",".join(["7"] * (CONTEXT - 16)) + "]"] * 512)
    return {
        "lists": (CompletionRequest, filled(HEAD + '"prompt": [', "[],", "]}")),
        "ids": (CompletionRequest, f'{HEAD}"prompt": [{ids}]}}'.encode()),
        "texts": (CompletionRequest, filled(HEAD + '"prompt": [', '"' + "a\\n" * 2600 + '",', "]}", 1024)),
        "messages": (
            ChatCompletionRequest,
            filled(HEAD + '"messages": [', '{"role":"user","content":"ab"},', "]}", 16_384),
        ),
    }


async def pause_ms(kind: type[BaseModel], body: bytes, reader: BodyReader | None) -> float:
    """The longest time between two turns of the event loop."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def read() -> None:
        with suppress(ApiError):
            await document_of(Request({"type": "http", "headers": []}, receive), kind, CONTEXT, reader)

    last, longest = time.perf_counter(), 0.0
    reading = asyncio.ensure_future(read())
    while not reading.done():
        await asyncio.sleep(0.0005)
        now = time.perf_counter()
        last, longest = now, max(longest, now - last)
    await reading
    return longest * 1e3


async def measured() -> list[dict[str, Any]]:
    """A row for each body and way."""
    reader, rows = BodyReader(), []
    small = f'{HEAD}"prompt": "{"a" * (1 << 17)}"}}'.encode()
    await pause_ms(CompletionRequest, small, reader)  # starts the process
    for name, (kind, body) in bodies().items():
        row: dict[str, Any] = {"body": name, "bytes": len(body)}
        for way, by in (("in_the_server", None), ("beside_it", reader)):
            pauses = [await pause_ms(kind, body, by) for _ in range(TIMES)]
            row[way] = {"pause_ms": round(statistics.median(pauses), 2), "largest_pause_ms": round(max(pauses), 2)}
        rows.append(row)
        print(
            f"{name}: in the server {row['in_the_server']['pause_ms']} ms, beside it {row['beside_it']['pause_ms']} ms",
            flush=True,
        )
    reader.close()
    return rows


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args(arguments)
    settle()
    before = load_average()
    document = machine() | {"commit": commit(), "context": CONTEXT, "times": TIMES, "rows": asyncio.run(measured())}
    document["load_average"] = {"before": before, "after": load_average()}
    options.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
