"""Steps that read prompts beside the tokens of others keep within the bound of their time."""

import os
import random
import socket
import threading
from multiprocessing import Pipe

import pytest

from kernels.hardware import GPUS
from kernels.model.decoder import Decoder
from kernels.ops.sampling import GREEDY
from kernels.server.execution import building, sizing
from kernels.server.execution.backend import KernelsBackend, block_of
from kernels.server.execution.engine import Engine
from kernels.server.execution.pauses import estimated, longest_pass, within
from kernels.server.execution.server_config import ServerConfig
from kernels.server.execution.shapes import PassShape, pass_shapes, smallest_holding
from kernels.server.execution.sizing import CPU_KV_BYTES, STEP_TOKENS_ON, RequestedSize, limits_for, page_bytes
from kernels.server.messages import AddRequest, EngineOutputs
from kernels.server.processes.worker import GrammarCompiler, serve
from kernels.server.scheduler.batching import Scheduler, SchedulerLimits
from kernels.server.scheduler.requests import Logprobs, Request
from kernels.server.spec import Spec
from tests.kernels.runners.engine_models import load
from tests.waiting import wait_for

LIMITS = SchedulerLimits(
    pages=9000, page_size=16, max_num_seqs=300, max_model_len=4000, max_num_batched_tokens=2048, chunk_rows=16
)


def ms(shape: PassShape) -> float:
    """A pass of 2,048 rows takes some 10 ms, and decodes more than other rows."""
    return 0.5 + shape.rows / 220 + shape.decodes / 300


@pytest.mark.parametrize("most", [4.0, 100.0])
def test_no_step_with_decodes_and_chunks_takes_longer_than_what_is_stated(most: float) -> None:
    limits, stated = within(LIMITS, result := pass_shapes(LIMITS), ms, most)
    assert stated <= most
    draw, scheduler, longest, whole = random.Random(1), Scheduler(limits), 0.0, 0
    for turn in range(250):
        for _ in range(draw.choice((0, 0, 0, 1, 3, 40)) if turn < 200 else 0):
            ids = [draw.randrange(9) for _ in range(draw.choice((5, 17, 60, 800, 3000)))]
            scheduler.add(Request("a", ids, draw.choice((1, 9, 60))))
        step = scheduler.next_step()
        if step is None:
            continue
        if step.prefill_chunks and step.decodes:
            longest = max(longest, ms(smallest_holding(result, step)))
        elif step.prefill_chunks:
            whole = max(whole, sum(part.tokens for part in step.prefill_chunks))
        scheduler.commit(step, [[1]] * len(step.parts))
    assert stated / 2 < longest <= stated
    assert whole > 1500  # where nobody waits for a token, prompts have the whole step
    assert (limits.mixed_step_tokens is None) == (most == 100.0)


def test_the_shortest_step_is_taken_and_stated_where_none_is_within_the_bound() -> None:
    limits, stated = within(LIMITS, pass_shapes(LIMITS), ms, 0.1)
    assert limits.mixed_step_tokens == LIMITS.chunk_rows
    assert stated == ms(longest_pass(limits, pass_shapes(LIMITS))) > 0.1


def test_passes_of_a_cpu_are_estimated_from_two_short_ones() -> None:
    ms = estimated(lambda decodes: 100 + 5.0 * decodes, most=64)
    assert ms(PassShape(64, 2, 16, 1)) == pytest.approx(100 + 5 * 96)
    assert estimated(lambda decodes: 100.0, most=1)(PassShape(1, 1, 16, 1)) == 100


def test_a_server_answers_alike_with_short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """It times two passes before it is ready, changes no page by that, and says what it found."""
    model = load("qwen2", seed=1)
    draw = random.Random(3)
    prompts = [[draw.randrange(300) for _ in range(draw.choice((3, 40, 90)))] for _ in range(6)]
    answers, longest = {}, {}
    for most in (1e-6, 1e6):
        (kernels,) = building.build_backends(model, ServerConfig(RequestedSize(128, 4, pause_ms=most)))
        assert isinstance(kernels, KernelsBackend)
        assert kernels.pause_ms is not None
        assert kernels.pause_ms > 1e-6
        assert kernels.graphs == 2, (
            "on a CPU a shape is made when a step first needs it, but for the two that are timed"
        )
        assert not bool(kernels.state.keys[:, 1:].any())
        own, requests = Engine([kernels]), [Request(str(at), ids[:], 9) for at, ids in enumerate(prompts)]
        taken = kernels.launch
        longest[most] = 0

        def launch(step, taken=taken, most=most) -> None:
            if step.decodes:
                longest[most] = max(longest[most], *(part.tokens for part in step.prefill_chunks), 0)
            taken(step)

        monkeypatch.setattr(kernels, "launch", launch)
        waiting = list(requests)
        while waiting or not own.idle:
            if waiting:
                own.add(waiting.pop(0))
            own.run_step()
        answers[most] = [request.ids for request in requests]
    assert answers[1e-6] == answers[1e6]
    assert longest[1e-6] <= kernels.limits.chunk_rows < longest[1e6]


TOKENS = 80


def llama():
    return load("llama", seed=1)


def test_a_step_reads_prompts_of_several_short_requests() -> None:
    """The budget was once that of one request, so prompts of short requests never shared a step."""
    model = llama()
    limits = limits_for(Decoder(model), model.config, RequestedSize(max_model_len=16, max_num_seqs=64))
    assert limits.max_num_batched_tokens == STEP_TOKENS_ON["cpu"]
    assert (
        limits_for(Decoder(model), model.config, RequestedSize(max_model_len=16, max_num_seqs=2)).max_num_batched_tokens
        == 32
    )


@pytest.mark.parametrize(("free", "most"), [(2**40, CPU_KV_BYTES), (10 * 2**20, 8 * 2**20)])
def test_pages_on_a_cpu_leave_memory_to_other_programs(monkeypatch, free: int, most: int) -> None:
    model = llama()
    monkeypatch.setattr(sizing, "free_bytes", lambda device: free)
    limits = limits_for(Decoder(model), model.config, RequestedSize(max_num_seqs=2**30))
    page = page_bytes(Decoder(model))
    assert most - page < limits.pages * page <= most


def test_the_engine_goes_on_while_the_server_does_not_read() -> None:
    decoder = Decoder(llama())
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
    answers: dict[str, list[int | None]] = {name: [] for name in "abcd"}
    logprobs: dict[str, list[Logprobs]] = {"b": []}
    while any(len(tokens) < TOKENS for tokens in answers.values()):
        outputs = server.recv()
        assert isinstance(outputs, EngineOutputs)
        for name, token, _ in outputs.tokens:
            answers[name].append(token)
        for name, result in outputs.logprobs.items():
            logprobs[name] += result  # of no other request
    assert answers["a"] == answers["b"] == answers["c"] == answers["d"]
    assert [logprob.likeliest for logprob in logprobs["b"]] == [
        [(token, each.own)] for token, each in zip(answers["b"], logprobs["b"], strict=True)
    ]
    server.close()
    working.join(60)
    assert not working.is_alive()


def _until_closed(own: Engine, connection) -> None:
    try:
        serve(own, connection, GrammarCompiler(Spec("")))
    except EOFError:
        connection.close()
