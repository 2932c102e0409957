"""`python -m kernels serve`: an OpenAI-compatible server over the kernels runner's parts, with continuous batching."""

import argparse
import asyncio
import logging
import math
import os
import signal
import socket
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from kernels.dequantising import plain_model
from kernels.load import sockets
from kernels.model.divisible import indivisible
from kernels.model_files import ModelRefused
from kernels.model_files.families import attention_shape, normed_over_heads
from kernels.plan import LONGEST_SEQUENCE, MAX_KV_BYTES, MAX_RUNNING, KvCacheDtype, Serving
from kernels.runners.plan_files import PlanRefused, read_plan
from kernels.server.execution.served_plans import MEGAKERNEL, NAMES
from kernels.server.spec import WEIGHTS, Spec, configuration
from kernels.server.starting import start_line

if TYPE_CHECKING:
    from kernels.server.processes.engine_process import EngineProcess
    from kernels.server.processes.replicas import EngineReplicas
    from kernels.server.processes.web_servers import WebServers

KEY_VARIABLE = "KERNELS_SERVE_API_KEY"
GIB = 1 << 30
MAX_WEB_PROCESSES = 64
MAX_GPUS = 8
MAX_CONNECTIONS = 1 << 16
"""Connections are open files. On many systems a process may have 1,024 of them unless it asks for more."""
NUMBERS: dict[str, tuple[float, float]] = {
    "max_num_seqs": (1, MAX_RUNNING),
    "max_model_len": (1, LONGEST_SEQUENCE),
    "kv_gib": (0, MAX_KV_BYTES // GIB),
    "pause_ms": (0, math.inf),
    "seed": (-(1 << 63), (1 << 64) - 1),
    "wait_seconds": (0, math.inf),
    "hang_seconds": (0, math.inf),
    "drain_seconds": (0, 10**9),
    "port": (0, (1 << 16) - 1),
    "tensor_parallel_size": (1, MAX_GPUS),
    "data_parallel_size": (1, MAX_GPUS),
    "web_processes": (1, MAX_WEB_PROCESSES),
}
"""The least and the most of each option that is a number. Those of ABOVE must be above the least."""
ABOVE = ("kv_gib", "pause_ms", "wait_seconds", "hang_seconds")
LONGEST_NUMBER = 40
"""So many characters of a wrong number are shown."""


def serve_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", required=True, help="a directory, a GGUF file, or the name of a catalogue entry")
    parser.add_argument("--plan", type=Path, help="plan.json: the plan's variants, for its model and GPU only")
    parser.add_argument("--name", help="the model's name to clients (default: the directory's)")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--device", choices=("cuda", "cpu"), help="default: the GPU if there is one")
    parser.add_argument(
        "--dtype", choices=("bf16", "fp16", "fp32"), help="default: the plan's; bf16 on a GPU, else fp32"
    )
    parser.add_argument(
        "--weights",
        choices=WEIGHTS,
        default="",
        help="the precision of weights (default: the plan's, else mxfp4 or fp8 of weights stored so, else --dtype)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the weights, where the model has none (default 0)")
    parser.add_argument(
        "--tensor-parallel-size", type=int, help="GPUs that run the model together (default: the plan's, else 1)"
    )
    parser.add_argument(
        "--data-parallel-size", type=int, default=1, help="engines behind one address, each on GPUs of its own"
    )
    parser.add_argument(
        "--max-model-len",
        type=int,
        help="tokens of a sequence (default: what the model was trained for, at most 8,192)",
    )
    parser.add_argument("--max-num-seqs", type=int, help="requests served at once (default: the plan's, else 64)")
    parser.add_argument(
        "--kv-gib",
        type=float,
        help="memory for KV pages (default: what running requests fill, at most 0.8 of what is free; 4 on a CPU)",
    )
    parser.add_argument(
        "--kv-cache-dtype",
        choices=get_args(KvCacheDtype),
        help="the precision of KV pages: that of --dtype, or e4m3 in half the bytes (default: the plan's, else auto)",
    )
    parser.add_argument(
        "--pause-ms",
        type=float,
        help="the most by which reading prompts may delay each token of others (default: 50 on a GPU, 1000 on a CPU)",
    )
    parser.add_argument(
        "--exclude", action="append", default=[], choices=NAMES, help="a part that is left out; repeatable"
    )
    parser.add_argument(
        "--no-megakernel", action="append_const", dest="exclude", const=MEGAKERNEL, help="as --exclude megakernel"
    )
    parser.add_argument("--wait-seconds", type=float, default=math.inf, help="how long a request may wait to begin")
    parser.add_argument(
        "--hang-seconds",
        type=float,
        help="after how long without a sign of life an engine or a web server is started again (default: 60; an engine "
        "on a CPU 600)",
    )
    parser.add_argument("--drain-seconds", type=int, default=60, help="how long open requests may go on after SIGTERM")
    parser.add_argument(
        "--capture-all", action="store_true", help="capture every pass before it is ready, none when it is idle"
    )
    parser.add_argument(
        "--web-processes",
        type=int,
        help="processes that speak HTTP (default: 4 for a GPU on 8 CPUs or more and from --max-num-seqs 64 on, else 1)",
    )
    parser.add_argument(
        "--allowed-origins",
        nargs="+",
        default=[],
        metavar="ORIGIN",
        help="pages that may ask from a browser, such as https://chat.example.org, or * (default: none)",
    )
    parser.add_argument("--api-key-file", type=Path, help=f"the key that clients must give (default: ${KEY_VARIABLE})")


def serve(options: argparse.Namespace) -> int:
    """0 after a drained stop; 2 when the model or the plan cannot be served."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    for name in NUMBERS:
        if wrong := wrong_number(name, getattr(options, name)):
            print(f"kernels serve: {wrong}", file=sys.stderr)
            return 2
    sockets.allow(MAX_CONNECTIONS)
    ended: list[int] = []
    try:
        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, lambda number, _: ended.append(number))
        return asyncio.run(_serve(options, ended))
    except (ValueError, OSError, PlanRefused, ModelRefused) as error:
        print(f"kernels serve: {error}", file=sys.stderr)
        return 2
    except ImportError as error:
        print(f"kernels serve: {error.name} is missing: pip install '.[serve]' in the source folder", file=sys.stderr)
        return 2


def wrong_number(name: str, value: float | None) -> str:
    """What is wrong with an option's value, in a sentence; "" for what may be served, and where it is not given."""
    minimum, maximum = NUMBERS[name]
    if value is None or (minimum < value <= maximum if name in ABOVE else minimum <= value <= maximum):
        return ""
    shown = str(value)
    shown = shown if len(shown) <= LONGEST_NUMBER else shown[:LONGEST_NUMBER] + "…"
    sentence = f"--{name.replace('_', '-')}: {shown} is "
    if name == "port":
        return f"{sentence}no port: ports are 0 to 65535"
    if minimum >= 0 and not value > 0 and name != "drain_seconds":
        return f"{sentence}not a positive number"
    return f"{sentence}{'more' if value > maximum else 'less'} than {maximum if value > maximum else minimum:,}"


async def _serve(options: argparse.Namespace, ended: list[int]) -> int:
    """`ended` has the signals that came before the event loop took them over."""
    from kernels.server.http import web
    from kernels.server.processes import encoder, worker
    from kernels.server.processes.engine_process import EngineProcess
    from kernels.server.processes.replicas import EngineReplicas, on_gpus
    from kernels.server.processes.web_process import WebSpec
    from kernels.server.processes.web_servers import web_servers

    plan = read_plan(options.plan) if options.plan else None
    size = (plan.serving if plan else None) or Serving()
    source = Path(options.model)
    spec = Spec(
        model=str(plain_model(source)) if source.exists() else options.model,
        plan=str(options.plan) if options.plan else None,
        device=options.device,
        dtype=options.dtype,
        seed=options.seed,
        max_model_len=options.max_model_len or size.max_model_len,
        max_num_seqs=options.max_num_seqs or size.max_num_seqs,
        kv_bytes=max(1, int(options.kv_gib * GIB)) if options.kv_gib else None,
        kv_cache_dtype=options.kv_cache_dtype,
        pause_ms=options.pause_ms,
        weights=options.weights,
        exclude=tuple(options.exclude),
        tensor_parallel_size=options.tensor_parallel_size,
        web_processes=options.web_processes,
        capture_all=options.capture_all,
    )
    directory, config = configuration(spec)
    if directory and not spec.plan and not any(directory.rglob("*.safetensors")):  # else they would be generated
        raise ValueError(f"--model: {directory} holds no safetensors and no GGUF file")
    embeds = encoder.gives_vectors(config)
    name = options.name or (source.resolve().name.removesuffix(".gguf") if directory else options.model)
    key, origins = _key(options.api_key_file), tuple(origin.rstrip("/") for origin in options.allowed_origins)
    served = WebSpec(spec, name, key, embeds, options.wait_seconds, origins)
    main, hang, replicas = encoder.main if embeds else worker.main, options.hang_seconds, options.data_parallel_size
    gpus = options.tensor_parallel_size or (plan.tensor_parallel_size if plan else 1)
    if gpus > 1 and not normed_over_heads(config):  # an engine refuses the rest, after it has imported torch
        heads, kv_heads, _ = attention_shape(config)
        if problem := indivisible((("num_key_value_heads", kv_heads, 1), ("num_attention_heads", heads, 1)), gpus):
            raise ValueError(problem)
    replica_gpus = [range(number * gpus, (number + 1) * gpus) for number in range(replicas)]
    engine = (
        EngineProcess(spec, main, hang)
        if replicas == 1
        else EngineReplicas([EngineProcess(spec, partial(on_gpus, main, replica), hang) for replica in replica_gpus])
    )
    listening = await web.listening(options.host, options.port)
    engine.start()  # it takes the longest: the web server is made beside it
    try:
        async with web_servers(engine, served) as servers:
            return await _until_signalled(options, engine, servers, listening, name, ended)
    finally:
        await engine.stop()


async def _until_signalled(
    options: argparse.Namespace,
    engine: "EngineProcess | EngineReplicas",
    servers: "WebServers",
    listening: list[socket.socket],
    name: str,
    ended: list[int],
) -> int:
    """Serves until a signal, and then until open requests have ended or been ended."""
    from kernels.server.http import web

    loop, stopping = asyncio.get_running_loop(), asyncio.Event()

    def signalled(number: int) -> None:
        if stopping.is_set() and number == signal.SIGINT:
            servers.end_open()
        stopping.set()

    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, signalled, signum)
    if ended:
        stopping.set()
    host, port = listening[0].getsockname()[:2]
    where = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def watch() -> None:
        while True:
            await engine.changed.wait()
            engine.changed.clear()
            state = engine.state
            if state.declined:
                stopping.set()
                return
            if state.ready:
                print(start_line(state.seconds, **state.ready.captured), file=sys.stderr)
                ms, most = state.ready.pause_ms, "at most" if state.ready.on_gpu else "about"
                pause = "" if ms is None else f", prefill delays decodes by {most} {ms:,.1f} ms"
                print(f"serving {name} on {where}, {state.ready.device}{pause}", file=sys.stderr, flush=True)

    watcher = asyncio.create_task(watch())
    with web.accepting(listening, servers.take, lambda: servers.full):
        await stopping.wait()
    await servers.drain(options.drain_seconds)
    watcher.cancel()
    if engine.state.declined:
        print(f"kernels serve: {engine.state.declined}", file=sys.stderr)
    return 2 if engine.state.declined else 0


def _key(path: Path | None) -> str | None:
    """The API key. Raises OSError or ValueError for a file that holds none."""
    given = os.environ.get(KEY_VARIABLE, "") if path is None else path.read_text()
    key = given.strip()
    if not key and (path or given):
        raise ValueError(f"{KEY_VARIABLE if path is None else f'--api-key-file: {path}'} is empty")
    return key or None
