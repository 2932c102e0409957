"""`workbench tokens`: the API tokens of the caller."""

import json
from enum import StrEnum
from typing import Annotated

import typer

from workbench.cli import tables
from workbench.cli.consoles import err, out

app = typer.Typer(no_args_is_help=True, help="List, make and revoke API tokens.")
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]


class Scope(StrEnum):
    """What a token may do."""

    READ = "read"
    WRITE = "write"


@app.command("list")
def list_tokens(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List tokens: when each ends and was last used."""
    rows = list(ctx.obj.api().rows("/tokens", 1000))
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    else:
        tables.token_list(rows, out)


@app.command()
def make(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="where it is used")],
    scope: Annotated[Scope, typer.Option(help="what it may do")] = Scope.READ,
    days: Annotated[int, typer.Option(min=1, max=3650, help="how long it lives")] = 90,
    never_ends: Annotated[bool, typer.Option("--never-ends", help="lives until it is revoked")] = False,
) -> None:
    """Make a token and print its secret, which is not shown again."""
    body = {"name": name, "scope": scope.value, "days": None if never_ends else days}
    token = ctx.obj.api().post("/tokens", body)
    err.print(f"Token {token['id']} ends {(token['expires_at'] or 'never')[:10]}.", highlight=False, soft_wrap=True)
    typer.echo(token["secret"])


@app.command()
def revoke(ctx: typer.Context, token_id: Annotated[str, typer.Argument(metavar="ID")]) -> None:
    """End a token at once."""
    ctx.obj.api().delete(f"/tokens/{token_id}")
    err.print(f"Token {token_id} is revoked.", highlight=False)
