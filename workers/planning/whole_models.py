"""The whole-model variants that compose tries."""

from kernels import registry
from kernels.runners.whole_model import WholeModel
from workers.documents.stages import StageInput
from workers.planning import kernels_plan


def whole_models(document: StageInput) -> list[WholeModel]:
    """The variants in the order of trial: the one that runs today first, then the quickest to build.

    Variants that only make tokens are left out for a model that generates none. A kernels plan of lower precision is
    made afterwards, from whatever lossy variants were explored.
    """
    today, generates = document.workload.present_runner, document.model.kind == "decoder"
    found = [each for each in registry.variants("model") if isinstance(each, WholeModel) and each.in_plans]
    found = [each for each in found if generates or each.encodes]
    found = [each for each in found if not (each.lossy and each.runner_name == kernels_plan.VARIANT)]
    return sorted(found, key=lambda each: (each.name != today, each.build_seconds))
