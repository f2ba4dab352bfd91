"""The command `ingest`: the list of its commands, and the one place that turns an error into an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterable, Sequence
from typing import Annotated, ClassVar, Final

import typer

from ingest.cli.screen import WIDEST_HELP, LazyGroup, highlighted, not_loaded
from ingest.errors import INTERRUPTED, IngestError, InternalError

_BUG = f"This is a bug of ingest; please report it.\n  more: ingest explain {InternalError.code}"

# Pydantic would look for plugins in what every installed package says of itself, here and in each worker
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

NAME = "ingest"
VARIABLE = "_INGEST_COMPLETE"
"""The variable in which a shell says that it wants words."""
GROUPS = {
    "Start": {
        "init": "Write a first pipeline file from a few answers and a look at the topic; or a repository with --repo.",
        "check": "Validate pipeline files: exit code 0, or 78 when there is an error.",
        "plan": "Show what a run would do: tables, routes, columns, topics, rejects.",
        "run": "Run a pipeline: continuously, or with --once until it is drained.",
    },
    "Look": {
        "status": "Show the state of pipelines: runs, lag, the last batch and the last error.",
        "top": "Show running pipelines: rates, lag, rejects, and the busiest tables.",
        "tap": "Show the next records that a run would read, one by one, before and after.",
        "schema": "Show the schemas that a pipeline has inferred, and how they changed.",
        "graph": "Draw a pipeline as Mermaid: topics, tables, routes, the sink's tables.",
        "explain": "Explain an option, a format, a source, a sink or a code.",
    },
    "Operate": {
        "checkpoint": "Show, set or export a pipeline's progress.",
        "letters": "List the records that a pipeline rejected, or look at one.",
        "replay": "Send dead letters back through their pipeline, once it or their cause is fixed.",
        "backfill": "Read tables again, from the beginning of their topics up to their pipeline's position.",
        "verify": "Compare the sink's tables with the source, up to the pipeline's position.",
        "transactions": "List the transactions of a cluster, and end those that were left open.",
        "render": "Write manifests that run pipelines elsewhere, on Kubernetes.",
        "warmup": "Write a class-data archive of Spark into the cache: every later run starts seconds earlier.",
    },
    "Develop": {
        "test": "Run tests of pipelines: messages in, records out.",
        "sandbox": "Start a real single-node Apache Kafka for development and tests; no Docker needed.",
        "json-schema": "Print the JSON Schema of pipeline files, by which editors complete and check them.",
    },
}
"""Commands and groups of commands, with their short helps. A command is the `app` of the module of its name."""
_ELSEWHERE: Final = {"replay": "rerun:replay_app", "backfill": "rerun:backfill_app", "json-schema": "installation"}
"""Commands that share a module with others."""
COMMANDS = {name: short_help for group in GROUPS.values() for name, short_help in group.items()}


class Commands(LazyGroup):
    """All commands of `ingest`."""

    modules: ClassVar = {name: f"ingest.cli.{_ELSEWHERE.get(name, name)}" for name in COMMANDS}

    def sections(self) -> Iterable[tuple[str, list[str]]]:
        """Return what a person looks for: to start, to look, to operate, to develop."""
        return [(title, list(group)) for title, group in GROUPS.items()]


app = typer.Typer(
    name=NAME,
    cls=Commands,
    help="Keep tables up to date with the changes in Kafka topics, as Spark jobs, from one YAML file.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDEST_HELP},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for name, short_help in COMMANDS.items():
    app.command(name, help=short_help)(not_loaded)


def _version(value: bool) -> None:
    if value:
        from ingest.cli.installation import version_lines  # noqa: PLC0415  (it asks what is installed)

        typer.echo("\n".join(version_lines()))
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
    """Keep tables up to date with the changes in Kafka topics, as Spark jobs, from one YAML file."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit with its code. A user's mistake never shows a stack trace."""
    try:
        if VARIABLE in os.environ:
            _complete(arguments)
        app(arguments, prog_name=NAME)
    except InternalError as exc:
        _complain(f"{traceback.format_exc()}error: {exc}\n{_BUG}")
        raise SystemExit(exc.exit_code) from exc
    except IngestError as exc:
        _complain(_text(exc))
        raise SystemExit(exc.exit_code) from None
    except Exception as exc:  # noqa: BLE001  (this is a bug, and its text may hold values of a pipeline)
        _complain(f"{traceback.format_exc()}{_whose(exc)}")
        raise SystemExit(InternalError.exit_code) from None
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        sys.stderr.flush()
        os._exit(INTERRUPTED)


def _complete(arguments: Sequence[str] | None) -> None:
    from ingest.cli.completing import completing  # noqa: PLC0415  (a command needs none of it)

    with completing():
        app(arguments, prog_name=NAME)


def _complain(text: str) -> None:
    typer.echo(highlighted(_masked(text), sys.stderr), err=True)


def _whose(exc: Exception) -> str:
    """Return the message for an unexpected exception: whether an extension or this program has the bug."""
    registry = sys.modules.get("ingest.component.plugins")  # the module is loaded only where there are components
    error = None if registry is None else registry.failure_of(exc, "the command", "the stack trace is above")
    if error is None or isinstance(error, InternalError):
        return f"error: {type(exc).__name__}\n{_BUG}"
    return _text(error)


def _masked(text: str) -> str:
    """Return a text with the secrets of all pipeline files read by this process masked."""
    redaction = sys.modules.get("ingest.config.redaction")  # the module is loaded only where a file was read
    return text if redaction is None else str(redaction.mask(text, redaction.SEEN))


def _text(exc: IngestError) -> str:
    head = exc.message if exc.message.count("\n") else f"error: {exc.message}"
    hint = f"\n  hint: {exc.hint}" if exc.hint else ""
    return f"{head}{hint}\n  more: ingest explain {exc.code}"
