"""Connections that one process gives to another: which of them come back when that one ends."""

import asyncio
import socket

from kernels.server.processes.connections import TAKEN, GivenConnections


def test_what_a_process_has_taken_does_not_come_back_when_it_ends_before_it_took_the_rest() -> None:
    back: list[socket.socket] = []

    async def whole() -> None:
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        control.setblocking(False)
        given = GivenConnections(control, back.append)
        taken, left = socket.socket(), socket.socket()
        assert given.give(taken)
        assert given.give(left)
        _, descriptors, _, _ = socket.recv_fds(theirs, 1, 1)
        socket.close(descriptors[0])
        theirs.send(TAKEN)
        theirs.close()
        given.close()  # its end is told by another pipe, so it may come before the loop has read the answer
        assert back == [left]
        assert taken.fileno() == -1
        left.close()

    asyncio.run(whole())
