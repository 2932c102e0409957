"""Documents of version 1 are still read: their params have other keys."""

import json
from pathlib import Path

import pytest

from kernels.cli import bench_document
from kernels.ops import LinearCase
from kernels.plan import Plan
from kernels.tune.tuning_cache import TuningCache

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "h200"
OLD = {"splits": 2, "overlap": True, "ahead": 64, "late": False, "claims": True, "turns": True, "two_levels": False}
NEW = {
    "splits": 2,
    "pdl": True,
    "l2_prefetch": 64,
    "late_trigger": False,
    "dynamic": True,
    "ping_pong": True,
    "promote": False,
}


def test_a_plan_of_version_1_is_read_with_the_keys_of_today():
    op = {"op": "linear", "case": LinearCase(m=1, n=64, k=64).model_dump(), "variant": "skinny", "params": OLD}
    plan = Plan.model_validate({"version": 1, "model_digest": "d", "gpu": "h200", "runner": "kernels", "ops": [op]})
    assert plan.ops[0].params == NEW
    again = Plan.model_validate_json(plan.model_dump_json())
    assert again == plan


@pytest.mark.parametrize("name", ["llama-3.2-1b-kernels.plan.json", "llama-3.2-1b-in-3-minutes.plan.json"])
def test_a_published_plan_is_read_with_the_keys_of_today(name):
    plan = Plan.model_validate_json((RESULTS / name).read_text())
    assert plan.ops
    renamed = set(OLD) - set(NEW)
    assert not {key for op in plan.ops for key in op.params} & renamed


def test_a_bench_document_without_a_version_is_of_version_1(tmp_path):
    case = LinearCase(m=1, n=64, k=64).model_dump()
    row = {"op": "linear", "case": case, "variant": "skinny", "params": OLD, "peer": False, "gate": "pass"}
    path = tmp_path / "old.json"
    path.write_text(json.dumps({"device": "a GPU", "versions": {}, "rows": [row]}))
    document = bench_document.read(path)
    assert document.version == 1
    assert document.rows[0].params == NEW


def test_a_kept_choice_of_version_1_is_found_with_the_keys_of_today(tmp_path):
    choices, case = TuningCache({"device": "here"}, tmp_path), LinearCase(m=1, n=64, k=64)
    kept = {case.key: {"variant": "torch_linear", "params": OLD, "ms": 1.0, "sentence": "It was fastest."}}
    choices.path.write_text(json.dumps({"choices": kept}))
    found = choices.find(case)
    assert found is not None
    assert found.params == NEW
