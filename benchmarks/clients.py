"""Public clients, unchanged, against `kernels serve` on this machine's CPU: the job of `make clients`.

    python -m benchmarks.clients [CLIENT …] [--environments FOLDER] [--json FILE]

Each client is installed by `constraints/public-clients.txt` into a virtual environment of its own, which also sees the
project's packages, so that torch comes from there and never from an index. `openai` is that of `make setup`; the JDK's
HttpClient runs where there is a JDK. The server runs the sample model, with a chat template that knows tools. A client
that cannot be installed here has a row that says why. An environment that is in FOLDER already is used: inference-perf,
which wants Python 3.12, may have one of a newer Python than the project's.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.load_tools import MODEL, ROOT, Job, aiperf, genai_bench, guidellm, inference_perf, locust, run_tool
from kernels.load.server_process import reserve_port, run_server
from kernels.measure.environment import environment_info

PINS = ROOT / "constraints" / "public-clients.txt"
LIBRARIES = "litellm", "langchain-openai", "instructor", "pydantic-ai-slim", "lm-eval"
"""Their calls are in `client_calls.py`."""
INSTALL_SECONDS = 240
JOB = Job(MODEL.name, 8, 2, 30, 12)
BODY = {"model": MODEL.name, "prompt": "A list is", "max_tokens": 8}
TEMPLATE = """\
{% if tools %}{% for tool in tools %}{{ tool | tojson }}
{% endfor %}Call one as <tool_call>{"name": NAME, "arguments": OBJECT}</tool_call>.
{% endif %}{% for message in messages %}{{ message.role }}: {{ message.content or message.tool_calls | tojson }}
{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"""
Outcome = dict[str, str | None]
"""Of each call null, or what went wrong."""


def openai(url: str) -> tuple[str, Outcome]:
    """Its version, and the calls of `openai_calls.py`."""
    command = [sys.executable, str(ROOT / "benchmarks" / "openai_calls.py"), url]
    result = json.loads(run_tool(command, PYTHONPATH=str(Path(sys.prefix) / "clients")))
    return result["version"], {f"{result['answered']} of {result['asked']} calls": ", ".join(result["errors"]) or None}


def jdk(url: str) -> tuple[str, Outcome]:
    """A completion, whole and streamed."""
    bodies = (json.dumps(BODY | {"temperature": 0, "stream": stream}) for stream in (False, True))
    post = ["java", str(ROOT / "benchmarks" / "Post.java"), f"{url}/v1/completions", *bodies]
    whole, *events = (
        json.loads(line) for line in re.findall(r"^(?:200 )?(?:data: )?(\{.*\})$", run_tool(post), re.MULTILINE)
    )
    text, streamed = whole["choices"][0]["text"], "".join(event["choices"][0]["text"] for event in events)
    outcome = {"completion and stream": None if text and text == streamed else f"{text!r} and {streamed!r}"}
    return run_tool(["java", "--version"]).split()[1], outcome


TOOLS = locust, guidellm, aiperf, genai_bench, inference_perf
LOADS = {tool.__name__.replace("_", "-"): tool for tool in TOOLS}
CLIENTS = "openai", "jdk", *LIBRARIES, *LOADS


def installed(name: str, requirement: str, folder: Path) -> Path:
    """The programs of an environment that has the requirement. Raises RuntimeError with what pip says."""
    environment, constraint = folder / name, folder / "torch.txt"
    constraint.write_text(f"torch=={version('torch').partition('+')[0]}\n")
    if not environment.is_dir():
        run_tool([sys.executable, "-m", "venv", "--without-pip", str(environment)])
        packages = sysconfig.get_path("purelib", "venv", {"base": str(environment)})
        Path(packages, "project.pth").write_text(sysconfig.get_path("purelib"))
    command = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet", "--constraint", str(constraint)]
    done = subprocess.run([*command, requirement], capture_output=True, text=True, timeout=INSTALL_SECONDS)
    if done.returncode:
        raise RuntimeError(" ".join(line for line in done.stderr.splitlines() if line.startswith("ERROR: ")))
    return environment / "bin"


def outcome_of(name: str, requirement: str, url: str, model: Path, environments: Path) -> Outcome:
    try:
        programs = installed(name, requirement, environments)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return {"installation": str(error)[:300]}
    if name in LIBRARIES:
        command = [str(programs / "python"), str(ROOT / "benchmarks" / "client_calls.py"), name, url, str(model)]
        outcome: Outcome = json.loads(run_tool(command, PYTHONWARNINGS="ignore").splitlines()[-1])
        return outcome
    with tempfile.TemporaryDirectory() as folder:
        result = LOADS[name](str(programs / name), url, Path(folder), JOB)
    right = result["asked"] == result["answered"] and not result["errors"]
    return {f"{result['answered']} of {result['asked']} requests": None if right else str(result["errors"])}


def rows(name: str, url: str, model: Path, environments: Path) -> list[dict[str, Any]]:
    """A row for each call of a client; one alone where it did not get so far."""
    pins = {re.split(r"[\[=]", line)[0]: line for line in PINS.read_text().splitlines() if "==" in line}
    number = pins.get(name, "").rpartition("==")[2] or None
    try:
        if name == "openai":
            number, outcome = openai(url)
        elif name == "jdk":
            number, outcome = jdk(url)
        else:
            outcome = outcome_of(name, pins[name], url, model, environments)
    except (RuntimeError, OSError, LookupError, ValueError, subprocess.TimeoutExpired) as error:
        outcome = {"run": f"{type(error).__name__}: {error}"[-300:]}
    return [
        {"client": name, "version": number, "call": call, "passed": error is None, "error": error}
        for call, error in outcome.items()
    ]


def main() -> int:
    """0 when every call passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clients", nargs="*", metavar="CLIENT", default=CLIENTS, help=f"of {', '.join(CLIENTS)}")
    parser.add_argument("--environments", type=Path, help="where to keep the clients (default: a folder in /tmp)")
    parser.add_argument("--json", type=Path, default=ROOT / "benchmarks" / "results" / "cpu" / "clients.json")
    given = parser.parse_args()
    table: list[dict[str, Any]] = []
    url = f"http://127.0.0.1:{reserve_port()}"
    with tempfile.TemporaryDirectory() as scratch:
        environments, model = given.environments or Path(scratch, "environments"), Path(scratch, MODEL.name)
        environments.mkdir(parents=True, exist_ok=True)
        shutil.copytree(MODEL, model)
        (model / "chat_template.jinja").write_text(TEMPLATE)
        command = [sys.executable, "-m", "kernels", "serve", "--model", str(model), "--device", "cpu"]
        command += ["--max-num-seqs", "8", "--kv-gib", "0.5", "--port", url.rpartition(":")[2]]
        with run_server(command, f"{url}/health", Path(scratch, "log"), 600):
            for name in given.clients:
                table += rows(name, url, model, environments)
                print(*(json.dumps(row) for row in table if row["client"] == name), sep="\n", flush=True)
    document = {**environment_info("cpu"), "model": "samples/voice-agent", "rows": table}
    given.json.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    return int(not all(row["passed"] for row in table))


if __name__ == "__main__":
    raise SystemExit(main())
