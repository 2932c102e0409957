"""Clients that send half a header and then one byte per second."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator

SLOW_CLIENTS = 50
HALF_A_HEADER = b"POST /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "


@contextlib.contextmanager
def half_headers(*ports: int, tls: ssl.SSLContext | None = None) -> Iterator[list[int]]:
    """SLOW_CLIENTS connections to each port; each sends half a header, then one byte per second.

    A client that the server drops comes again; the list has its port.
    """
    done, dropped = threading.Event(), list[int]()

    def drip() -> None:
        peers: dict[tuple[int, int], socket.socket] = {}
        while not done.wait(1):
            for slot in [(port, number) for port in ports for number in range(SLOW_CLIENTS)]:
                try:
                    peers[slot].sendall(b"x")
                except OSError:
                    dropped.append(slot[0])
                    del peers[slot]
                except KeyError:
                    peer = socket.create_connection(("127.0.0.1", slot[0]), timeout=5)
                    peers[slot] = tls.wrap_socket(peer, server_hostname="localhost") if tls else peer
                    peers[slot].sendall(HALF_A_HEADER)
        for peer in peers.values():
            peer.close()

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield dropped
    finally:
        done.set()
        thread.join()
