"""A Redis cache that is allowed to fail: it holds counters only, and pages must work without it."""

import logging
from typing import Any

from django.core.cache.backends.redis import RedisCache
from redis.exceptions import RedisError

log = logging.getLogger(__name__)


class ForgivingRedisCache(RedisCache):
    """A Redis cache. While Redis cannot be reached, reads find nothing and writes are dropped."""

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        try:
            return super().get(key, default, version)
        except RedisError as error:
            log.warning("the cache cannot be read: %s", error)
            return default

    def set(self, key: str, value: Any, *args: Any, **kwargs: Any) -> None:
        try:
            super().set(key, value, *args, **kwargs)
        except RedisError as error:
            log.warning("the cache cannot be written: %s", error)

    def add(self, key: str, value: Any, *args: Any, **kwargs: Any) -> bool:
        try:
            return super().add(key, value, *args, **kwargs)
        except RedisError as error:
            log.warning("the cache cannot be written: %s", error)
            return True

    def incr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        try:
            return super().incr(key, delta, version)
        except RedisError as error:
            log.warning("the cache cannot be written: %s", error)
            return delta

    def delete(self, key: str, version: int | None = None) -> bool:
        try:
            return super().delete(key, version)
        except RedisError as error:
            log.warning("the cache cannot be written: %s", error)
            return False
