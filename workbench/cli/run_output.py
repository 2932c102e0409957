"""A run on the terminal: followed to its end where that is asked for, its figures, and why it failed."""

import json
from typing import Any

import typer

from workbench.cli import tables
from workbench.cli.client import ApiClient
from workbench.cli.consoles import err, out
from workbench.cli.errors import CliError
from workbench.cli.follow import OVER, exit_code, follow
from workbench.cli.load_tables import under_load
from workers.documents.stages import Results


def started(api: ApiClient, run: dict[str, Any], wait: bool, as_json: bool) -> None:
    """Says where the run is, and follows it where it is to `wait`."""
    err.print(f"Run {run['id']}  {api.url}/runs/{run['id']}/", highlight=False, soft_wrap=True)
    if wait:
        run = follow(api, run["id"], err)
    print_run(api, run, as_json)
    if wait:
        raise typer.Exit(exit_code(run))


def print_run(api: ApiClient, run: dict[str, Any], as_json: bool) -> None:
    """Prints what is known of the run. Raises CliError where it has failed."""
    over = run["state"] in OVER
    result = api.get(f"/runs/{run['id']}/result") if over else None
    if as_json:
        print_json(run | ({"results": result["results"]} if result else {}))
        return
    if result:
        results = Results.model_validate(result["results"])
        if results.load is not None:
            under_load(results.load, out)
        tables.outcome(results, out)
        if results.price and results.price.economics and results.price.economics.stated:
            out.print(results.price.economics.stated.sentence, highlight=False, markup=False, soft_wrap=True)
    if run["error"]:
        raise CliError(_failure(run["error"]), exit_code(run))
    if over and run["state"] != "done":
        err.print(f"The run was {run['state']}.")


def _failure(error: dict[str, Any]) -> str:
    sentence: str = error["sentence"]
    return ": ".join([*(part for part in (error["file"], error["field"]) if part and part not in sentence), sentence])


def print_json(document: Any) -> None:
    """Prints a document for programs."""
    typer.echo(json.dumps(document, indent=2))
