"""`ingest transactions list | abort`: shows and ends Kafka transactions, where an operator has to clean up by hand."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingest.cli.checkpoint import warner
from ingest.cli.parameters import FilesConfOption, FormatOption, OutputFormat, SetOption, parse_variables
from ingest.cli.screen import command_group, rows_as_text
from ingest.config.loader import load_strictly
from ingest.driver.context import with_files
from ingest.errors import ConfigError
from ingest.kafka.properties import BOOTSTRAP
from ingest.kafka.transaction_log import OPEN, transactions
from ingest.kafka.transaction_log import abort as end

if TYPE_CHECKING:
    from ingest.kafka.transaction_log import Transaction

app = command_group("List the transactions of a cluster, and end those that were left open.")

PipelineOption = Annotated[
    Path | None, typer.Option("--pipeline", metavar="FILE", help="A pipeline file, for its sink's cluster and rights.")
]
ServersOption = Annotated[
    str | None, typer.Option("--bootstrap-servers", metavar="HOST:PORT", help="A cluster that needs no login.")
]


def _connection(
    pipeline: Path | None, servers: str | None, variables: list[str] | None, settings: list[str] | None
) -> tuple[dict[str, str], str]:
    """Return the client's configuration, and the prefix of the pipeline's transactional ids.

    The prefix is empty without a pipeline. A pipeline that writes at-least-once has the one of before it did.

    Raise typer.BadParameter unless exactly one of the two options is given, and ConfigError where the sink is not in
    Kafka.
    """
    if (pipeline is None) == (servers is None):
        raise typer.BadParameter("give --pipeline FILE, or --bootstrap-servers HOST:PORT")
    if pipeline is None:
        return {BOOTSTRAP: servers or ""}, ""
    loaded = load_strictly(pipeline, parse_variables(variables))
    name = loaded.pipeline.name
    if not hasattr(loaded.sink, "client"):
        raise ConfigError(f"the sink of {pipeline} is not in Kafka", "give --bootstrap-servers")
    loaded = with_files(loaded, parse_variables(settings), warner(loaded))
    found: dict[str, str] = loaded.sink.client(name)
    own = loaded.sink.prefix(name) or getattr(loaded.sink, "id_prefix", None) or f"ingest-{name}"
    return found, own


@app.command(name="list")
def list_(
    prefix: Annotated[
        str | None,
        typer.Argument(
            metavar="PREFIX", help="Only ids that begin with it and a slash. [default: the pipeline's, or all]"
        ),
    ] = None,
    pipeline: PipelineOption = None,
    servers: ServersOption = None,
    form: FormatOption = OutputFormat.TEXT,
    variables: SetOption = None,
    conf: FilesConfOption = None,
) -> None:
    """Show the transactional ids of a pipeline, or all that a cluster knows, and what is open under them."""
    client, own = _connection(pipeline, servers, variables, conf)
    listed = transactions(client, prefix or own or None)
    if form is OutputFormat.JSON:
        typer.echo(json.dumps([asdict(transaction) for transaction in listed], indent=2))
        return
    rows = [("transactional id", "state", "since", "timeout", "partitions"), *map(_row, listed)]
    for line in rows_as_text(rows):
        typer.echo(line)


def _row(one: Transaction) -> tuple[str, ...]:
    at = one.started if one.started > 0 else one.updated
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at / 1000))
    return one.id, one.state, f"{since} UTC", f"{one.timeout_ms / 1000:g} s", str(len(one.partitions))


@app.command()
def abort(
    prefix: Annotated[
        str, typer.Argument(metavar="PREFIX", help="End what is open under ids that begin with it and a slash.")
    ],
    pipeline: PipelineOption = None,
    servers: ServersOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be ended.")] = False,
    variables: SetOption = None,
    conf: FilesConfOption = None,
) -> None:
    """End transactions that nobody will: readers of committed records wait for them.

    A run that still writes under the prefix loses what it has not committed, and writes it again.
    """
    client, _ = _connection(pipeline, servers, variables, conf)
    still_open = [transaction for transaction in transactions(client, prefix) if transaction.state in OPEN]
    for transaction in still_open:
        if not dry_run:
            end(client, transaction.id)
        typer.echo(f"{transaction.id}: {transaction.state}, {'would be' if dry_run else 'was'} ended")
    if not still_open:
        typer.echo(f"nothing is open under {prefix}")
