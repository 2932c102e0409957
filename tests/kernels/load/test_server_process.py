"""A port that is kept for a server until it binds it."""

import socket

import pytest

from kernels.load.server_process import reserved_port


def test_a_reserved_port_is_for_servers_that_name_it_and_nobody_else() -> None:
    port = reserved_port()
    with socket.socket() as another, pytest.raises(OSError, match="Address already in use"):
        another.bind(("127.0.0.1", port))
    for options in ([socket.SO_REUSEADDR], [socket.SO_REUSEADDR, socket.SO_REUSEPORT]):  # as uvicorn, and as vLLM
        with socket.socket() as server:
            for option in options:
                server.setsockopt(socket.SOL_SOCKET, option, 1)
            server.bind(("127.0.0.1", port))
            server.listen()
            with socket.create_connection(("127.0.0.1", port), timeout=60):
                server.accept()[0].close()
