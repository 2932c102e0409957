"""Eager and compiled runners give the same tokens, one timestamp each; logits are transformers' own."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from kernels import runners
from kernels.model.decoder import Decoder
from kernels.runners import Generation
from kernels.runners.compiled import CompiledRunner
from kernels.runners.eager import EagerRunner
from tests.kernels.runners.engine_models import COMPACT, CONFIGS, SPARSE, load
from tests.workers.conftest import TINY

DECODERS = [name for name in CONFIGS if name != "bert"]
UNCOMPILED = {"compile": False}
COMPILED = set(COMPACT) - set(SPARSE)
"""Families that the compiled runner runs as the compact decoder."""


def assert_clock(done: Generation, tokens: int) -> None:
    assert len(done.times_ns) == tokens
    assert done.start_ns < done.times_ns[0]
    assert all(a < b for a, b in zip(done.times_ns, done.times_ns[1:], strict=False))


@pytest.mark.parametrize("name", DECODERS)
def test_static_cache_gives_the_tokens_and_forced_logits_of_transformers(name: str, random_ids: torch.Tensor) -> None:
    model, prompt = load(name), random_ids[:, :20]
    eager, runner = EagerRunner(model), CompiledRunner(model, UNCOMPILED)
    before, expected = eager.generate(prompt, 8), eager.logits(random_ids)
    runner.prepare(2, 20, 8)
    assert type(runner._session).__name__ == ("DecoderSession" if name in COMPILED else "ModuleSession")
    done = runner.generate(prompt, 8)
    assert done.tokens == before.tokens
    assert [len(row) for row in done.tokens] == [8, 8]
    assert_clock(before, 8)
    assert_clock(done, 8)
    torch.testing.assert_close(runner.logits(random_ids), expected, atol=2e-4, rtol=1e-4)
    torch.testing.assert_close(runner.logits(random_ids[:, :7]), expected[:, :7], atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "linear"),
    [("llama", None), ("llama-bias", F.linear), ("phi3", F.linear), ("qwen3-moe", None), ("gpt-oss", F.linear)],
)
def test_a_later_decoder_moves_no_weight_that_a_graph_reads(name: str, linear: Any) -> None:
    """A graph stores addresses. On a GPU weights that moved were read where nothing was any more."""
    model = load(name)
    CompiledRunner(model, UNCOMPILED, linear=linear).prepare(1, 8, 4)
    before = {key: each.data_ptr() for key, each in model.named_parameters()}
    Decoder(model)
    assert {key: each.data_ptr() for key, each in model.named_parameters()} == before


def test_packing_holds_no_weight_twice(random_ids: torch.Tensor) -> None:
    model = load("llama")
    runner = CompiledRunner(model, UNCOMPILED)
    runner.generate(random_ids[:, :20], 2)
    layer, packed = model.model.layers[0], runner._session.model.layers[0]
    assert layer.mlp.gate_proj.weight.data_ptr() == packed.dense.gate_up[0].data_ptr()
    assert layer.self_attn.v_proj.weight.untyped_storage().data_ptr() == packed.qkv[0].untyped_storage().data_ptr()


@pytest.mark.slow
def test_inductor_changes_no_token(random_ids: torch.Tensor) -> None:
    """Of one layer in the shapes of workers/stages/test_shared_model.py: Inductor compiles them for both."""
    model, prompt = load(TINY), random_ids[:1, :16] % TINY["vocab_size"]
    runner = runners.runner("compiled", model)
    runner.prepare(1, 16, 8)
    done = runner.generate(prompt, 8)
    assert done.tokens == EagerRunner(model).generate(prompt, 8).tokens
    assert_clock(done, 8)
    ids = random_ids[:1] % TINY["vocab_size"]
    torch.testing.assert_close(runner.logits(ids), EagerRunner(model).logits(ids), atol=5e-4, rtol=1e-3)


def test_end_of_text_does_not_end_a_generation(random_ids: torch.Tensor) -> None:
    model = load("llama")
    first = EagerRunner(model).generate(random_ids[:1, :8], 1).tokens[0][0]
    model.config.eos_token_id = first
    model.generation_config.eos_token_id = first
    assert len(EagerRunner(model).generate(random_ids[:1, :8], 5).tokens[0]) == 5


def test_an_unprepared_shape_is_prepared_first(random_ids: torch.Tensor) -> None:
    runner = CompiledRunner(load("qwen2"), UNCOMPILED)
    runner.prepare(1, 8, 4)
    assert len(runner.generate(random_ids, 100).tokens[1]) == 100


@pytest.mark.parametrize("options", [UNCOMPILED, {"eager": True}])
def test_an_encoder_gives_one_time_per_batch(options: dict[str, bool], random_ids: torch.Tensor) -> None:
    model = load("bert")
    runner = EagerRunner(model) if options.get("eager") else CompiledRunner(model, options)
    runner.prepare(2, 26, 1)
    assert_clock(runner.encode(random_ids), 1)
    torch.testing.assert_close(runner.logits(random_ids), model(input_ids=random_ids).logits)


def test_an_unknown_runner_is_named() -> None:
    with pytest.raises(ValueError, match="there is no 'faster' runner; there are eager, compiled"):
        runners.runner("faster", load("llama"))


@pytest.mark.gpu
@pytest.mark.parametrize("options", [{}, UNCOMPILED, {"inductor": {"coordinate_descent_tuning": True}}])
@pytest.mark.parametrize("name", ["llama", "qwen2-window", "gemma3"])
def test_graphs_on_a_gpu_give_the_tokens_of_transformers(name: str, options: Any, random_ids: torch.Tensor) -> None:
    model = load(name, device="cuda")
    prompt = random_ids[:1, :20].cuda()
    runner = CompiledRunner(model, options)
    runner.prepare(1, 20, 16)
    done = runner.generate(prompt, 16)
    assert done.tokens == EagerRunner(model).generate(prompt, 16).tokens
    assert_clock(done, 16)
    expected = EagerRunner(model).logits(random_ids[:1].cuda())
    torch.testing.assert_close(runner.logits(random_ids[:1].cuda()), expected, atol=2e-3, rtol=1e-3)


RUNNERS: dict[str, dict[str, Any]] = {"eager": {}, "compiled": {"compile": False}, "kernels": {}}


@pytest.mark.parametrize("name", RUNNERS)
def test_a_request_without_ids_or_tokens_is_refused(name: str) -> None:
    model = load("llama", seed=1)
    runner = runners.runner(name, model, RUNNERS[name])
    ids = torch.ones(1, 5, dtype=torch.int64)
    for prompt in (ids[:, :0], ids[:0], ids[0], ids.float()):
        with pytest.raises(ValueError, match=r"^prompt: "):
            runner.generate(prompt, 4)
    for tokens in (0, -1):
        with pytest.raises(ValueError, match=r"^tokens: "):
            runner.generate(ids, tokens)


ANSWERS = {
    "model_type": "bert", "architectures": ["BertForQuestionAnswering"], "hidden_size": 32, "intermediate_size": 64,
    "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 300, "max_position_embeddings": 64,
}  # fmt: skip


@torch.no_grad()
@pytest.mark.parametrize("call", ["logits", "encode"])
def test_an_answer_to_a_question_has_a_start_and_an_end(call):
    model = runners.load(None, ANSWERS, generated=True, dtype="fp32", device="cpu")
    runner, ids = runners.runner("eager", model), torch.arange(32).reshape(2, 16)
    output = runner.logits(ids) if call == "logits" else runner.encode(ids).output
    assert output is not None
    expected = model(input_ids=ids)
    assert output.shape == (2, 2, 16)
    assert torch.equal(output[:, 0], expected.start_logits)
    assert torch.equal(output[:, 1], expected.end_logits)
