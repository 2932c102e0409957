"""The megakernel at the edges: flags that come round, numbers that are none, rows nobody wrote, waits without end."""

import time

import numpy as np
import pytest
import torch

from kernels.megakernel.program import build_program
from kernels.megakernel.program.instructions import ADD, ATTENTION, DOWN, GATE_UP, OUT, QKV
from kernels.megakernel.proof.structure import instruction_rows
from kernels.ops.sampling import GREEDY, Sampling
from tests.kernels.megakernel.broken import without
from tests.kernels.megakernel.on_gpu import PROMPT, assert_rule_draws, launched, models, runner_of, step_logits
from tests.kernels.megakernel.tiny_models import GPU_CONFIGS

pytestmark = pytest.mark.gpu


def test_tags_and_rounds_come_round_unseen():
    """16 bits of flags pass zero after 16,384 tokens of three layers, those of a search's rounds sooner."""
    runner = runner_of(models(GPU_CONFIGS["llama"])[0])
    whole, at = 17_000, 16_000
    runner.prepare(1, PROMPT, whole + 1)
    how = Sampling(1.0, top_k=300, top_p=0.95, seed=2)
    first = torch.ones(1, dtype=torch.int64, device="cuda")
    through = launched(runner, first, 0, whole, sampling=how)
    assert through.min() >= 0
    again = launched(
        runner, torch.tensor(through[at - 1], dtype=torch.int64, device="cuda"), at, whole - at, sampling=how
    )
    assert np.array_equal(through[at:], again)
    assert len(set(through[at:, 0].tolist())) > 100


@pytest.mark.parametrize("batch", [1, 4])
def test_rows_that_nobody_wrote_are_not_read(batch):
    """Keys and values of all positions that are not made yet are NaN."""
    runner = runner_of(models(GPU_CONFIGS["qwen3"])[0])
    ids = torch.randint(0, 4099, (batch, 300), device="cuda")
    runner.prepare(batch, PROMPT, 320)
    expected = step_logits(runner, ids)
    for cache in (runner._machine.keys, runner._machine.values):
        cache.fill_(torch.nan)
    assert torch.equal(step_logits(runner, ids), expected)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, 3e38])
def test_weights_that_are_no_numbers_end_a_generation_as_the_rule_says(value):
    """No wait is for ever, and what is drawn from logits without a finite largest is what numpy draws."""
    model, _ = models(GPU_CONFIGS["qwen2"])
    with torch.no_grad():
        model.model.layers[1].mlp.down_proj.weight[5, 7] = value
    runner = runner_of(model)
    runner.prepare(4, PROMPT, 40)
    sampling = [GREEDY, Sampling(0.9), Sampling(1.1, top_k=40), Sampling(0.8, top_p=0.5)]
    forced = torch.randint(0, 4099, (9, 4), device="cuda")
    logits = torch.empty(8, 4, 4099, device="cuda")
    made = launched(runner, forced, 0, 8, forced=forced, logits=logits, sampling=sampling)
    if value is torch.nan:
        assert logits.isnan().all()
    assert_rule_draws(made, logits, sampling)
    assert len(runner.generate(torch.ones(4, PROMPT, dtype=torch.int64, device="cuda"), 20).tokens[0]) == 20


def test_one_broken_sequence_leaves_the_others_of_its_batch_alone():
    model, _ = models(GPU_CONFIGS["llama"])
    with torch.no_grad():
        model.model.embed_tokens.weight[7] = torch.nan
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.nan_to_num())
    runner = runner_of(model)
    prompt = torch.randint(8, 4099, (2, PROMPT), device="cuda")
    runner.prepare(2, PROMPT, 16)
    expected = step_logits(runner, prompt)
    prompt[1, 3] = 7
    result = step_logits(runner, prompt)
    assert torch.equal(result[0], expected[0])
    assert torch.equal(result[1, :3], expected[1, :3])
    assert result[1, 3:].isnan().all()


def test_requests_that_it_cannot_answer_are_refused_by_name():
    runner = runner_of(models(GPU_CONFIGS["llama"])[0])
    ids = torch.ones(1, 5, dtype=torch.int64, device="cuda")
    for bad in (ids[:, :0], ids[0], ids.float()):
        with pytest.raises(ValueError, match=r"^prompt: "):
            runner.generate(bad, 4)
    with pytest.raises(ValueError, match=r"^tokens: "):
        runner.generate(ids, 0)
    for beyond in (ids - 2, ids + 4098):
        with pytest.raises(ValueError, match=r"^ids: "):
            runner.logits(beyond)
    with pytest.raises(ValueError, match=r"^stop: "):
        runner.generate(ids, 4, stop=(1, 2, 3, 4, 5))
    with pytest.raises(ValueError, match=r"^count: "):
        launched(runner, ids[0], 0, 10**6)


def at_work(program, op):
    """(SM, index) of the second layer's first instruction of that kind that others wait for."""
    for sm, table in enumerate(program.instructions):
        for index, words in enumerate(instruction_rows(table)):
            if words["op"] == op and words["layer"] == 1 and (words["units"] or op in (ATTENTION, ADD)):
                return sm, index
    raise LookupError(op)


@pytest.mark.parametrize(("batch", "op"), [(1, QKV), (1, OUT), (1, GATE_UP), (1, DOWN), (2, ATTENTION), (2, ADD)])
def test_a_program_that_waits_for_nothing_gives_up_and_names_the_instruction(batch, op, monkeypatch):
    """One instruction is left out; the GPU is free afterwards, and the program with it is right as before."""
    from kernels.megakernel.host import device, machine

    model, _ = models(GPU_CONFIGS["qwen2"])
    prompt = torch.ones(batch, PROMPT, dtype=torch.int64, device="cuda")
    expected = runner_of(model).generate(prompt, 8).tokens

    def broken(shape, layout):
        program = build_program(shape, layout)
        return [without(program, *at_work(program, op))]

    monkeypatch.setattr(device, "programs", broken)
    monkeypatch.setattr(device, "check_programs_once", lambda program: None)
    monkeypatch.setattr(machine, "TIMEOUT_NS", 20_000_000)
    began = time.monotonic()
    with pytest.raises(machine.MegakernelFault, match=r"^SM \d+ waited too long at instruction \d+ \(\w+\)$"):
        runner_of(model).generate(prompt, 8)
    monkeypatch.undo()
    assert runner_of(model).generate(prompt, 8).tokens == expected
    assert time.monotonic() - began < 60
