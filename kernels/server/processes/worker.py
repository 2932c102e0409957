"""The engine's process: loads the model, captures the graphs, and serves what comes through a pipe."""

import gc
import logging
import os
import pickle
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import cached_property, partial
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from kernels.measure import host_memory
from kernels.measure.gpu_entry import gpu_of_host
from kernels.server.messages import AbortRequest, EngineOutputs, EngineReport, Ping, Ready, Refusal, Stop
from kernels.server.processes.lifecycle import live
from kernels.server.scheduler.requests import LogitsOptions, Request
from kernels.server.spec import Spec, configuration
from kernels.server.starting import Phases

if TYPE_CHECKING:
    from kernels.server.execution.engine import Engine
    from kernels.server.execution.grammars import Grammars
    from kernels.server.execution.logits_processing import Processor


MAKE = (
    "import pickle, sys; from kernels.server.execution.compiling import compile_ahead; "
    "sys.exit(not compile_ahead(*pickle.load(sys.stdin.buffer)))"
)
MAX_SECONDS = 600.0
"""A start waits no longer: what is not compiled then is compiled by the engine."""


logger = logging.getLogger(__name__)


class GrammarCompiler:
    """Makes what changes requests' logits in a thread: grammars take tenths of a second, and steps go on."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._grammar_thread, self._other_thread = ThreadPoolExecutor(1, "grammars"), ThreadPoolExecutor(1, "penalties")
        self.pending: dict[str, tuple[Request, Future[Processor], str]] = {}

    def start(self, request: Request, options: LogitsOptions) -> None:
        """Begins with a request. One without a grammar does not wait for the grammars of others."""
        thread = self._other_thread if options.grammar is None else self._grammar_thread
        field = "tools" if options.grammar and options.grammar.form == "lark" else "response_format"
        self.pending[request.name] = request, thread.submit(self._processor, request, options), field

    def cancel(self, name: str) -> None:
        """Gives a request up, if it is pending. What has begun goes on, and its result is lost."""
        if name in self.pending:
            self.pending.pop(name)[1].cancel()

    def compiled(self) -> Iterator[tuple[Request, Refusal | None]]:
        """The requests that have got their processors, or why they have not."""
        for name, (request, future, field) in list(self.pending.items()):
            if future.done():
                del self.pending[name]
                error = future.exception()
                if error is None:
                    request.processor = future.result()
                    yield request, None
                    continue
                reason = str(error)
                if not isinstance(error, ValueError):  # whatever a library raises ends no engine
                    logger.error("a grammar could not be read", exc_info=error)
                    reason = "the grammar could not be read, and the server's log says why"
                yield request, Refusal(f"{field}: {reason}", field)

    def _processor(self, request: Request, options: LogitsOptions) -> "Processor":
        from kernels.server.execution.logits_processing import Processor

        grammar = options.grammar
        matcher = None if grammar is None else self._grammars.matcher(grammar, request.stop_ids)
        return Processor(request.ids, options, matcher)

    @cached_property
    def _grammars(self) -> "Grammars":
        from kernels.server.execution.grammars import Grammars
        from kernels.server.http.text import text_of

        text = text_of(*configuration(self._spec))
        tokens, special = text.vocabulary()
        return Grammars(tokens, special, lambda given: text.encode(given, special=False))


COMPILING_MS = 1
"""How long an engine without other work waits for messages before it looks whether a grammar is ready."""
REPORT_SECONDS = 0.25
"""How often the engine tells of itself while it works."""


def main(spec: Spec, connection: Connection) -> None:
    """The process's main function. Ends at `Stop`, and when the other side of the pipe is closed."""

    def build(phases: Phases) -> "tuple[Engine, Ready]":
        with compile_ahead(spec) as compiled:
            return built(phases, compiled)

    def built(phases: Phases, compiled: Callable[[], bool]) -> "tuple[Engine, Ready]":
        read_ahead(Path(spec.model))
        with phases.phase("imports"):  # torch and transformers, which the server's process does without
            gc.disable()  # a sixth of their time
            from kernels.model import loading  # noqa: F401  with the classes of transformers' models
            from kernels.server.execution.building import build_engine

        gc.freeze()  # else collections while passes are captured look at all that was imported
        gc.enable()
        return build_engine(spec, phases, compiled)

    live(build, lambda engine, pipe: serve(engine, pipe, GrammarCompiler(spec)), connection)


def serve(engine: "Engine", connection: Connection, compiler: GrammarCompiler) -> None:
    """Runs steps until stopped, or the pipe is closed, which raises EOFError. The first outputs are a report of free KV
    pages; outputs are gathered while the server does not read, so that nothing waits.
    """
    connection.send(EngineOutputs(report=asdict(_report(engine))))
    open_requests: dict[str, Request] = {}
    outputs, reported_at = EngineOutputs(), 0.0
    arrived, has_room = select.poll(), select.poll()
    arrived.register(connection, select.POLLIN)
    has_room.register(connection, select.POLLOUT)
    while True:
        while engine.idle or arrived.poll(0):
            if compiler.pending and not arrived.poll(COMPILING_MS):
                break
            if engine.captures is not None and not arrived.poll(0) and engine.captures.capture_next():
                outputs.report = asdict(_report(engine))
                break
            _take(engine, connection.recv(), open_requests, outputs, compiler)
            if outputs.refusals or outputs.report:
                break
        for request, refusal in compiler.compiled():
            if refusal is None:
                _add(engine, request, open_requests, outputs)
            else:
                outputs.refusals[request.name] = refusal
        if compiler.pending and engine.idle and not (outputs.refusals or outputs.report):
            continue
        tokens = engine.run_step()
        with_cached = (item for item in tokens if item.request.num_cached_tokens and item.token is not None)
        token_counts = Counter(item.request.name for item in with_cached)
        for request, token, reason, logprobs in tokens:
            if request.name not in open_requests:
                continue
            if token_counts.get(request.name) == request.answered:  # its first tokens
                outputs.cached[request.name] = request.num_cached_tokens
            if request.prompt_logprobs:
                outputs.prompt_logprobs[request.name] = list(request.prompt_logprobs.values())
                request.prompt_logprobs = {}
            outputs.tokens.append((request.name, token, reason))
            if logprobs is not None:
                outputs.logprobs.setdefault(request.name, []).append(logprobs)
            if reason:
                del open_requests[request.name]
        now = time.monotonic()
        if now - reported_at > REPORT_SECONDS or engine.idle:
            outputs.report, reported_at = asdict(_report(engine)), now
        if (outputs.tokens or outputs.refusals or outputs.report) and (engine.idle or has_room.poll(0)):
            connection.send(outputs)
            outputs = EngineOutputs()


def _take(
    engine: "Engine", message: Any, open_requests: dict[str, Request], outputs: EngineOutputs, compiler: GrammarCompiler
) -> None:
    if isinstance(message, Stop):
        raise EOFError
    if isinstance(message, Ping):
        outputs.report = asdict(_report(engine))
        return
    if isinstance(message, AbortRequest):
        compiler.cancel(message.name)
        request = open_requests.pop(message.name, None)
        if request is not None:
            engine.cancel(request)
        return
    name, ids, max_tokens, sampling, stop_ids, seconds, logprobs, options, echo = message
    request = Request(name, ids, max_tokens, sampling, stop_ids, time.monotonic() + seconds, logprobs, echo=echo)
    if options is not None:
        compiler.start(request, options)
    else:
        _add(engine, request, open_requests, outputs)


def _add(engine: "Engine", request: Request, open_requests: dict[str, Request], outputs: EngineOutputs) -> None:
    try:
        engine.add(request)
    except ValueError as error:
        outputs.refusals[request.name] = Refusal(str(error), code="context_length_exceeded")
    else:
        open_requests[request.name] = request


def _report(engine: "Engine") -> EngineReport:
    scheduler = engine.scheduler
    megakernel_sequences = engine.backends[0].max_num_seqs
    return EngineReport(
        running=len(scheduler.running),
        waiting=len(scheduler.waiting),
        free_pages=scheduler.pages.num_free,
        pages=scheduler.limits.pages - 1,
        preempted=scheduler.preempted,
        steps=engine.steps,
        megakernel_steps=engine.steps_of[0] if megakernel_sequences else 0,
        megakernel_sequences=megakernel_sequences,
        graphs_left=engine.captures.graphs_left if engine.captures else 0,
    )


READERS, CHUNK = 4, 16 << 20
"""Files that are read at once, and bytes of one read."""
SHARE = 0.5
"""Of the free memory: a larger model would drive its own first bytes out again."""


def read_ahead(directory: Path) -> list[Thread]:
    """Reads a folder's safetensors ahead unless larger than SHARE of free memory; threads end with the process."""
    files = sorted(directory.rglob("*.safetensors")) if directory.is_dir() else []
    if sum(file.stat().st_size for file in files) > SHARE * host_memory.free_bytes():
        return []
    groups = [files[number::READERS] for number in range(min(READERS, len(files)))]
    readers = [Thread(target=_read, args=(group,), name="reads ahead", daemon=True) for group in groups]
    for reader in readers:
        reader.start()
    return readers


def _read(files: Sequence[Path]) -> None:
    buffer = bytearray(CHUNK)
    for path in files:
        with suppress(OSError), path.open("rb", buffering=0) as file:  # the loader says what is wrong with it
            while file.readinto(buffer):
                pass


@contextmanager
def compile_ahead(spec: Spec) -> Iterator[Callable[[], bool]]:
    """Starts the process where the host has GPUs of one known class. Yields a function that waits for its end and
    returns whether it did all its work. The process does not outlive the block, and takes no GPU.
    """
    gpu = None if spec.device == "cpu" else gpu_of_host()
    if gpu is None:
        yield lambda: False
        return
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-c", MAKE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=hidden, start_new_session=True) as process:
        try:
            assert process.stdin is not None
            with suppress(BrokenPipeError):  # it has died, and the engine compiles itself
                process.stdin.write(pickle.dumps((spec, gpu)))
                process.stdin.close()
            yield partial(_wait, process)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # and those that it has started


def _wait(process: "subprocess.Popen[bytes]") -> bool:
    try:
        return process.wait(MAX_SECONDS) == 0
    except subprocess.TimeoutExpired:
        return False
