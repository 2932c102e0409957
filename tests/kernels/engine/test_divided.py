"""The kernels runner over two and four processes, held against one process; weights are read by slices."""

import json
import multiprocessing
import os
import resource
from pathlib import Path
from typing import Any

import pytest
import torch

from kernels import engine
from kernels.engine.divided import DividedRunner, group, load_part, part_of_config
from kernels.engine.kernels_runner import KernelsRunner
from kernels.proof.logit_gate import difference, refusal
from tests.kernels.engine.engine_models import CONFIGS, SIZES

PROMPT, TOKENS = 19, 6
FOUR = CONFIGS["llama-bias"] | {"num_key_value_heads": 4}
LARGE = SIZES | {"model_type": "llama", "hidden_size": 512, "intermediate_size": 8192, "num_key_value_heads": 4}
SLACK = 32 * 2**20
"""Bytes that a rank may hold beside its part: the file that is mapped, 16 MiB at most, and a copied slice."""
CPU = torch.device("cpu")


def saved(directory: Path, config: dict[str, Any]) -> torch.nn.Module:
    """The model of the configuration, whose files are left in the directory."""
    model: Any = engine.load(None, config, generated=True, dtype="fp32", device="cpu")
    model.save_pretrained(directory, max_shard_size="64KB")
    (directory / "ours.json").write_text(json.dumps(config))
    return model  # type: ignore[no-any-return]


def ids() -> torch.Tensor:
    return torch.randint(3, 300, (2, PROMPT + TOKENS), generator=torch.Generator().manual_seed(5))


def be_rank(rank: int, ranks: int, directory: Path) -> None:
    """A process: loads its part, answers a request, and leaves ids, times and logits."""
    torch.set_num_threads(1)
    config = json.loads((directory / "ours.json").read_text())
    with group(rank, ranks, CPU, f"file://{directory}/meeting"):
        runner = DividedRunner(load_part(directory, config, rank, ranks, "fp32", CPU))
        runner.prepare(2, PROMPT, TOKENS)
        found = runner.generate(ids()[:, :PROMPT], TOKENS)
        logits = runner.logits(ids())
    times = [(at - found.start_ns) / 1e6 for at in found.times_ns]
    torch.save({"tokens": found.tokens, "ms": times, "logits": logits}, directory / f"rank-{rank}.pt")


def load_within_bounds(rank: int, ranks: int, directory: Path) -> None:
    """A process that may hold its part and SLACK more, and not the whole model: it is refused any byte beyond."""
    torch.set_num_threads(1)
    torch.zeros(1).exp()
    config = json.loads((directory / "ours.json").read_text())
    part = engine.describe(part_of_config(config, ranks), "fp32").weight_bytes
    held = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmData"))
    most = int(held.split()[1]) * 1024 + part + SLACK
    resource.setrlimit(resource.RLIMIT_DATA, (most, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    model = load_part(directory, config, rank, ranks, "fp32", CPU)
    assert sum(each.nbytes for each in model.parameters()) == part


@pytest.fixture(scope="module")
def processes() -> Any:
    """Processes that begin with the libraries imported."""
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload([__name__])
    return made


def run_ranks(processes: Any, body: Any, ranks: int, directory: Path) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    started = [processes.Process(target=body, args=(rank, ranks, directory)) for rank in range(ranks)]
    for each in started:
        each.start()
    for each in started:
        each.join(240)
    codes = [each.exitcode for each in started]
    for each in started:
        each.kill()
    assert codes == [0] * ranks


@pytest.mark.parametrize(("config", "ranks"), [(CONFIGS["qwen3"], 2), (FOUR, 4)], ids=["qwen3-2", "llama-bias-4"])
def test_ranks_answer_as_one_process_does(config: Any, ranks: int, tmp_path: Path, processes: Any) -> None:
    one = KernelsRunner(saved(tmp_path, config))
    one.prepare(2, PROMPT, TOKENS)
    expected, tokens = one.logits(ids()), one.generate(ids()[:, :PROMPT], TOKENS).tokens
    run_ranks(processes, be_rank, ranks, tmp_path)
    found = [torch.load(tmp_path / f"rank-{rank}.pt") for rank in range(ranks)]
    for each in found:
        assert refusal(difference(each["logits"], expected), "fp32") is None
        assert difference(each["logits"], expected) < 1e-4
        assert each["tokens"] == tokens
        assert torch.equal(each["logits"], found[0]["logits"])
        assert len(each["ms"]) == TOKENS
        assert 0 < each["ms"][0] <= each["ms"][-1]


def test_a_rank_holds_its_part_and_never_the_whole_model(tmp_path: Path, processes: Any) -> None:
    whole = sum(each.nbytes for each in saved(tmp_path, LARGE).parameters())
    assert engine.describe(part_of_config(LARGE, 4), "fp32").weight_bytes + SLACK < 0.5 * whole
    run_ranks(processes, load_within_bounds, 4, tmp_path)


@pytest.mark.parametrize(
    ("changes", "ranks", "said"),
    [
        ({}, 4, "num_key_value_heads 2: 4 GPUs need a multiple of 4"),
        ({"num_key_value_heads": 4, "intermediate_size": 162}, 4, "intermediate_size 162: 4 GPUs need a multiple of 4"),
        ({"model_type": "gpt2"}, 2, "model_type 'gpt2'"),
    ],
)
def test_a_model_that_does_not_divide_is_refused_by_its_feature(changes: Any, ranks: int, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        part_of_config(CONFIGS["llama"] | changes, ranks)


def test_files_of_another_shape_are_refused_by_the_tensor(tmp_path: Path) -> None:
    saved(tmp_path, CONFIGS["llama"])
    with pytest.raises(ValueError, match=r"model\.embed_tokens\.weight has shape \[300, 64\]"):
        load_part(tmp_path, CONFIGS["llama"] | {"vocab_size": 310}, 0, 2, "fp32", CPU)
    with pytest.raises(ValueError, match=r"no safetensors file holds model\.layers\.3\."):
        load_part(tmp_path, CONFIGS["llama"] | {"num_hidden_layers": 4}, 0, 2, "fp32", CPU)


def test_lower_precision_is_not_divided() -> None:
    model = engine.load(None, CONFIGS["llama"], generated=True, dtype="fp32", device="cpu")
    with pytest.raises(ValueError, match="weights: a model that is divided"):
        DividedRunner(model, {"weights": "fp8"})
