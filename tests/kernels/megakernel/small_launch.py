"""A few launches of small models, straight through `SingleGpuMegakernel` or `RankedMachine`, for compute-sanitizer:

    PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --kernel-name kns=decode --tool memcheck \\
        python -m tests.kernels.megakernel.small_launch qwen2 1 bf16

Every tensor then is an allocation of its own, so that an address beyond one is seen. With `--tool racecheck` it takes
one more word, `debug`: that build lets each lane say that it has read a chunk, which racecheck can follow. For
`--tool initcheck --check-api-memory-access no`, which sees no write of torch's kernels behind the filter, all that is
there before a launch is written from the host, and nothing else. The word `long` asks for a context in which several
splits of the keys are at work. The word `ranks` shards the model over two GPUs, or over the halves of one.
"""

import sys
from collections import Counter
from typing import Any

import numpy as np
import torch

from kernels import runners
from kernels.megakernel.host import machine
from kernels.megakernel.host.device import Tuning
from kernels.megakernel.host.rank_models import rank_models
from kernels.megakernel.host.ranked_machine import RankedMachine
from kernels.megakernel.program.layout import default_layout
from kernels.megakernel.program.ranks import shard_of
from kernels.megakernel.program.shape import shape_of
from kernels.megakernel.runner import allocate_pinned
from kernels.model.rounding import Rounding
from kernels.ops.sampling import GREEDY, Sampling
from tests.kernels.megakernel.tiny_models import GPU_CONFIGS

CAPACITY, POSITION, TOKENS, LAYERS = 192, 130, 3, 2
LONG = 1024, 700  # capacity and position where two to four splits are at work
DRAWN = [Sampling(0.9, top_k=50, top_p=0.9, seed=1), GREEDY]


def machine_of(model: Any, batch: int, weights: str, capacity: int, tuning: Tuning, ranks: int) -> Any:
    """The model made ready for one GPU, or for ranks on as many GPUs as there are."""
    shape, sms = shape_of(model.config.to_dict()), torch.cuda.get_device_properties(0).multi_processor_count
    if ranks == 1:
        layout = default_layout(shape, batch, capacity, weights, sms)
        return machine.SingleGpuMegakernel(model, shape, layout, capacity, tuning)
    gpus = [torch.device("cuda", rank % torch.cuda.device_count()) for rank in range(ranks)]
    shard, sms = shard_of(shape, ranks), sms // max(Counter(gpus).values())
    layout = default_layout(shard, batch, capacity, weights, sms, ranks)
    return RankedMachine(rank_models(model, gpus, weights, Rounding()), shard, layout, capacity, tuning)


def main(family: str, batch: int, weights: str, debug: bool = False, long: bool = False, ranks: int = 1) -> None:
    """Greedy, and drawn where every second sequence is; raises MegakernelFault when the kernel gives up."""
    machine.TIMEOUT_NS = 100 * 10**9  # a checked kernel is slow
    config = GPU_CONFIGS[family] | {"num_hidden_layers": LAYERS}
    model = runners.load(None, config, seed=0, generated=True, dtype="bf16", device="cuda")
    capacity, position = LONG if long else (CAPACITY, POSITION)
    made = machine_of(model, batch, weights, capacity, Tuning(debug=debug), ranks)
    first = torch.ones(batch, dtype=torch.int64, device="cuda")
    for rank in made.ranks:
        caches = [
            cache[layer, row, :position]
            for cache in (rank.keys, rank.values)
            for layer, row in np.ndindex(LAYERS, batch)
        ]
        for rows in caches:
            rows.normal_()
        arrays = [each for name, each in rank._arrays.items() if name not in ("k_cache", "v_cache")]
        for there in (*caches, *arrays, rank._words, rank._fault, first):
            there.copy_(there.cpu())
    for sampling in (None, (DRAWN * batch)[:batch]):
        (memory, tokens), (held, cancel) = allocate_pinned(TOKENS * batch, -1), allocate_pinned(1, 0)
        made.launch(machine.DecodeRequest(first, position, TOKENS, sampling=sampling), tokens, cancel)
        made.check()
        assert np.all(tokens >= 0), tokens
        print(family, batch, weights, tokens.tolist())
        del memory, held


if __name__ == "__main__":
    asked = sys.argv[1:]
    main(asked[0], int(asked[1]), asked[2], "debug" in asked, "long" in asked, 2 if "ranks" in asked else 1)
