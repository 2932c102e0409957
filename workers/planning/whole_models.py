"""The whole-model variants that compose tries."""

from kernels import registry
from kernels.engine.whole_model import WholeModel
from workers.planning import kernels_plan


def whole_models(today: str) -> list[WholeModel]:
    """The variants in the order of trial: the one that runs `today` first, then the quickest to build.

    A kernels plan of lower precision is made afterwards, from whatever lossy variants were explored.
    """
    found = [each for each in registry.variants("model") if isinstance(each, WholeModel) and each.in_plans]
    found = [each for each in found if not (each.lossy and each.runner_name == kernels_plan.VARIANT)]
    return sorted(found, key=lambda each: (each.name != today, each.build_seconds))
