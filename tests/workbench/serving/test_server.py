"""The web server by itself, as a real process: what slow, large and many clients may take of it."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import httpx
import psutil
import pytest

from kernels.load.server_process import reserve_port
from tests.waiting import wait_for
from tests.workbench.serving.plain_site import FILE_BYTES, IDLE_SECONDS
from tests.workers.pipeline.stack import ROOT, SERVER

MIB = 2**20
CHUNK = (
    "PATCH /api/v1/uploads/1/files/1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n"
    "Content-Length: {}\r\n\r\n"
)
COMPUTE = b"GET /compute HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF_A_HEADER = b"GET /ping HTTP/1.1\r\nHost: localhost\r\nX-Slow: "


@dataclass
class Server:
    url: str
    port: int
    process: psutil.Process

    def ping(self) -> None:
        """A small request on a new connection."""
        assert httpx.get(f"{self.url}/ping", timeout=120, verify=False).status_code == 200

    def connect(self, first: bytes) -> socket.socket:
        peer = socket.create_connection(("127.0.0.1", self.port), timeout=120)
        peer.sendall(first)
        return peer

    def kept(self, peers: list[socket.socket]) -> int:
        """How many of these connections the server holds open."""
        ports = {connection.raddr.port for connection in self.process.net_connections("tcp") if connection.raddr}
        return sum(peer.getsockname()[1] in ports for peer in peers)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One process with two threads."""
    port, data = reserve_port(), tmp_path_factory.mktemp("data")
    command = [sys.executable, "-m", "gunicorn", "tests.workbench.serving.plain_site", "--worker-class", SERVER]
    command += ["--bind", f"127.0.0.1:{port}", "--threads", "2", "--no-control-socket", "--graceful-timeout", "1"]
    env = {**os.environ, "WORKBENCH_DATA": str(data), "PYTHONPATH": str(ROOT)}
    arbiter = subprocess.Popen(command, cwd=ROOT, env=env)
    try:
        parent = psutil.Process(arbiter.pid)
        wait_for(lambda: _listens(port) and parent.children(), 120, "the server", processes={"gunicorn": arbiter})
        yield Server(f"http://127.0.0.1:{port}", port, parent.children()[0])
    finally:
        arbiter.terminate()
        arbiter.wait(120)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _answer(peer: socket.socket) -> bytes:
    """The body of the response, up to its `Content-Length`."""
    with peer.makefile("rb") as lines:
        length = 0
        while line := lines.readline().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return lines.read(length)


def _ping_on(peer: socket.socket, address: str = "/ping") -> bytes:
    peer.sendall(f"GET {address} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return _answer(peer)


def _is_closed(peer: socket.socket) -> bool:
    """Whether the server has closed a connection on which it sent nothing."""
    peer.setblocking(False)
    try:
        return peer.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _received(peer: socket.socket) -> int:
    """How many bytes come until the connection ends."""
    received = 0
    with contextlib.suppress(ConnectionResetError):
        while chunk := peer.recv(MIB):
            received += len(chunk)
    return received


def test_an_answer_to_head_has_no_body_and_leaves_the_connection_usable(server):
    ends = set()
    with httpx.Client(base_url=server.url, timeout=120) as client:
        for path, length in (("/ping", 1), ("/file", FILE_BYTES), ("/unsized", 2)):
            assert client.head(path).headers["Content-Length"] == str(length)
            answer = client.get("/ping")
            assert answer.text == "0"
            ends.add(answer.extensions["network_stream"].get_extra_info("client_addr"))
    assert len(ends) == 1, "one connection carried all of it"


def test_large_bodies_arrive_whole_and_lie_in_files_meanwhile_and_larger_ones_are_refused(server):
    with server.connect(CHUNK.format(2**40).encode()) as peer:
        assert peer.recv(64).startswith(b"HTTP/1.1 413 ")
    size, many = 16 * MIB, 8
    before = server.process.memory_info().rss
    peers = [server.connect(CHUNK.format(size).encode()) for _ in range(many)]
    with ThreadPoolExecutor(many) as pool:
        list(pool.map(lambda peer: peer.sendall(bytes(size - 1)), peers))
        server.ping()
        assert server.process.memory_info().rss - before < size * many / 4
        for peer in peers:
            peer.sendall(b"x")
        answers = list(pool.map(_answer, peers))
    assert answers == [str(size).encode()] * many
    for peer in peers:
        peer.close()


def test_downloads_take_turns_with_small_requests(server):
    def download() -> int:
        with httpx.stream("GET", f"{server.url}/file", timeout=60) as answer:
            return sum(map(len, answer.iter_bytes(MIB)))

    with ThreadPoolExecutor(4) as pool:
        downloads, pings = [pool.submit(download) for _ in range(4)], 0
        while not any(item.done() for item in downloads):
            server.ping()
            pings += 1
    assert [item.result() for item in downloads] == [FILE_BYTES] * 4
    assert pings > 1, "the first one waited until a download had ended"


def test_a_request_that_computes_holds_up_no_other_at_each_of_its_queries(server):
    """With CPython's own switch interval of 5 ms, 100 queries wait for half a second, however quick the machine is.

    A machine that is busy makes them wait as well, but hardly every time.
    """

    def seconds() -> float:
        with server.connect(b"") as peer, server.connect(COMPUTE) as computing:
            time.sleep(0.1)
            began = time.monotonic()
            _ping_on(peer, "/queries")
            took = time.monotonic() - began
            assert int(_answer(computing)) > 0
            return took

    wait_for(lambda: seconds() < 0.4, 120, "a quick turn of 100 queries")


def test_readers_that_stop_reading_take_no_thread_and_are_dropped(server):
    peers = [server.connect(b"GET /file HTTP/1.1\r\nHost: localhost\r\n\r\n") for _ in range(4)]
    for peer in peers:
        peer.recv(1, socket.MSG_PEEK)
    server.ping()
    assert server.kept(peers) == 4, "the small request did not wait for the end of one of them"
    wait_for(lambda: server.kept(peers) == 0, 120, "the end of readers that stopped")
    assert max(map(_received, peers)) < FILE_BYTES / 4


def test_a_connection_in_use_is_kept_and_an_idle_one_is_closed(server):
    """Requests that begin and end between two looks of the server count as use."""
    with server.connect(b"") as peer, server.connect(b"") as busy:
        last, ends = 0.0, time.monotonic() + 1.6 * IDLE_SECONDS
        while (now := time.monotonic()) < ends:
            if now - last > IDLE_SECONDS / 10:
                last = now
                assert _ping_on(peer) == b"0"
            assert _ping_on(busy) == b"0"  # the server looks at its connections when one wakes it
            time.sleep(0.05)
        wait_for(lambda: _is_closed(peer), 120, "the end of an idle connection")


def test_a_crowd_of_half_headers_is_sent_away_sooner(server):
    peers = [server.connect(HALF_A_HEADER) for _ in range(480)]
    server.ping()
    wait_for(lambda: sum(map(_is_closed, peers)) > 100, 120, "the end of the crowd")
    server.ping()
    for peer in peers:
        peer.close()
