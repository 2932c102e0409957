"""The commands of `workbench`. Their exit codes: `workbench.cli.errors.Exit`."""

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
from typer.core import TyperGroup

from workbench.cli import regression, tables, tokens
from workbench.cli.client import ApiClient
from workbench.cli.consoles import complain, err, out
from workbench.cli.errors import CliError, Exit
from workbench.cli.follow import OVER, exit_code, follow, print_json, print_run, report_start
from workbench.cli.measure import find_limit, measure
from workbench.cli.server import start_server
from workbench.cli.sla import read_sla
from workbench.cli.upload import model_reference, recording_reference
from workers.charts.comparison import MAX_RUNS, labelled
from workers.documents.stages import Results
from workers.documents.workload import Workload


class Commands(TyperGroup):
    """Ends with a sentence and an exit code where a command fails, never with a stack trace or a verdict's code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except CliError as error:
            for line in error.lines:
                complain(line)
            raise typer.Exit(error.code) from None
        except KeyboardInterrupt:
            complain("Interrupted.")
            raise typer.Exit(Exit.INTERRUPTED) from None
        except (ValueError, LookupError, TypeError, httpx.HTTPError) as error:
            complain(f"The server's answer was not understood ({type(error).__name__}); is it of another version?")
            raise typer.Exit(Exit.FAILED) from None


app = typer.Typer(cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)


@dataclass
class WorkbenchServer:
    """Where the workbench is, and the token to use."""

    url: str
    token: str

    def api(self) -> ApiClient:
        """The client. Raises CliError when there is no token."""
        if not self.token:
            raise CliError(f"WORKBENCH_TOKEN is not set; make a token at {self.url.rstrip('/')}/tokens/.")
        if not (self.token.isascii() and self.token.isprintable()):
            raise CliError("WORKBENCH_TOKEN is no token: it holds characters that none has.")
        return ApiClient(self.url, self.token)


@app.callback()
def main(
    ctx: typer.Context,
    url: Annotated[
        str, typer.Option(envvar="WORKBENCH_URL", help="address of the workbench")
    ] = "http://127.0.0.1:8000",
    token: Annotated[str, typer.Option(envvar="WORKBENCH_TOKEN", help="API token", show_default=False)] = "",
) -> None:
    """Submit a model and an SLA; get measured, proven kernels, a verdict and the price of a token.

    Exit codes: 0 met, 1 missed, 2 usage or bad input, 3 failed, 4 not enough samples, 5 cancelled or lost,
    6 too close to call, 7 slower than a kept run.
    """
    ctx.obj = WorkbenchServer(url, token)


AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]
RunId = Annotated[str, typer.Argument(metavar="[RUN]", help="a run's id or its beginning")]
Latest = Annotated[bool, typer.Option("--latest", help="the newest run, in place of RUN")]
Tags = Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="to find the run by; may come again")]
Wait = Annotated[bool, typer.Option("--wait", help="follow the run; exit 0 met, 1 missed, 3 failed, …")]


@app.command()
def submit(  # noqa: PLR0913  typer makes an option of each parameter
    ctx: typer.Context,
    model: Annotated[str, typer.Argument(help="a directory or GGUF file, a catalogue entry, or a model's digest")],
    sla: Annotated[Path, typer.Option(help="the SLA, YAML or JSON")],
    wait: Wait = False,
    gpu_class: Annotated[str, typer.Option(help="run on this class, such as h200 or cpu")] = "",
    text: Annotated[Path | None, typer.Option(help="text to measure quality on, plain or JSON")] = None,
    name: Annotated[str, typer.Option(help="name of the workload, instead of the SLA's")] = "",
    project: Annotated[str, typer.Option(help="the project that the workload is in")] = "",
    tags: Tags = None,
    as_json: AsJson = False,
) -> None:
    """Hand in a model with an SLA and start a run."""
    document = read_sla(sla, text) | ({"name": name} if name else {})
    api = ctx.obj.api()
    if recording := document.get("traffic", {}).get("recording"):
        document["traffic"]["recording"] = recording_reference(api, sla.parent, recording)
    workload = api.post("/workloads", document | {"model": model_reference(api, model)})
    try:
        if project:
            api.patch(f"/workloads/{workload['id']}", {"project": project})
        body = {"workload": workload["id"], "tags": tags or []} | ({"gpu_class": gpu_class} if gpu_class else {})
        run = api.post("/runs", body)
    except CliError:
        with suppress(CliError):
            api.delete(f"/workloads/{workload['id']}")
        raise
    report_start(api, run, wait, as_json)


@app.command()
def rerun(
    ctx: typer.Context,
    run_id: RunId = "",
    latest: Latest = False,
    search_again: Annotated[bool, typer.Option("--search-again", help="do not take over the plan it found")] = False,
    tags: Tags = None,
    wait: Wait = False,
    as_json: AsJson = False,
) -> None:
    """Run the workload of a run again."""
    api = ctx.obj.api()
    earlier = api.get(f"/runs/{api.run_id(run_id, latest)}")
    run = api.post("/runs", {"workload": earlier["workload"], "search_again": search_again, "tags": tags or []})
    report_start(api, run, wait, as_json)


@app.command()
def go_on(
    ctx: typer.Context, run_id: RunId = "", latest: Latest = False, wait: Wait = False, as_json: AsJson = False
) -> None:
    """Try the plans that a run left out for time, in a run that resumes its search."""
    api = ctx.obj.api()
    report_start(api, api.post(f"/runs/{api.run_id(run_id, latest)}/go-on", {}), wait, as_json)


@app.command()
def cancel(ctx: typer.Context, run_id: RunId = "", latest: Latest = False, as_json: AsJson = False) -> None:
    """Cancel a run that is not over. What was measured stays."""
    api = ctx.obj.api()
    run = api.post(f"/runs/{api.run_id(run_id, latest)}/cancel", {})
    if as_json:
        print_json(run)
    else:
        ended = "is cancelled" if run["state"] in OVER else "stops at its worker's next heartbeat"
        out.print(f"Run {run['id']} {ended}.", highlight=False, soft_wrap=True)


@app.command()
def runs(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option(min=1)] = 20,
    tag: Annotated[str, typer.Option(help="only runs with this tag")] = "",
    project: Annotated[str, typer.Option(help="only runs of this project's workloads")] = "",
    as_json: AsJson = False,
) -> None:
    """List runs, newest first."""
    rows = list(ctx.obj.api().rows("/runs", limit, tag=tag, project=project))
    if as_json:
        print_json(rows)
    else:
        tables.run_list(rows, out)


@app.command()
def show(
    ctx: typer.Context,
    run_id: RunId = "",
    latest: Latest = False,
    wait: Wait = False,
    against: Annotated[str, typer.Option(metavar="RUN", help="a kept run that this one must not be slower than")] = "",
    fail_on_regression: Annotated[
        str, typer.Option(metavar="PERCENT", help="with --against: exit code 7 if it is slower by more, such as 3%")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Show a run: its stages, before and after, and the verdict; perhaps hold it against a kept run."""
    if bool(against) != bool(fail_on_regression):
        raise CliError("--against and --fail-on-regression go together.")
    limit = regression.limit_of(fail_on_regression) if fail_on_regression else None
    api = ctx.obj.api()
    run_id = api.run_id(run_id, latest)
    run = follow(api, run_id, err) if wait else api.get(f"/runs/{run_id}")
    if not as_json:
        tables.stages(run, out)
    print_run(api, run, as_json)
    if limit is not None:
        _hold_against(api, run, against, limit)
    if wait:
        raise typer.Exit(exit_code(run))


def _hold_against(api: ApiClient, run: dict[str, Any], reference: str, limit: float) -> None:
    """Ends the command where the run is slower than the kept one, or cannot be held against it."""
    if run["state"] != "done":
        state = "is still going on; add --wait" if run["state"] not in OVER else f"was {run['state']}"
        raise CliError(f"The run {state}, so it cannot be held against another.", exit_code(run))
    comparison = regression.against(api, run, reference, limit)
    err.print(comparison.sentence, highlight=False, markup=False, soft_wrap=True)
    if comparison.regressed:
        raise typer.Exit(Exit.REGRESSED)


@app.command()
def report(
    ctx: typer.Context,
    run_id: RunId = "",
    latest: Latest = False,
    output: Annotated[Path, typer.Option("-o", "--output", help="where to write it")] = Path("report.html"),
) -> None:
    """Take the report: one HTML file that needs nothing else."""
    api = ctx.obj.api()
    _save(output, api.content(f"/runs/{api.run_id(run_id, latest)}/report"))


@app.command()
def plan(
    ctx: typer.Context,
    run_id: RunId = "",
    latest: Latest = False,
    output: Annotated[Path, typer.Option("-o", "--output", help="where to write it")] = Path("plan.json"),
) -> None:
    """Take the plan, to be run with `python -m kernels run --plan plan.json --model DIR`."""
    api = ctx.obj.api()
    document = api.get(f"/runs/{api.run_id(run_id, latest)}/plan")
    _save(output, json.dumps(document, indent=2).encode() + b"\n")


@app.command()
def compare(ctx: typer.Context, run_ids: Annotated[list[str], typer.Argument(metavar="RUN RUN …")]) -> None:
    """Compare two to six runs: promises, latencies, operations, plans, places and prices."""
    if not 2 <= len(run_ids) <= MAX_RUNS:
        raise CliError(f"compare takes two to {MAX_RUNS} runs, not {len(run_ids)}.", Exit.USAGE)
    api = ctx.obj.api()
    runs = [api.get(f"/runs/{api.run_id(run_id)}") for run_id in run_ids]
    workloads = [api.get(f"/workloads/{run['workload']}") for run in runs]
    results_of_runs = [Results.model_validate(api.get(f"/runs/{run['id']}/result")["results"]) for run in runs]
    sides = labelled(
        (Workload.model_validate(workload["document"]), workload["model"]["digest"], results)
        for workload, results in zip(workloads, results_of_runs, strict=True)
    )
    names = [f"{run['workload_name']}, {run['created_at'][:16].replace('T', ' ')}, {run['id'][:8]}" for run in runs]
    tables.comparison(names, sides, out)


@app.command()
def models(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List models: the catalogue, which needs no upload, and the organisation's own."""
    api = ctx.obj.api()
    uploaded, catalogue = list(api.rows("/models", 1000)), api.get("/catalogue")
    if as_json:
        print_json({"models": uploaded, "catalogue": catalogue})
    else:
        tables.model_list(uploaded, catalogue, out)


app.command()(measure)
app.command()(find_limit)
app.add_typer(tokens.app, name="tokens")


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def serve(ctx: typer.Context) -> None:
    """Serve a model, or a plan, after OpenAI's API: the options of `python -m kernels serve`."""
    start_server(ctx.args)


@app.command()
def up(port: Annotated[int, typer.Option(min=1, max=65535)] = 8000) -> None:
    """Serve the workbench on 127.0.0.1 with its workers until Ctrl-C."""
    from workbench.embedded import main as serve

    raise typer.Exit(serve(port))


def _save(output: Path, content: bytes) -> None:
    try:
        output.write_bytes(content)
    except OSError as error:
        raise CliError(f"{output}: {error.strerror or error}", Exit.USAGE) from None
    err.print(f"Wrote {output} ({len(content):,} bytes).", highlight=False)
