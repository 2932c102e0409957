"""vLLM's server under load, as before or with the plan as after: started for the search by the Python of its own
environment, and ended after it.

It listens at the loopback address of the stage's own network (`workers/confinement/`). It ends before the other side
starts, so it has the GPU to itself.
"""

import os
import time
from pathlib import Path

from kernels import runners
from kernels.load.connection import Address
from kernels.load.server_process import NotStarted, reserve_port, run_server
from kernels.load.vllm_server import (
    MEMORY_SHARE,
    ServerCommand,
    ServerSettings,
    plan_kernels_in_log,
    plan_refusal,
    vllm,
    with_plan,
)
from kernels.model import loading, written_model
from kernels.plan import Plan
from kernels.runners.plan_files import digested
from kernels.runners.sessions import positions
from kernels.runners.vllm_process import has_network
from kernels.runners.vllm_runner import PYTHON_VARIABLE, environment, memory_share
from kernels.server.processes.handoff_server import NAME
from kernels.server.processes.web_servers import processes_here
from workers.documents.load import LoadCurve, LoadedServer
from workers.documents.recording import longest
from workers.harness.context import StageError
from workers.loadtest.prompts import WORDS
from workers.loadtest.servers.sides import Sides
from workers.measuring.served_model import dtype_of, load
from workers.wording.load_search import NO_NETWORK, NO_VLLM, curve_of, one_api_server

EXPECTED_START_SECONDS, LONG_START_SECONDS = 70.0, 150.0
"""vLLM loads the weights, compiles and captures its graphs; with empty caches that took 63 s for Llama-3.2-1B. It is
waited for LONG_START_SECONDS, and longer where its side has more time left."""
SPARE_TOKENS = 64
"""vLLM's longest sequence has so many tokens more than the traffic's: prompts are words, counted once sent."""
SPECULATIVE_TOKENS = 3
"""Further tokens of each sequence that a pass makes with the plan. A pass of one alone gains nothing that is beyond
vLLM's own noise (benchmarks/vllm-plugin.md)."""
MAX_ERROR_LENGTH = 500
"""Characters of vLLM's log that a sentence quotes."""
NO_TOKENIZER = "The model has no tokenizer: vLLM reads each word of a prompt as one id."


def refusal() -> str:
    """Why vLLM cannot be started on this worker, in a sentence; "" where it can."""
    if not os.environ.get(PYTHON_VARIABLE):
        return NO_VLLM
    return "" if has_network() else NO_NETWORK


def measure_curve(sides: Sides, until: float, plan: Plan | None = None) -> LoadCurve:
    """vLLM's server under rising load: before, or after with a `plan`. Raises StageError where it does not start, with
    the end of its log, and where it starts without the plan.
    """
    context, caveats, name = sides.context, list[str](), "after" if plan else "before"
    wanted = _server_settings(sides, caveats)
    try:
        sharded = [f"--tensor-parallel-size={gpus}"] if (gpus := sides.document.tensor_parallel_size) > 1 else []
        server = vllm(wanted, os.environ[PYTHON_VARIABLE], environment(), sharded)
        if plan:
            server = with_plan(server, _plan_file(sides, plan, wanted.directory), SPECULATIVE_TOKENS)
    except ValueError as error:
        raise StageError(f"vLLM was not started: WORKER_VLLM: {error}.") from error
    context.report_progress(0.5, f"starting vLLM for {name}")
    url, log = f"http://127.0.0.1:{wanted.port}", context.artifacts / f"vllm-{name}.log"
    seconds, begun = max(LONG_START_SECONDS, context.seconds_left - until), time.monotonic()
    try:
        with run_server(server.command, f"{url}/health", log, seconds, server.environment):
            started = time.monotonic() - begun
            context.starts_and_loads += started
            kernels = _check_plan_kernels(log) if plan else []
            limit = sides.over_http(name, Address.parse(url), until, sides.document.tensor_parallel_size)
    except NotStarted as error:
        how = "ended" if time.monotonic() - begun < seconds else f"had not started after {seconds:.0f} s"
        raise StageError(f"vLLM {how}; its log ends: {_last_line(log)}") from error
    if (web_servers := processes_here(sides.spec())) > 1:
        caveats.append(one_api_server(web_servers))
    return curve_of(_loaded_server(sides, server, started, caveats, kernels), limit)


def _plan_file(sides: Sides, plan: Plan, directory: Path) -> Path:
    """The plan for the files that vLLM reads: where they were written here, they are the model that it was made for."""
    if directory != sides.context.model_dir:
        plan = plan.model_copy(update={"model_digest": digested(directory, 0)[-1]})
    path = sides.context.artifacts / "vllm-plan.json"
    path.write_text(plan.model_dump_json())
    return path


def _check_plan_kernels(log: Path) -> list[str]:
    """The plan's kernels in vLLM, by its log. Raises StageError where it runs without them."""
    text = log.read_text(errors="replace")
    if kernels := plan_kernels_in_log(text):
        return kernels
    raise StageError(f"vLLM runs without the plan: {plan_refusal(text)[:MAX_ERROR_LENGTH]}.")


def _server_settings(sides: Sides, caveats: list[str]) -> ServerSettings:
    document = sides.document
    traffic, dtype = document.workload.traffic, dtype_of(document)
    positions_of_model = positions(loading.skeleton(document.model.config, dtype).config)
    return ServerSettings(
        directory=_directory(sides, dtype, caveats),
        name=NAME,
        dtype=dtype,
        port=reserve_port(),
        max_model_len=min(positions_of_model, sum(longest(traffic, document.recording)) + SPARE_TOKENS),
        max_num_seqs=sides.most,
        memory=min(MEMORY_SHARE, memory_share() or MEMORY_SHARE),
        shared_prefix=bool(traffic.shared_prefix or document.recording),
    )


def _directory(sides: Sides, dtype: str, caveats: list[str]) -> Path:
    """What vLLM reads: the model's own files where they have weights and a tokenizer, else some written here."""
    own = sides.context.model_dir
    if (own / "tokenizer.json").is_file() and any(own.glob("*.safetensors")):
        return own
    caveats.append(NO_TOKENIZER)
    written = sides.context.artifacts / "vllm-model"
    if not written.is_dir():
        written_model.write(
            load(sides.document, sides.context, dtype, pipeline_parallel_size=sides.document.tensor_parallel_size),
            written,
            WORDS,
        )
        runners.free()
    return written


def _last_line(log: Path) -> str:
    """The last line of vLLM's log that names an error, but for the one that points to another, else its last line."""
    lines = [" ".join(line.split()) for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line and "root cause above" not in line]
    return (errors or lines or ["it said nothing"])[-1][:MAX_ERROR_LENGTH]


def _loaded_server(
    sides: Sides, server: ServerCommand, started: float, caveats: list[str], kernels: list[str]
) -> LoadedServer:
    version, options = server.settings["version"], server.settings["options"]
    inside = f" Of the plan it runs {'; '.join(kernels)}." if kernels else ""
    return LoadedServer(
        kind="vllm",
        label=f"vLLM {version} with the plan" if kernels else f"vLLM {version}",
        sentence=f"vLLM {version}, started for this run in {started:.0f} s with {options}: continuous batching, over "
        f"HTTP from this machine.{inside}",
        hardware=sides.hardware,
        gpu_class=sides.document.gpu_class,
        gpus=sides.document.tensor_parallel_size,
        version=version,
        settings=server.settings,
        caveats=caveats,
    )
