"""The megakernel behind the scheduler, run by its interpreter: every backend gives the model's answers."""

import copy
import itertools
import random
import threading
from collections.abc import Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection

import pytest
import torch
from torch import Tensor

from kernels.hardware import GPUS
from kernels.model import tensor_parallel
from kernels.model.decoder import Decoder
from kernels.ops.sampling import GREEDY, Sampling
from kernels.server.execution import building
from kernels.server.execution.backend import KernelsBackend, block_of
from kernels.server.execution.engine import Engine
from kernels.server.execution.megakernel_backend import MegakernelBackend, batches_within, crossover_batch
from kernels.server.messages import AddRequest, Stop
from kernels.server.processes.worker import GrammarCompiler, serve
from kernels.server.scheduler.batching import SchedulerLimits
from kernels.server.scheduler.requests import Request
from kernels.server.spec import Spec
from tests.kernels.megakernel.interpreter.interpret import DecodeStart, SimulatedGpu, run
from tests.kernels.megakernel.orders import round_robin
from tests.kernels.megakernel.tiny_models import arrays_of, exact, programs_of
from tests.kernels.server.answers import assert_models_answers


class InterpretedInstance:
    """The tiny model `name` on `ranks` GPUs of 4 SMs, with splits of 8 keys."""

    def __init__(self, name: str, batch: int, capacity: int, ranks: int = 1) -> None:
        self.batch, self.capacity, self.launches = batch, capacity, 0
        layout = {"sms": 4, "splits": 3, "batch": batch, "sliced": batch > 1}
        self._programs = programs_of(name, tensor_parallel_size=ranks, **layout)
        self._arrays = [arrays_of(name, program.layout, rank) for rank, program in enumerate(self._programs)]
        shape = self._programs[0].shape
        size = shape.layers, batch, capacity, shape.kv_heads, shape.head_dim
        self.caches = [(torch.full(size, float("nan")), torch.full(size, float("nan"))) for _ in range(ranks)]

    def launch(self, first: Tensor, positions: Sequence[int], sampling: Sequence[Sampling], tokens: Tensor) -> None:
        gpus = []
        for program, arrays, (keys, values) in zip(self._programs, self._arrays, self.caches, strict=True):
            context = DecodeStart(keys.numpy(), values.numpy(), first.numpy(), positions)
            gpus.append(SimulatedGpu(program, arrays, context, len(tokens), split_keys=8, sampling=sampling))
        tokens.copy_(torch.from_numpy(run(gpus, round_robin())))
        self.launches += 1


NAME, SHARDED_NAME, CAPACITY = "llama-32", "llama-of-4", 48


def engine_of(most: int = 4, ranks: int = 1) -> tuple[torch.nn.Module, Engine, list[InterpretedInstance]]:
    """The tiny model in float32, an engine of both backends over so many ranks, and the instances."""
    name = NAME if ranks == 1 else SHARDED_NAME
    model = copy.deepcopy(exact(name))
    shards = tensor_parallel.shard_model(model, [torch.device("cpu")] * ranks).shards if ranks > 1 else [model]
    decoders = [*map(Decoder, shards)]
    decoder = decoders[0]
    limits = SchedulerLimits(40, 8, 6, 64, 3 * block_of(decoder), block_of(decoder), 3)
    kernels = KernelsBackend(decoders, GPUS["cpu"], limits)
    instances = [InterpretedInstance(name, batch, CAPACITY, ranks) for batch in (1, 2, 4)]
    megakernel = MegakernelBackend(kernels.states, limits, instances)
    megakernel.keep(most)
    return model, Engine([megakernel, kernels]), instances


def served(own: Engine, arrivals: dict[int, list[Request]], cancelled: dict[int, Request] | None = None) -> list[int]:
    """Which backend computed each turn's step: 0 the megakernel, 1 the kernels, -1 none."""
    turn, result = 0, []
    while not own.idle or any(at >= turn for at in arrivals):
        for request in arrivals.get(turn, []):
            own.add(request)
        if cancelled and turn in cancelled:
            own.cancel(cancelled[turn])
        before = list(own.steps_of)
        own.run_step()
        result.append(next((at for at, (a, b) in enumerate(zip(before, own.steps_of, strict=True)) if b > a), -1))
        turn += 1
    return result


def request_of(number: int, prompt: int, tokens: int, sampling: Sampling = GREEDY) -> Request:
    draw = random.Random(number)
    return Request(str(number), [draw.randrange(150) for _ in range(prompt)], tokens, sampling)


@pytest.mark.parametrize("ranks", [1, 2])
def test_sequences_join_leave_and_change_over_both_ways(ranks: int) -> None:
    """One alone, then two, then more than the megakernel takes, and back; one is cancelled, one grows too long."""
    model, own, instances = engine_of(ranks=ranks)
    first, second, long = request_of(1, 9, 30), request_of(2, 21, 12), request_of(3, 30, 24)
    burst = [request_of(number, 3 + number, 5) for number in range(4, 8)]
    gone = request_of(9, 6, 30)
    turns = served(own, {0: [first], 3: [second], 5: [gone], 7: burst, 14: [long]}, {9: gone})
    assert gone.finish_reason == "cancelled"
    finished = [first, second, long, *burst]
    assert [item.finish_reason for item in finished] == ["length"] * len(finished)
    assert [item.answered for item in finished] == [item.max_tokens for item in finished]
    assert_models_answers(model, finished)
    changes = set(itertools.pairwise(turns))
    assert {(0, 1), (1, 0)} <= changes
    assert all(instance.launches for instance in instances)
    assert own.scheduler.pages.num_free == own.scheduler.limits.pages - 1


def test_a_sequence_that_comes_back_brings_the_rows_that_others_computed() -> None:
    """Another's prompt is read beside it by the kernels; only what the place lacks is copied."""
    model, own, (alone, *_) = engine_of(most=1)
    first, other = request_of(1, 10, 20), request_of(2, 12, 1)
    served(own, {0: [first], 5: [other]})
    assert alone.launches > 2
    assert min(own.steps_of) > 1
    assert_models_answers(model, [first, other])


def test_both_backends_draw_the_same_answer() -> None:
    """The noise depends on seed, place and token alone, and here it decides against the rounding."""
    how = Sampling(50.0, seed=11)
    _, both, instances = engine_of()
    _, kernels, _ = engine_of()
    kernels.backends = kernels.backends[1:]
    one, other = request_of(5, 7, 13, how), request_of(5, 7, 13, how)
    served(both, {0: [one]})
    served(kernels, {0: [other]})
    assert instances[0].launches
    assert one.ids == other.ids


def test_steps_with_log_probabilities_are_the_kernels() -> None:
    model, own, _ = engine_of()
    silent, asking = request_of(1, 9, 20), request_of(2, 9, 6)
    asking.logprobs = 1
    turns = served(own, {0: [silent], 4: [asking]})
    assert turns[4:10] == [1] * 6
    assert 0 in turns[:4]
    assert 0 in turns[10:]
    assert_models_answers(model, [silent, asking])


def test_what_the_prefix_cache_had_is_told_with_the_first_tokens() -> None:
    """They come four at once, where nothing but the last token of a prompt has to be computed."""
    _, own, (alone, *_) = engine_of()
    ours, theirs = Pipe()
    serving = threading.Thread(target=serve_until_closed, args=(own, theirs))
    serving.start()
    told = {}
    for name in ("first", "second"):
        ours.send(AddRequest(name, list(range(17)), 9, GREEDY, frozenset(), 100.0))
        tokens = []
        while not (tokens and tokens[-1][2]):
            assert ours.poll(60)
            outputs = ours.recv()
            told |= outputs.cached
            tokens += outputs.tokens
        assert len(tokens) == 9
    ours.send(Stop())
    serving.join(60)
    assert told == {"second": 16}
    assert alone.launches > 2


def serve_until_closed(own: Engine, connection: Connection) -> None:
    with pytest.raises(EOFError):
        serve(own, connection, GrammarCompiler(Spec("")))


@pytest.mark.parametrize(
    ("kernels", "megakernel", "most"),
    [
        ({1: 0.65, 2: 0.66, 4: 0.67, 8: 0.70}, {1: 0.57, 2: 0.60, 4: 0.66, 8: 0.71}, 4),
        ({1: 0.65, 2: 0.60, 4: 0.67}, {1: 0.57, 2: 0.61, 4: 0.60}, 1),
        ({1: 0.5}, {1: 0.6}, 0),
    ],
)
def test_the_crossing_is_the_most_up_to_which_the_megakernel_is_faster(kernels, megakernel, most) -> None:
    assert crossover_batch(kernels, megakernel) == most


@pytest.mark.parametrize(
    ("most", "free", "batches"),
    [
        (8, 1000, [1, 2, 4, 8]), (5, 1000, [1, 2, 4, 8]), (3, 1000, [1, 2, 4]), (1, 1000, [1]), (0, 1000, []),
        (8, 30, [1, 2]),
    ],
)  # fmt: skip
def test_the_smallest_instances_that_fit_are_built(most, free, batches) -> None:
    assert [*batches_within(most, free, lambda batch: 10 + batch)] == batches


def test_preparing_copies_a_row_to_each_instance_and_changes_no_page() -> None:
    _, own, instances = engine_of()
    megakernel = own.backends[0]
    for value in (megakernel.state.keys, megakernel.state.values):
        value.normal_()
    before = megakernel.state.keys.clone(), megakernel.state.values.clone()
    megakernel.prepare()
    assert torch.equal(megakernel.state.keys, before[0])
    assert torch.equal(megakernel.state.values, before[1])
    for instance in instances:
        ((keys, values),) = instance.caches
        assert torch.equal(keys[:, 0, 0], megakernel.state.keys[:, 0, 0])
        assert torch.equal(values[:, 0, 0], megakernel.state.values[:, 0, 0])


def test_what_the_server_chose_is_told() -> None:
    _, own, _ = engine_of()
    megakernel, kernels = own.backends
    megakernel.timed = {1: {"kernels": 0.9, "megakernel": 0.5}}
    here: dict[str, str | None] = {"device": "this one", "driver": None, "torch": "2.11"}
    result = building.serving_settings(own.backends, None, here)
    assert (result.basis, result.megakernel_up_to, result.token_ms) == (
        "measured",
        megakernel.max_num_seqs,
        megakernel.timed,
    )
    assert (result.max_model_len, result.max_num_seqs) == (kernels.limits.max_model_len, kernels.limits.max_num_seqs)
    assert result.device == "this one"
    assert building.serving_settings([kernels], result, here).token_ms == megakernel.timed
    assert building.serving_settings([kernels], None, here).megakernel_up_to == 0
    without = building.serving_settings([kernels], None, here, ["megakernel", "skinny"])
    assert (without.megakernel_up_to, without.exclude) == (None, ["skinny"])
