"""The usual ops of a GPU's prompts in Triton's interpreter, on caches laid out as the megakernel's."""

import pytest
import torch

from kernels import engine
from kernels.engine.bound_variants import BoundVariants
from kernels.engine.decoder import Decoder
from kernels.engine.layer_ops import LayerOps, Traffic
from kernels.engine.prompt_ops import prompt_ops
from kernels.hardware import GPUS
from tests.kernels.engine.engine_models import CONFIGS
from tests.kernels.engine.test_prompts import TRITON, compare, prompt_of
from tests.kernels.interpreting import let_tensors_be_bounds

let_tensors_be_bounds()


@pytest.mark.parametrize(("name", "batch", "layers"), [("qwen2", 2, 1), ("qwen3", 1, 2)])
def test_usual_ops(name: str, batch: int, layers: int) -> None:
    config = CONFIGS[name] | {"num_hidden_layers": layers}
    loaded = engine.load(None, config, seed=3, generated=True, dtype="fp16", device="cpu")
    model, gpu = Decoder(loaded), GPUS["a100"]
    ops = prompt_ops(LayerOps(model, Traffic(batch, 40, 8)), gpu)
    assert {op.variant for op in ops} >= {*TRITON, "flash_triton"}
    parts = BoundVariants(ops, gpu)
    with torch.no_grad():
        compare(model, parts, prompt_of(batch, 40), whole=False, tolerance=0.02)
    assert {part.variant.name for part in parts._found.values() if part} >= {*TRITON, "flash_triton"}
