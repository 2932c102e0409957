"""The embedded Redis keeps its jobs when it is killed, asks for its password, and listens to this machine alone."""

from pathlib import Path

import pytest
import redis

from tests.ports import reserved_port
from tests.waiting import wait_for
from workbench.embedded import broker
from workbench.embedded.process import EmbeddedError, Service


@pytest.fixture
def server(tmp_path: Path):
    service, url = broker.redis_service(tmp_path, tmp_path / "redis.log", reserved_port())
    service.start()
    connect(url)
    yield service, url
    service.stop()


def connect(url: str) -> redis.Redis:
    client = redis.Redis.from_url(url)

    def answers() -> bool:
        try:
            return bool(client.ping())
        except redis.ConnectionError:
            return False

    wait_for(answers, 120, "Redis")
    return client


def test_a_queue_survives_a_kill(server: tuple[Service, str]) -> None:
    service, url = server
    client = connect(url)
    client.lpush("gpu.cpu", "a job")
    wait_for(lambda: client.info("persistence")["aof_buffer_length"] == 0, 120, "what is written of the queue")
    service.process.kill()
    service.process.wait()
    service.start()
    assert connect(url).lrange("gpu.cpu", 0, -1) == [b"a job"]


def test_it_never_evicts(server: tuple[Service, str]) -> None:
    _, url = server
    assert connect(url).config_get("maxmemory-policy")["maxmemory-policy"] == "noeviction"


def test_it_refuses_who_has_no_password(server: tuple[Service, str]) -> None:
    _, url = server
    address = url.rsplit("@", 1)[1]
    with pytest.raises(redis.AuthenticationError):
        redis.Redis.from_url(f"redis://{address}").ping()


def test_without_any_redis_it_says_so_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker.platform, "machine", lambda: "aarch64")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(broker.sys, "executable", "/nowhere/python")
    with pytest.raises(EmbeddedError, match=r"no redis-server was found: install Redis 6\.2 or newer"):
        broker.find_redis_server()


def test_the_one_that_setup_put_beside_python_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "redis-server").touch(mode=0o755)
    monkeypatch.setattr(broker.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(broker.sys, "executable", str(tmp_path / "python"))
    assert broker.find_redis_server() == str(tmp_path / "redis-server")
