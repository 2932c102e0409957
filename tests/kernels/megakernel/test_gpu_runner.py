"""The megakernel on a Hopper GPU: its tokens, logits, batches, positions, cancelling and repeatability."""

import pytest
import torch

from kernels import runners
from kernels.megakernel.host import device, record, trace
from kernels.megakernel.host.token_breakdown import token_breakdown
from kernels.model.decoder import Decoder
from kernels.proof import logit_gate
from kernels.runners.sessions import DecoderSession
from tests.kernels.megakernel.on_gpu import (
    FAMILIES,
    PROMPT,
    assert_near_with_best_tokens,
    batches_of,
    last_logits,
    launched,
    models,
    runner_of,
    step_logits,
)
from tests.kernels.megakernel.tiny_models import GPU_CONFIGS

pytestmark = pytest.mark.gpu

TOKENS, COUNT = 16, 8
LONG_PROMPT, BEHIND = 100, 8


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("family", GPU_CONFIGS)
def test_its_logits_are_as_near_float32_as_torchs_and_its_tokens_are_their_best(family, batch):
    config = GPU_CONFIGS[family]
    model, exact = models(config)
    runner = runner_of(model)
    prompt = torch.randint(0, config["vocab_size"], (batch, PROMPT), device="cuda")
    assert_near_with_best_tokens(runner, prompt, TOKENS, exact, model)


@pytest.mark.parametrize("batch", [3, 5, 6, 7])
@pytest.mark.parametrize("weights", ["bf16", "int8", "int4", "fp8", "nvfp4"])
def test_sequences_answer_as_they_do_in_a_batch_filled_up_to_a_power_of_two(weights, batch):
    """The same bits of every logit, of 300 tokens and so of one split and of some, given the same layout."""
    model, _ = models(GPU_CONFIGS["llama"])
    ids = torch.randint(0, 4099, (8, 300), device="cuda")
    filled, own = (
        runner_of(model, weights=weights, layout={"heads": 2, "splits": 3, "down_parts": 2}) for _ in range(2)
    )
    filled.prepare(4 if batch == 3 else 8, 300, 1)
    own.prepare(batch, 300, 1)
    assert torch.equal(step_logits(own, ids[:batch]), step_logits(filled, ids)[:batch])


@pytest.mark.parametrize("batch", [3, 5])
def test_a_batch_of_any_size_ends_when_all_have_met_a_stop_token(batch):
    model, _ = models(GPU_CONFIGS["llama"])
    runner = runner_of(model)
    prompt = torch.randint(0, 4099, (1, PROMPT), device="cuda").repeat(batch, 1)
    made = runner.generate(prompt, TOKENS)
    assert made.extra["launches"] == 1
    assert made.tokens == made.tokens[:1] * batch
    ends = made.tokens[0].index(made.tokens[0][9]) + 1
    assert runner.generate(prompt, TOKENS, stop=(made.tokens[0][9],)).tokens == [made.tokens[0][:ends]] * batch


@pytest.mark.parametrize(
    ("family", "batch", "length"), [("llama", 1, 16_500), ("qwen2", 1, 33_000), ("qwen3", 2, 5000), ("llama", 3, 5000)]
)
def test_long_contexts_are_as_near_float32_as_torchs(family, batch, length):
    model, exact = models(GPU_CONFIGS[family])
    ids = torch.randint(0, 4099, (batch, length), device="cuda")
    runner = runner_of(model)
    runner.prepare(batch, length, 1)
    truth, torchs = (last_logits(value, ids, 1000) for value in (exact, model))
    own = step_logits(runner, ids)[:, -1000:]
    assert (own - truth).norm() <= 1.1 * (torchs - truth).norm()


def test_a_cancelled_generation_keeps_what_it_has(monkeypatch):
    runner = runner_of(models(GPU_CONFIGS["llama"])[0])
    prompt = torch.ones(1, PROMPT, dtype=torch.int64, device="cuda")
    runner.prepare(1, PROMPT, 2000)
    whole, arrived = runner.generate(prompt, 2000).tokens[0], runner._arrived

    def cancelling(row, machine):
        runner.cancel()
        return arrived(row, machine)

    with monkeypatch.context() as patched:
        patched.setattr(runner, "_arrived", cancelling)
        made = runner.generate(prompt, 2000).tokens[0]
    assert 1 <= len(made) < 2000
    assert made == whole[: len(made)]
    assert runner.generate(prompt, 2000).tokens[0] == whole


def test_an_interrupted_generation_has_ended_when_its_caller_knows(monkeypatch):
    """Its kernel writes into memory that is let go of with the exception; the next one is as if none had been."""
    runner = runner_of(models(GPU_CONFIGS["llama"])[0])
    prompt = torch.ones(1, PROMPT, dtype=torch.int64, device="cuda")
    runner.prepare(1, PROMPT, 2000)
    expected, logits = runner.generate(prompt, 2000).tokens, runner.logits(prompt)
    began = []

    def interrupt(row, machine):
        began.append(torch.cuda.current_stream().query())
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(runner, "_arrived", interrupt)
        with pytest.raises(KeyboardInterrupt):
            runner.generate(prompt, 2000)
    assert began == [False]
    assert torch.cuda.current_stream().query()
    assert torch.equal(runner.logits(prompt), logits)
    assert runner.generate(prompt, 2000).tokens == expected


def test_pairs_find_room_and_are_left_out_where_they_do_not(monkeypatch):
    model, exact = models(GPU_CONFIGS["qwen2"])
    paired = runner_of(model)
    ids = torch.randint(0, 4099, (1, 100), device="cuda")
    logits = step_logits(paired, ids)
    monkeypatch.setattr(device, "max_active_pairs", lambda *args: 65)
    alone = runner_of(model)
    with torch.no_grad():
        truth, limit = exact(ids).logits, 1.1 * (model(ids).logits.float() - exact(ids).logits).norm()
    assert (logits - truth).norm() <= limit
    assert (step_logits(alone, ids) - truth).norm() <= limit
    assert (paired.program.layout.pairs, alone.program.layout.pairs) == (True, False)


@pytest.mark.parametrize("family", GPU_CONFIGS)
def test_prompts_leave_keys_and_values_as_near_float32_as_torchs(family):
    """By graphs of one machine, whatever the length."""
    config = GPU_CONFIGS[family]
    model, exact = models(config)
    runner = runner_of(model)
    runner.prepare(2, 100, TOKENS)
    machine = runner._machine
    for length in (1, 20, 64, 65, 100):
        ids = torch.randint(0, config["vocab_size"], (2, length), device="cuda")
        runner.generate(ids, 1)
        sessions = [
            DecoderSession(Decoder(value), 2, length, 128, lambda function: function) for value in (exact, model)
        ]
        with torch.no_grad():
            for session in sessions:
                session.prompt.copy_(ids)
                session._prefill()
        truth, torchs = (
            torch.cat([torch.stack(pair) for pair in session._cache])[:, :, :length].float() for session in sessions
        )
        own = torch.stack([machine.keys, machine.values], dim=1).flatten(0, 1)[:, :, :length].float()
        assert (own - truth).norm() <= 1.1 * (torchs - truth).norm()
    assert runner._machine is machine


def test_what_it_cannot_serve_is_refused_by_name():
    model, exact = models(GPU_CONFIGS["llama"])
    with pytest.raises(ValueError, match="dtype"):
        runner_of(exact)
    with pytest.raises(ValueError, match="batch"):
        runner_of(model).prepare(9, PROMPT, TOKENS)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("length", [PROMPT, 600])
def test_a_timeline_is_recorded_beside_the_usual_kernel(batch, length):
    """Every instruction leaves marks, END as well; afterwards the usual kernel gives the same answer as before."""
    runner = runner_of(models(GPU_CONFIGS["llama"])[0])
    prompt = torch.randint(0, 4099, (batch, length), device="cuda")
    expected = runner.generate(prompt, TOKENS).tokens
    usual = runner.ranks[0].kernel
    recorded = record.timeline(runner, prompt, TOKENS)
    result = token_breakdown(trace.timeline_of(recorded), [program for program, _ in recorded], length + TOKENS / 2)
    assert record.unmade(runner) == []
    assert {"qkv", "attention", "out", "gate_up", "down", "head", "end"} <= {kind.op for kind in result.kinds}
    assert all(kind.works > 0 for kind in result.kinds)
    assert 0 < result.between < 0.5
    assert 10 < result.token_us < 10_000
    assert runner.ranks[0].kernel is usual
    assert runner.generate(prompt, TOKENS).tokens == expected


@pytest.mark.parametrize("positions", [(20, 300, 131), (0, 1, 700), (511, 512, 63, 64, 65)])
@pytest.mark.parametrize("family", ["llama", "llama-32", "qwen3"])
def test_each_answers_as_if_all_were_so_long(family: str, positions: tuple[int, ...]) -> None:
    """The same bits of every logit."""
    batch, vocab = len(positions), GPU_CONFIGS[family]["vocab_size"]
    runner = runner_of(models(GPU_CONFIGS[family])[0])
    runner.prepare(batch, 800, COUNT)
    machine = runner._machine
    rows = [torch.randn_like(value) for value in (machine.keys, machine.values)]
    first = torch.arange(batch, device="cuda")

    def logits(at: tuple[int, ...] | int) -> torch.Tensor:
        machine.keys.copy_(rows[0])
        machine.values.copy_(rows[1])
        made = torch.empty(COUNT, batch, vocab, device="cuda")
        launched(runner, first, at, COUNT, logits=made)
        return made

    mixed = logits(positions)
    for which, position in enumerate(positions):
        assert torch.equal(mixed[:, which], logits(position)[:, which])


def expected_of(model, ids):
    return runners.runner("eager", model).logits(ids).float()


@pytest.mark.parametrize(("family", "batch"), batches_of(1, 3))
def test_logits_behind_a_prompt_are_the_models(family, batch):
    model, exact = models(FAMILIES[family])
    ids = torch.randint(0, 4099, (batch, LONG_PROMPT + BEHIND), device="cuda")
    runner = runner_of(model)
    runner.prepare(batch, LONG_PROMPT, BEHIND)
    own, truth, torchs = runner.logits(ids), expected_of(exact, ids), expected_of(model, ids)
    assert own.shape == truth.shape
    for part in (slice(0, LONG_PROMPT), slice(LONG_PROMPT, None)):
        assert (own - truth)[:, part].norm() <= 1.1 * (torchs - truth)[:, part].norm()
    assert logit_gate.refusal(logit_gate.difference(own, torchs, prompt=LONG_PROMPT), "bf16") is None


def test_keys_that_the_prompts_pass_left_wrong_are_refused(monkeypatch):
    model, _ = models(GPU_CONFIGS["llama"])
    ids = torch.randint(0, 4099, (1, LONG_PROMPT + BEHIND), device="cuda")
    runner = runner_of(model)
    runner.prepare(1, LONG_PROMPT, BEHIND)
    expected = expected_of(model, ids)
    right = runner.logits(ids)
    of_prompt = runner._forced_prompts.logits

    def overwrites(prompt):
        result = of_prompt(prompt)
        runner._machine.values.fill_(10.0)
        return result

    monkeypatch.setattr(runner._forced_prompts, "logits", overwrites)
    wrong = runner.logits(ids)
    assert torch.equal(wrong[:, :LONG_PROMPT], right[:, :LONG_PROMPT])
    differences = [logit_gate.difference(logits, expected, prompt=LONG_PROMPT) for logits in (right, wrong)]
    assert [bool(logit_gate.refusal(difference, "bf16")) for difference in differences] == [False, True]
