"""The command `ingest`: the list of its commands, and the one place that turns an error into an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from ingest.cli.lazy_group import LazyGroup, not_loaded
from ingest.errors import INTERRUPTED, IngestError, InternalError

if TYPE_CHECKING:
    from collections.abc import Sequence

_BUG = f"This is a bug of ingest; please report it.\n  more: ingest explain {InternalError.code}"

# Pydantic would look for plugins in what every installed package says of itself, here and in each worker
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

COMMANDS = {
    "init": "Write a first pipeline file from a few answers, by looking at a topic; or a repository with --repo.",
    "run": "Run a pipeline: continuously, or with --once until it is drained.",
    "check": "Say what is wrong with pipeline files: exit code 0, or 78 when there is an error.",
    "plan": "Show what a run would do: tables, routes, columns, topics, rejects.",
    "tap": "Show records one by one, before and after: the next ones that a run would read.",
    "status": "Show what runs, since when, how far behind it is, the last batch and the last error.",
    "top": "Show running pipelines: rates, lag, rejects, and the busiest tables.",
    "graph": "Draw a pipeline as Mermaid: topics, tables, routes, the sink's tables.",
    "json-schema": "Print the JSON Schema of pipeline files, by which editors complete and check them.",
    "explain": "Say what an option, a format, a source, a sink or a code is.",
    "render": "Manifests that run pipelines elsewhere.",
    "replay": "Send dead letters back through their pipeline, once it or their cause is mended.",
    "backfill": "Read tables once more, from the beginning of their topics up to where their pipeline is.",
    "test": "Run tests of pipelines: messages in, what becomes of them out.",
    "warmup": "Write a class-data archive of Spark into the cache: every later run starts seconds earlier.",
    "checkpoint": "Where a pipeline stands: show it, set it, export it.",
    "schema": "The schemas that a pipeline found.",
    "letters": "The records that a pipeline rejected: list them, look at one.",
    "sandbox": "A real single-node Apache Kafka for development and tests; no Docker needed.",
    "transactions": "Look at the transactions of a cluster, and end what was left open.",
}
"""The modules beside this one, each with one command or one group of commands, and their short helps."""


class Commands(LazyGroup):
    """All commands of `ingest`."""

    modules: ClassVar = {name: f"ingest.cli.{name.replace('-', '_')}" for name in COMMANDS}


app = typer.Typer(
    name="ingest",
    cls=Commands,
    help="Change messages of many tables out of Kafka, to upserts, as Spark jobs, from one YAML file.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for name, short_help in COMMANDS.items():
    app.command(name, help=short_help)(not_loaded)


def _version(value: bool) -> None:  # noqa: FBT001  (typer's signature)
    if value:
        from ingest.cli.version import lines  # noqa: PLC0415  (it asks what is installed)

        typer.echo("\n".join(lines()))
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=_version, is_eager=True, help="Show the version, how it was built, and exit."
        ),
    ] = False,
) -> None:
    """Change messages of many tables out of Kafka, to upserts, as Spark jobs, from one YAML file."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit with its code. A user's mistake never shows a stack trace."""
    try:
        app(arguments)
    except InternalError as exc:
        typer.echo(_masked(f"{traceback.format_exc()}error: {exc}\n{_BUG}"), err=True)
        raise SystemExit(exc.exit_code) from exc
    except IngestError as exc:
        typer.echo(_masked(_text(exc)), err=True)
        raise SystemExit(exc.exit_code) from None
    except Exception as exc:  # noqa: BLE001  (this is a bug, and its text may hold values of a pipeline)
        typer.echo(_masked(f"{traceback.format_exc()}{_whose(exc)}"), err=True)
        raise SystemExit(InternalError.exit_code) from None
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        sys.stderr.flush()
        os._exit(INTERRUPTED)


def _whose(exc: Exception) -> str:
    """Return what is said of an exception that nobody expected: whose bug it is."""
    registry = sys.modules.get("ingest.component.registry")  # the module is loaded only where there are components
    error = None if registry is None else registry.failure_of(exc, "the command", "the stack trace is above")
    if error is None or isinstance(error, InternalError):
        return f"error: {type(exc).__name__}\n{_BUG}"
    return _text(error)


def _masked(text: str) -> str:
    """Return the text without the secrets of the pipeline files that this process has read."""
    masking = sys.modules.get("ingest.config.masking")  # the module is loaded only where a file was read
    return text if masking is None else str(masking.mask(text, masking.SEEN))


def _text(exc: IngestError) -> str:
    head = exc.message if exc.message.count("\n") else f"error: {exc.message}"
    hint = f"\n  hint: {exc.hint}" if exc.hint else ""
    return f"{head}{hint}\n  more: ingest explain {exc.code}"
