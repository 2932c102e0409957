"""A server over connections that are handed to it says why it does not serve, and ends with its owner."""

import asyncio
import os
from functools import partial

import pytest

from kernels.load.connection import Address, handed_over
from kernels.load.generator import LoadDuration
from kernels.load.lists import Lengths, RequestList
from kernels.load.sharing import Sending
from kernels.model_files import catalogue
from kernels.model_files.digests import model_digest
from kernels.plan import Plan, Serving
from kernels.server.processes.handed import NAME, HandedServer, ServerDeclined
from kernels.server.spec import Spec


def test_a_server_that_cannot_serve_says_so(tmp_path):
    with HandedServer(Spec(model=str(tmp_path)), os.environ) as server:
        with pytest.raises(ServerDeclined, match=r"config\.json: it cannot be read"):
            server.wait_ready(300)
        server.process.wait(120)
        with pytest.raises(OSError, match="Broken pipe"):
            handed_over(server.handing)


def test_a_server_takes_from_a_plan_what_an_earlier_one_chose_and_serves_two_processes(tmp_path):
    digest = model_digest(catalogue.entry("tiny-llama")[0], (), True, 0)
    plan = Plan(model_digest=digest, gpu="cpu", runner="kernels", dtype="fp32")
    plan.serving = Serving(
        basis="measured", max_num_seqs=4, graph_rows=[1, 3], kv_bytes=2**18, token_ms={1: {"kernels": 0.5}}
    )
    (tmp_path / "plan.json").write_text(plan.model_dump_json())
    spec = Spec(model="tiny-llama", plan=str(tmp_path / "plan.json"), device="cpu", max_num_seqs=4)
    with HandedServer(spec, os.environ) as server:
        device = server.wait_ready(300)
        found = Serving.model_validate(server.serving)
        requests = RequestList.drawn(Lengths(6, 4), 12, 64, 7)
        address = Address("localhost", 80, False, "/v1", handing=server.handing)
        sent = asyncio.run(Sending(address, partial(requests.load, NAME, 3), LoadDuration(60), processes=2).run())
    assert sorted(exchange.planned.index for exchange in sent.exchanges) == list(range(12))
    assert {(exchange.error, exchange.tokens) for exchange in sent.exchanges} == {("", 4)}
    assert server.process.returncode == 0
    assert (found.basis, found.max_num_seqs, found.graph_rows, found.device) == ("measured", 4, [1, 3, 4], device)
    assert found.token_ms == plan.serving.token_ms
    assert 0 < found.kv_bytes <= 2**18
