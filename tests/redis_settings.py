"""A Redis that has no users, and the settings of a site on it."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from kernels.load.server_process import reserve_port
from tests.waiting import wait_for
from workbench.embedded.broker import find_redis_server


def redis_settings(port: int | str) -> dict[str, str]:
    """Each role's database of the Redis at this port of this machine."""
    names = {"GPU_REDIS_URL": 0, "REDIS_URL": 1, "CACHE_URL": 2}
    return {name: f"redis://127.0.0.1:{port}/{database}" for name, database in names.items()}


def redis_answers(client: redis.Redis) -> bool:
    """Whether Redis takes connections."""
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


@contextmanager
def running_redis(folder: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """The port and the process of a Redis that answers, until the block ends."""
    port = reserve_port()
    command = [find_redis_server(), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            client = redis.Redis(port=port)
            wait_for(lambda: redis_answers(client), 120, "Redis", processes={"redis-server": process})
            yield port, process
        finally:
            process.kill()
