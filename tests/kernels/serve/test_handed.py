"""A server over connections that are handed to it says why it does not serve, and ends with its owner."""

import os

import pytest

from kernels.serve.handed import Declined, HandedServer
from kernels.serve.worker import Spec


def test_a_server_that_cannot_serve_says_so(tmp_path):
    with HandedServer(Spec(model=str(tmp_path)), os.environ) as server:
        with pytest.raises(Declined, match=r"config\.json: it cannot be read"):
            server.wait_ready(300)
        server.process.wait(120)
        with pytest.raises(OSError, match="Broken pipe"):
            server.dial()
