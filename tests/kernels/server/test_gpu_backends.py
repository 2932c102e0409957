"""On a Hopper GPU: both backends of one engine, and both arrangements of attention."""

import json
import random
from typing import Any

import pytest
import torch

from benchmarks import quantised_model
from kernels import registry, runners
from kernels.dequantising.convert import convert
from kernels.hardware import GPUS
from kernels.model import tensor_parallel, written_model
from kernels.model.decoder import Decoder
from kernels.model.loading import skeleton
from kernels.model_files import catalogue, files_at
from kernels.ops import case_from
from kernels.ops.sampling import GREEDY, Sampling
from kernels.proof import gate
from kernels.proof.logit_gate import MAX_DIFFERENCE
from kernels.server.execution import backend, building
from kernels.server.execution.backend import KernelsBackend
from kernels.server.execution.engine import Engine
from kernels.server.execution.ops import Usable, packed_ops
from kernels.server.execution.server_config import ServerConfig
from kernels.server.execution.shapes import PassShape
from kernels.server.execution.sizing import RequestedSize
from kernels.server.scheduler.requests import Request
from tests.kernels.megakernel.on_gpu import models
from tests.kernels.megakernel.tiny_models import GPU_CONFIGS, round_experts
from tests.kernels.runners.test_gpu_experts import EVERY, GPT_OSS
from tests.kernels.server.answers import assert_models_answers, run_all

pytestmark = pytest.mark.gpu
TWO_GPUS = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")


def requests_of(
    draw: random.Random, vocab: int, count: int, lengths=(1, 17, 128, 300), answers=(3, 20, 70), **kwargs: Any
) -> list[Request]:
    """Requests of drawn lengths; `kwargs` gives further fields by a request's number."""
    return [
        Request(
            str(number),
            [draw.randrange(vocab) for _ in range(draw.choice(lengths))],
            draw.choice(answers),
            **{name: of(number) for name, of in kwargs.items()},
        )
        for number in range(count)
    ]


@pytest.mark.parametrize(
    ("family", "weights", "at_once", "devices"),
    [
        ("llama", "", 12, None), ("qwen2", "", 12, None), ("qwen3", "", 12, None), ("llama", "int8", 12, None),
        ("qwen2", "int8", 24, None), ("llama", "int4", 24, None), ("llama", "", 12, [0, 0]),
        ("llama", "int8", 12, [0, 0]), pytest.param("llama", "", 12, [0, 1], marks=TWO_GPUS),
        pytest.param("qwen3", "", 12, [0, 1], marks=TWO_GPUS),
        pytest.param("llama", "int4", 12, [0, 1], marks=TWO_GPUS),
    ],
)  # fmt: skip
def test_both_backends_give_the_models_answers(family, weights, at_once, devices, monkeypatch):
    """24 requests of unequal lengths come and go: the megakernel takes up to 8 of them."""
    monkeypatch.setattr(building, "crossover_batch", lambda *args: 8)
    from triton import knobs

    model, _ = models(GPU_CONFIGS[family])
    draw, vocab = random.Random(1), GPU_CONFIGS[family]["vocab_size"]
    if devices is None:
        served = model
    else:
        served = tensor_parallel.shard_model(model, [torch.device("cuda", number) for number in devices])
    own = Engine(building.build_backends(served, ServerConfig(RequestedSize(512, at_once), weights=weights)))
    assert len(own.backends) == 2
    streams = [instance._machine.ranks[-1].packed[0].data_ptr() for instance in own.backends[0].instances]
    assert (len(streams), len(set(streams))) in ((4, 1), (4, 2))  # one sequence may have a layout of its own
    requests = requests_of(draw, vocab, 24, sampling=lambda at: Sampling(0.9, 50, seed=at) if at % 6 == 5 else GREEDY)
    compiled: list[str] = []
    monkeypatch.setattr(knobs.runtime, "jit_cache_hook", lambda *, key, repr, **kwargs: bool(compiled.append(repr)))
    waiting = list(requests)
    while waiting or not own.idle:
        if waiting and draw.random() < 0.3:
            own.add(waiting.pop())
        own.run_step()
    assert not compiled
    assert min(own.steps_of) > 5
    assert [request.answered for request in requests] == [request.max_tokens for request in requests]
    assert_models_answers(model, [request for request in requests if request.sampling.greedy], weights or "bf16")


@pytest.mark.parametrize("family", ["llama", "qwen2"])
@pytest.mark.parametrize("devices", [None, [0, 0], pytest.param([0, 1], marks=TWO_GPUS)])
def test_a_checkpoint_in_fp8_gives_the_models_answers(family, devices, tmp_path, monkeypatch):
    """By its own codes: 32 requests that share passes, and 8 by the megakernel."""
    monkeypatch.setattr(building, "crossover_batch", lambda *args: 8)
    generated, _ = models(GPU_CONFIGS[family])
    plain, stored, folder = (tmp_path / name for name in ("plain", "fp8", "bf16"))
    written_model.write(generated, plain)
    quantised_model.write(plain, stored, quantised_model.FORMATS["fp8"], "cuda")
    folder.mkdir()
    convert(files_at(stored), folder)
    config = json.loads((folder / "config.json").read_text())
    served = model = runners.load(folder, config, dtype="bf16", device="cuda")
    if devices is not None:
        served = tensor_parallel.read(folder, config, [torch.device("cuda", number) for number in devices], "bf16")
    megakernel, kernels = building.build_backends(served, ServerConfig(RequestedSize(512, 32), weights="fp8"))
    first = [(shape, next(iter(kernels._arrangements(shape).values()))) for shape in kernels.shapes]
    chosen = {(op.variant, shape.rows > 16) for shape, ops in first for op in ops if op.variant.endswith("_fp8")}
    assert chosen == {("skinny_fp8", False), ("small_gemm_fp8", True)}
    draw, vocab = random.Random(6), config["vocab_size"]
    requests = requests_of(draw, vocab, 40, (1, 17, 128))
    run_all(Engine([kernels]), requests[:32])
    few = Engine([megakernel, kernels])
    run_all(few, requests[32:])
    assert few.steps_of[0]
    assert_models_answers(model, requests)


@pytest.mark.parametrize(
    ("config", "devices", "scaled"),
    [
        (GPU_CONFIGS["llama"], None, False), (GPU_CONFIGS["llama"], None, True), (GPU_CONFIGS["qwen2"], None, False),
        (GPU_CONFIGS["qwen3"], None, False), (GPT_OSS, None, False), (GPU_CONFIGS["llama"], [0, 0], False),
        pytest.param(GPU_CONFIGS["qwen3"], [0, 1], False, marks=TWO_GPUS),
    ],
    ids=["llama", "llama with scales", "qwen2", "qwen3", "gpt-oss", "llama in two parts", "qwen3 over two"],
)  # fmt: skip
def test_pages_in_fp8_give_the_models_answers(config, devices, scaled):
    """Some begin from the prefix cache; scales make the largest keys and values some 100."""
    model = runners.load(None, config, seed=0, generated=True, dtype="bf16", device="cuda")
    for layer in model.model.layers if scaled else ():
        layer.self_attn.k_scale = torch.tensor([0.05])
        layer.self_attn.v_scale = torch.linspace(0.02, 0.05, model.config.num_key_value_heads)
    draw, vocab, served = random.Random(4), config["vocab_size"], model
    if devices is not None:
        served = tensor_parallel.shard_model(model, [torch.device("cuda", number) for number in devices])
    wanted = RequestedSize(512, 12, kv_cache_dtype="fp8")
    (kernels,) = building.build_backends(served, ServerConfig(wanted, exclude=["megakernel"]))
    assert isinstance(kernels, KernelsBackend)
    for shape in kernels.shapes:
        variants = {op.variant for op in kernels._arrangements(shape)["separate"]}
        assert variants >= {"rope_triton", "decode_split"}
    common = [draw.randrange(vocab) for _ in range(64)]
    requests = [
        Request(
            str(number),
            common[: draw.choice((0, 64))] + [draw.randrange(vocab) for _ in range(draw.choice((1, 17, 128, 300)))],
            draw.choice((3, 20, 70)),
        )
        for number in range(24)
    ]
    run_all(Engine([kernels]), requests)
    assert max(request.num_cached_tokens for request in requests) >= 64
    assert_models_answers(model, requests, "fp8")


def test_the_kernels_of_pages_in_fp8_pass_the_gate():
    """As the passes of a server have them: rotation with append, decodes, and blocks of chunks."""
    config = catalogue.entry("llama-3.2-1b")[0]
    decoder = Decoder(skeleton(config, "bf16"))
    block, gpu = backend.block_of(decoder, "fp8"), GPUS["h200"]
    for shape in (PassShape(1, 0, block, 0), PassShape(32, 16, block, 4)):
        ops = packed_ops(decoder, shape, 16, 1024, Usable(gpu, kv_dtype="fp8"))
        result = [op for op in ops if op.op in ("rope", "attention")]
        assert [op.variant for op in result] == ["rope_triton", *["decode_split"] * (1 + bool(shape.blocks))]
        for op in result:
            case = case_from.validate_python(op.case)
            report = gate.check(registry.variant(op.variant), case, "cuda", op.params)
            assert report.passed, f"{case.key}: {report.sentence}"


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_steps_that_end_with_a_head_give_the_models_answers(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Greedy answers are the model's, and a drawn token is one of those that its request keeps."""
    ms = KernelsBackend._ms
    monkeypatch.setattr(
        KernelsBackend,
        "_ms",
        lambda self, shape, graph, *how, **kwargs: ms(self, shape, graph, *how, **kwargs) + (not graph.one_pass.head),
    )
    config = GPU_CONFIGS["llama"]
    model = runners.load(None, config, seed=1, generated=True, dtype=dtype, device="cuda")
    draw, vocab, drawing = random.Random(3), config["vocab_size"], {*range(12, 20)} - {15}
    (kernels,) = building.build_backends(model, ServerConfig(RequestedSize(512, 12), exclude=["megakernel"]))
    assert isinstance(kernels, KernelsBackend)
    assert len(kernels.timed_heads) == 10  # both heads for 1, 2, 4, 8 and 12 decodes
    taken, drawn = set(), backend.sampling_kinds
    monkeypatch.setattr(backend, "sampling_kinds", lambda step: taken.add(found := drawn(step)) or found)
    own = Engine([kernels])

    def sampled(number: int) -> Sampling:
        return Sampling(0.9, draw.choice((1, 5, 20, 50)), 0.95, number) if number in drawing else GREEDY

    requests = requests_of(draw, vocab, 20, (1, 17, 128), (40,), sampling=sampled)
    run_all(own, requests)
    assert taken >= {"argmax", "top_k_p"}
    assert_models_answers(model, [request for request in requests if request.sampling.greedy], dtype)
    eager = runners.runner("eager", model)
    for item in (request for request in requests if not request.sampling.greedy):
        ids, length = torch.tensor([item.ids], device="cuda"), item.prompt_length
        logits = eager.logits(ids)[0, length - 1 : -1].float()
        least = logits.topk(item.sampling.top_k).values[:, -1] - 2 * MAX_DIFFERENCE[dtype] * logits.std(-1)
        assert bool((logits.gather(1, ids[0, length:, None])[:, 0] >= least).all())


@pytest.mark.parametrize(
    ("config", "devices", "weights", "up_to"),
    [
        (EVERY, None, "", 0), (GPT_OSS, None, "", 0), (GPT_OSS, None, "", 4), (GPT_OSS, None, "mxfp4", 4),
        pytest.param(EVERY, [0, 1], "", 4, marks=TWO_GPUS), pytest.param(GPT_OSS, [0, 1], "", 4, marks=TWO_GPUS),
    ],
    ids=["qwen3-moe", "gpt-oss", "gpt-oss few", "gpt-oss few mxfp4", "qwen3-moe over two", "gpt-oss over two"],
)  # fmt: skip
def test_a_mixture_of_experts_is_served(config, devices, weights, up_to, monkeypatch):
    """Graphs of single and mixed steps; the megakernel takes up to so many sequences."""
    monkeypatch.setattr(building, "crossover_batch", lambda *args: up_to)
    model = runners.load(None, config, seed=0, generated=True, dtype="bf16", device="cuda")
    draw, vocab, served = random.Random(3), config["vocab_size"], model
    if devices is not None:
        served = tensor_parallel.shard_model(model, [torch.device("cuda", number) for number in devices])
    if weights:
        round_experts(model)
    own = Engine(building.build_backends(served, ServerConfig(RequestedSize(512, 12), weights=weights)))
    assert len(own.backends) == 1 + bool(up_to)
    requests = requests_of(draw, vocab, 20, (1, 17, 300), (3, 40))
    run_all(own, requests)
    assert_models_answers(model, requests)


def test_log_probabilities_of_captured_passes_are_the_models() -> None:
    """20 requests, 12 at once, half of which ask: rows are read behind the graphs of mixed and of single steps."""
    model, _ = models(GPU_CONFIGS["llama"])
    draw, vocab = random.Random(2), GPU_CONFIGS["llama"]["vocab_size"]
    own = Engine(building.build_backends(model, ServerConfig(RequestedSize(512, 12), exclude=["megakernel"])))
    fields = {"sampling": lambda number: Sampling(0.9, seed=number) if number % 3 else GREEDY}
    requests = requests_of(draw, vocab, 20, logprobs=lambda number: 5 if number % 2 else None, **fields)
    tokens = run_all(own, requests)
    eager = runners.runner("eager", model)
    for request in requests:
        logprobs = [token.logprobs for token in tokens if token.request is request]
        if request.logprobs is None:
            assert logprobs == [None] * request.max_tokens
            continue
        logits = eager.logits(torch.tensor([request.ids], device="cuda"))[0, request.prompt_length - 1 : -1].float()
        limit = 2 * MAX_DIFFERENCE["bf16"] * float(logits.std(-1).max())
        rows = logits.log_softmax(-1).tolist()
        for result, row, token in zip(logprobs, rows, request.ids[request.prompt_length :], strict=True):
            assert result.own == pytest.approx(row[token], abs=limit)
            assert [value for _, value in result.likeliest] == pytest.approx(
                [row[at] for at, _ in result.likeliest], abs=limit
            )
