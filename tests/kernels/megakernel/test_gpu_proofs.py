"""What a real launch does is what was proven: words touched, residuals, other streams, ten thousand generations."""

import threading

import pytest
import torch

from kernels.megakernel.host import trace
from kernels.ops.sampling import Sampling
from tests.kernels.megakernel.interpreter.attend import splits_of
from tests.kernels.megakernel.on_gpu import (
    FAMILIES,
    PROMPT,
    assert_layers_are_near,
    assert_one_answer,
    batches_of,
    models,
    runner_of,
    step_logits,
)
from tests.kernels.megakernel.tiny_models import GPU_CONFIGS
from tests.kernels.megakernel.touched import undeclared

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("sampling", [None, Sampling(0.9, top_k=300, top_p=0.9)], ids=["greedy", "top-k and top-p"])
@pytest.mark.parametrize("family", GPU_CONFIGS)
def test_instructions_touch_what_they_declare(family, sampling):
    model, _ = models(GPU_CONFIGS[family])
    usual = ((batch, prompt, {}) for batch, prompt in ((1, PROMPT), (2, 300), (3, 300), (8, PROMPT)))
    shared = {"out_parts": 4, "heads": 8, "splits": 16, "pairs": True}
    for batch, prompt, layout in (*usual, (1, 300, {"out_parts": 4}), (1, 300, shared)):
        runner = runner_of(model, tuning={"debug": True}, layout=layout)
        runner.generate(torch.ones(batch, prompt, dtype=torch.int64, device="cuda"), 8, sampling)
        machine = runner._machine
        splits = (splits_of(at, machine.constants["SPLIT_KEYS"], machine.layout.splits) for at in (prompt, prompt + 8))
        assert len(set(splits)) == 1
        assert not undeclared(machine, prompt + 8, sampling is not None)[:3]


@pytest.mark.parametrize(("family", "batch"), batches_of(1, 2, 8))
def test_each_layer_leaves_the_residual_of_the_reference(family, batch):
    """Every layer's input, and the last one's output, as near to float32 as torch's bf16."""
    model, exact = models(FAMILIES[family])
    runner = runner_of(model, tuning={"debug": True})
    runner.prepare(batch, 24, 1)
    ids = torch.randint(0, 4096, (1, 24), device="cuda")
    step_logits(runner, ids)
    own = runner._machine.residuals[:, ::2, 0].transpose(0, 1)  # [layers + 1, tokens, hidden]
    assert_layers_are_near(own, model, exact, ids)


def test_two_models_on_two_streams_never_hang():
    """Two threads, each with a model and a stream of its own, launch as fast as they can."""
    made = {}
    ready = threading.Barrier(2)
    runners = {family: runner_of(models(GPU_CONFIGS[family])[0]) for family in ("llama", "qwen2")}
    prompt = torch.ones(1, PROMPT, dtype=torch.int64, device="cuda")
    expected = {family: runner.generate(prompt, 16).tokens for family, runner in runners.items()}

    def generate(family):
        with torch.cuda.stream(torch.cuda.Stream()):
            ready.wait()
            made[family] = [runners[family].generate(prompt, 16).tokens for _ in range(500)]

    threads = [threading.Thread(target=generate, args=(family,), daemon=True) for family in runners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert {family: rows == [expected[family]] * 500 for family, rows in made.items()} == dict.fromkeys(runners, True)


def test_a_timeline_is_recorded(tmp_path):
    """Each instruction's marks rise, and instructions of an SM follow each other."""
    from kernels.megakernel.host.record import record

    path = tmp_path / "raw.npz"
    record(GPU_CONFIGS["llama"], path, PROMPT, 8, 1)
    ((program, raw),) = trace.load(path)
    for sm, table in enumerate(program.instructions):
        last = 0
        for index in range(len(table) - 1):
            marks = raw[sm, index]
            assert last <= marks[trace.START]
            if marks[trace.DONE]:
                times = trace.marks_of(marks)
                assert times == sorted(times)
                last = times[-1]
    assert trace.summary(trace.timeline_of([(program, raw)]))["gate_up"][1] > 0


@pytest.mark.slow
def test_ten_thousand_generations_give_one_answer():
    """Back to back, greedy and drawn alternately."""
    runner = runner_of(models(GPU_CONFIGS["llama"])[0])
    prompt = torch.randint(0, 4099, (1, PROMPT), device="cuda")
    assert_one_answer(runner, prompt, 8, 10_000, [None, Sampling(1.0, top_k=200, top_p=0.95, seed=1)])
