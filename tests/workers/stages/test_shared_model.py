"""The stages of a run share the model that one of them has loaded, and leave it as it was."""

import json
from typing import Any

import pytest
import torch

from kernels import registry
from kernels.model import decoder
from tests.kernels.runners.engine_models import CONFIGS
from tests.workers.conftest import TINY, manifest, stage_input
from workers.documents.stages import Results
from workers.harness.context import Context
from workers.measuring import served_model
from workers.stages import admit, baseline, compose, explore, profile, verify

pytestmark = pytest.mark.usefixtures("known_ceilings")
SECONDS = {compose: 20}
"""Of the stage that tries plans while there is time; the others have 1."""
ALLOWED = {"gpu_classes": ["cpu"], "exclude": ["compiled_tuned", "compiled_max_autotune"]}
"""One variant that compiles the model is enough."""


def _surroundings(model: torch.nn.Module) -> tuple[Any, ...]:
    """What else than weights a later stage would notice."""
    modules = [
        (name, type(each), vars(each).get("forward"), len(each._forward_hooks) + len(each._forward_pre_hooks))
        for name, each in model.named_modules()
    ]
    return modules, model.config.to_dict(), model.training  # type: ignore[union-attr, operator]


def test_each_stage_gets_the_model_and_leaves_it_bit_for_bit(context: Context, monkeypatch: Any) -> None:
    loads, load = list[str](), served_model.load

    def counted(*args: Any, **kwargs: Any) -> Any:
        loads.append("load")
        return load(*args, **kwargs)

    monkeypatch.setattr(served_model, "load", counted)
    results, shared, seconds = Results(), dict[str, Any](), dict[str, float]()
    model = manifest(TINY)
    for stage in (admit, baseline, profile, explore, compose):
        name = stage.__name__.rpartition(".")[2]
        here = Context(context.model_dir, context.artifacts, seconds=SECONDS.get(stage, 1), shared=shared)
        setattr(results, name, stage.run(stage_input(name, model, results, constraints=ALLOWED), here))
        seconds[name] = here.starts_and_loads
        if name == "baseline":
            kept = {each: value.clone() for each, value in shared["model"].state_dict().items()}
            surroundings = _surroundings(shared["model"])
        if name != "admit":
            now = shared["model"].state_dict()
            assert now.keys() == kept.keys(), name
            assert [item for item in kept if not torch.equal(now[item], kept[item])] == [], name
            assert _surroundings(shared["model"]) == surroundings, name
    assert loads == ["load"]
    assert [name for name, value in seconds.items() if value > 0] == ["baseline"]
    before = shared["model"]
    here = Context(context.model_dir, context.artifacts, seconds=1, shared=shared)
    verify.run(stage_input("verify", model, results, constraints=ALLOWED), here)
    assert "model" not in shared, "its further processes and the load stage need the memory"
    assert all(torch.equal(value, kept[each]) for each, value in before.state_dict().items())
    assert _surroundings(before) == surroundings


def test_a_plan_that_changes_modules_gets_a_model_of_its_own(context: Context) -> None:
    """Of a model that the compact decoder does not run, the kernels runner replaces modules."""
    context.model_dir.joinpath("config.json").write_text(json.dumps(CONFIGS["gpt2"]))
    document = stage_input("compose", manifest(CONFIGS["gpt2"]))
    composer = compose._Composer(document, context)
    assert decoder.refusal(composer.model)
    surroundings = _surroundings(composer.model)
    composer._apply("kernels", composer._plan("kernels", {}, []), registry.variant("kernels"))
    assert _surroundings(composer.model) == surroundings
