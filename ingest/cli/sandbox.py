"""`ingest sandbox up | down | status`: runs a real Kafka on this machine, for development, tests and the demo."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingest.cli.parameters import Format, FormatOption
from ingest.sandbox import broker
from ingest.sandbox.secure import Secure, client_properties

if TYPE_CHECKING:
    from ingest.sandbox.broker import Broker

app = typer.Typer(
    help="A real single-node Apache Kafka for development and tests; no Docker needed.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


FolderOption = Annotated[
    Path | None, typer.Option("--dir", metavar="DIR", help="Where it lives. [default: the user's cache directory]")
]


@app.command()
def up(
    folder: FolderOption = None,
    port: Annotated[int | None, typer.Option(help="Where it listens. [default: 29092, or a free port]")] = None,
    heap: Annotated[str, typer.Option(help="Java's heap for it.")] = "1g",
    secure: Annotated[bool, typer.Option("--secure", help="Add listeners with TLS, SCRAM, PLAIN and mTLS.")] = False,
    form: FormatOption = Format.TEXT,
) -> None:
    """Start it, and wait until it answers. It outlives the terminal."""
    _show(broker.up(folder or broker.default_folder(), port, heap, secure=secure), form)


@app.command()
def down(
    folder: FolderOption = None,
    wipe: Annotated[bool, typer.Option("--wipe", help="Delete its topics, too.")] = False,
) -> None:
    """Stop it cleanly. Its topics stay, unless --wipe."""
    stopped = broker.down(folder or broker.default_folder(), wipe=wipe)
    typer.echo("stopped" if stopped else "no sandbox is running")


@app.command()
def status(folder: FolderOption = None, form: FormatOption = Format.TEXT) -> None:
    """Say whether it runs, where it listens and where its log is. Exit code 1 where it does not run."""
    found = broker.status(folder or broker.default_folder())
    _show(found, form)
    if found is None:
        raise typer.Exit(1)


def _show(found: Broker | None, form: Format) -> None:
    if form is Format.JSON:
        typer.echo(json.dumps({"running": found is not None, **({} if found is None else asdict(found))}))
    elif found is None:
        typer.echo("no sandbox is running; start one with: ingest sandbox up")
    else:
        typer.echo(f"Kafka {found.version} at {found.bootstrap} (process {found.pid})\nlog: {found.log}")
        if found.secure is not None:
            _show_secure(found)


def _show_secure(found: Broker) -> None:
    guarded = Secure(found.secure or {}, f"{found.folder}/secure")
    typer.echo(f'\nthe password: export INGEST_SECRET_SANDBOX="$(cat {guarded.folder}/password)"')
    for name, options in client_properties(guarded).items():
        typer.echo(f"\n  # {name}")
        for key, value in options.items():
            typer.echo(f"  properties.{key}: {value}")
