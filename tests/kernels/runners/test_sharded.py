"""A model sharded over two and four ranks, held against one rank: the same weights, the same answers."""

import multiprocessing
import resource
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from kernels import runners
from kernels.model import loading, tensor_parallel, weights
from kernels.model.decoder import Decoder
from kernels.model.device_map import layers_in_turn
from kernels.model.tensor_parallel import TensorParallelModel, shard_config
from kernels.model.tensor_parallel_modules import over_ranks
from kernels.proof.logit_gate import difference
from kernels.quant.quantised_matrix import STORED_ROWS, STORED_SCALES
from kernels.runners.eager import EagerRunner, Float32Runner
from kernels.runners.kernels_runner import KernelsRunner, KernelsSession, TensorParallelRunner
from tests.kernels.runners.engine_models import CONFIGS, SIZES

PROMPT, TOKENS = 19, 6
FOUR = CONFIGS["llama-bias"] | {"num_key_value_heads": 4}
MIXTURE = CONFIGS["qwen3-moe"] | {"num_key_value_heads": 4, "moe_intermediate_size": 32}
SHARDED = [
    (CONFIGS["llama"], 2), (CONFIGS["qwen2-window"], 2), (MIXTURE, 4), (CONFIGS["mixtral"], 2), (CONFIGS["olmoe"], 4),
    (CONFIGS["gpt-oss"], 2), (CONFIGS["qwen3"], 2), (FOUR, 4),
]  # fmt: skip
NAMES = [
    "llama-2", "qwen2-window-2", "qwen3-moe-4", "mixtral-2", "olmoe-4", "gpt-oss-2", "qwen3-2", "llama-bias-4"
]  # fmt: skip
LARGE = SIZES | {"model_type": "llama", "hidden_size": 512, "intermediate_size": 8192, "num_key_value_heads": 4}
SLACK = 32 * 2**20
"""Bytes that a process may hold beside its shards: the file that is mapped, 16 MiB at most, and a copied slice."""
TWO_GPUS = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")


def cpus(ranks: int) -> list[torch.device]:
    return [torch.device("cpu")] * ranks


def whole(config: dict[str, Any], dtype: str = "fp32", device: str = "cpu") -> Any:
    return runners.load(None, config, seed=3, generated=True, dtype=dtype, device=device)


def ids() -> torch.Tensor:
    return torch.randint(3, 300, (2, PROMPT + TOKENS), generator=torch.Generator().manual_seed(5))


def parameters(found: TensorParallelModel) -> Iterator[tuple[str, torch.Tensor]]:
    return (
        (f"{rank} {name}", own) for rank, shard in enumerate(found.shards) for name, own in shard.named_parameters()
    )


@pytest.mark.parametrize(("config", "ranks"), SHARDED, ids=NAMES)
def test_weights_are_slices_of_the_whole_models_wherever_they_come_from(config, ranks, tmp_path):
    """Made from the seed, read from files, or copied from a loaded model."""
    model = whole(config)
    model.save_pretrained(tmp_path / "one by one", max_shard_size="64KB")  # every expert alone, but of gpt-oss
    model.config.save_pretrained(tmp_path / "together")
    save_file(dict(model.named_parameters()), tmp_path / "together" / "model.safetensors")
    expected = dict(parameters(tensor_parallel.shard_model(model, cpus(ranks))))
    for result in (
        tensor_parallel.generate(config, cpus(ranks), "fp32", seed=3),
        *(tensor_parallel.read(folder, config, cpus(ranks), "fp32") for folder in tmp_path.iterdir()),
    ):
        assert [name for name, _ in parameters(result)] == list(expected)
        assert all(torch.equal(own, expected[name]) for name, own in parameters(result))
    mlp, own = model.model.layers[1].mlp, "model.layers.1.mlp"
    if not hasattr(mlp, "experts"):
        down = torch.cat([expected[f"{rank} {own}.down_proj.weight"] for rank in range(ranks)], dim=1)
        assert torch.equal(down, mlp.down_proj.weight)
    elif config["model_type"] != "gpt_oss":
        gate_up = [expected[f"{rank} {own}.experts.gate_up_proj"].chunk(2, dim=1) for rank in range(ranks)]
        assert torch.equal(
            torch.cat([*(gate for gate, _ in gate_up), *(up for _, up in gate_up)], dim=1), mlp.experts.gate_up_proj
        )
        down = torch.cat([expected[f"{rank} {own}.experts.down_proj"] for rank in range(ranks)], dim=2)
        assert torch.equal(down, mlp.experts.down_proj)
    heads = 1 if config["model_type"] == "olmoe" else ranks  # its norms are over all heads, so each rank has all
    key = torch.cat([expected[f"{rank} model.layers.1.self_attn.k_proj.weight"] for rank in range(heads)])
    assert torch.equal(key, model.model.layers[1].self_attn.k_proj.weight)


def test_a_part_keeps_the_scales_that_its_weights_were_stored_with(tmp_path: Path) -> None:
    """Those of its rows and of its groups of columns; a group that would be cut is left out."""
    config = FOUR | {"intermediate_size": 192}  # 96 columns on each of two, 48 on each of four
    model = whole(config)
    model.save_pretrained(tmp_path)
    stored = {}
    for name in ("self_attn.k_proj", "mlp.down_proj"):
        weight = model.get_parameter(f"model.layers.0.{name}.weight")
        stored[f"model.layers.0.{name}.weight"] = torch.rand(len(weight), -(-weight.shape[1] // 32)).half()
    save_file(stored, tmp_path / STORED_SCALES)
    key, down = stored.values()
    shards = [shard.model.layers[0] for shard in tensor_parallel.read(tmp_path, config, cpus(2), "fp32").shards]
    assert torch.equal(torch.cat([getattr(shard.self_attn.k_proj.weight, STORED_SCALES) for shard in shards]), key)
    assert torch.equal(torch.cat([getattr(shard.mlp.down_proj.weight, STORED_SCALES) for shard in shards], dim=1), down)
    cut = tensor_parallel.read(tmp_path, config, cpus(4), "fp32").shards[1].model.layers[0]
    assert not hasattr(cut.mlp.down_proj.weight, STORED_SCALES)
    assert hasattr(cut.self_attn.k_proj.weight, STORED_SCALES)


def test_a_part_keeps_the_scales_of_its_rows(tmp_path: Path) -> None:
    """A rank has some rows of k, and of down some columns of all rows."""
    model = whole(FOUR)
    model.save_pretrained(tmp_path)
    names = [f"model.layers.0.{name}.weight" for name in ("self_attn.k_proj", "mlp.down_proj")]
    stored = {name: torch.rand(len(model.get_parameter(name))) for name in names}
    save_file(stored, tmp_path / STORED_ROWS)
    shards = [shard.model.layers[0] for shard in tensor_parallel.read(tmp_path, FOUR, cpus(2), "fp32").shards]
    key, down = stored.values()
    assert torch.equal(torch.cat([getattr(shard.self_attn.k_proj.weight, STORED_ROWS) for shard in shards]), key)
    assert all(torch.equal(getattr(shard.mlp.down_proj.weight, STORED_ROWS), down) for shard in shards)


def test_a_box_is_made_as_the_whole_matrix_is_across_blocks_of_the_hash() -> None:
    config = LARGE | {"num_hidden_layers": 1}
    result, model = tensor_parallel.generate(config, cpus(4), "fp32", seed=3), whole(config)
    down = model.model.layers[0].mlp.down_proj.weight
    assert down.numel() > 2 * weights.BLOCK
    assert torch.equal(result.shards[3].model.layers[0].mlp.down_proj.weight, down[:, 6144:])
    up = model.model.layers[0].mlp.up_proj.weight
    assert torch.equal(result.shards[1].model.layers[0].mlp.up_proj.weight, up[2048:4096])


@torch.no_grad()
@pytest.mark.parametrize(("config", "ranks"), SHARDED, ids=NAMES)
def test_ranks_answer_as_one_does(config: Any, ranks: int) -> None:
    one, all_ranks = (
        KernelsRunner(whole(config)),
        TensorParallelRunner(tensor_parallel.generate(config, cpus(ranks), "fp32", seed=3)),
    )
    for runner in (one, all_ranks):
        runner.prepare(2, PROMPT, TOKENS)
    assert difference(all_ranks.logits(ids()), one.logits(ids())) < 1e-4
    assert all_ranks.generate(ids()[:, :PROMPT], TOKENS).tokens == one.generate(ids()[:, :PROMPT], TOKENS).tokens


@torch.no_grad()
@pytest.mark.parametrize(("config", "ranks"), [*SHARDED[:3], *SHARDED[4:6], SHARDED[-1]], ids=str)
def test_transformers_modules_over_the_parts_answer_as_the_whole_model(config: Any, ranks: int) -> None:
    """By `generate` too, whose cache is the first rank's and holds the others'; in bf16 by float32 arithmetic."""
    shards = tensor_parallel.generate(config, cpus(ranks), "fp32", seed=3)
    before = {name: own.clone() for name, own in parameters(shards)}
    one, ranked = EagerRunner(whole(config)), EagerRunner(over_ranks(shards))
    assert difference(ranked.logits(ids()), one.logits(ids())) < 1e-5
    for _ in range(2):
        assert ranked.generate(ids()[:, :PROMPT], TOKENS).tokens == one.generate(ids()[:, :PROMPT], TOKENS).tokens
    assert all(torch.equal(own, before[name]) for name, own in parameters(shards))
    rounded = over_ranks(tensor_parallel.generate(config, cpus(ranks), "bf16", seed=3))
    exact = Float32Runner(whole(config, "bf16")).logits(ids())
    assert difference(Float32Runner(rounded).logits(ids()), exact) < 1e-5


@torch.no_grad()
@pytest.mark.parametrize("generated", [True, False], ids=["generated", "from files"])
@pytest.mark.parametrize("config", [FOUR, CONFIGS["llama"] | {"tie_word_embeddings": True}], ids=["head", "tied"])
def test_layers_in_turn_answer_as_the_whole_model(config: Any, generated: bool, tmp_path: Path) -> None:
    """As `device_map` places them; the hooks that carry their inputs over stand in front of each layer."""
    model = whole(config)
    if not generated:
        model.save_pretrained(tmp_path)
    sizes = {"seed": 3, "dtype": "fp32", "device": "cpu", "pipeline_parallel_size": 2}
    in_turn = runners.load(tmp_path, config, generated=generated, **sizes)
    assert all(hasattr(layer, "_hf_hook") for layer in in_turn.model.layers) or not generated
    one, both = EagerRunner(model), EagerRunner(in_turn)
    assert torch.equal(both.logits(ids()), one.logits(ids()))
    assert both.generate(ids()[:, :PROMPT], TOKENS).tokens == one.generate(ids()[:, :PROMPT], TOKENS).tokens
    assert torch.equal(Float32Runner(in_turn).logits(ids()), one.logits(ids()))


def test_a_device_map_gives_each_device_as_many_layers_and_a_tied_head_its_embeddings() -> None:
    config = CONFIGS["llama"] | {"num_hidden_layers": 8}
    places = [torch.device("cuda", number) for number in range(4)]
    for tied in (False, True):
        device_map = layers_in_turn(loading.skeleton(config | {"tie_word_embeddings": tied}, "bf16"), places)
        layers = [device_map[f"model.layers.{index}"] for index in range(8)]
        assert layers == [f"cuda:{index // 2}" for index in range(8)]
        assert (device_map["model.embed_tokens"], device_map["model.norm"]) == ("cuda:0", "cuda:3")
        assert device_map["lm_head"] == ("cuda:0" if tied else "cuda:3")


@torch.no_grad()
@pytest.mark.parametrize(("config", "ranks"), SHARDED[-2:], ids=NAMES[-2:])
def test_division_rounds_no_more_than_one_rank_does(config: Any, ranks: int) -> None:
    """In bf16: all partial sums join the residual stream in float32."""
    wide = config | {"hidden_size": 256, "intermediate_size": 1024, "head_dim": 64}
    exact, model = whole(wide), whole(wide, "bf16")
    shards = tensor_parallel.shard_model(model, cpus(ranks))
    far = []
    for runner in (KernelsRunner(model), TensorParallelRunner(shards)):
        runner.prepare(2, PROMPT + TOKENS, 1)
        far.append(float((runner.logits(ids()).float() - exact(ids()).logits).norm()))
    assert far[1] <= 1.03 * far[0]


def test_the_decoder_joins_a_parts_matrices_without_a_copy() -> None:
    for shard in tensor_parallel.generate(CONFIGS["qwen2"], cpus(2), "fp32").shards:
        own, layer = shard.model.layers[0], Decoder(shard).layers[0]
        assert layer.qkv[0].data_ptr() == own.self_attn.q_proj.weight.data_ptr()
        assert layer.dense.gate_up[0].data_ptr() == own.mlp.gate_proj.weight.data_ptr()


def hold_one_rank(generated: bool, directory: Path) -> None:
    """A process that may hold one rank's shard and SLACK more, and is refused any byte beyond."""
    torch.set_num_threads(1)
    threading.stack_size(1 << 18)
    tensor_parallel.ThreadPoolExecutor = lambda _: ThreadPoolExecutor(1)  # type: ignore[attr-defined]  # ranks in turn
    torch.zeros(1).exp()
    weights.TOGETHER = 1 << 16
    shard = runners.describe(shard_config(LARGE, 4), "fp32").weight_bytes
    held = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmData"))
    most = int(held.split()[1]) * 1024 + shard + SLACK
    resource.setrlimit(resource.RLIMIT_DATA, (most, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    devices = [torch.device(name) for name in ("meta", "cpu", "meta", "meta")]
    made = tensor_parallel.load(directory, LARGE, devices, generated=generated, dtype="fp32")
    assert sum(parameter.nbytes for parameter in made.shards[1].parameters()) == shard


@pytest.mark.parametrize("generated", [True, False], ids=["generated", "from files"])
def test_a_device_holds_its_part_and_never_the_whole_model(generated: bool, tmp_path: Path) -> None:
    if not generated:
        whole(LARGE).save_pretrained(tmp_path, max_shard_size="16MB")
    size = runners.describe(LARGE, "fp32").weight_bytes
    assert runners.describe(shard_config(LARGE, 4), "fp32").weight_bytes + SLACK < 0.5 * size
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([__name__])
    started = processes.Process(target=hold_one_rank, args=(generated, tmp_path))
    started.start()
    started.join(240)
    code = started.exitcode
    started.kill()
    assert code == 0


@pytest.mark.parametrize(
    ("changes", "ranks", "said"),
    [
        ({}, 4, "num_key_value_heads 2: 4 GPUs need a multiple of 4"),
        ({"num_key_value_heads": 4, "intermediate_size": 162}, 4, "intermediate_size 162: 4 GPUs need a multiple of 4"),
        ({"model_type": "gpt2"}, 2, "model_type 'gpt2'"),
        (CONFIGS["qwen3-moe"] | {"num_key_value_heads": 4}, 4,
         "moe_intermediate_size 48: 4 GPUs need a multiple of 32"),
    ],
)  # fmt: skip
def test_a_model_that_does_not_divide_is_refused_by_its_feature(changes: Any, ranks: int, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tensor_parallel.generate(CONFIGS["llama"] | changes, cpus(ranks), "fp32")


def test_files_of_another_shape_are_refused_by_the_tensor(tmp_path: Path) -> None:
    whole(CONFIGS["llama"]).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"model\.embed_tokens\.weight has shape \[300, 64\]"):
        tensor_parallel.read(tmp_path, CONFIGS["llama"] | {"vocab_size": 310}, cpus(2), "fp32")
    with pytest.raises(ValueError, match=r"no safetensors file holds model\.layers\.3\."):
        tensor_parallel.read(tmp_path, CONFIGS["llama"] | {"num_hidden_layers": 4}, cpus(2), "fp32")


@TWO_GPUS
@pytest.mark.gpu
@torch.no_grad()
def test_two_gpus_answer_as_one_does() -> None:
    """Prompts and steps are one CUDA graph over both, and each GPU makes its own weights."""
    config = CONFIGS["qwen3"] | {"hidden_size": 512, "intermediate_size": 2048}
    one = KernelsRunner(whole(config, "bf16", "cuda"))
    both = TensorParallelRunner(
        tensor_parallel.generate(config, [torch.device("cuda", 0), torch.device("cuda", 1)], "bf16", seed=3)
    )
    exact = KernelsRunner(whole(config, "fp32", "cuda"))
    modules = EagerRunner(over_ranks(both._sharded))
    in_turn = EagerRunner(runners.load(None, config, seed=3, generated=True, pipeline_parallel_size=2))
    assert difference(in_turn.logits(ids().cuda()), EagerRunner(one.model).logits(ids().cuda())) < 1e-3
    assert len(in_turn.generate(ids()[:, :PROMPT].cuda(), TOKENS).tokens[0]) == TOKENS
    for runner in (one, both, exact, modules):
        runner.prepare(2, PROMPT, TOKENS)
    assert isinstance(both._session, KernelsSession)
    assert type(both._session.step).__name__ == "_Together"
    truth = exact.logits(ids().cuda())
    own, torchs, theirs = ((value.logits(ids().cuda()).float() - truth).norm() for value in (both, one, modules))
    assert own <= 1.1 * torchs
    assert theirs <= 1.5 * torchs  # the partial sums are rounded to bf16
    assert len(modules.generate(ids()[:, :PROMPT].cuda(), TOKENS).tokens[0]) == TOKENS
    made = both.generate(ids()[:, :PROMPT].cuda(), TOKENS).tokens
    for _ in range(50):
        assert both.generate(ids()[:, :PROMPT].cuda(), TOKENS).tokens == made
