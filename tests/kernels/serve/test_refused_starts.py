"""A server that cannot start says why in one sentence, and ends."""

import asyncio
import shutil
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from kernels.serve.client import EngineClient
from kernels.serve.messages import Declined, Ready, Stop
from kernels.serve.spec import Spec
from tests.kernels.serve.conftest import MODEL, ROOT
from tests.kernels.serve.test_starting import becomes
from tests.ports import reserved_port


def refused(*options: str) -> str:
    """What a server that ends by itself says last."""
    command = [sys.executable, "-m", "kernels", "serve", "--device", "cpu", "--port", str(reserved_port()), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    return done.stderr.splitlines()[-1]


def test_a_size_that_the_memory_does_not_hold_is_refused() -> None:
    said = refused("--model", str(MODEL), "--running", "100000000")  # 200 TB of KV pages
    assert said.startswith(
        "kernels serve: the memory does not hold the model and a server of this size, which --running"
    )


def test_a_number_that_is_no_port_is_refused() -> None:
    said = refused("--model", str(MODEL), "--port", "99999")
    assert said == "kernels serve: --port: 99999 is no port: ports are 0 to 65535"


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer_config.json"])
def test_a_file_that_holds_no_object_is_refused(tmp_path: Path, name: str) -> None:
    model = tmp_path / "model"
    shutil.copytree(MODEL, model)
    (model / name).write_text("[1]")
    assert refused("--model", str(model)) == f"kernels serve: {model / name}: it holds no JSON object"


def short_of_memory(spec: Spec, connection: Connection) -> None:
    """An engine that lacks memory at its second start. `spec.model` is a file that has a letter for each start."""
    file = Path(spec.model)
    file.write_text(starts := file.read_text() + "x")
    if len(starts) == 2:
        connection.send(Declined("there is no memory now", of_memory=True))
        return
    connection.send(Ready(8, 8, spec.model))
    while not isinstance(connection.recv(), Stop):
        pass


def test_a_lack_of_memory_ends_no_server_that_has_served(tmp_path: Path) -> None:
    (tmp_path / "starts").write_text("")

    async def whole() -> None:
        client = EngineClient(Spec(str(tmp_path / "starts")), main=short_of_memory)
        client.start()
        await becomes(client, "ready")
        assert client.process is not None
        client.process.kill()
        await becomes(client, "the engine has ended")
        await becomes(client, "ready")
        assert (client.restarts, client.declined) == (2, None)
        await client.stop()

    asyncio.run(whole())
