"""A server that cannot start says why in one sentence, and ends."""

import argparse
import asyncio
import json
import os
import re
import shutil
import socket
from functools import partial
from pathlib import Path

import pytest

from kernels.cli.serve import ABOVE, NUMBERS, _serve, serve, serve_arguments, wrong_number
from kernels.hardware import GPUS
from kernels.load.connection import Address, hand_off
from kernels.load.generator import LoadDuration
from kernels.load.lists import Lengths, RequestList
from kernels.load.server_process import reserve_port
from kernels.load.sharing import DistributedLoad
from kernels.model_files import ModelRefused, catalogue
from kernels.model_files.digests import model_digest
from kernels.plan import Plan, Serving
from kernels.runners.plan_files import PlanRefused, read_plan
from kernels.server.execution import building
from kernels.server.http.web import listening
from kernels.server.processes.handoff_server import NAME, HandoffServer, ServerDeclined
from kernels.server.spec import Spec
from kernels.server.starting import Phases
from tests.kernels.server.conftest import MODEL


@pytest.mark.parametrize(("host", "said"), [("127.0.0.1", "address already in use$"), ("192.0.2.1", r"'192\.0\.2\.1'")])
def test_an_address_in_use_or_of_another_machine_is_refused(host: str, said: str) -> None:
    """Python 3.13 says of the other one that nothing could be bound, without an error's number."""
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        pytest.raises(ValueError, match=f"^--host and --port: .*{said}"),
    ):
        asyncio.run(listening(host, other.getsockname()[1]))


def test_a_server_knows_the_free_port_that_it_got() -> None:
    (result,) = asyncio.run(listening("127.0.0.1", 0))
    with result, socket.create_connection(result.getsockname()), result.accept()[0]:
        assert result.getsockname()[1] > 0


LONG = "9" * 60


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("--port", "99999", "99999 is no port: ports are 0 to 65535"),
        ("--max-num-seqs", "0", "0 is not a positive number"),
        ("--max-model-len", LONG, f"{LONG[:40]}… is more than 2,147,483,647"),
        ("--kv-gib", "nan", "nan is not a positive number"), ("--kv-gib", "inf", "inf is more than 1,048,576"),
        ("--seed", f"-{LONG}", f"-{LONG[:39]}… is less than -9,223,372,036,854,775,808"),
        ("--hang-seconds", "-inf", "-inf is not a positive number"), ("--drain-seconds", "-1", "-1 is less than 0"),
    ],
)  # fmt: skip
def test_a_number_that_cannot_be_served_is_refused(option, value, sentence, capsys):
    parser = argparse.ArgumentParser()
    serve_arguments(parser)
    assert serve(parser.parse_args(["--model", str(MODEL), f"{option}={value}"])) == 2
    assert capsys.readouterr().err.splitlines() == [f"kernels serve: {option}: {sentence}"]


def test_every_number_has_its_bounds_and_pages_two_precisions(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    serve_arguments(parser)
    assert {action.dest for action in parser._actions if action.type in (int, float)} == {*NUMBERS}
    for name, (least, most) in NUMBERS.items():
        assert not wrong_number(name, most)
        assert not wrong_number(name, least + (name in ABOVE))
    with pytest.raises(SystemExit):
        parser.parse_args(["--model", str(MODEL), "--kv-cache-dtype", "fp8_e5m2"])
    assert re.search(r"--kv-cache-dtype: invalid choice: 'fp8_e5m2' .*auto.*fp8", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("serving", "said"),
    [
        ({"max_num_seqs": 10**9}, "max_num_seqs: Input should be less than or equal to 1048576"),
        ({"graph_rows": [4, -1]}, "graph_rows.1: Input should be greater than or equal to 1"),
        ({"kv_cache_dtype": "fp8_e5m2"}, "kv_cache_dtype: Input should be 'auto' or 'fp8'"),
    ],
)
def test_a_plan_of_such_numbers_is_refused_too(tmp_path: Path, serving: dict[str, object], said: str) -> None:
    plan = {"model_digest": "0" * 64, "gpu": "cpu", "runner": "kernels", "serving": serving}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(PlanRefused, match=re.escape(f"serving.{said}")):
        read_plan(tmp_path / "plan.json")


@pytest.mark.parametrize(
    ("gpu", "sentence"),
    [
        ("h200", "no megakernel: its caches are in 16 bits and the KV pages in fp8"),
        ("a100", "--kv-cache-dtype: fp8 is not served on NVIDIA A100"),
    ],
)
def test_pages_in_fp8_leave_the_megakernel_out_and_are_refused_before_ada(gpu, sentence, capsys, monkeypatch) -> None:
    """An H200 builds its backends without the megakernel, which is as far as this goes without one."""
    monkeypatch.setattr(building, "gpu_of", lambda device: GPUS[gpu])

    def built(*args):
        assert "megakernel" in args[1].exclude
        raise ValueError(args[1].size.kv_cache_dtype)

    if gpu == "h200":
        monkeypatch.setattr(building, "build_backends", built)
    with pytest.raises(ValueError, match="fp8") as raised:
        building.build_engine(Spec("tiny-llama", device="cpu", kv_cache_dtype="fp8"), Phases())
    assert sentence in f"{raised.value}{capsys.readouterr().err}"


def started(model: Path, *more: str) -> int:
    """The status of a server of the model that does not start."""
    parser = argparse.ArgumentParser()
    serve_arguments(parser)
    options = ["--model", str(model), "--device", "cpu", "--port", str(reserve_port()), *more]
    return asyncio.run(_serve(parser.parse_args(options), []))


def refused(model: Path) -> str:
    """Why a server of the model does not start."""
    with pytest.raises((ValueError, ModelRefused)) as raised:
        started(model)
    return str(raised.value)


def test_an_ever_so_small_memory_for_pages_is_refused_and_not_ignored(capsys: pytest.CaptureFixture[str]) -> None:
    """By the engine's process, whose sentence ends the whole server."""
    assert started(MODEL, "--kv-gib", "1e-12") == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("kernels serve: kv_bytes: 1 hold no KV page")


def test_files_that_hold_no_object_no_weights_or_half_a_model_are_refused(tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(MODEL, model)
    (model / "tokenizer_config.json").write_text("[1]")
    assert refused(model) == f"{model / 'tokenizer_config.json'}: it holds no JSON object"
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    assert refused(model) == f"--model: {model} holds no safetensors and no GGUF file"
    (tmp_path / "model.gguf").write_bytes(b"GGUF\3\0\0\0")
    assert "it is truncated" in refused(tmp_path / "model.gguf")


def test_a_server_that_cannot_serve_says_so(tmp_path):
    with HandoffServer(Spec(model=str(tmp_path)), os.environ) as server:
        with pytest.raises(ServerDeclined, match=r"config\.json: it cannot be read"):
            server.wait_ready(300)
        server.process.wait(120)
        with pytest.raises(OSError, match="Broken pipe"):
            hand_off(server.handoff_fd)


def test_a_server_takes_from_a_plan_what_an_earlier_one_chose_and_serves_two_processes(tmp_path):
    digest = model_digest(catalogue.entry("tiny-llama")[0], (), True, 0)
    plan = Plan(model_digest=digest, gpu="cpu", runner="kernels", dtype="fp32")
    plan.serving = Serving(
        basis="measured",
        max_num_seqs=4,
        graph_rows=[1, 3],
        kv_bytes=2**18,
        kv_cache_dtype="fp8",
        token_ms={1: {"kernels": 0.5}},
    )
    (tmp_path / "plan.json").write_text(plan.model_dump_json())
    spec = Spec(model="tiny-llama", plan=str(tmp_path / "plan.json"), device="cpu", max_num_seqs=4)
    with HandoffServer(spec, os.environ) as server:
        device = server.wait_ready(300)
        served = Serving.model_validate(server.serving)
        requests = RequestList.random(Lengths(6, 4), 12, 64, 7)
        address = Address("localhost", 80, False, "/v1", handoff_fd=server.handoff_fd)
        sent = asyncio.run(
            DistributedLoad(address, partial(requests.load, NAME, 3), LoadDuration(60), processes=2).run()
        )
    assert sorted(exchange.planned.index for exchange in sent.exchanges) == list(range(12))
    assert {(exchange.error, exchange.tokens) for exchange in sent.exchanges} == {("", 4)}
    assert server.process.returncode == 0
    assert (served.basis, served.max_num_seqs, served.graph_rows, served.device) == ("measured", 4, [1, 3, 4], device)
    assert (served.token_ms, served.kv_cache_dtype) == (plan.serving.token_ms, "fp8")
    assert 0 < served.kv_bytes <= 2**18
