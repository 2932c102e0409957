"""A runner of a sharded model that needs no GPU: in place of the megakernel, whose plans are sharded."""

from typing import Any

from kernels.model.tensor_parallel import TensorParallelModel
from kernels.runners.kernels_runner import TensorParallelRunner

NAME = f"{__name__}.ShardedRunner"


class ShardedRunner(TensorParallelRunner):
    """torch's own ops over the shards; a whole model is refused."""

    def __init__(self, model: Any, options: Any = None, variants: Any = None) -> None:
        assert isinstance(model, TensorParallelModel), f"{type(model).__name__} was loaded whole"
        super().__init__(model)
