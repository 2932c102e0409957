"""The REST API for the command line. Errors become sentences; a busy or restarting server is asked again."""

import re
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import httpx

from workbench.api.sentences import sentence
from workbench.cli.errors import CliError, Exit

FIRST_ATTEMPTS = 3
ATTEMPTS = 10
"""How often a broken connection is tried again. A server that has answered before is probably restarting."""
PATIENCE_SECONDS = 600.0
"""Seconds during which a server that answers with a status of RETRIED is asked again."""
RETRIED = {429, 502, 503, 504}
LONGEST_WAIT_SECONDS = 15.0
SHORT_ID = re.compile(r"[0-9a-f]{4,8}")
"""The beginning of a run's id."""


class ApiClient:
    """Calls `/api/v1` of the workbench at `url` with a token. Everything raises CliError."""

    def __init__(self, url: str, token: str, transport: httpx.BaseTransport | None = None) -> None:
        self.url = url.rstrip("/")
        timeout = httpx.Timeout(60, connect=10)
        headers = {"Authorization": f"Bearer {token}", "User-Agent": "workbench-cli"}
        self._reached = False
        self._http = httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=timeout, transport=transport)

    def get(self, path: str, **params: Any) -> Any:
        """The JSON document at `path`."""
        return self._call("GET", path, params=params).json()

    def post(self, path: str, document: Any) -> Any:
        """The JSON answer to a POST. Its idempotency key makes the server carry it out once."""
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        return self._call("POST", path, json=document, headers=headers).json()

    def patch(self, path: str, document: Any) -> Any:
        """The JSON answer to a PATCH."""
        return self._call("PATCH", path, json=document).json()

    def delete(self, path: str) -> None:
        """Delete what is at `path`."""
        self._call("DELETE", path)

    def content(self, path: str) -> bytes:
        """The bytes at `path`."""
        return self._call("GET", path).content

    def rows(self, path: str, limit: int, **params: Any) -> Iterator[dict[str, Any]]:
        """Up to `limit` rows of a list, page by page."""
        cursor: str | None = ""
        while cursor is not None and limit > 0:
            document = self.get(path, limit=min(limit, 200), cursor=cursor, **params)
            yield from document["items"]
            limit -= len(document["items"])
            cursor = document["next"]

    def run_id(self, given: str, latest: bool = False) -> str:
        """The id of a run; `given` is the whole id or its beginning, or "" for the `latest`. Raises CliError unless one
        run has it.
        """
        if latest == bool(given):
            raise CliError("Name a run or say --latest, one of the two.")
        if latest:
            newest = [row["id"] for row in self.rows("/runs", 1)]
            if not newest:
                raise CliError("There is no run yet.")
            return str(newest[0])
        if not SHORT_ID.fullmatch(given):
            with suppress(ValueError):
                return str(uuid.UUID(given))
            raise CliError(f"{given}: this is no run's id; `workbench runs` lists them.")
        ids = [row["id"] for row in self.rows("/runs", 2, prefix=given)]
        if len(ids) != 1:
            reason = "several runs begin so" if ids else "there is no such run"
            raise CliError(f"{given}: {reason}; `workbench runs` lists them.")
        return str(ids[0])

    def send(self, path: str, offset: int, chunk: bytes) -> httpx.Response | None:
        """One attempt to PATCH bytes at `offset`. Returns None when the connection broke. The caller handles a 409."""
        headers = {"Upload-Offset": str(offset), "Content-Type": "application/octet-stream"}
        try:
            response = self._http.patch(path, content=chunk, headers=headers)
        except httpx.TransportError:
            return None
        if response.status_code in RETRIED:
            time.sleep(_wait(response, 1))
            return None
        if response.status_code != 409:
            _check(response)
        return response

    def _call(self, method: str, path: str, **options: Any) -> httpx.Response:
        failures, deadline = 0, time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                response = self._http.request(method, path, **options)
            except (httpx.InvalidURL, httpx.UnsupportedProtocol):
                raise CliError(f"--url: {self.url} is not an address such as http://127.0.0.1:8000") from None
            except httpx.TransportError as error:
                failures += 1
                if failures >= (ATTEMPTS if self._reached else FIRST_ATTEMPTS):
                    raise CliError(f"{self.url} cannot be reached: {error}", Exit.FAILED) from None
                time.sleep(min(2**failures / 4, LONGEST_WAIT_SECONDS))
                continue
            self._reached = True
            busy = response.status_code in RETRIED or "Retry-After" in response.headers
            if not busy or time.monotonic() > deadline:
                return _check(response)
            failures += 1
            time.sleep(_wait(response, failures))


def _wait(response: httpx.Response, attempt: int) -> float:
    given = response.headers.get("Retry-After", "")
    return min(float(given), 60.0) if given.isdigit() else min(2**attempt / 4, LONGEST_WAIT_SECONDS)


def _check(response: httpx.Response) -> httpx.Response:
    """The response, if it is a success; a problem becomes its sentences."""
    if response.is_success:
        return response
    if response.status_code == 401 and "invalid_token" not in response.headers.get("WWW-Authenticate", ""):
        raise CliError("The server does not know the token in WORKBENCH_TOKEN; make one on its page Tokens.")
    try:
        raise refusal(response.json(), response.status_code)
    except (ValueError, KeyError, AttributeError):
        answered = f"{response.request.url} answered {response.status_code} {response.reason_phrase}."
        raise CliError(answered, _code(response.status_code)) from None


def refusal(problem: Mapping[str, Any], status: int) -> CliError:
    """The error of a problem document: its sentences."""
    reasons = [sentence(reason) for reason in problem.get("errors", []) if isinstance(reason, Mapping)]
    return CliError(reasons or [problem["detail"]], _code(status))


def _code(status: int) -> Exit:
    return Exit.FAILED if status >= 500 else Exit.USAGE
