"""The compose file's processes behind HTTPS, against Debian's PostgreSQL, Redis and nginx."""

import json
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import httpx
import pytest

from tests.debian import postgres_server
from tests.deployment.compose import ROOT, Compose
from tests.deployment.prometheus import panels, prometheus
from tests.sample_results import workload
from tests.slow_clients import half_headers
from tests.waiting import wait_for
from workbench.embedded.broker import USERS

NAMES = ("SECRET_KEY", "WORKER_TOKEN", "POSTGRES_PASSWORD", *(f"REDIS_{role.upper()}_PASSWORD" for role in USERS))
SECRETS = {name: f"a-{name.lower()}-for-the-test" for name in NAMES}
SETTINGS = {"LOGIN_ATTEMPTS": "3", "HEARTBEAT_SECONDS": "1", "SWEEP_SECONDS": "2", "CONN_MAX_AGE": "30"}
METRICS_TOKEN = "a-token-for-prometheus"
HELD_UP_SECONDS = 6.0
"""Who waits for a slow client waits longer: nginx drops one after ten seconds."""


@pytest.fixture(scope="module")
def compose() -> Iterator[Compose]:
    """Everything is up and healthy. nginx's workers are another user, who must be able to enter the folder."""
    with tempfile.TemporaryDirectory(prefix="compose-") as folder, postgres_server(SECRETS["POSTGRES_PASSWORD"]) as at:
        Path(folder).chmod(0o755)
        compose = Compose(Path(folder), at.address, SECRETS | SETTINGS | {"METRICS_TOKEN": METRICS_TOKEN})
        try:
            compose.start("redis")
            compose.run("migrate")
            for name in ("web", "worker-api", "front", "ledger", "beat"):
                compose.start(name)
            _start_worker(compose)
            for name in ("web", "worker-api", "front"):
                compose.until(lambda name=name: compose.healthy(name), f"health of {name}")
            yield compose
        finally:
            compose.stop()


def _start_worker(compose: Compose) -> None:
    """The worker's process with stages that do as they are told."""
    told = compose.folder / "told"
    told.mkdir(exist_ok=True)
    stages = {"WORKBENCH_STAGE_PACKAGE": "tests.workers.tiny_stages", "WORKBENCH_STAGE_TEST_DIR": str(told)}
    compose.start("cpu-worker", stages)


@pytest.fixture(scope="module")
def member(compose: Compose) -> dict[str, str]:
    """A member's token, and the digest of a model."""
    made = compose.run("web", "python", str(ROOT / "tests/workers/pipeline/seed.py"))
    return dict(json.loads(made.splitlines()[-1]))


@pytest.fixture
def api(compose: Compose, member: dict[str, str]) -> Iterator[httpx.Client]:
    """The member's client, through the front."""
    with compose.client(headers={"Authorization": f"Bearer {member['token']}"}) as client:
        yield client


def _submit(api: httpx.Client, member: dict[str, str], request: str) -> str:
    """The id of a run whose stages behave as asked."""
    document = workload().model_copy(update={"name": request, "model": member["digest"]})
    handed_in = api.post("/api/v1/workloads", json=document.model_dump(mode="json")).json()
    return str(api.post("/api/v1/runs", json={"workload": handed_in["id"]}).json()["id"])


def _state(api: httpx.Client, run_id: str) -> str:
    return str(api.get(f"/api/v1/runs/{run_id}").json()["state"])


def _events(api: httpx.Client, run_id: str) -> list[dict[str, str]]:
    return list(api.get(f"/api/v1/runs/{run_id}/events", params={"limit": 1000}).json()["items"])


def _log_in(browser: httpx.Client, email: str, password: str, **headers: str) -> httpx.Response:
    page = browser.get("/login/")
    assert page.status_code == 200, page.text
    result = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
    assert result
    form = {"csrfmiddlewaretoken": result.group(1), "username": email, "password": password}
    origin = str(browser.base_url).rstrip("/")
    return browser.post("/login/", data=form, headers={"Origin": origin, "Referer": f"{origin}/login/", **headers})


def test_http_leads_to_https_once(compose: Compose) -> None:
    answer = httpx.get(f"http://127.0.0.1:{compose.ports['http']}/models/?page=2", headers={"Host": "localhost"})
    assert (answer.status_code, answer.headers["location"]) == (308, "https://localhost/models/?page=2")
    with compose.client() as browser:
        page = browser.get("/login/")
    assert page.status_code == 200
    assert int(page.headers["strict-transport-security"].partition("max-age=")[2].split(";")[0]) > 10**7


@pytest.mark.usefixtures("member")
def test_a_person_logs_in_with_cookies_for_https_alone(compose: Compose) -> None:
    with compose.client() as browser:
        answer = _log_in(browser, "engineer@voice.test", "correct horse battery")
        assert answer.status_code == 302, answer.text
        assert all("Secure" in cookie for cookie in answer.headers.get_list("set-cookie"))
        assert browser.get("/", follow_redirects=True).status_code == 200


def test_each_address_has_its_own_throttle_and_cannot_claim_another(compose: Compose) -> None:
    def fails(address: str, **headers: str) -> str:
        transport = httpx.HTTPTransport(local_address=address, verify=compose.trust())
        with httpx.Client(transport=transport, base_url=compose.env_file["PUBLIC_URL"], timeout=120) as browser:
            return _log_in(browser, "who@voice.test", "a wrong password", **headers).text

    text = [fails("127.0.0.2") for _ in range(4)]
    assert "minutes" in text[3]
    assert "minutes" not in text[2]
    assert "minutes" in fails("127.0.0.2", **{"X-Forwarded-For": "203.0.113.9"})
    assert "minutes" not in fails("127.0.0.3")


def test_a_run_comes_through_and_the_worker_api_is_not_for_visitors(
    compose: Compose, api: httpx.Client, member: dict[str, str]
) -> None:
    run_id = _submit(api, member, "nothing")
    compose.until(lambda: _state(api, run_id) == "done", "the end of the run")
    token = {"Authorization": f"Bearer {SECRETS['WORKER_TOKEN']}"}
    assert api.post("/api/v1/worker/hello", json={}, headers=token).status_code == 404


def test_a_stopped_worker_hands_its_run_back_within_its_grace(
    compose: Compose, api: httpx.Client, member: dict[str, str]
) -> None:
    run_id = _submit(api, member, "pause baseline")
    compose.until(lambda: any('"attempt"' in event["message"] for event in _events(api, run_id)), "the stage's start")
    grace = compose.services["cpu-worker"]["stop_grace_period"]
    worker = compose.processes["cpu-worker"]
    worker.terminate()
    assert worker.wait(float(grace.removesuffix("s"))) == 0
    assert _state(api, run_id) == "queued"
    (compose.folder / "told" / f"{run_id}.go").touch()
    _start_worker(compose)
    compose.until(lambda: _state(api, run_id) == "done", "the end of the run")
    kinds = [event["kind"] for event in _events(api, run_id)]
    assert kinds.count("handed_back") == 1
    assert "retried" not in kinds


def test_every_panel_of_the_dashboard_shows_what_prometheus_scraped(compose: Compose, tmp_path: Path) -> None:
    with prometheus(compose, tmp_path, METRICS_TOKEN) as server, compose.client() as browser:
        assert browser.get("/metrics").status_code == 404
        wait_for(lambda: len(server.targets()) == 2, 300, "Prometheus", server.log.read_text)

        def empty() -> list[str]:
            browser.get("/login/")
            return [
                f"{title}: {query}" for title, queries in panels().items() for query in queries if not server.ask(query)
            ]

        wait_for(lambda: not empty(), 300, "a figure in every panel", lambda: f"{empty()}: {server.targets()}")
        assert server.ask('workbench_runs{state="done"}') >= [2]
        assert server.ask("workbench_database_up") == [1]


def test_slow_clients_leave_pages_alone(compose: Compose) -> None:
    seconds = []
    plain, encrypted = half_headers(compose.ports["http"]), half_headers(compose.ports["https"], tls=compose.trust())
    with plain as dropped, encrypted as dropped_tls, compose.client() as browser:

        def both() -> bool:
            """Whether nginx has dropped slow clients of both kinds; one more page was read meanwhile."""
            began = time.monotonic()
            assert browser.get("/login/").status_code == 200
            seconds.append(time.monotonic() - began)
            return bool(dropped and dropped_tls)

        compose.until(both, "nginx drops slow clients, also those that speak TLS")
    assert median(seconds) < HELD_UP_SECONDS
