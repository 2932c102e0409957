"""The embedded Redis keeps its jobs when it is killed, and each role has a user that reaches its own keys alone."""

from collections.abc import Callable

import pytest
import redis
from celery import Celery
from redis.exceptions import AuthenticationError, NoPermissionError, ResponseError

from kernels.load.server_process import reserve_port
from tests.redis_settings import redis_answers
from tests.waiting import wait_for
from workbench.embedded import broker
from workbench.embedded.broker import RedisURLs
from workbench.embedded.process import EmbeddedError, Service

Server = tuple[Service, RedisURLs]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("broker")
    service, urls = broker.redis_service(folder, folder / "redis.log", reserve_port())
    service.start()
    connect(urls.cache)
    yield service, urls
    service.stop()


def connect(url: str) -> redis.Redis:
    client = redis.Redis.from_url(url)
    wait_for(lambda: redis_answers(client), 120, "Redis")
    return client


def test_a_queue_survives_a_kill(server):
    service, urls = server
    connect(urls.gpu).lpush("gpu.cpu", "a job")
    folder = service.log.parent / "redis"
    wait_for(lambda: any(b"a job" in file.read_bytes() for file in folder.rglob("*.aof")), 120, "the queue on disk")
    service.process.kill()
    service.process.wait()
    service.start()
    assert connect(urls.gpu).rpop("gpu.cpu") == b"a job"


def test_nobody_gets_in_without_a_password_and_the_caches_and_the_ledgers_user_reach_their_own(server):
    assert b"maxmemory-policy noeviction" in server[0].stdin
    address = server[1].cache.rsplit("@", 1)[1]
    with pytest.raises(AuthenticationError):
        redis.Redis.from_url(f"redis://{address}").ping()
    client = connect(server[1].cache)
    assert client.set("cache:1:a", "1")
    for foreign in (
        lambda: client.lpush("ledger", "{}"),
        lambda: client.get("unacked"),
        lambda: client.publish("/1.celery.pidbox", "{}"),
        lambda: connect(server[1].ledger).get("cache:1:login:somebody"),
    ):
        with pytest.raises(NoPermissionError):
            foreign()


FOREIGN: dict[str, Callable[[redis.Redis], object]] = {
    "plant a count of failed logins": lambda client: client.set("cache:1:login:somebody", "0"),
    "read a count": lambda client: client.get("cache:1:login:somebody"),
    "list all keys": lambda client: client.keys("*"),
    "send the ledger's worker a message": lambda client: client.lpush("ledger", "{}"),
    "take one of its messages": lambda client: client.brpop(["ledger"], 1),
    "make the workbench send mail": lambda client: client.lpush("notices", "{}"),
    "select the ledger's database": lambda client: client.select(broker.LEDGER_DATABASE),
    "select the cache's database": lambda client: client.select(broker.CACHE_DATABASE),
    "move a key to another database": lambda client: client.move("gpu.cpu", broker.LEDGER_DATABASE),
    "copy a key to another database": lambda client: client.copy("gpu.cpu", "gpu.x", broker.LEDGER_DATABASE),
    "swap the databases": lambda client: client.swapdb(broker.GPU_DATABASE, broker.CACHE_DATABASE),
    "plant a count by a script": lambda client: client.eval("redis.call('SET', KEYS[1], '0')", 1, "cache:1:login:a"),
    "select by a script": lambda client: client.eval("return redis.call('SELECT', '1')", 0),
    "order the ledger's worker to stop": lambda client: client.publish("/1.celery.pidbox", "{}"),
    "hear what it is ordered": lambda client: _subscribe(client, "/1.celery.pidbox"),
    "delete everything": lambda client: client.flushall(),
    "change the settings": lambda client: client.config_set("dir", "/tmp"),
    "write the database to a file": lambda client: client.bgsave(),
    "make itself a user": lambda client: client.execute_command("ACL", "SETUSER", "gpu", "+@all"),
    "read the passwords": lambda client: client.acl_list(),
    "copy all of it": lambda client: client.execute_command("SYNC"),
    "watch what others do": lambda client: client.execute_command("MONITOR"),
    "end others' connections": lambda client: client.execute_command("CLIENT", "KILL", "TYPE", "normal"),
}


def _subscribe(client: redis.Redis, channel: str) -> None:
    with client.pubsub() as listening:
        listening.psubscribe(channel)
        listening.parse_response()


@pytest.mark.parametrize("attempt", FOREIGN)
def test_a_gpu_workers_user_reaches_nothing_but_its_queues(server, attempt):
    client = connect(server[1].gpu)
    client.lpush("gpu.cpu", "a job")
    with pytest.raises(ResponseError, match=r"(?i)no permissions|user executing the script can't"):
        FOREIGN[attempt](client)


def test_a_binding_that_a_gpu_worker_plants_leads_no_message_astray(server):
    """kombu asks Redis which queues an exchange leads to; a GPU worker may write there, in its own database."""
    urls = server[1]
    connect(urls.gpu).sadd("_kombu.binding.gpu.cpu", "gpu.cpu\x06\x16\x06\x16ledger")
    with Celery(broker=urls.gpu_sender) as sender:
        sender.send_task("a.task", queue="gpu.cpu", retry=False)
    assert connect(urls.ledger).llen("ledger") == 0


def test_a_redis_beside_python_is_taken_and_without_any_it_says_so_in_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(broker.platform, "machine", lambda: "aarch64")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(broker.sys, "executable", str(tmp_path / "python"))
    with pytest.raises(EmbeddedError, match=r"no redis-server was found: install Redis 6\.2 or newer"):
        broker.find_redis_server()
    (tmp_path / "redis-server").touch(mode=0o755)
    monkeypatch.setattr(broker.importlib.util, "find_spec", lambda name: None)
    assert broker.find_redis_server() == str(tmp_path / "redis-server")
