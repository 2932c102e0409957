"""How many GPUs of a class hold a model as it runs today: modelled. Imports no torch."""

from kernels.megakernel.program.ranks import TENSOR_PARALLEL_SIZES
from kernels.model_files import needed_bytes
from kernels.ops import BYTES
from workers.documents.gpu_class import gpus_of
from workers.documents.model import ModelManifest
from workers.documents.workload import Sla
from workers.prediction.generation import divides

GIB = 2**30


def needed_gib(sla: Sla, model: ModelManifest, precision: str, size: int = 1, copies: int = 1) -> float:
    """GiB on each GPU: KV cache of all requests, activations, the runtime, and `copies` of the layers' weights."""
    traffic = sla.traffic
    needed = needed_bytes(
        model.config,
        model.parameters,
        bytes_per_element=BYTES[precision],
        batch=traffic.batch,
        prompt=traffic.prompt_tokens,
        output=traffic.output_tokens,
        tensor_parallel_size=size,
        copies=copies,
    )
    return needed / GIB


def fewest_gpus(sla: Sla, model: ModelManifest, precision: str, gpu_class: str, has_gib: float) -> int | None:
    """The fewest GPUs of the class that hold the model as it runs today, with `has_gib` each; None for none.

    It is one where one holds it. Of several they are the fewest that hold a plan's copy of the layers as well, since
    both are measured beside each other, else the fewest that hold the model. They must be able to divide it.
    """
    several = [size for size in TENSOR_PARALLEL_SIZES[1:] if size <= gpus_of(gpu_class) and divides(model, size)]
    tried = [(1, 1), *((size, copies) for copies in (2, 1) for size in several)]
    return next((size for size, copies in tried if needed_gib(sla, model, precision, size, copies) <= has_gib), None)
