"""Prints the names of the Triton kernels that variants launch, in Triton's interpreter, as JSON by variant."""

import json
import sys

from triton.runtime.interpreter import InterpretedFunction

from kernels import registry
from kernels.cases import check_cases
from kernels.hardware import GPUS
from kernels.proof.inputs import draw
from tests.kernels.interpreting import let_tensors_be_bounds


def main() -> None:
    let_tensors_be_bounds()
    launched: set[str] = set()
    run = InterpretedFunction.run

    def noted(self, *args, **kwargs):
        launched.add(self.__name__)
        return run(self, *args, **kwargs)

    InterpretedFunction.run = noted
    found = {}
    for name in json.load(sys.stdin):
        launched.clear()
        variant = registry.variant(name)
        served = [
            check_case
            for check_case in check_cases(variant.op, False)
            if variant.serves(check_case, GPUS["h200"]) is None
        ]
        case = min((each for each in served if each.dtype == "fp16"), key=lambda each: each.least_bytes)
        variant.build(case, variant.space(case)[0])(**draw(case, "cpu", seed=0))
        found[name] = sorted(launched)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
