"""The worker API, from the worker's side."""

import logging
import os
import time
from collections.abc import Iterator
from typing import Any, BinaryIO
from urllib.parse import quote

import httpx
from pydantic import BaseModel

from workers.config import WorkerConfig
from workers.documents.stages import StageInput
from workers.documents.worker_api import (
    CLAIM_HEADER,
    Claim,
    EndpointAccess,
    Heartbeat,
    HeartbeatAnswer,
    Hello,
    Outcome,
    ProgressReport,
    Receipt,
    StageKey,
)
from workers.shared import logs

log = logging.getLogger(__name__)

CHUNK = 2**20
PAUSES = (0.5, 1, 2, 4, 8, 15, 30)
"""Seconds between tries while the workbench cannot be reached; about a minute in all."""


class AttemptRefused(Exception):
    """The workbench says that this attempt is not, or no longer, the worker's (409)."""


class Rejected(Exception):
    """The workbench does not accept what was sent (another 4xx); the message is its sentence."""


class Unreachable(Exception):
    """The workbench did not answer, or answered with a 5xx."""


class Client:
    """One worker's connection. Use it from one thread at a time, and close it."""

    def __init__(self, config: WorkerConfig) -> None:
        self._http = httpx.Client(
            base_url=f"{config.url}/api/v1/worker",
            headers={"Authorization": f"Bearer {config.token}", "X-Request-ID": logs.request_id()},
            timeout=httpx.Timeout(60, connect=5),
        )

    def close(self) -> None:
        self._http.close()

    def hello(self, hello: Hello) -> None:
        """Report that the worker is alive. Raises Unreachable without a second try."""
        self._call("POST", "/hello", hello, pauses=())

    @property
    def claim_token(self) -> str:
        """What the last claim was answered with; every call after it carries it. Another connection may take it on."""
        return self._http.headers.get(CLAIM_HEADER, "")

    @claim_token.setter
    def claim_token(self, token: str) -> None:
        self._http.headers[CLAIM_HEADER] = token

    def claim(self, claim: Claim) -> StageInput:
        """Claim a stage. Raises AttemptRefused when another worker has it or it is not queued.

        A claim without an answer is sent again under its `claim_id`, so that what it got is not left lying.
        """
        return self._granted(self._call("POST", "/claim", claim))

    def heartbeat(self, key: StageKey) -> HeartbeatAnswer:
        """Extend the lease. Raises Unreachable without a second try, since the next heartbeat follows soon."""
        beat = Heartbeat(run_id=key.run_id, stage=key.stage, attempt=key.attempt)
        return HeartbeatAnswer.model_validate_json(self._call("POST", "/heartbeat", beat, pauses=()).content)

    def progress(self, report: ProgressReport) -> HeartbeatAnswer:
        """Pass on what the stage said. Raises Unreachable without a second try."""
        return HeartbeatAnswer.model_validate_json(self._call("POST", "/progress", report, pauses=()).content)

    def endpoint(self, key: StageKey) -> EndpointAccess:
        return EndpointAccess.model_validate_json(self._call("POST", "/endpoint", key).content)

    def finish(self, outcome: Outcome, worker: str) -> StageInput | None:
        """Post how the attempt ended; the run's next stage, where it is claimed with that and granted.

        Where the answer was lost, the same again is refused, and the next stage is asked for by its claim.
        """
        try:
            answer = self._call("POST", "/result", outcome)
        except AttemptRefused:
            if not outcome.next_claim_id:
                raise
            key = outcome.model_dump(include={"run_id", "stage", "attempt"})
            return self.claim(Claim(**key, worker=worker, claim_id=outcome.next_claim_id))
        return self._granted(answer) if answer.status_code == httpx.codes.OK else None

    def _granted(self, answer: httpx.Response) -> StageInput:
        self.claim_token = answer.headers.get(CLAIM_HEADER, "")
        return StageInput.model_validate_json(answer.content)

    def file(self, key: StageKey, path: str) -> Iterator[bytes]:
        """A model's file in chunks. Raises AttemptRefused; Unreachable when the connection breaks."""
        yield from self._stream(f"/runs/{key.run_id}/{key.stage}/{key.attempt}/files/{quote(path)}")

    def recording(self, key: StageKey) -> Iterator[bytes]:
        """The recording of the run's traffic, in chunks. Raises what `file` raises."""
        yield from self._stream(f"/runs/{key.run_id}/{key.stage}/{key.attempt}/recording")

    def _stream(self, address: str) -> Iterator[bytes]:
        try:
            with self._http.stream("GET", address) as response:
                if response.is_error:
                    response.read()
                _check(response)
                yield from response.iter_bytes(CHUNK)
        except httpx.TransportError as error:
            raise Unreachable(str(error) or type(error).__name__) from error

    def upload(self, key: StageKey, file: BinaryIO, sha256: str) -> str:
        """Send a saved artifact from its beginning, whose SHA-256 this is; returns the receipt."""
        answer = self._retry(
            "PUT",
            f"/artifacts/{sha256}",
            lambda: {
                "params": key.model_dump(include={"run_id", "stage", "attempt"}),
                "headers": {
                    "Content-Length": str(os.fstat(file.fileno()).st_size),
                    "Content-Type": "application/octet-stream",
                },
                "content": _chunks(file),
            },
            PAUSES,
        )
        return Receipt.model_validate_json(answer.content).receipt

    def _call(
        self, method: str, path: str, body: BaseModel | None = None, pauses: tuple[float, ...] = PAUSES
    ) -> httpx.Response:
        content = None if body is None else body.model_dump_json().encode()
        headers = {"Content-Type": "application/json"}
        return self._retry(method, path, lambda: {"content": content, "headers": headers}, pauses)

    def _retry(self, method: str, path: str, request: Any, pauses: tuple[float, ...]) -> httpx.Response:
        for pause in (*pauses, None):
            try:
                response = self._http.request(method, path, **request())
                _check(response)
                return response
            except (httpx.TransportError, Unreachable) as error:
                if pause is None:
                    raise Unreachable(f"{method} {path}: {error or type(error).__name__}") from error
                log.warning("workbench unreachable, retrying in %s s: %s", pause, error)
                time.sleep(pause)
        raise AssertionError("the last try returns or raises")


def _check(response: httpx.Response) -> None:
    if response.is_success:
        return
    sentence = _detail(response)
    if response.status_code == httpx.codes.CONFLICT:
        raise AttemptRefused(sentence)
    if response.is_server_error or response.status_code == httpx.codes.TOO_MANY_REQUESTS:
        raise Unreachable(sentence)
    raise Rejected(sentence)


def _detail(response: httpx.Response) -> str:
    """The sentence of a problem+json answer, or the status of another one."""
    try:
        return str(response.json()["detail"])
    except (ValueError, LookupError, TypeError):
        return f"the workbench answered {response.status_code}"


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    file.seek(0)
    while chunk := file.read(CHUNK):
        yield chunk
