"""The operations of the chosen plan."""

import pytest
from sample_loads import results

from workers.charts import chosen


def test_the_plan_stands_operation_by_operation_beside_torchs_best():
    headers, ((case, variant, summary, calls, mine, torchs, times),) = chosen.table(results())
    assert len(headers) == 7
    assert (case, variant, summary, calls) == ("linear 1×8192×2048", "cublaslt", "cuBLASLt", 1)
    assert (mine, torchs, times) == (pytest.approx(11.7), pytest.approx(13.1), pytest.approx(13.1 / 11.7))


def test_a_megakernels_head_is_called_for_the_prompt_alone():
    document = results()
    plan = document.verify.plan
    next(each for each in document.explore.candidates if each.id == plan["ops"][0]["evidence_id"]).per_request = 64.0
    plan["ops"][0] |= {"op": "lm_head", "case": {"m": 1, "vocab": 32000, "k": 2048}}
    assert chosen.parts(document)[0].calls == 64
    plan["runner"] = "megakernel"
    assert chosen.parts(document)[0].calls == 1


def test_an_operation_in_lower_precision_stands_beside_no_peer_in_another():
    document = results()
    (own,) = [each for each in document.explore.candidates if each.id == document.verify.plan["ops"][0]["evidence_id"]]
    own.case = own.case | {"weights": "fp8"}
    assert chosen.table(document)[1][0][-2:] == [None, None]
