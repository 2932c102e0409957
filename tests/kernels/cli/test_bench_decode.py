"""The ids that `bench decode` serves: held against the model's logits, and against the runner's own."""

from types import SimpleNamespace

import torch

from kernels import engine
from kernels.cli import bench_decode
from kernels.cli.bench_lines import row_line
from kernels.hardware import GPUS
from kernels.model_files import catalogue
from kernels.ops import ModelCase
from tests.kernels.engine.engine_models import CONFIGS


def test_bench_decode_fails_a_runner_that_serves_made_up_ids():
    model = engine.load(None, CONFIGS["llama"], seed=3, generated=True, dtype="fp32", device="cpu")
    prompt = torch.randint(300, (1, 16), generator=torch.Generator().manual_seed(1))
    reference, runner = engine.runner("eager", model), engine.runner("eager", model)
    case = ModelCase(model="tiny-llama", weights="fp32", batch=1, prompt=16, tokens=8)
    honest, cheat = (bench_decode._Run(SimpleNamespace(), case, runner, "pass") for _ in range(2))
    honest.served, cheat.served = reference.generate(prompt, 8).tokens, [[0] * 8]
    bench_decode._judge_served([honest, cheat], reference, prompt)
    assert honest.gate == "pass"
    assert cheat.gate == "fail"
    assert "served are not the model's" in cheat.reason


def test_bench_decode_fails_a_runner_of_lower_precision_whose_ids_contradict_its_own_logits():
    model = engine.load(None, CONFIGS["llama"], seed=3, generated=True, dtype="fp32", device="cpu")
    prompt = torch.randint(300, (1, 16), generator=torch.Generator().manual_seed(1))
    reference, runner = engine.runner("eager", model), engine.runner("eager", model)
    second = reference.logits(prompt)[0, -1].topk(2).indices[1]
    case = ModelCase(model="tiny-llama", weights="nvfp4", batch=1, prompt=16, tokens=1)
    run = bench_decode._Run(SimpleNamespace(), case, runner, "pass", served=[[int(second)]])
    bench_decode._judge_served([run], reference, prompt)
    assert run.gate == "fail"
    assert run.reason.startswith("The ids that it served contradict its own logits: over 1 ids ")


def test_a_row_of_lower_precision_has_no_ratio_to_a_peer_in_bf16():
    def run(name: str, weights: str, ms: float, **known: bool) -> bench_decode._Run:
        case = ModelCase(model="tiny-llama", weights=weights, batch=1, prompt=8, tokens=4)
        variant = SimpleNamespace(name=name, peer=known.get("peer", False))
        return bench_decode._Run(variant, case, SimpleNamespace(settings={}), "pass", ttf64_ms=[ms] * 9)

    runs = [
        run("eager", "bf16", 4.0, peer=True),
        run("compiled", "bf16", 2.0, peer=True),
        run("megakernel", "bf16", 1.0),
        run("megakernel_fp8", "fp8", 0.5),
        run("torch_fp8", "fp8", 3.0, peer=True),
        run("megakernel_nvfp4", "nvfp4", 0.4),
    ]
    assert [bench_decode._best_peer(each, runs) for each in runs] == [2.0, 2.0, 2.0, 3.0, 3.0, None]


def test_bench_decode_holds_our_runners_against_their_own_logits():
    case = ModelCase(model="tiny-llama", weights="fp32", batch=1, prompt=8, tokens=4)
    config, _ = catalogue.entry(case.model)
    model = engine.load(None, config, seed=0, generated=True, dtype="fp32", device="cpu")
    variant = SimpleNamespace(name="planted", peer=False, in_plans=True)
    run = bench_decode._Run(variant, case, engine.runner("eager", model), "pass")
    bench_decode._compare([run], model, case, 1)
    assert (run.own.tokens, run.own.largest < 1e-3) == (64, True)
    run.ttf64_ms, run.per_token_ms, run.ttft_ms = [1e4], [1e2], [1.0]
    row = bench_decode._row(run, GPUS["cpu"], {}, None, torch.zeros(1, 8, dtype=torch.int64))
    assert (row.own_mean_gap, row.own_largest_gap) == (run.own.mean, run.own.largest)
    assert f"own ids {run.own.mean:.2g} below the best" in row_line(row)
