"""How many tokens a second web servers pass on, by their number: the engine computes nothing.

    python -m benchmarks.serve_web --json FILE

The engine's process answers every open request with one token a step. A step takes `--step-ms`, or with 0 as long as
the web servers need to take its tokens, so that they alone are measured. Users ask for answers of 64 tokens behind
prompts of 128 ids, streamed, each the next one when an answer has ended, as `bench serve` has them.
"""

import argparse
import asyncio
import json
import select
import time
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.host import load_average, machine
from kernels.load.connection import Address
from kernels.load.figures import LoadFigures, warmed_up
from kernels.load.generator import LoadDuration
from kernels.load.lists import Lengths, RequestList
from kernels.load.sharing import Sending, most_processes, processes_for
from kernels.measure.environment import commit
from kernels.server.http import web
from kernels.server.messages import AddRequest, News, Ready, Stop
from kernels.server.processes.engine_process import EngineProcess
from kernels.server.processes.web_process import WebSpec
from kernels.server.processes.web_servers import web_servers
from kernels.server.spec import Spec

MODEL = Path(__file__).parents[1] / "samples" / "voice-agent"
LENGTHS = Lengths(128, 64)
ROUNDS, TOKEN, IDS = 20, 7, 512
LONGEST_SECONDS = 120.0


def engine(step_ms: float, spec: Spec, connection: Connection) -> None:
    """The engine's process: a token of each open request every `step_ms`."""
    connection.send(Ready(8192, IDS, "an engine that computes nothing"))
    arrived, has_room = select.poll(), select.poll()
    arrived.register(connection, select.POLLIN)
    has_room.register(connection, select.POLLOUT)
    left: dict[str, int] = {}
    begun = time.monotonic()
    while True:
        while not left or arrived.poll(0):
            message = connection.recv()
            if isinstance(message, Stop):
                return
            if isinstance(message, AddRequest):
                left[message.name] = message.max_tokens
        begun = max(begun + step_ms / 1e3, time.monotonic() - step_ms / 1e3)
        time.sleep(max(0.0, begun - time.monotonic()))
        if not has_room.poll(0):
            has_room.poll(1000)
        news = News()
        for name in list(left):
            left[name] -= 1
            news.tokens.append((name, TOKEN, None if left[name] else "length"))
            if not left[name]:
                del left[name]
        connection.send(news)


async def measured(count: int, users: int, step_ms: float) -> dict[str, Any]:
    """One number of web servers under one number of users."""
    spec = Spec(str(MODEL), web_processes=count)
    own = EngineProcess(spec, partial(engine, step_ms))
    listening = await web.listening("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening[0].getsockname()[1]}"
    own.start()
    try:
        async with web_servers(own, WebSpec(spec, "m")) as servers:
            await own.changed.wait()
            with web.accepting(listening, servers.take, lambda: servers.full):
                await _sent(url, users, 2)
                found = LoadFigures([warmed_up(await _sent(url, users, ROUNDS))])
            await servers.drain(1)
    finally:
        await own.stop()
    return {
        "web_processes": count,
        "users": users,
        "step_ms": step_ms,
        "tokens_per_second": round(found.tokens_per_second, 1),
        "seconds": round(found.seconds, 2),
        "ttft_ms": found.percentiles("ttft"),
        "tpot_ms": found.percentiles("tpot"),
        "generator": {"processes": found.lag.processes, "send_late_ms": round(found.lag.send_p99, 3)},
        "void": found.lag.sentence(closed=True),
        "failed": len(found.unlike),
    }


async def _sent(url: str, users: int, rounds: int) -> Any:
    requests = RequestList.drawn(LENGTHS, rounds * users, IDS, rounds)
    processes = max(2, min(most_processes(here=True), processes_for(users, requests.planned, LONGEST_SECONDS)))
    load = partial(requests.load, "m", users)
    return await Sending(Address.parse(url), load, LoadDuration(LONGEST_SECONDS), processes).run()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, action="append", help="web servers (default 1, 2, 4); repeatable")
    parser.add_argument("--users", type=int, default=256)
    parser.add_argument("--step-ms", type=float, default=0.0)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    before, rows = load_average(), []
    for count in asked.processes or (1, 2, 4):
        rows.append(row := asyncio.run(measured(count, asked.users, asked.step_ms)))
        said = f"{row['tokens_per_second']:,.0f} tokens/s, first token {row['ttft_ms']}"
        print(f"{count} web servers: {said}", flush=True)
    document = machine() | {"commit": commit(), "rows": rows}
    document["load_average"] = {"before": before, "after": load_average()}
    if asked.json:
        asked.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
