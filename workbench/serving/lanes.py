"""Lanes: requests that read a page have threads of their own, so that they are answered while others take long."""

from typing import Any

from waitress.task import ThreadedTaskDispatcher

from workbench.body_limits import API

SAFE = ("GET", "HEAD")


def reads_page(method: str, path: str) -> bool:
    """Whether the request reads a page or a file of one: everything else may wait for a lock or compute for long."""
    return method in SAFE and not path.startswith(API)


class Lanes:
    """What waitress takes for a dispatcher: it gives each request to the threads of its lane."""

    def __init__(self, threads: int) -> None:
        self._pages, self._others = ThreadedTaskDispatcher(), ThreadedTaskDispatcher()
        for lane in (self._pages, self._others):
            lane.set_thread_count(threads)

    def add_task(self, channel: Any) -> None:
        """Have a thread answer the channel's first request. One that could not be parsed has no path."""
        request = channel.requests[0]
        page = reads_page(getattr(request, "command", ""), getattr(request, "path", ""))
        (self._pages if page else self._others).add_task(channel)

    def shutdown(self, timeout: float) -> None:
        """End all threads, and give up what waits for one."""
        for lane in (self._pages, self._others):
            lane.shutdown(timeout=timeout)
