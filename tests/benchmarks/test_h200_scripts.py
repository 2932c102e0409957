"""The scripts in benchmarks/h200: bash reads them, and all that they call exists."""

import argparse
import ast
import importlib
import itertools
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from kernels.__main__ import COMMANDS
from kernels.cases import GROUPS, cases
from kernels.cli import bench
from kernels.cli.bench import compiled_peers
from kernels.hardware import NO_MULTICAST
from kernels.model_files import catalogue

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks" / "h200"
SCRIPTS = sorted(FOLDER.glob("*.sh"))
SOURCED = ("common", "use-site", "use-vllm")
PACKING = ("site", "caches")
MEASURING = [item for item in SCRIPTS if item.stem not in (*SOURCED, *PACKING)]


def commands(script: Path, folder: Path, **variables: str) -> list[list[str]]:
    environment = {**os.environ, "DRY_RUN": "1", "OUT": str(folder), "VLLM": "/srv/vllm", "PYTHON": "python"}
    command, environment = ["bash", str(script)], environment | variables
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert not done.stderr
    return [shlex.split(line) for line in done.stdout.splitlines()]


def module_calls(script: Path, folder: Path) -> list[tuple[str, list[str]]]:
    """(module, arguments) of every `python -m` in what the script would run."""
    result = []
    for words in commands(script, folder):
        while "-m" in words:
            at = words.index("-m")
            if words[at - 1] != "python" and words[0] != "python":
                break
            result.append((words[at + 1], words[at + 2 :]))
            words = words[at + 2 :] if words[at + 1] == "torch.distributed.run" else []
    return result


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda each: each.stem)
def test_bash_reads_it_and_it_says_what_it_is(script: Path) -> None:
    subprocess.run(["bash", "-n", str(script)], check=True, timeout=60)
    text = script.read_text()
    assert "Predicted: " in text or script.stem in SOURCED
    assert script.stem in SOURCED or "set -euo pipefail" in text
    readme = (FOLDER / "README.md").read_text()
    assert script.name in readme
    if script in MEASURING:
        (row,) = re.findall(rf"^\| \[{re.escape(script.name)}\].*\| (.*) \|$", readme, re.M)
        assert f"Predicted: {row.split(',')[0]} s" in text


@pytest.mark.parametrize("script", MEASURING, ids=lambda each: each.stem)
def test_what_it_calls_exists(script: Path, tmp_path: Path) -> None:
    calls = module_calls(script, tmp_path)
    assert calls
    for module, arguments in calls:
        if module == "kernels":
            check_kernels(arguments)
        elif module.startswith("benchmarks."):
            check_options(module, arguments)
        elif module == "pytest":
            paths = [argument for argument in arguments if argument.startswith("tests/")]
            assert paths
            for path in paths:
                assert (ROOT / path).exists(), path
                assert "pytest.mark.gpu" in sources(ROOT / path), f"{path} has no test for a GPU"
            chosen = re.findall(
                r"[a-z]\w{3,}", " ".join(arguments[arguments.index("-k") + 1 :][:1] if "-k" in arguments else [])
            )
            text = "".join(sources(ROOT / path) for path in paths)
            assert not chosen or any(word in text for word in chosen), f"no test is named by {chosen}"
        elif module.startswith("tests."):
            assert (ROOT / f"{module.replace('.', '/')}.py").is_file()
        else:
            assert module == "torch.distributed.run"
    assert not list(tmp_path.iterdir()), "a dry run writes nothing"


def sources(path: Path) -> str:
    return "".join(item.read_text() for item in (path.rglob("test_*.py") if path.is_dir() else [path]))


def check_kernels(arguments: list[str]) -> None:
    """The command's own parser takes the arguments, and what they name is there."""
    command, *rest = arguments
    parser = argparse.ArgumentParser(exit_on_error=False)
    module = importlib.import_module(COMMANDS[command][0])
    getattr(module, f"{command.replace('-', '_')}_arguments")(parser)
    options = parser.parse_args(rest)
    if command != "bench":
        return
    assert not bench._wrong(options)
    assert set(options.model or []) <= set(catalogue.names())
    for text in options.only or []:
        result = [case.key for case in bench.select_cases(cases(options.group, False), [text])]
        assert len(result) == 1, f"{text!r} stands for {result}"


def check_options(module: str, arguments: list[str]) -> None:
    """The options are among those that the module's source adds to its parser; models and variants exist.

    Read without an import, which would load torch.
    """
    source = (ROOT / f"{module.replace('.', '/')}.py").read_text()
    known = {
        item.args[0].value
        for item in ast.walk(ast.parse(source))
        if isinstance(item, ast.Call) and getattr(item.func, "attr", "") == "add_argument"
    }
    assert {argument for argument in arguments if argument.startswith("--")} <= known, module
    named = {option: value for option, value in itertools.pairwise(arguments) if option.startswith("--")}
    if "--sla" in named:
        assert (ROOT / named["--sla"]).is_file()
    if "--model" in named:
        assert named["--model"] in catalogue.names()
    if module.endswith(("workbench_run", "tensor_parallel")):
        assert arguments[0] in catalogue.names() or (ROOT / arguments[0] / "config.json").is_file()


def test_every_op_of_the_library_is_measured_again(tmp_path: Path) -> None:
    """In bursts and settled, and each by a case that has a compiled peer."""
    called = [arguments for _, arguments in module_calls(FOLDER / "library.sh", tmp_path)]
    assert all({"library", "--settled", "--append"} <= set(item) for item in called)
    texts = [item[at + 1] for item in called for at, word in enumerate(item) if word == "--only"]
    result = [*bench.select_cases(cases("library", cpu=False), texts)]
    assert len(result) == len(texts)
    assert {item.op for item in result if compiled_peers(item)} == set(GROUPS["library"])


@pytest.mark.parametrize("gpus", ["2", "4"])
@pytest.mark.parametrize("script", ["gpus", "gpus-70b", "serve-steady"])
def test_as_many_gpus_as_are_named_are_measured(script: str, gpus: str, tmp_path: Path) -> None:
    called = commands(FOLDER / f"{script}.sh", tmp_path, GPUS=gpus)
    options = {"--tensor-parallel-size", "--nproc-per-node"}
    named = {words[at + 1] for words in called for at, each in enumerate(words) if each in options}
    assert named == ({"2", "4"} if (script, gpus) == ("gpus", "4") else {gpus})  # four measure two as well
    picked = [words[words.index("-k") + 1] for words in called if "-k" in words]
    assert all(item.startswith("(four-gpus)" if gpus == "4" else "(two-gpus or two_gpus)") for item in picked)
    text = (FOLDER / "common.sh").read_text()
    assert f"export {' '.join(f'{name}={value}' for name, value in NO_MULTICAST.items())}" in text


def test_a_step_that_hangs_or_fails_leaves_the_others_alone(tmp_path: Path) -> None:
    """And the script's status says so."""
    script = tmp_path / "three.sh"
    script.write_text(
        f"set -euo pipefail\n. {FOLDER}/common.sh\nstep hangs 1 sleep 60\nstep fails 9 false\n"
        "step works 60 echo done\nkeep folder /etc/ssl\nfinish\n"
    )
    environment = {**os.environ, "OUT": str(tmp_path / "out"), "SCRATCH": str(tmp_path), "PYTHON": "python"}
    done = subprocess.run(
        ["bash", str(script)], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    log = (tmp_path / "out" / "log.txt").read_text()
    assert done.returncode == 1
    assert "== works: status 0" in log
    assert "2 steps failed: hangs fails" in log
