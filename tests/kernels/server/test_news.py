"""What the engine's process tells the server, and how many tokens of prompts a step reads."""

import os
import socket
import threading
from multiprocessing import Pipe

from kernels.hardware import GPUS
from kernels.model.decoder import Decoder
from kernels.ops.sampling import GREEDY
from kernels.server.execution.backend import KernelsBackend, block_of
from kernels.server.execution.engine import Engine
from kernels.server.execution.sizing import STEP_TOKENS_ON, RequestedSize, limits_for
from kernels.server.messages import AddRequest, News
from kernels.server.processes.worker import GrammarCompiler, serve
from kernels.server.scheduler.batching import SchedulerLimits
from kernels.server.scheduler.requests import Logprobs
from kernels.server.spec import Spec
from tests.kernels.runners.engine_models import load
from tests.waiting import wait_for

TOKENS = 80


def made():
    return load("llama", seed=1)


def test_a_step_reads_prompts_of_several_short_requests() -> None:
    """The budget was once that of one request, so prompts of short requests never shared a step."""
    model = made()
    limits = limits_for(Decoder(model), model.config, RequestedSize(max_model_len=16, max_num_seqs=64))
    assert limits.max_num_batched_tokens == STEP_TOKENS_ON["cpu"]
    assert (
        limits_for(Decoder(model), model.config, RequestedSize(max_model_len=16, max_num_seqs=2)).max_num_batched_tokens
        == 32
    )


def test_the_engine_goes_on_while_the_server_does_not_read() -> None:
    decoder = Decoder(made())
    block = block_of(decoder)
    own = Engine([KernelsBackend(decoder, GPUS["cpu"], SchedulerLimits(100, 8, 4, 96, 2 * block, block, 3))])
    server, connection = Pipe()
    with socket.socket(fileno=os.dup(connection.fileno())) as small:
        small.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # the system takes its least instead
    for name in "abcd":
        server.send(AddRequest(name, [1, 2, 3], TOKENS, GREEDY, frozenset(), 1e9, 1 if name == "b" else None))
    working = threading.Thread(target=_until_closed, args=(own, connection), daemon=True)
    working.start()
    report = server.recv().report
    assert (report["free_pages"], report["running"]) == (report["pages"], 0)
    wait_for(lambda: own.steps >= TOKENS and own.idle, 300, "an engine that has served them all")
    told: dict[str, list[int | None]] = {name: [] for name in "abcd"}
    logprobs: dict[str, list[Logprobs]] = {"b": []}
    while any(len(tokens) < TOKENS for tokens in told.values()):
        news = server.recv()
        assert isinstance(news, News)
        for name, token, _ in news.tokens:
            told[name].append(token)
        for name, found in news.logprobs.items():
            logprobs[name] += found  # of no other request
    assert told["a"] == told["b"] == told["c"] == told["d"]
    assert [each.likeliest for each in logprobs["b"]] == [
        [(token, each.own)] for token, each in zip(told["b"], logprobs["b"], strict=True)
    ]
    server.close()
    working.join(60)
    assert not working.is_alive()


def _until_closed(own: Engine, connection) -> None:
    try:
        serve(own, connection, GrammarCompiler(Spec("")))
    except EOFError:
        connection.close()
