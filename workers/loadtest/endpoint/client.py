"""Speaks to an endpoint with the key of one claim: to the address that was checked, until it is stopped.

The worker's own process does, and those that it starts to send load, never the stage's child, which has no network. The
key stays in memory; those processes are told it through a pipe.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from kernels.load.connection import Address, BadAddress
from kernels.load.generator import LoadTrace
from kernels.load.secrecy import without_key
from workers.documents.endpoint import Endpoint
from workers.documents.worker_api import EndpointAccess
from workers.loadtest.load_test import LoadTest, NotMeasurable, apply_load
from workers.loadtest.sending import LoadTarget
from workers.shared import addresses

Result = TypeVar("Result")

LOOK_SECONDS = 0.1
FAILURES = (NotMeasurable, addresses.AddressRefused, BadAddress, OSError, ValueError)
"""What an endpoint may come to; the message is a sentence."""


class MeasurementStopped(Exception):
    """The stage was asked to stop while the endpoint was measured."""


class EndpointClient:
    """One endpoint. `stop` ends whatever is sent to it within LOOK_SECONDS."""

    def __init__(self, endpoint: Endpoint, access: EndpointAccess, stop: threading.Event) -> None:
        self._endpoint, self._access, self._stop = endpoint, access, stop

    def put(self, make: Callable[[LoadTarget], LoadTest]) -> tuple[LoadTest, LoadTrace]:
        """Puts a test on the endpoint, whose addresses are checked once. Raises FAILURES, MeasurementStopped."""
        return asyncio.run(self._stoppable(self._send(make)))

    def hidden(self, sentence: str) -> str:
        return without_key(sentence, self._access.key)

    async def _send(self, make: Callable[[LoadTarget], LoadTest]) -> tuple[LoadTest, LoadTrace]:
        address = await asyncio.to_thread(self._address)
        test = make(LoadTarget(address, self._endpoint.model, self._endpoint.api))
        test.check()
        return await apply_load(test)

    async def _stoppable(self, work: Coroutine[Any, Any, Result]) -> Result:
        task = asyncio.create_task(work)
        while not (await asyncio.wait({task}, timeout=LOOK_SECONDS))[0]:
            if self._stop.is_set():
                task.cancel()
                await asyncio.wait({task})
                raise MeasurementStopped
        return task.result()

    def _address(self) -> Address:
        """An address of the host that was checked. Raises AddressRefused, BadAddress or OSError."""
        url = self._endpoint.url
        resolved = addresses.resolve(addresses.parse(url, self._access.inside, "https://models.example.com/v1"))
        return replace(Address.parse(url, self._access.key), resolved=resolved)
