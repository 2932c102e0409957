"""The installed command, its table of loads, and `workbench measure`: a load test for a build, and no torch."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from sample_loads import load, under_load
from typer.testing import CliRunner

from tests.workers.loadtest.stub import running_stub
from workbench.cli import load_tables
from workbench.cli.commands import app
from workers.documents.load import LoadResult

SLA = "traffic: {prompt_tokens: 30, output_tokens: 8, concurrency: 4}\nobjectives: [{metric: ttft, limit: %s}]\n"
KEY = "sk-kept-secret"


@pytest.fixture(scope="module")
def stub():
    with running_stub(first_ms=10, gap_ms=2) as result:
        yield result


def measured(folder, url, *options, sla=SLA % 500):
    (folder / "sla.yaml").write_text(sla)
    code = (
        "import sys\nfrom workbench.cli import app\n"
        "try: app()\n"
        "finally: print({'django', 'ninja', 'torch', 'celery'} & {*sys.modules}, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, "measure", "--url", url, "--model", "stub", "--sla", "sla.yaml", *options]
    environment = {"WORKBENCH_ENDPOINT_KEY": KEY, "PYTHONPATH": ":".join(sys.path), "PATH": ""}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_kept_promise_ends_with_0_and_its_figures_without_the_key_and_a_broken_one_with_1(tmp_path, stub):
    done = measured(tmp_path, stub.url, "--seconds", "2", "--json", "r.json", "--records", "all.jsonl")
    result = LoadResult.model_validate_json((tmp_path / "r.json").read_text())
    assert result.completed == result.requests > 20
    assert done.returncode == (3 if result.lag.void else 0), done.stdout + done.stderr  # a busy machine may void it
    assert "Verdict at 99 % confidence" in done.stdout
    assert done.stderr.endswith("set()\n"), "neither Django nor torch was imported"
    rows = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert sum(row["counted"] for row in rows) == result.requests
    assert all(row["intended_ns"] <= row["begun_ns"] <= row["sent_ns"] <= row["token_ns"][0] for row in rows)
    assert not any(KEY in value for value in (done.stdout, done.stderr, *(f.read_text() for f in tmp_path.iterdir())))
    done = measured(tmp_path, stub.url, "--seconds", "1.5", sla=SLA % 1)
    assert done.returncode == (3 if "void" in done.stdout else 1), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (["--traffic", "none.yaml"], 2, "none.yaml: No such file"),
        (["--traffic", "bad.yaml"], 2, "arrivals.poisson.rate: should be greater than or equal to 0.000000001, not -1"),
        (["--traffic", "broken.yaml"], 2, "calls.csv: line 3: prompt_tokens is no number: 'many'"),
        (["--traffic", "timeless.yaml"], 2, "lengths.csv: has no arrivals to replay: its arrival_s are missing or all"),
        (["--api", "images"], 2, "--api: images is none of completions, chat, embeddings"),
        (["--url", "nowhere"], 2, "--url: 'nowhere' is not an address such as"),
        (["--url", "http://127.0.0.1:1"], 3, "127.0.0.1:1 cannot be reached"),
        (["--url", "http://127.0.0.1:1", "--json", "none/r.json"], 2, "none/r.json: there is no folder none"),
        (["--url", "http://127.0.0.1:1", "--records", "."], 2, ".: this is a folder"),
        (["--model", "stub-401"], 3, "The server answered 401 (Unauthorized): Incorrect API key: …"),
    ],
)
def test_what_cannot_be_measured_is_a_sentence(tmp_path, stub, options, code, sentence, monkeypatch):
    (tmp_path / "bad.yaml").write_text("arrivals: {kind: poisson, rate: -1}")
    (tmp_path / "broken.yaml").write_text("arrivals: {kind: recorded}\nrecording: calls.csv")
    (tmp_path / "timeless.yaml").write_text("arrivals: {kind: recorded}\nrecording: lengths.csv")
    (tmp_path / "lengths.csv").write_text("when,prompt_tokens,output_tokens\n0,5,5\n9,5,5\n")
    (tmp_path / "calls.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,5,5\n0.1,many,5\n")
    (tmp_path / "sla.yaml").write_text(SLA % 500)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORKBENCH_ENDPOINT_KEY", KEY)
    given = ["--url", stub.url, "--model", "stub", "--sla", "sla.yaml", "--seconds", "1", *options]
    done = CliRunner().invoke(app, ["measure", *given])
    assert done.exit_code == code, done.stderr
    assert sentence in " ".join(done.stderr.split())
    assert KEY not in done.stdout + done.stderr


def test_serve_needs_only_what_the_servers_extra_installs():
    """pip install '.[serve]' brings none of the packages of the other commands."""
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['typer', 'rich', 'httpx', 'yaml', 'django', 'celery']))\n"
        "sys.argv[1:] = ['serve', '--help']; from workbench.cli import app; app()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--kv-gib" in done.stdout


def test_the_script_explains_itself_and_names_what_is_missing():
    script = Path(sys.executable).with_name("workbench")
    done = subprocess.run([script, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    for command in ("submit", "runs", "show", "report", "plan", "models", "tokens", "up"):
        assert command in done.stdout
    assert CliRunner().invoke(app, ["submit"]).exit_code == 2


def test_both_sides_stand_in_one_table_with_the_load_that_holds():
    console = Console(record=True, width=160)
    load_tables.under_load(under_load(), console)
    printed = console.export_text()
    rows = [line.split() for line in printed.splitlines() if line.strip("│ ").startswith(("before", "after"))]
    assert len(rows) == 12
    for words in ("TTF64 p50", "void", "kept with 20 users at once", "After: This workbench's server with the plan's"):
        assert words in printed
    assert "64 of its answers were held against the model's logits" in " ".join(printed.split())


def test_no_promise_is_judged_by_a_void_measurement():
    console = Console(record=True, width=160)
    load_tables.load_result(load(8, 20, 1, "met").model_copy(update={"verdict": None}), console)
    rows = console.export_text().partition("promise")[2].splitlines()[1:]
    assert [row.split()[-1] for row in rows] == ["void"] * len(rows)
    assert len(rows) > 1


def test_a_search_whose_loads_were_short_names_the_option_that_makes_them_longer():
    limit = under_load().before.limit
    few = [load.model_copy(update={"verdict": "not_enough_samples"}) for load in limit.loads]
    console = Console(record=True, width=200)
    load_tables.limit_found(limit.model_copy(update={"loads": few}), console)
    assert "served too few requests to say: with more --seconds a load lasts longer." in console.export_text()
