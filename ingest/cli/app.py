"""The command `ingest`: the list of its commands, and the one place that turns an error into an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from typing import TYPE_CHECKING, Annotated

import typer

from ingest import __version__
from ingest.cli.check import check
from ingest.cli.checkpoint import app as checkpoint_app
from ingest.cli.letters import app as letters_app
from ingest.cli.plan import plan
from ingest.cli.replay import replay
from ingest.cli.run import run
from ingest.cli.sandbox import app as sandbox_app
from ingest.cli.schema import app as schema_app
from ingest.cli.test import test
from ingest.cli.transactions import app as transactions_app
from ingest.cli.warmup import warmup
from ingest.errors import INTERRUPTED, IngestError, InternalError

if TYPE_CHECKING:
    from collections.abc import Sequence

_BUG = "This is a bug of ingest; please report it."

app = typer.Typer(
    name="ingest",
    help="Change messages of many tables out of Kafka, to upserts, as Spark jobs, from one YAML file.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command()(run)
app.command()(check)
app.command()(plan)
app.command()(replay)
app.command()(test)
app.command()(warmup)
app.add_typer(checkpoint_app, name="checkpoint")
app.add_typer(schema_app, name="schema")
app.add_typer(letters_app, name="letters")
app.add_typer(sandbox_app, name="sandbox")
app.add_typer(transactions_app, name="transactions")


def _version(value: bool) -> None:  # noqa: FBT001  (typer's signature)
    if value:
        typer.echo(f"ingest {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Change messages of many tables out of Kafka, to upserts, as Spark jobs, from one YAML file."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit with its code. A user's mistake never shows a stack trace."""
    try:
        app(arguments)
    except InternalError as exc:
        typer.echo(_masked(f"error: {exc}\n{_BUG}"), err=True)
        raise SystemExit(exc.exit_code) from exc
    except IngestError as exc:
        typer.echo(_masked(_text(exc)), err=True)
        raise SystemExit(exc.exit_code) from None
    except Exception as exc:  # noqa: BLE001  (this is a bug, and its text may hold values of a pipeline)
        typer.echo(_masked(f"{traceback.format_exc()}error: {type(exc).__name__}\n{_BUG}"), err=True)
        raise SystemExit(InternalError.exit_code) from None
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        sys.stderr.flush()
        os._exit(INTERRUPTED)


def _masked(text: str) -> str:
    """Return the text without the secrets of the pipeline files that this process has read."""
    masking = sys.modules.get("ingest.config.masking")  # the module is loaded only where a file was read
    return text if masking is None else str(masking.mask(text, masking.SEEN))


def _text(exc: IngestError) -> str:
    head = exc.message if exc.message.count("\n") else f"error: {exc.message}"
    return f"{head}\n  hint: {exc.hint}" if exc.hint else head
