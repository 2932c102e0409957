"""Every refusal of a variant is a sentence in the words of the field, not in Python's."""

import re

from kernels import registry
from kernels.cases import GROUPS, check_cases
from kernels.hardware import GPUS

PYTHON = re.compile(r"\b(None|True|False|true|false|is given|is not given)\b|[\[{<]")


def test_refusals_have_no_words_of_python():
    said = set()
    for op in GROUPS["library"]:
        cases = check_cases(op, False)
        for gpu in GPUS.values():
            for case in cases:
                for refusal in registry.offers(case, gpu)[1].values():
                    said.add(refusal.reason)
    assert len(said) > 100
    assert not sorted(each for each in said if PYTHON.search(each))
    assert not sorted(each for each in said if not re.fullmatch(r"[^:]+ (is|are) [^:]+: \S.*[^.]", each))
