"""Which whole-model variants a worker of several GPUs tries over how many of them."""

from kernels.megakernel.program.ranks import TENSOR_PARALLEL_SIZES, shard_of
from kernels.megakernel.program.shape import Unsupported, shape_of
from kernels.ops import ModelCase
from kernels.registry import Refusal
from kernels.runners.whole_model import WholeModel
from workers.documents.gpu_class import class_of_several
from workers.documents.stages import StageInput
from workers.prediction.feasibility import AvailableGpus, impossible
from workers.wording.stages import NOT_TRIED

CUDA_GRAPHS = "cuda_graphs"
"""torch's own kernels: of a sharded model what a plan is to be compared with, beside what runs today."""


def counts(variant: WholeModel, document: StageInput) -> list[int]:
    """The numbers of GPUs that the variant is tried on: the fewest that hold the model, then more of the worker's."""
    fewest = document.tensor_parallel_size
    if variant.name == CUDA_GRAPHS and fewest > 1:
        return [fewest]
    most = min(variant.most_gpus, document.gpus)
    return [count for count in TENSOR_PARALLEL_SIZES if fewest <= count <= most]


def label(variant: WholeModel, size: int) -> str:
    """The trial's label: `megakernel`, `megakernel on 2 GPUs`."""
    return variant.name if size == 1 else f"{variant.name} on {size} GPUs"


def case_of(variant: WholeModel, document: StageInput, size: int) -> ModelCase:
    traffic = document.workload.traffic
    return ModelCase(
        model=document.model.digest,
        weights=variant.weights,  # type: ignore[arg-type]
        batch=traffic.batch,
        prompt=traffic.prompt_tokens,
        tokens=traffic.output_tokens,
        gpus=size if size > 1 else None,
    )


def refusal(document: StageInput, size: int, weights: str = "bf16") -> Refusal | None:
    """Why the model is not sharded so: a size that does not divide it, or a promise below the floor."""
    if size == 1:
        return None
    try:
        shard_of(shape_of(document.model.config), size, weights)
    except Unsupported as error:
        return Refusal(str(error))
    workload, gpu_class, profile = document.workload, class_of_several(document.gpu, size), document.results.profile
    known = AvailableGpus(ceilings={document.gpu: profile.ceilings} if profile else {})
    reasons = (impossible(objective, workload, document.model, gpu_class, known) for objective in workload.objectives)
    return next((Refusal(f"{NOT_TRIED}{reason}.") for reason in reasons if reason), None)
