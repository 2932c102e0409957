"""`bench decode --processes`: engines that start a process are measured in several, and the interval says so."""

from types import SimpleNamespace

import pytest
import torch

from kernels import registry, runners
from kernels.__main__ import main
from kernels.cli import bench_decode
from kernels.cli.bench_decode import Options
from kernels.cli.bench_decode_run import DecodeRun
from kernels.cli.bench_lines import row_line
from kernels.hardware import GPUS
from kernels.measure.intervals import across_processes, median_interval
from kernels.measure.latency import Served
from kernels.model_files import catalogue
from kernels.ops import ModelCase
from tests.kernels.runners import vllm_stand_in

CASE = ModelCase(model="tiny-llama", weights="fp32", batch=1, prompt=16, tokens=4)
MS = 1_000_000


def served(ms):
    """A request of four tokens, `ms` apart."""
    return Served(0, 0, tuple(ms * MS * n for n in range(1, 5)), 1, 4)


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
    eager, row = bench_decode._measured(options, GPUS["cpu"], {}, model, wanted)
    assert [(each.rounds, len(each.processes_ms)) for each in (eager, row)] == [(15, 0), (15, 3)]
    assert (row.gate, row.ratio_to_best_peer) == ("fail", None)
    assert row.ms_low <= min(row.processes_ms) <= row.ms <= max(row.processes_ms) <= row.ms_high
    assert (row.params["attention_backend"], row.params["torch"]) == ("FLASH_ATTN", torch.__version__)
    assert "15 rounds, 3 processes, " in row_line(row)


@pytest.mark.parametrize("count", [2, 11])
def test_a_spread_takes_three_processes(count, capsys) -> None:
    assert main(["bench", "decode", "--processes", str(count)]) == 2
    assert "their spread takes 3 to 10" in capsys.readouterr().err
    assert main(["bench", "fused", "--processes", "3"]) == 2
