"""On a Hopper GPU: sequences of one launch at positions of their own."""

import pytest
import torch

from tests.kernels.megakernel.on_gpu import launched, models, runner_of
from tests.kernels.megakernel.tiny_models import GPU_CONFIGS

pytestmark = pytest.mark.gpu

COUNT = 8


@pytest.mark.parametrize("positions", [(20, 300, 131), (0, 1, 700), (511, 512, 63, 64, 65)])
@pytest.mark.parametrize("family", ["llama", "llama-32", "qwen3"])
def test_each_answers_as_if_all_were_so_long(family: str, positions: tuple[int, ...]) -> None:
    """The same bits of every logit."""
    batch, vocab = len(positions), GPU_CONFIGS[family]["vocab_size"]
    runner = runner_of(models(GPU_CONFIGS[family])[0])
    runner.prepare(batch, 800, COUNT)
    machine = runner._machine
    rows = [torch.randn_like(each) for each in (machine.keys, machine.values)]
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
