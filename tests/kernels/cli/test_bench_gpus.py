"""`bench decode --tensor-parallel-size`: which runners are measured on several GPUs, and what their cases say."""

import time
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from kernels import registry, runners
from kernels.__main__ import main
from kernels.cli import bench_decode, bench_decode_run
from kernels.cli.bench_decode import Options, _bench_targets
from kernels.cli.bench_decode_run import DecodeRun, Exact, ReferenceOutputs, compare, judge
from kernels.cli.bench_document import BenchRow
from kernels.cli.bench_experts import count_choices, with_experts
from kernels.cli.bench_lines import row_line
from kernels.hardware import GPUS
from kernels.measure.intervals import across_processes, median_interval
from kernels.measure.latency import ServedBatch
from kernels.model import tensor_parallel
from kernels.model.model_case import case_of_shapes
from kernels.model.tensor_parallel import TensorParallelModel
from kernels.model_files import catalogue
from kernels.ops import ModelCase
from kernels.runners import Generation
from kernels.runners.eager import EagerRunner
from tests.kernels.runners import vllm_stand_in


def test_bench_decode_adds_the_megakernel_on_several_gpus():
    """Beside one GPU's rows; each of two reads half, and no peer is offered on two."""
    case = ModelCase(model="llama-3.2-1b", batch=1, prompt=128, tokens=64, parameters=1000, bytes_per_token=2000)
    alone, both = (_bench_targets(case, Options(tensor_parallel_sizes=gpus), GPUS["h200"]) for gpus in ((), (1, 2)))
    more = [(each.name, own.gpus, own.step_bytes) for each, own in both if (each, own) not in alone]
    assert len(both) == len(alone) + 6
    lower = {"int8": 531.25, "fp8": 500, "nvfp4": 281.25, "mxfp4": 1000, "int4": 281.25}
    assert more == [("megakernel", 2, 1000), *((f"megakernel_{name}", 2, size) for name, size in lower.items())]
    assert all(own.gpus is None and "gpus=" not in own.key for _, own in alone)


def test_a_model_larger_than_one_gpu_is_measured_in_shards_alone(monkeypatch):
    """One variant after the other, which may round its shards; a row says what too few GPUs leave out."""
    config, _ = catalogue.entry("llama-3.1-70b")
    case = case_of_shapes(config, "llama-3.1-70b", "bf16", 1, 128, 64)
    assert case.parameters == 70_553_706_496 - 128256 * 8192
    wanted = _bench_targets(
        case, Options(tensor_parallel_sizes=(1, 2, 4), runners=["megakernel", "megakernel_fp8"]), GPUS["h200"]
    )
    made = [TensorParallelModel(config, []) for _ in range(2)]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(tensor_parallel, "generate", lambda config, devices, dtype, seed: made[len(measured) - 1])
    measured = []

    def measure(model, own):
        measured.append((model, own))
        ((variant, alone),) = own
        facts = alone.model_dump(exclude_none=True)
        yield BenchRow(op="model", case=facts, variant=variant.name, params={}, peer=False, gate="pass")

    rows = list(bench_decode_run.rows(config, wanted, measure))
    assert sorted((row.variant, row.case.get("gpus", 1), row.gate) for row in rows) == [
        ("megakernel", 1, "error"), ("megakernel", 2, "pass"), ("megakernel", 4, "error"),
        ("megakernel_fp8", 1, "error"), ("megakernel_fp8", 2, "pass"), ("megakernel_fp8", 4, "error"),
    ]  # fmt: skip
    assert {row.case.get("gpus", 1): row.reason for row in rows if row.gate == "error"} == {
        1: "It could not run: one GPU does not hold the model; `--tensor-parallel-size 2` measures it over two",
        4: "It could not run: tensor_parallel_size: 4 GPUs are wanted, and 2 can be seen here",
    }


def test_a_mixture_is_measured_on_one_gpu_and_then_in_shards(monkeypatch):
    """One after the other, since the GPU has no room for both; routers of shards are taken to choose evenly."""
    config, _ = catalogue.entry("tiny-qwen3-moe")
    case = case_of_shapes(config, "tiny-qwen3-moe", "bf16", 1, 128, 64)
    wanted = _bench_targets(case, Options(tensor_parallel_sizes=(2,), runners=["megakernel"]), GPUS["h200"])
    seen = []

    def measure(model, own):
        seen.append((len(tensor_parallel.shards_of(model)), own[0][1].gpus))
        with count_choices(model, 1) as chosen:
            bench_decode_run.reference(model).logits(torch.ones(1, 9, dtype=torch.int64))
        yield with_experts(case, model, chosen)

    monkeypatch.setattr(runners, "load", partial(runners.load, dtype="fp32", device="cpu"))
    alone, shards = bench_decode_run.rows(config, wanted, measure, larger=False)
    assert seen == [(1, None), (2, 2)]
    assert shards.distinct_experts == config["num_experts_per_tok"]
    assert shards.bytes_per_token == alone.bytes_per_token


def test_with_several_gpus_one_precision_is_measured_after_the_other():
    """Its rows are written before the next one begins; without, all runners take turns."""
    case = ModelCase(model="llama-3.2-1b", batch=1, prompt=128, tokens=64, parameters=1000, bytes_per_token=2000)
    wanted = _bench_targets(
        case, Options(tensor_parallel_sizes=(2,), runners=["megakernel", "megakernel_fp8"]), GPUS["h200"]
    )
    groups = [[(each.name, own.gpus) for each, own in group] for group in bench_decode_run.groups_of(wanted, (2,))]
    assert groups == [[(name, None), (name, 2)] for name in ("megakernel", "megakernel_fp8")]
    assert list(bench_decode_run.groups_of(wanted, ())) == [wanted]
    assert not list(bench_decode_run.groups_of([], ()))


class GivesUp(EagerRunner):
    """A runner that makes ids up and fails after two requests, and whose reference has no memory."""

    def __init__(self, model):
        super().__init__(model)
        self.left = 2

    def generate(self, prompt, tokens, sampling=None):
        if not self.left:
            raise RuntimeError("GPU 1, SM 7 waited too long")
        self.left -= 1
        start_ns = time.monotonic_ns()
        return Generation([[3] * tokens], [time.monotonic_ns()] * tokens, start_ns)

    def logits(self, ids):
        raise torch.OutOfMemoryError("CUDA out of memory.")


def test_a_runner_that_gives_up_keeps_its_times_and_takes_no_others_with_it():
    config, _ = catalogue.entry("tiny-llama")
    model = runners.load(None, config, generated=True, dtype="fp32", device="cpu")
    case = ModelCase(model="tiny-llama", batch=1, prompt=4, tokens=64, gpus=2)
    runs = [DecodeRun(registry.variant("megakernel"), case, GivesUp(model), "pass") for _ in range(2)]
    for run in runs:
        run.warm_up()
        run.serve()
    runs[0].serve()
    assert (runs[0].gate, runs[0].reason) == ("error", "It could not run: RuntimeError: GPU 1, SM 7 waited too long")
    judge(runs, GivesUp(model), "bf16")
    assert runs[1].gate == "fail"
    assert "could not be judged: CUDA out of memory." in runs[1].reason
    row = bench_decode._row(runs[0], GPUS["h200"], {}, torch.ones(1, 4, dtype=torch.int64))
    assert (row.gate, row.rounds, row.kernels) == ("error", 1, [])
    assert row.ttf64_ms > 0


def test_the_reference_of_a_sharded_model_is_the_model_by_torchs_own_ops():
    config, _ = catalogue.entry("tiny-llama")
    whole = runners.load(None, config, generated=True, dtype="fp32", device="cpu")
    shards = tensor_parallel.generate(config, [torch.device("cpu")] * 2, "fp32")
    ids = torch.randint(3, 300, (2, 40), generator=torch.Generator().manual_seed(1))
    known = [
        ReferenceOutputs.of(bench_decode_run.reference(value), ids, torch.Generator().manual_seed(2))
        for value in (whole, shards)
    ]
    torch.testing.assert_close(known[1].logits, known[0].logits, atol=2e-4, rtol=1e-4)
    fp8 = registry.variant("megakernel_fp8")
    case = ModelCase(model="tiny-llama", batch=1, prompt=8, tokens=8, gpus=2)
    assert bench_decode_run.options_of(fp8, case, shards) == {"rounding": {"method": "nearest"}}
    assert bench_decode_run.options_of(fp8, case, whole) == {"devices": [0, 1]}


def test_a_sharded_models_fidelity_is_the_whole_models():
    """Its float32 logits are made layer by layer, and torch in bf16 has its own loss from them."""
    config, _ = catalogue.entry("tiny-llama")
    case = ModelCase(model="tiny-llama", batch=1, prompt=8, tokens=8)
    whole = runners.load(None, config, generated=True, dtype="bf16", device="cpu")
    shards = tensor_parallel.generate(config, [torch.device("cpu")] * 2, "bf16")
    alone, both = (Exact.of(value, bench_decode_run.reference(value), case, 130) for value in (whole, shards))
    assert torch.equal(alone.ids, both.ids)
    torch.testing.assert_close(both.logits, alone.logits, atol=1e-5, rtol=1e-5)
    assert [value.by_torch.tokens for value in (alone, both)] == [256, 256]
    assert 1e-7 < both.by_torch.kl < 3 * alone.by_torch.kl < 1e-2
    run = DecodeRun(registry.variant("megakernel"), case, EagerRunner(whole), "pass")
    compare([run], both, case, "bf16")
    assert run.torch_kl == both.by_torch.kl
    assert abs(run.fidelity.kl / alone.by_torch.kl - 1) < 1e-3


CASE = ModelCase(model="tiny-llama", weights="fp32", batch=1, prompt=16, tokens=4)
MS = 1_000_000


def served(ms):
    """A request of four tokens, `ms` apart."""
    return ServedBatch(0, 0, tuple(ms * MS * n for n in range(1, 5)), 1, 4)


class Restarts:
    starts_process = True

    def __init__(self):
        self.prepared = []

    def prepare(self, batch, prompt, tokens):
        self.prepared.append((batch, prompt, tokens))


def run_in(*processes):
    """A run with the requests of each process, `ms` a token; the first process is the one that it began with."""
    run = DecodeRun(SimpleNamespace(name="planted", peer=True), CASE, Restarts(), "pass", served=[])
    for number, requests in enumerate(processes):
        if number:
            run.restart()
        run.served += [served(request) for request in requests]
    return run


def test_the_interval_of_several_processes_contains_their_spread() -> None:
    run = run_in([10, 11, 12], [10, 10, 10], [14, 15, 90])
    assert run.medians("ttf_n") == [44.0, 40.0, 60.0]
    assert run.time("ttf_n") == across_processes([44.0, 40.0, 60.0])
    _, low, high = run.time("tpot")
    assert low < 10 < 15 < high
    assert run.runner.prepared == [(1, 16, 4)] * 2


def test_within_one_process_the_time_is_the_median_of_its_requests() -> None:
    run = run_in([10, 11, 12, 90])
    assert run.time("ttf_n") == median_interval(run.samples("ttf_n"))


def test_a_process_that_does_not_start_ends_the_run_with_its_words() -> None:
    run = run_in([10, 11], [12])

    def fails(*_):
        raise RuntimeError("vLLM gave no answer within 300 s")

    run.runner.prepare = fails
    run.restart()
    assert (run.gate, "vLLM gave no answer" in run.reason) == ("error", True)
    assert run.time("ttf_n") == median_interval(run.samples("ttf_n"))


def test_a_runner_in_this_process_is_not_started_again() -> None:
    run = run_in([10, 11])
    run.runner.starts_process = False
    run.restart()
    assert (run.starts, run.runner.prepared) == ([], [])


def test_an_engine_is_measured_in_as_many_processes_as_are_asked_for(tmp_path, monkeypatch) -> None:
    """By a stand-in whose ids are wrong: its row is refused and holds the times that it stated."""
    monkeypatch.setenv("KERNELS_VLLM_PYTHON", str(vllm_stand_in.environment(tmp_path, honest=False)))
    config, _ = catalogue.entry(CASE.model)
    model = runners.load(None, config, seed=0, generated=True, dtype="fp32", device="cpu")
    wanted = [(registry.variant(name), CASE) for name in ("eager", "vllm")]
    options = Options(rounds=15, seconds=600, processes=3)
    eager, row = bench_decode._measure(options, GPUS["cpu"], {}, model, wanted)
    assert [(value.rounds, len(value.processes_ms)) for value in (eager, row)] == [(15, 0), (15, 3)]
    assert (row.gate, row.ratio_to_best_peer) == ("fail", None)
    assert row.ms_low <= min(row.processes_ms) <= row.ms <= max(row.processes_ms) <= row.ms_high
    assert (row.params["attention_backend"], row.params["torch"]) == ("FLASH_ATTN", torch.__version__)
    assert "15 rounds, 3 processes, " in row_line(row)


@pytest.mark.parametrize("count", [2, 11])
def test_a_spread_takes_three_processes(count, capsys) -> None:
    assert main(["bench", "decode", "--processes", str(count)]) == 2
    assert "their spread takes 3 to 10" in capsys.readouterr().err
    assert main(["bench", "fused", "--processes", "3"]) == 2
