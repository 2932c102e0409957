"""Two ranks side by side on one GPU, two and four each on one of its own: near to float32, alike, and ended in time."""

import time

import numpy as np
import pytest
import torch

from kernels.megakernel.host import record, trace
from kernels.megakernel.program.instructions import FIELDS, QKV
from kernels.megakernel.proof.structure import instruction_rows
from kernels.ops.sampling import GREEDY, Sampling
from tests.kernels.megakernel import on_gpu
from tests.kernels.megakernel.on_gpu import PLACES, PROMPT, config_of, models, runner_of, step_logits
from tests.kernels.megakernel.test_gpu_experts import check_fidelity
from tests.kernels.megakernel.tiny_models import GPU_MIXTURES
from tests.kernels.megakernel.touched import undeclared

pytestmark = [pytest.mark.gpu, pytest.mark.parametrize("devices", PLACES)]


def launched(runner, *args, **options):
    """Tokens [count, batch] that rank 0 chose; every rank chose the same."""
    tokens = on_gpu.launched(runner, *args, **options)
    for others in runner._machine.tokens:
        assert np.array_equal(others.cpu().numpy(), tokens)
    return tokens


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_logits_are_as_near_to_float32_as_torchs(devices, family, batch):
    """By a short context, where OUT attends, and one that is long enough for splits."""
    model, exact = models(config_of(family, devices))
    for length in (48, 700):
        runner = runner_of(model, devices=devices)
        ids = torch.randint(0, 4099, (batch, length), device="cuda")
        runner.prepare(batch, length - 8, 8)
        assert runner._machine.layout.tensor_parallel_size == len(devices)
        own, torchs, truth = runner.logits(ids), model(ids).logits, exact(ids).logits
        own, torchs = ((value[:, -8:].float() - truth[:, -8:]).norm() for value in (own, torchs))
        assert own <= 1.1 * torchs, (length, own / torchs)


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("family", GPU_MIXTURES)
def test_a_mixture_is_as_near_to_float32_as_torch_and_answers_alike(devices, family, batch):
    """Every rank chooses the same experts, in groups where there are several sequences."""
    model, exact = models(GPU_MIXTURES[family])
    runner = runner_of(model, devices=devices)
    check_fidelity(family, model, exact, runner, batch)
    prompt = torch.randint(0, 4099, (batch, PROMPT), device="cuda")
    expected = runner.generate(prompt, 32).tokens
    for others in runner._machine.tokens:
        assert others.T.tolist() == [tokens[1:] for tokens in expected]
    on_gpu.assert_one_answer(runner, prompt, 32, 200)


def test_each_layer_leaves_the_residual_of_the_reference_on_every_rank(devices):
    """Every layer's input, and the last one's output, as near to float32 as torch's bf16, and equal on all ranks."""
    model, exact = models(config_of("qwen2", devices))
    runner = runner_of(model, devices=devices, tuning={"debug": True})
    runner.prepare(1, 24, 1)
    ids = torch.randint(0, 4096, (1, 24), device="cuda")
    step_logits(runner, ids)
    first, *others = (rank.residuals.to("cuda") for rank in runner._machine.ranks)
    assert all(torch.equal(other, first) for other in others)
    own = first[:, ::2, 0].transpose(0, 1)  # [layers + 1, tokens, hidden]
    on_gpu.assert_layers_are_near(own, model, exact, ids)


def test_the_prompts_of_all_ranks_are_one_graph(devices):
    runner = runner_of(models(config_of("qwen3", devices))[0], devices=devices)
    runner.prepare(1, PROMPT, 8)
    (bucket,) = runner._prompts._graphs.values()
    assert (type(bucket.run).__name__ == "_Together") == bool(devices[1])


@pytest.mark.parametrize("sampling", [None, Sampling(0.9, top_k=300, top_p=0.9)], ids=["greedy", "top-k and top-p"])
def test_instructions_of_every_rank_touch_what_they_declare(devices, sampling):
    """In its own memory; what it writes to its peers lies alike."""
    runner = runner_of(models(config_of("qwen2", devices))[0], devices=devices, tuning={"debug": True})
    runner.generate(torch.ones(1, PROMPT, dtype=torch.int64, device="cuda"), 8, sampling)
    for rank in runner._machine.ranks:
        assert not undeclared(rank, PROMPT + 8, sampling is not None)[:3]


def test_every_generation_is_the_same(devices):
    model, _ = models(config_of("llama", devices))
    runner = runner_of(model, devices=devices)
    prompt = torch.randint(0, 4099, (1, PROMPT), device="cuda")
    on_gpu.assert_one_answer(runner, prompt, 32, 2000)


def test_a_timeline_has_all_ranks_on_one_clock(devices):
    runner = runner_of(models(config_of("llama", devices))[0], devices=devices)
    prompt = torch.ones(1, PROMPT, dtype=torch.int64, device="cuda")
    result = trace.timeline_of(record.timeline(runner, prompt, 8))
    assert {span.gpu for span in result.spans} == set(range(len(devices)))
    assert 0 < result.doubt_ns < 20_000


def test_all_ranks_draw_what_the_rule_draws(devices):
    runner = runner_of(models(config_of("qwen2", devices))[0], devices=devices)
    runner.prepare(4, PROMPT, 40)
    sampling = [GREEDY, Sampling(0.9, seed=3), Sampling(1.1, top_k=40), Sampling(0.8, top_k=300, top_p=0.9)]
    forced = torch.randint(0, 4099, (9, 4), device="cuda")
    logits = torch.empty(8, 4, 4099, device="cuda")
    made = launched(runner, forced, 0, 8, forced=forced, logits=logits, sampling=sampling)
    assert logits.isfinite().all()
    on_gpu.assert_rule_draws(made, logits, sampling)


@pytest.mark.parametrize("silent", [0, 1])
def test_a_rank_that_does_not_run_is_given_up_in_time(devices, silent, monkeypatch):
    """The other names itself and the instruction that waits for it; afterwards both are right as before."""
    from kernels.megakernel.host import machine

    runner = runner_of(models(config_of("llama", devices))[0], devices=devices)
    prompt = torch.ones(1, PROMPT, dtype=torch.int64, device="cuda")
    expected = runner.generate(prompt, 8).tokens
    monkeypatch.setattr(machine, "TIMEOUT_NS", 20_000_000)
    monkeypatch.setattr(runner._machine.ranks[silent], "run", lambda params: None)
    began = time.monotonic()
    with pytest.raises(machine.MegakernelFault, match=rf"^GPU [^{silent}], SM \d+ waited .* \((gate_up|out|qkv)\)$"):
        runner.generate(prompt, 8)
    assert time.monotonic() - began < 10
    monkeypatch.undo()
    assert runner.generate(prompt, 8).tokens == expected


def test_when_one_rank_gives_up_all_do(devices, monkeypatch):
    """Rank 1 waits for rows that its own SMs never make; the others would wait a minute."""
    from kernels.megakernel.host import machine

    runner = runner_of(models(config_of("llama", devices))[0], devices=devices)
    prompt = torch.ones(1, PROMPT, dtype=torch.int64, device="cuda")
    runner.generate(prompt, 8)
    ranks = runner._machine.ranks
    tables = ranks[1].program.instructions
    sm, index = next(
        (sm, w["index"])
        for sm, table in enumerate(tables)
        for w in instruction_rows(table)
        if w["op"] == QKV and w["layer"] == 1 and w["units"]
    )
    ranks[1]._arrays["program"][int(ranks[1].program.starts[sm]) + index, FIELDS.index("units")] = 0
    for rank in ranks:
        monkeypatch.setattr(rank, "params", limited(rank.params, 20_000_000 if rank.rank == 1 else 60 * 10**9))
    began = time.monotonic()
    with pytest.raises(machine.MegakernelFault, match=r"^GPU 1, SM \d+ waited too long"):
        runner.generate(prompt, 8)
    assert time.monotonic() - began < 10


def limited(params, limit_ns):
    """`Rank.params` with another limit of a wait."""

    def with_limit(*args):
        made = params(*args)
        made["timeout_ns"] = limit_ns
        return made

    return with_limit


def test_one_gpu_and_all_ranks_give_the_same_bits(devices):
    """All add the same sums in the same order where they have as many column parts."""
    model, _ = models(config_of("llama", devices))
    ids = torch.randint(0, 4099, (1, 60), device="cuda")
    both = runner_of(model, devices=devices)
    result, layout = step_logits(both, ids), both._machine.layout
    parts = {"out_parts": layout.out_partials, "down_parts": layout.down_partials}
    single = runner_of(model, layout=parts | {"copies": 1, "pairs": layout.pairs})
    assert torch.equal(step_logits(single, ids), result)
    assert single._machine.layout.out_parts == layout.out_partials
