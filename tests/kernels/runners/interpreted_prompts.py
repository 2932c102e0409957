"""The usual ops of a GPU's prompts in Triton's interpreter, on caches laid out as the megakernel's."""

import pytest
import torch

from kernels.hardware import GPUS
from kernels.model import prompts
from kernels.model.bound_variants import BoundVariants
from kernels.model.decoder import Decoder
from kernels.model.layer_ops import BatchShape, LayerOps
from kernels.model.prompt_ops import prompt_ops
from kernels.model.tensor_parallel import shard_model
from kernels.model.tensor_parallel_pass import RankShard, TensorParallelPrompts
from kernels.runners.sessions import DecoderSession
from tests.kernels.runners.engine_models import CONFIGS, load
from tests.kernels.runners.test_prompts import CAPACITY, TRITON, compare, prompt_of, stacked_state

ONE_LAYER = {"num_hidden_layers": 1}


@pytest.fixture(autouse=True)
def without_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run takes seconds in the interpreter; test_prompts.py repeats runs."""
    monkeypatch.setattr(prompts, "capture_graph", lambda function, _: function)
    monkeypatch.setattr(prompts, "capture_graph_of_several", lambda function, _: function)


@pytest.mark.parametrize(("name", "batch"), [("qwen2", 2), ("gpt-oss", 1)])
def test_usual_ops(name: str, batch: int) -> None:
    config = CONFIGS[name] | ONE_LAYER
    loaded = load(config, dtype="fp16")
    model, gpu = Decoder(loaded), GPUS["a100"]
    ops = prompt_ops(LayerOps(model, BatchShape(batch, 40, 8)), gpu)
    assert {op.variant for op in ops} >= {*TRITON, "flash_triton"}
    variants = BoundVariants(ops, gpu)
    with torch.no_grad():
        compare(model, variants, prompt_of(batch, 40), whole=False, tolerance=0.02)
    assert {bound.variant.name for bound in variants._found.values() if bound} >= {*TRITON, "flash_triton"}


@torch.no_grad()
def test_usual_ops_of_two_ranks() -> None:
    """Each rank's by its own sizes; together they leave the cache and the token that one leaves."""
    loaded = load(CONFIGS["qwen3"] | ONE_LAYER, dtype="fp16")
    gpu, ids, whole = GPUS["a100"], prompt_of(1, 40), Decoder(loaded)
    session = DecoderSession(whole, 1, 40, CAPACITY, lambda function: function)
    session.prompt.copy_(ids)
    session._prefill()
    ranks = []
    for shard in shard_model(loaded, [torch.device("cpu")] * 2).shards:
        own = Decoder(shard)
        variants = BoundVariants(prompt_ops(LayerOps(own, BatchShape(1, 40, 8)), gpu, sharded=True), gpu)
        ranks.append(RankShard(own, variants, stacked_state(own, 1)))
    reader = TensorParallelPrompts(ranks, whole=False)
    reader.read(ids)
    for layer, expected in enumerate(session._cache):
        for which in (0, 1):
            result = torch.cat([rank.state.cache[layer][which][:, :40] for rank in ranks], dim=2)
            torch.testing.assert_close(result, expected[which][:, :40], atol=0.02, rtol=0.02)
    assert torch.equal(reader.state.token, session.token)
    for rank in ranks:
        assert {bound.variant.name for bound in rank.variants._found.values() if bound} >= {*TRITON, "flash_triton"}
