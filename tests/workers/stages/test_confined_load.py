"""A confined stage may send load from several processes, and they see the stage's own network alone."""

import json
from pathlib import Path

from tests.workers.stages.confined import confined_python

CODE = """
import asyncio, json, os, subprocess, sys
from functools import partial
from pathlib import Path
from kernels.runners.vllm_process import has_network
from kernels.load.connection import Address
from kernels.load.generator import LoadDuration
from kernels.load.lists import Lengths, RequestList
from kernels.load.sharing import DistributedLoad

found = {"network": has_network()}
if found["network"]:
    stub = subprocess.Popen([sys.executable, "-m", "benchmarks.stub_server"], stdout=subprocess.PIPE, text=True)
    address = Address.parse(f"http://127.0.0.1:{int(stub.stdout.readline())}")
    requests = RequestList.random(Lengths(20, 4), 12, 1000, 7)
    sent = asyncio.run(DistributedLoad(address, partial(requests.load, "stub", 3), LoadDuration(60), 2).run())
    stub.terminate()
    found["tokens"] = [each.tokens for each in sent.exchanges]
    found["processes"] = len(sent.by_process)
Path("out.json").write_text(json.dumps(found))
"""


def test_a_confined_process_sends_load_from_two_within_its_own_network(outside: Path) -> None:
    result = json.loads(confined_python(outside, ["given"], {"given.py": CODE}, loopback=True))
    if result["network"]:  # the machine that runs the tests may allow none
        assert (result["tokens"], result["processes"]) == ([4] * 12, 2)
