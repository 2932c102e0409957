"""Caches without pickle, which are allowed to fail: counters in Redis, and rendered parts of pages.

A pickle runs code when it is read. JSON cannot.
"""

import json
import logging
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from threading import RLock
from typing import IO, Any, TypeVar

from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache
from django.core.cache.backends.filebased import FileBasedCache
from django.core.cache.backends.redis import RedisCache
from redis.exceptions import RedisError, ResponseError

log = logging.getLogger(__name__)

TIMEOUT_SECONDS = 0.5
REST_SECONDS = 5.0
"""After a failure Redis is left alone for this long, so that a frozen one delays a process once, not each request."""
_left_alone_until: dict[str, float] = {}
"""Until when, by the cache's address: every thread has a cache object of its own."""
ABSENT = object()
FOREIGN = ("not an integer", "WRONGTYPE")
"""What Redis says of a value of another form than those that the site writes."""
_memory: dict[str, tuple[OrderedDict[str, tuple[float | None, str]], RLock]] = {}
"""What caches in memory keep, by their names: when it ends, and the value as JSON."""
Result = TypeVar("Result")


class ForeignValue(ValueError):
    """The value under a key was not written by this site."""


class ForgivingRedisCache(RedisCache):
    """A Redis cache. While Redis cannot be reached, reads find nothing and writes are dropped.

    A value that this cache cannot have written is dropped.
    """

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        options = {
            "serializer": json,  # JSON of an integer is the form that Redis counts in
            "socket_timeout": TIMEOUT_SECONDS,
            "socket_connect_timeout": TIMEOUT_SECONDS,
        }
        super().__init__(server, {**params, "OPTIONS": options})
        self._address = str(server)

    def _try(self, call: Callable[[], Result], otherwise: Result) -> Result:
        if time.monotonic() < _left_alone_until.get(self._address, 0):
            return otherwise
        try:
            return call()
        except RedisError as error:
            if isinstance(error, ResponseError) and any(words in str(error) for words in FOREIGN):
                raise ForeignValue(str(error)) from error
            _left_alone_until[self._address] = time.monotonic() + REST_SECONDS
            log.warning("Redis does not answer, so nothing is counted for %g s: %s", REST_SECONDS, error)
            return otherwise

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        try:
            return self._try(lambda: super(ForgivingRedisCache, self).get(key, default, version), default)
        except ValueError:
            self._drop(key, version)
            return default

    def set(self, key: str, value: Any, *args: Any, **kwargs: Any) -> None:
        self._try(lambda: super(ForgivingRedisCache, self).set(key, value, *args, **kwargs), None)

    def add(self, key: str, value: Any, *args: Any, **kwargs: Any) -> bool:
        return self._try(lambda: super(ForgivingRedisCache, self).add(key, value, *args, **kwargs), True)

    def incr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        """The new count. Raises ValueError when there is none, as Django's caches do."""
        try:
            return self._try(lambda: super(ForgivingRedisCache, self).incr(key, delta, version), delta)
        except ForeignValue:
            self._drop(key, version)
            raise

    def delete(self, key: str, version: int | None = None) -> bool:
        return self._try(lambda: super(ForgivingRedisCache, self).delete(key, version), False)

    def _drop(self, key: str, version: int | None) -> None:
        log.error("the cache holds under %s what this site does not write: it was not read, and is dropped", key)
        self.delete(key, version)


class InProcessCache(BaseCache):
    """A cache in this process's memory, by its name shared by all threads. The oldest values go when it is full."""

    def __init__(self, name: str, params: dict[str, Any]) -> None:
        super().__init__(params)
        self._kept, self._lock = _memory.setdefault(name, (OrderedDict(), RLock()))
        self._most = int(params.get("OPTIONS", {}).get("MAX_ENTRIES", 300))

    def add(self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        with self._lock:
            absent = not self.has_key(key, version)
            if absent:
                self.set(key, value, timeout, version)
            return absent

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        ends, value = self._kept.get(self.make_and_validate_key(key, version), (0.0, ""))
        return json.loads(value) if ends is None or ends > time.time() else default

    def set(self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> None:
        name, encoded = self.make_and_validate_key(key, version), json.dumps(value)
        with self._lock:
            self._kept.pop(name, None)
            while len(self._kept) >= self._most:
                self._kept.popitem(last=False)
            self._kept[name] = (self.get_backend_timeout(timeout), encoded)

    def has_key(self, key: str, version: int | None = None) -> bool:
        return self.get(key, ABSENT, version) is not ABSENT

    def incr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        """The new count, which ends when the old one would have. Raises ValueError when there is none."""
        with self._lock:
            count = self.get(key, ABSENT, version)
            if count is ABSENT:
                raise ValueError(f"{key} is no count")
            name = self.make_and_validate_key(key, version)
            self._kept[name] = (self._kept[name][0], json.dumps(count + delta))
            return int(count) + delta

    def delete(self, key: str, version: int | None = None) -> bool:
        with self._lock:
            return self._kept.pop(self.make_and_validate_key(key, version), None) is not None

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()


class ForgivingFolderCache(FileBasedCache):
    """A cache in a folder that the processes of a server share. What the folder has no space for is not kept.

    A file is compressed JSON: when it ends, and the value. One that cannot be read counts as absent.
    """

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        try:
            with open(self._key_to_file(key, version), "rb") as file:  # type: ignore[attr-defined]
                ends, value = json.loads(zlib.decompress(file.read()))
        except (OSError, ValueError, zlib.error):
            return default
        return value if ends is None or ends > time.time() else default

    def set(self, key: str, value: Any, *args: Any, **kwargs: Any) -> None:
        with suppress(OSError):
            super().set(key, value, *args, **kwargs)

    def has_key(self, key: str, version: int | None = None) -> bool:
        return self.get(key, ABSENT, version) is not ABSENT

    touch = BaseCache.touch
    """Not implemented: Django's reads a pickle."""

    def _write_content(self, file: IO[bytes], timeout: Any, value: Any) -> None:
        file.write(zlib.compress(json.dumps([self.get_backend_timeout(timeout), value]).encode(), level=1))
