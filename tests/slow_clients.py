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
    """SLOW_CLIENTS connections to each port; each has sent half a header, then sends one byte per second.

    A client that the server drops comes again; the list has its port.
    """
    done, dropped = threading.Event(), list[int]()
    slots = [(port, number) for port in ports for number in range(SLOW_CLIENTS)]
    peers: dict[tuple[int, int], socket.socket] = {}

    def connect(port: int) -> socket.socket:
        peer = socket.create_connection(("127.0.0.1", port), timeout=60)
        slow = tls.wrap_socket(peer, server_hostname="localhost") if tls else peer
        slow.sendall(HALF_A_HEADER)
        return slow

    def drip() -> None:
        while not done.wait(1):
            for slot in slots:
                try:
                    if slot in peers:
                        peers[slot].sendall(b"x")
                    else:
                        peers[slot] = connect(slot[0])
                except OSError:  # one that does not get in tries again
                    if peers.pop(slot, None):
                        dropped.append(slot[0])
        for peer in peers.values():
            peer.close()

    for slot in slots:
        peers[slot] = connect(slot[0])
    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    try:
        yield dropped
    finally:
        done.set()
        thread.join()
