"""Teacher-forced over 4,096 tokens of generated weights, the megakernel is as near to float32 as torch's bf16."""

import pytest

from kernels import engine
from tests.kernels.megakernel.on_gpu import models
from tests.kernels.megakernel.sample_model import kl_blocks
from tests.kernels.megakernel.tiny_models import GPU_CONFIGS
from workers.stages import quality, texts
from workers.statistics import paired_difference

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize("family", GPU_CONFIGS)
def test_it_loses_no_more_than_torchs_own(family, batch):
    """KL divergence and disagreement at most 1.1 times torch's, the paired interval included for the divergence."""
    model, exact = models(GPU_CONFIGS[family])
    runner = engine.runner("megakernel", model)
    runner.prepare(batch, 128, 1)
    tokens = texts.random(model.config.vocab_size, 128, quality.LEAST_TOKENS)
    reference, torchs = (engine.runner("eager", each) for each in (exact, model))
    done, before, after = quality.compare(reference, torchs, runner, tokens, batch, lambda count: True)
    assert done == quality.LEAST_TOKENS
    assert not after.broken
    kl = paired_difference(list(1.1 * kl_blocks(before)), list(kl_blocks(after)))
    other = paired_difference(list(1.1 * before.blocks()), list(after.blocks()))
    print(f"{family} {batch}: {before.mean_kl:.3g} {after.mean_kl:.3g} {kl}; ", end="")
    print(f"{before.disagreement:.4f} {after.disagreement:.4f} {other}")
    assert kl.high <= 0
    assert other.low <= 0
