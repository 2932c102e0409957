"""Caches that are allowed to fail: a Redis cache for counters, and a folder for rendered parts of pages."""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from django.core.cache.backends.filebased import FileBasedCache
from django.core.cache.backends.redis import RedisCache
from redis.exceptions import RedisError

log = logging.getLogger(__name__)

TIMEOUT_SECONDS = 0.5
REST_SECONDS = 5.0
"""After a failure Redis is left alone for this long, so that a frozen one delays a process once, not each request."""
_left_alone_until: dict[str, float] = {}
"""Until when, by the cache's address: every thread has a cache object of its own."""
Result = TypeVar("Result")


class ForgivingRedisCache(RedisCache):
    """A Redis cache. While Redis cannot be reached, reads find nothing and writes are dropped."""

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        timeouts = {"socket_timeout": TIMEOUT_SECONDS, "socket_connect_timeout": TIMEOUT_SECONDS}
        super().__init__(server, {**params, "OPTIONS": {**timeouts, **params.get("OPTIONS", {})}})
        self._address = str(server)

    def _try(self, call: Callable[[], Result], otherwise: Result) -> Result:
        if time.monotonic() < _left_alone_until.get(self._address, 0):
            return otherwise
        try:
            return call()
        except RedisError as error:
            _left_alone_until[self._address] = time.monotonic() + REST_SECONDS
            log.warning("Redis does not answer, so nothing is counted for %g s: %s", REST_SECONDS, error)
            return otherwise

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        return self._try(lambda: super(ForgivingRedisCache, self).get(key, default, version), default)

    def set(self, key: str, value: Any, *args: Any, **kwargs: Any) -> None:
        self._try(lambda: super(ForgivingRedisCache, self).set(key, value, *args, **kwargs), None)

    def add(self, key: str, value: Any, *args: Any, **kwargs: Any) -> bool:
        return self._try(lambda: super(ForgivingRedisCache, self).add(key, value, *args, **kwargs), True)

    def incr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        return self._try(lambda: super(ForgivingRedisCache, self).incr(key, delta, version), delta)

    def delete(self, key: str, version: int | None = None) -> bool:
        return self._try(lambda: super(ForgivingRedisCache, self).delete(key, version), False)


class ForgivingFolderCache(FileBasedCache):
    """A cache in a folder that the processes of a server share. What the folder has no space for is not kept."""

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        try:
            return super().get(key, default, version)
        except OSError:
            return default

    def set(self, key: str, value: Any, *args: Any, **kwargs: Any) -> None:
        with suppress(OSError):
            super().set(key, value, *args, **kwargs)
