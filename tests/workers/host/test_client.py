"""The worker's side of the worker API, against a server that loses an answer."""

import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import uuid4

import pytest

from tests.workers.conftest import stage_input
from workers.config import WorkerConfig
from workers.documents.worker_api import CLAIM_HEADER, Claim, Outcome
from workers.host.client import AttemptRefused, Client

RUN = "00000000-0000-4000-8000-000000000001"


class Losing(ThreadingHTTPServer):
    """Takes one result and loses its answer; the same again is refused. `granted` answers one claim."""

    granted = ""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.results: list[Outcome] = []
        self.claims: list[Claim] = []


class Handler(BaseHTTPRequestHandler):
    server: Losing

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.endswith("/result"):
            self.server.results.append(Outcome.model_validate_json(body))
            if len(self.server.results) == 1:
                self.close_connection = True
                return
        else:
            self.server.claims.append(Claim.model_validate_json(body))
        granted = self.server.granted if self.server.claims else ""
        self.send_response(200 if granted else 409)
        self.send_header(CLAIM_HEADER, "of the next stage")
        self.send_header("Content-Length", str(len(granted)))
        self.end_headers()
        self.wfile.write(granted.encode())


@pytest.fixture
def losing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Losing]:
    with Losing() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("WORKER_API_URL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("WORKER_TOKEN", "of the test")
        yield server
        server.shutdown()


def _finish(next_claim_id: str) -> tuple[str, str]:
    outcome = Outcome(run_id=RUN, stage="admit", attempt=1, result={}, next_claim_id=next_claim_id)
    with closing(Client(WorkerConfig.from_environment())) as client:
        following = client.finish(outcome, "worker")
        return following.stage if following else "", client.claim_token


def test_a_next_stage_whose_grant_was_lost_is_asked_for_by_its_claim_if_it_has_one(losing: Losing) -> None:
    losing.granted = stage_input("baseline").model_dump_json()
    claim_id = str(uuid4())
    assert _finish(claim_id) == ("baseline", "of the next stage")
    assert [claim.claim_id for claim in losing.claims] == [claim_id]
    assert len(losing.results) == 2
    losing.results.clear()
    losing.claims.clear()
    with pytest.raises(AttemptRefused):
        _finish("")
    assert losing.claims == [], "a result that claims nothing is dropped"
