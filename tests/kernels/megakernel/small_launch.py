"""A few launches of small models, straight through `SingleGpuMegakernel`, for compute-sanitizer:

    PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --kernel-name kns=decode --tool memcheck \\
        python -m tests.kernels.megakernel.small_launch qwen2 1 bf16

Every tensor then is an allocation of its own, so that an address beyond one is seen. With `--tool racecheck` it takes
one more word, `debug`: that build lets each lane say that it has read a chunk, which racecheck can follow. For
`--tool initcheck --check-api-memory-access no`, which sees no write of torch's kernels behind the filter, all that is
there before a launch is written from the host, and nothing else. The word `long` asks for a context in which several
splits of the keys are at work.
"""

import sys

import numpy as np
import torch

from kernels import engine
from kernels.megakernel import machine
from kernels.megakernel.device import Tuning
from kernels.megakernel.layout import default_layout
from kernels.megakernel.runner import pinned
from kernels.megakernel.shape import shape_of
from kernels.ops.sampling import GREEDY, Sampling
from tests.kernels.megakernel.tiny_models import GPU_CONFIGS

CAPACITY, POSITION, TOKENS = 192, 130, 3
LONG = 1024, 700  # capacity and position where two to four splits are at work
DRAWN = [Sampling(0.9, top_k=50, top_p=0.9, seed=1), GREEDY]


def main(family: str, batch: int, weights: str, debug: bool = False, long: bool = False, layers: int = 2) -> None:
    """Greedy, and drawn where every second sequence is; raises MegakernelFault when the kernel gives up."""
    machine.TIMEOUT_NS = 100 * 10**9  # a checked kernel is slow
    config = GPU_CONFIGS[family] | {"num_hidden_layers": layers}
    model = engine.load(None, config, seed=0, generated=True, dtype="bf16", device="cuda")
    shape = shape_of(model.config.to_dict())
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    capacity, position = LONG if long else (CAPACITY, POSITION)
    layout = default_layout(shape, batch, capacity, weights, sms)
    made = machine.SingleGpuMegakernel(model, shape, layout, capacity, Tuning(debug=debug))
    first = torch.ones(batch, dtype=torch.int64, device="cuda")
    caches = [
        cache[layer, row, :position] for cache in (made.keys, made.values) for layer, row in np.ndindex(layers, batch)
    ]
    for rows in caches:
        rows.normal_()
    arrays = [each for name, each in made._held.items() if name not in ("k_cache", "v_cache")]
    for there in (*caches, *arrays, made._words, made._fault, first):
        there.copy_(there.cpu())
    for sampling in (None, (DRAWN * batch)[:batch]):
        (memory, tokens), (held, cancel) = pinned(TOKENS * batch, -1), pinned(1, 0)
        made.launch(machine.DecodeRequest(first, position, TOKENS, sampling=sampling), tokens, cancel)
        made.check()
        assert np.all(tokens >= 0), tokens
        print(family, batch, weights, tokens.tolist())
        del memory, held


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], "debug" in sys.argv, "long" in sys.argv)
