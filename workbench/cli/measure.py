"""`workbench measure`: a load test of a server with a verdict, for a build. It needs neither a workbench nor a GPU."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from kernels.load.connection import Address, BadAddress
from kernels.load.counts import ENDED, FAILED, SENT, Counts
from kernels.load.figures import WARM_SHARE
from kernels.load.generator import LoadDuration
from workbench.cli.consoles import err, out
from workbench.cli.errors import CliError, Exit
from workbench.cli.follow import VERDICTS
from workbench.cli.load_tables import limit_found, limit_row, load_result
from workbench.cli.sla import KEY, mistakes_said, read_document, read_sla
from workers.documents.load import LoadResult
from workers.documents.traffic import MAX_USERS, Traffic
from workers.documents.workload import Sla
from workers.loadtest.highest_load import find_limit as search_limit
from workers.loadtest.load_test import LoadTest, NotMeasurable
from workers.loadtest.load_test import measure as put_load
from workers.loadtest.prompts import APIS, Api
from workers.loadtest.recording import InvalidRecording
from workers.loadtest.sending import LoadTarget
from workers.loadtest.summary import records


def measure(
    url: Annotated[str, typer.Option(help="address of an OpenAI-compatible server, such as http://127.0.0.1:8001/v1")],
    model: Annotated[str, typer.Option(help="the model's name there")],
    sla: Annotated[Path, typer.Option(help="the SLA, YAML or JSON; its traffic is sent unless --traffic is given")],
    traffic: Annotated[Path | None, typer.Option(help="the traffic, YAML or JSON, instead of the SLA's")] = None,
    api: Annotated[str, typer.Option(help=f"one of {', '.join(APIS)}")] = "completions",
    seconds: Annotated[float, typer.Option(min=1, max=86_400, help="of sending; the first tenth does not count")] = 60,
    json_file: Annotated[Path | None, typer.Option("--json", help="write the result here")] = None,
    records_file: Annotated[Path | None, typer.Option("--records", help="write every request here, JSON Lines")] = None,
) -> None:
    """Put load on a server and judge it by an SLA; an API key is read from WORKBENCH_ENDPOINT_KEY.

    Exit codes: 0 met, 1 missed, 2 usage or bad input, 3 failed or void, 4 not enough samples, 6 too close to call.
    """
    test = _test(_target(url, model, api), sla, traffic, LoadDuration(seconds, warm_up_s=seconds * WARM_SHARE))
    _check_outputs(json_file, records_file)
    try:
        result, sent = put_load(test, _Progress())
    except NotMeasurable as error:
        raise CliError(f"{test.target.address.url}: {error}", Exit.FAILED) from None
    load_result(result, out)
    if json_file:
        _write(json_file, result.model_dump_json(indent=2) + "\n")
    if records_file:
        _write(records_file, "".join(json.dumps(record) + "\n" for record in records(sent)))
    raise typer.Exit(exit_code(result))


def find_limit(
    url: Annotated[str, typer.Option(help="address of an OpenAI-compatible server, such as http://127.0.0.1:8001/v1")],
    model: Annotated[str, typer.Option(help="the model's name there")],
    sla: Annotated[Path, typer.Option(help="the SLA, YAML or JSON; its traffic is sent unless --traffic is given")],
    traffic: Annotated[Path | None, typer.Option(help="the traffic, YAML or JSON, instead of the SLA's")] = None,
    api: Annotated[str, typer.Option(help=f"one of {', '.join(APIS)}")] = "completions",
    seconds: Annotated[float, typer.Option(min=1, max=3600, help="of each load; its first tenth does not count")] = 30,
    most: Annotated[int, typer.Option(min=1, max=MAX_USERS, help="users at once, at most")] = 256,
    json_file: Annotated[Path | None, typer.Option("--json", help="write the curve here")] = None,
) -> None:
    """Find the most users at once with whom a server keeps every objective, and the curve on the way there.

    Of Poisson or gamma arrivals it is the highest rate, up to that of the traffic; of recorded ones the highest speed.
    The load is doubled while the objectives are met, then the distance is halved; the verdict is on the whole search.
    Exit codes: 0 some load is met; 2 usage or bad input; otherwise as of measure at the lowest load.
    """
    test = _test(_target(url, model, api), sla, traffic, LoadDuration(seconds, warm_up_s=seconds * WARM_SHARE))
    _check_outputs(json_file)
    try:
        result = search_limit(test, most, lambda load: limit_row(load, out))
    except NotMeasurable as error:
        raise CliError(f"{test.target.address.url}: {error}", Exit.FAILED) from None
    except ValueError as error:
        raise CliError(f"{sla}: {error}") from None
    limit_found(result, out)
    if json_file:
        _write(json_file, result.model_dump_json(indent=2) + "\n")
    raise typer.Exit(Exit.MET if result.users else exit_code(result.loads[0]))


def exit_code(result: LoadResult) -> Exit:
    """The exit code of a load test; void measurements and servers that answered nothing have failed."""
    if result.verdict is None or not result.completed + result.cancelled:
        return Exit.FAILED
    return VERDICTS[result.verdict]


def _target(url: str, model: str, api: str) -> LoadTarget:
    if api not in APIS:
        raise CliError(f"--api: {api} is none of {', '.join(APIS)}")
    known: Api = next(name for name in APIS if name == api)
    try:
        return LoadTarget(Address.parse(url, os.environ.get(KEY, "")), model, known)
    except BadAddress as error:
        raise CliError(f"--url: {error}") from None


def _test(target: LoadTarget, sla: Path, traffic_file: Path | None, limits: LoadDuration) -> LoadTest:
    spec = Sla.model_validate(read_sla(sla))
    traffic, folder = spec.traffic, sla.parent
    if traffic_file:
        folder = traffic_file.parent
        with mistakes_said(traffic_file):
            traffic = Traffic.model_validate(read_document(traffic_file, "a traffic description"))
    price = spec.present.usd_per_hour if spec.present else None
    test = LoadTest(target, traffic, spec.objectives, limits, folder, price)
    try:
        spec.check_against(traffic)
        test.check()
        if test.recording:
            read = f"{test.folder / traffic.recording}: {test.recording.words}."
            line = " ".join([read, *test.recording.notes])
            err.print(line, highlight=False, markup=False, soft_wrap=True)
    except InvalidRecording as error:
        raise CliError(str(error)) from None
    except ValueError as error:
        raise CliError(f"{sla}: {error}") from None
    return test


class _Progress:
    """One line on a terminal while load is on."""

    def __call__(self, counts: Counts) -> None:
        if err.is_terminal:
            sent, ended, failed = (counts.total(state) for state in (SENT, ENDED, FAILED))
            line = f"{sent:,} sent, {ended:,} ended, {failed:,} failed"
            err.print(Text(line), end="\r", overflow="ellipsis")


def _check_outputs(*files: Path | None) -> None:
    """Before the load, which may take hours and whose figures would be lost. Raises CliError."""
    for file in filter(None, files):
        if not file.parent.is_dir():
            raise CliError(f"{file}: there is no folder {file.parent}")
        if file.is_dir():
            raise CliError(f"{file}: this is a folder")
        if not os.access(file if file.exists() else file.parent, os.W_OK):
            raise CliError(f"{file}: may not be written")


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, "utf-8")
    except OSError as error:
        raise CliError(f"{file}: {error.strerror or error}") from None
    err.print(f"Wrote {file}.", highlight=False)
