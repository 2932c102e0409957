"""Lanes (bulkheads): requests that read a page have threads of their own, so they are answered while others take long.

In each lane an organisation has so many requests under way at most. Its others wait their turn, without a thread.
"""

import hashlib
import re
from collections import Counter, defaultdict, deque
from threading import Lock
from typing import Any

from django.conf import settings
from waitress.task import ThreadedTaskDispatcher

from workbench.serving.body_limits import API

SAFE = ("GET", "HEAD")
MAX_CREDENTIALS = 10_000
_organisations: dict[bytes, Any] = {}
"""The organisations of credentials that this process has seen."""


def reads_page(method: str, path: str) -> bool:
    """Whether the request reads a page or a file of one: everything else may wait for a lock or compute for long."""
    return method in SAFE and not path.startswith(API)


def credential(authorization: str, cookies: str) -> bytes:
    """A digest of what these two headers say of the caller: the token, or the session."""
    session = re.search(rf"(?:^|;\s*){re.escape(settings.SESSION_COOKIE_NAME)}=([^;]+)", cookies)
    return hashlib.sha256((authorization or (session[1] if session else "")).encode()).digest()


def remember(caller: bytes, organisation: Any) -> None:
    """Count the requests with this credential among those of the organisation from now on."""
    if len(_organisations) > MAX_CREDENTIALS:
        _organisations.clear()
    _organisations[caller] = organisation


MAX_WAITING = 50
"""So many requests of an organisation wait in a lane without a thread; one more gets a thread at once, and a 429."""


class Lane:
    """Threads that answer requests, at most `max_active` of an organisation at once."""

    def __init__(self, threads: int, max_active: int) -> None:
        self._threads, self._max_active, self._lock = ThreadedTaskDispatcher(), max_active, Lock()
        self._threads.set_thread_count(threads)
        self._under_way: Counter[Any] = Counter()
        self._waiting: defaultdict[Any, deque[Any]] = defaultdict(deque)

    def add(self, channel: Any) -> None:
        """Have a thread answer the channel's first request when it is its organisation's turn."""
        headers = getattr(channel.requests[0], "headers", {})
        caller = credential(headers.get("AUTHORIZATION", ""), headers.get("COOKIE", ""))
        organisation = _organisations.get(caller)
        with self._lock:
            busy = organisation is not None and self._under_way[organisation] >= self._max_active
            if busy and len(self._waiting[organisation]) < MAX_WAITING:
                self._waiting[organisation].append(channel)
                return
            self._under_way[organisation] += 1
        self._threads.add_task(Turn(self, organisation, channel))

    def done(self, organisation: Any) -> None:
        """A request of the organisation was answered: begin with its next one."""
        with self._lock:
            waiting = self._waiting.get(organisation) if self._under_way[organisation] <= self._max_active else None
            channel = waiting.popleft() if waiting else None
            if channel is None:
                if not self._waiting.get(organisation):
                    self._waiting.pop(organisation, None)
                self._under_way[organisation] -= 1
                if not self._under_way[organisation]:
                    del self._under_way[organisation]
        if channel is not None:
            self._threads.add_task(Turn(self, organisation, channel))

    def shutdown(self, timeout: float) -> None:
        """End the threads, and give up what waits for one."""
        self._threads.shutdown(timeout=timeout)


class Turn:
    """A task of waitress: one request of an organisation."""

    def __init__(self, lane: Lane, organisation: Any, channel: Any) -> None:
        self._lane, self._organisation, self._channel = lane, organisation, channel

    def service(self) -> None:
        """Answer it."""
        try:
            self._channel.service()
        finally:
            self._lane.done(self._organisation)

    def cancel(self) -> None:
        """Give it up."""
        self._channel.cancel()


class Lanes:
    """What waitress takes for a dispatcher: it gives each request to its lane."""

    def __init__(self, threads: int) -> None:
        self._pages, self._others = (Lane(threads, settings.ORGANISATION_REQUESTS) for _ in range(2))

    def add_task(self, channel: Any) -> None:
        """Have the channel's first request answered. One that could not be parsed has no path."""
        request = channel.requests[0]
        page = reads_page(getattr(request, "command", ""), getattr(request, "path", ""))
        (self._pages if page else self._others).add(channel)

    def shutdown(self, timeout: float) -> None:
        """End all threads."""
        for lane in (self._pages, self._others):
            lane.shutdown(timeout)
