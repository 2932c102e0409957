"""What a result offers to serve its plan: a command that this library's own command line takes, or a reason."""

import argparse
import json
import shlex

import pytest

from kernels.cli.serve import serve_arguments
from tests import sample_results
from workers.charts import serving
from workers.documents.stages import Results


def results(**plan) -> Results:
    found = sample_results.results()
    return found.model_copy(update={"verify": found.verify.model_copy(update={"plan": found.verify.plan | plan})})


@pytest.mark.parametrize("runner", ["eager", "compiled", "kernels", "megakernel"])
def test_the_command_is_one_that_serve_takes(runner: str) -> None:
    model = sample_results.manifest().model_copy(update={"name": "Ann's model (2)", "source": "upload"})
    found = serving.offer(results(runner=runner, options={}, ops=[]), model)
    words = shlex.split(found.command)
    parser = argparse.ArgumentParser()
    serve_arguments(parser)
    options = parser.parse_args(words[4:])
    assert words[:4] == ["python", "-m", "kernels", "serve"]
    assert (str(options.plan), options.model, options.name) == ("plan.json", "DIR", "Ann-s-model-2")
    asked = json.loads(shlex.split(found.request)[-1])
    assert asked["model"] == options.name
    assert f"localhost:{options.port}/v1/completions" in found.request
    assert found.install == "pip install '.[gpu,serve]'"


def test_the_size_is_the_plans_and_a_catalogue_model_needs_no_directory() -> None:
    model = sample_results.manifest().model_copy(update={"name": "llama-3.2-1b", "source": "catalogue"})
    size = {"basis": "default", "context": 1024, "running": 128}
    found = serving.offer(results(runner="kernels", options={}, ops=[], serving=size), model)
    assert "--model llama-3.2-1b" in found.command
    assert found.notes[-1] == "Up to 128 requests at once, in sequences of up to 1,024 tokens: defaults, not measured."


def test_what_cannot_be_served_is_said() -> None:
    model = sample_results.manifest()
    assert "rounds weights" in serving.offer(results(options={"weights": "fp8"}), model).refusal
    assert "another" in serving.offer(results(options={}, ops=[], serving=None), model).refusal
    assert serving.offer(results(), model.model_copy(update={"kind": "encoder"})) is None
    assert serving.offer(Results(), model) is None
