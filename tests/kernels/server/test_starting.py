"""What the server says of its engine while it starts, and how long each phase took."""

import argparse
import asyncio
import json
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from kernels.cli.serve import _serve, serve_arguments
from kernels.cuda import compiler, nvrtc
from kernels.cuda.nvrtc import Build
from kernels.cuda.triton_build import TritonBuild
from kernels.hardware import GPUS
from kernels.load.server_process import reserve_port
from kernels.megakernel.program.layout import default_layout
from kernels.megakernel.program.shape import shape_of
from kernels.megakernel.proof.validate import Proof
from kernels.model.decoder import Decoder
from kernels.model.loading import skeleton
from kernels.model_files import catalogue
from kernels.server.execution import compiling
from kernels.server.execution.backend import KernelsBackend
from kernels.server.execution.compiling import compile_together, pass_builds
from kernels.server.execution.sizing import RequestedSize, limits_for
from kernels.server.http.client import EngineClient
from kernels.server.messages import Ready
from kernels.server.processes import worker
from kernels.server.processes.engine_process import EngineProcess
from kernels.server.processes.pipes import SENDER
from kernels.server.spec import Spec
from kernels.server.starting import Phases, start_line
from tests.kernels.server.engines import becomes, engine

ROOT = Path(__file__).parents[3]


def test_the_state_tells_the_phase_and_the_start_is_kept() -> None:
    async def whole() -> None:
        own = EngineProcess(Spec("a"), main=engine)
        own.listener = client = EngineClient(own.send)
        own.start()
        assert own.state.status_line.startswith("the engine is starting: process, 0 s")
        await becomes(own, "the engine is starting: weights, ")
        error = client.not_ready()
        assert (error.status, error.message.startswith("the engine is starting: weights, ")) == (503, True)
        own.send("go on")
        await becomes(own, "ready")
        assert client.ready == own.state.ready
        assert list(own.state.seconds) == ["process", "weights", "other"]
        assert all(second >= 0 for second in own.state.seconds.values())
        own.process.kill()
        await becomes(own, "the engine has ended")
        assert client.ready is None
        await own.stop()

    asyncio.run(whole())


def test_parts_are_excluded_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    serve_arguments(parser)
    options = parser.parse_args(["--model", "m", "--exclude", "skinny", "--no-megakernel"])
    assert options.exclude == ["skinny", "megakernel"]
    with pytest.raises(SystemExit):
        parser.parse_args(["--model", "m", "--exclude", "flash_hopper"])
    assert "argument --exclude: invalid choice: 'flash_hopper'" in capsys.readouterr().err


def test_an_engine_that_dies_while_it_is_sent_something_leaves_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    sending, died = threading.Event(), threading.Event()
    raised: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    checked = Connection._check_writable

    def between_check_and_write(connection: Connection) -> None:
        checked(connection)
        if threading.current_thread().name == SENDER:
            sending.set()
            died.wait(60)

    async def whole() -> None:
        own = EngineProcess(Spec("a"), main=engine)
        earlier = threading.enumerate()
        own.start()
        sender = next(item for item in threading.enumerate() if item.name == SENDER and item not in earlier)
        await becomes(own, "the engine is starting: weights, ")
        monkeypatch.setattr(Connection, "_check_writable", between_check_and_write)
        own.send("go on")
        await asyncio.to_thread(sending.wait, 60)
        own.process.kill()
        await becomes(own, "the engine has ended")
        died.set()
        await asyncio.to_thread(sender.join, 60)
        assert not sender.is_alive()
        await own.stop()

    asyncio.run(whole())
    assert raised == []


def test_a_signal_that_comes_before_the_web_server_is_there_ends_it() -> None:
    parser = argparse.ArgumentParser()
    serve_arguments(parser)
    model = str(ROOT / "samples" / "voice-agent")
    options = parser.parse_args(["--model", model, "--device", "cpu", "--port", str(reserve_port())])

    async def whole() -> int:
        async with asyncio.timeout(120):
            return await _serve(options, [signal.SIGTERM])

    assert asyncio.run(whole()) == 0


def test_the_line_of_a_start_is_json() -> None:
    phases = Phases()
    with phases.phase("imports"):
        time.sleep(0.02)
    word, _, line = start_line(phases.seconds, **Ready(8, 8, "a", graphs=3, graphs_left=2).captured).partition(" ")
    result = json.loads(line)
    assert (word, list(result["phases"]), result["graphs"], result["graphs_left"]) == ("start", ["imports"], 3, 2)
    assert result["seconds"] >= 0.02


def test_the_web_servers_process_imports_no_torch_and_its_collections_skip_what_a_start_left() -> None:
    """torch and transformers took half of its start, and the engine's waited for it."""
    program = (
        "import gc, sys; from pathlib import Path; from kernels.server.http import app, client; "
        "from kernels.server.processes import encoder; "
        "from kernels.server.http.text import ModelText; ModelText(Path('samples/voice-agent'), frozenset()); "
        "assert not {'torch', 'transformers'} & set(sys.modules); "
        "from kernels.server.starting import settle; settle(); "
        "assert gc.get_freeze_count() > 10_000 > 1000 > len(gc.get_objects())"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, timeout=300)


def test_what_compiles_ahead_ends_with_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    program = f"import sys, time; sys.stdin.buffer.read(); open({str(begun)!r}, 'w').close(); time.sleep(600)"
    monkeypatch.setattr(worker, "MAKE", program)
    monkeypatch.setattr(worker, "gpu_of_host", lambda: GPUS["h200"])
    with worker.compile_ahead(Spec("a", device="cpu")) as compiled:
        assert not compiled()
    assert not begun.exists()
    with worker.compile_ahead(Spec("a")):
        while not begun.exists():
            time.sleep(0.01)
    begun.unlink()
    monkeypatch.setattr(worker, "MAKE", program.replace("600", "0"))
    with worker.compile_ahead(Spec("a")) as compiled:
        assert compiled()
        assert begun.exists()
    monkeypatch.setattr(worker, "MAKE", "raise SystemExit(1)")
    with worker.compile_ahead(Spec("a")) as compiled:
        assert not compiled()


def test_files_that_fit_in_memory_are_read_ahead(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("a.safetensors", "b.safetensors", "c.safetensors"):
        (tmp_path / name).write_bytes(bytes(100))
    read: list[int] = []
    monkeypatch.setattr(worker, "_read", lambda files: read.extend(file.stat().st_size for file in files))
    for reader in worker.read_ahead(tmp_path):
        reader.join()
    assert read == [100] * 3
    monkeypatch.setattr("kernels.measure.host_memory.free_bytes", lambda: 599)
    assert worker.read_ahead(tmp_path) == worker.read_ahead(tmp_path / "none") == []


@pytest.mark.parametrize(("kv_cache_dtype", "exclude"), [(None, ("megakernel", "skinny")), ("fp8", ("skinny",))])
def test_what_is_made_ahead_is_what_the_engine_compiles(kv_cache_dtype, exclude, monkeypatch) -> None:
    made: list[object] = []
    monkeypatch.setattr(compiling, "compile_together", made.extend)
    spec = Spec("tiny-llama", max_num_seqs=4, max_model_len=64, exclude=exclude, kv_cache_dtype=kv_cache_dtype)
    compiling.compile_ahead(spec, GPUS["h200"])
    model = skeleton(catalogue.entry("tiny-llama")[0], "bf16")
    limits = limits_for(Decoder(model), model.config, RequestedSize(64, 4, kv_cache_dtype=kv_cache_dtype or "auto"))
    kernels = KernelsBackend(Decoder(model), GPUS["h200"], limits, exclude=["skinny"])
    assert set(made) == set(pass_builds(kernels))
    assert {type(item) for item in made} == {Build, TritonBuild}
    made.clear()
    compiling.compile_ahead(Spec("tiny-bert"), GPUS["h200"])
    assert not made


def test_what_is_missing_is_compiled_together_and_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each compilation waits for the other: one after the other they would wait for ever. Proofs come beside."""
    source, both, made = tmp_path / "one.cu", threading.Barrier(2, timeout=300), []
    source.write_text("")

    def compiled(path: Path, options: object) -> tuple[str, bytes]:
        made.append(options)
        both.wait()
        return "", b"binary"

    monkeypatch.setattr(compiler, "compile_source", compiled)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setenv("KERNELS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(nvrtc.PREBUILT, raising=False)
    builds = [Build(source, (("N", value),)) for value in (1, 2)]
    shape = replace(shape_of(catalogue.entry("qwen2.5-0.5b")[0]), layers=2)
    proof = Proof(shape, default_layout(shape, 1, 192, sms=4))
    assert not proof.is_made
    assert compile_together([*builds, *builds, proof]) == 3
    assert proof.is_made
    assert compile_together(builds) == 2
    assert len(made) == 2
