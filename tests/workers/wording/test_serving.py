"""What a result offers to serve its plan: a command that this library's own command line takes, or a reason."""

import argparse
import ast
import importlib
import json
import shlex
from pathlib import Path

import pytest

from kernels.cli.serve import serve_arguments
from kernels.load.vllm_server import ServerSettings, vllm, with_plan
from kernels.plan import Serving
from tests import sample_held_loads, sample_results
from tests.kernels.runners import vllm_stand_in
from workers.documents.load import LimitResult, LoadCurve, LoadedServer, UnderLoadResult
from workers.documents.stages import Results
from workers.loadtest.servers.vllm import SPECULATIVE_TOKENS
from workers.wording import serving


def results(**plan) -> Results:
    result = sample_results.results()
    return result.model_copy(update={"verify": result.verify.model_copy(update={"plan": result.verify.plan | plan})})


@pytest.mark.parametrize("runner", ["eager", "compiled", "kernels", "megakernel"])
def test_the_command_is_one_that_serve_takes(runner: str) -> None:
    model = sample_results.manifest().model_copy(update={"name": "Ann's model (2)", "source": "upload"})
    offered = serving.serve_instructions(results(runner=runner, options={}, ops=[]), model)
    words = shlex.split(offered.command)
    parser = argparse.ArgumentParser()
    serve_arguments(parser)
    options = parser.parse_args(words[4:])
    assert words[:4] == ["python", "-m", "kernels", "serve"]
    assert (str(options.plan), options.model, options.name) == ("plan.json", "DIR", "Ann-s-model-2")
    request = json.loads(shlex.split(offered.request)[-1])
    assert request["model"] == options.name
    assert f"localhost:{options.port}/v1/completions" in offered.request
    assert offered.install == "pip install '.[gpu,serve]'"


def test_whether_replicas_are_cheaper_stands_beside_the_command() -> None:
    known = results(runner="megakernel", options={}, ops=[])
    words = "Predicted for 32 users at once within 6.00 ms: …. Cheapest: --tensor-parallel-size 2."
    price = known.price.model_copy(update={"arrangement": words})
    assert (
        words in serving.serve_instructions(known.model_copy(update={"price": price}), sample_results.manifest()).notes
    )
    assert not any("Cheapest" in note for note in serving.serve_instructions(known, sample_results.manifest()).notes)


def test_the_plug_in_is_offered_for_files_of_a_model_that_it_serves(tmp_path: Path) -> None:
    result = results(runner="kernels", options={}, ops=[])
    model = sample_results.manifest().model_copy(update={"source": "upload", "generated": False})
    offered = serving.serve_instructions(result, model)
    assert offered.vllm.splitlines()[-1] == "KERNELS_PLAN=plan.json vllm serve DIR"
    assert offered.vllm_measured == "It was not measured in this run."
    held_load = sample_held_loads.curve("vLLM 0.26.0 with the plan", {8: 900}, 8)
    held_load.server.kind = "vllm"
    measured = serving.serve_instructions(
        result.model_copy(update={"load": UnderLoadResult(after=held_load, sentence="")}), model
    )
    kept = "every promise is kept with 8 users at once: 900 tokens/s."
    assert measured.vllm_measured == f"Measured in this run, by vLLM 0.26.0 with the plan: {kept}"
    python = vllm_stand_in.environment(tmp_path / "vllm", log="the plug-in is there")
    wanted = ServerSettings(tmp_path, "mine", "bf16", 8123, 192, 32)
    server = with_plan(vllm(wanted, str(python), {}), Path("plan.json"), SPECULATIVE_TOKENS)
    option, _, value = server.command[-1].partition("=")
    assert shlex.split(measured.vllm.splitlines()[-1]) == [option, value], "what was measured is what is offered"
    *variables, _, _, _, _ = measured.vllm.splitlines()[-2].split()
    assert dict(variable.split("=") for variable in variables).items() <= server.environment.items()
    assert "are of vLLM 0.26.0 with the plan, not of this server." in measured.notes[-1]
    for other in ({"source": "catalogue"}, {"generated": True}, {"architecture": "Gemma2ForCausalLM"}):
        assert serving.serve_instructions(result, model.model_copy(update=other)).vllm == ""


def test_the_plan_from_python_is_code_of_this_library() -> None:
    for node in ast.walk(ast.parse(serving.PYTHON)):
        if isinstance(node, ast.ImportFrom) and node.module:
            assert all(hasattr(importlib.import_module(node.module), name.name) for name in node.names)


def test_the_size_is_the_plans_and_a_catalogue_model_needs_no_directory() -> None:
    model = sample_results.manifest().model_copy(update={"name": "llama-3.2-1b", "source": "catalogue"})
    settings = {"basis": "default", "max_model_len": 1024, "max_num_seqs": 128}
    offered = serving.serve_instructions(results(runner="kernels", options={}, ops=[], serving=settings), model)
    assert "--model llama-3.2-1b" in offered.command
    size = ("Up to 128 requests", "up to 1,024 tokens", "defaults, not measured")
    assert [item for item in size if item not in offered.notes[-1]] == []


def test_what_the_server_chose_under_load_stands_in_place_of_the_defaults() -> None:
    chosen = {"basis": "measured", "max_model_len": 4096, "max_num_seqs": 32, "kv_bytes": 2**30, "graph_rows": [1, 8]}
    chosen |= {"megakernel_up_to": 4, "device": "NVIDIA H200", "driver": "590.2", "torch": "2.11"}
    chosen |= {"token_ms": {"1": {"kernels": 0.99, "megakernel": 0.57}, "8": {"kernels": 1.1, "megakernel": 1.2}}}
    result = results(runner="megakernel", options={}, ops=[], serving={"basis": "default"})
    server = LoadedServer(kind="server", label="", sentence="", hardware="", settings=chosen)
    limit = LimitResult(users=0, most=32, confidence=0.99, confidence_each=0.99, loads=[])
    curve = LoadCurve(server=server, limit=limit, sentence="")
    result = result.model_copy(update={"load": UnderLoadResult(after=curve, sentence="")})
    assert serving.served_plan(result)["serving"] == chosen
    assert Serving.model_validate(chosen).token_ms[8]["kernels"] == 1.1
    offered = serving.serve_instructions(result, sample_results.manifest())
    size, tokens = offered.notes[1:]
    sizes = ("32 requests", "4,096 tokens", "1 GiB of KV pages", "passes of 1, 8 ", "NVIDIA H200, driver 590.2")
    assert [item for item in sizes if item not in size] == []
    times = ("up to 4 requests", "0.57 ms by it and 0.99 ms", "1.2 and 1.1 ms with 8.")
    assert [time for time in times if time not in tokens] == []


def refusal(not_served: str = "", **plan) -> str:
    result = results(**{"options": {}, "ops": [], "serving": None} | plan)
    result.verify.not_served = not_served
    return serving.serve_instructions(result, sample_results.manifest()).refusal


def test_what_cannot_be_served_is_said() -> None:
    model = sample_results.manifest()
    assert "rounds weights" in refusal(options={"weights": "fp8"})
    assert not refusal(options={"weights": "int8"}, serving={})
    assert refusal("The workload excludes kernels.") == "The workload excludes kernels."
    assert serving.serve_instructions(results(), model.model_copy(update={"kind": "encoder"})) is None
    assert serving.serve_instructions(Results(), model) is None
