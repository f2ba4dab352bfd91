"""`ingest sandbox up | down | status`: runs a real Kafka on this machine, for development, tests and the demo.

A schema registry, a PostgreSQL server and a MariaDB server run beside it where they are asked for.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingest.cli.parameters import FormatOption, OutputFormat
from ingest.cli.screen import command_group
from ingest.model.text import one_line
from ingest.sandbox import broker, mysql, postgres, registry, sample
from ingest.sandbox.secure import USER, Secure, client_properties

if TYPE_CHECKING:
    from ingest.sandbox.broker import Broker
    from ingest.sandbox.mysql import RunningMariaDb
    from ingest.sandbox.postgres import RunningDatabase
    from ingest.sandbox.registry import RunningRegistry
    from ingest.sandbox.sample import RunningSample

app = command_group("Start a real single-node Apache Kafka for development and tests; no Docker needed.")


FolderOption = Annotated[
    Path | None,
    typer.Option(
        "--dir",
        metavar="DIR",
        resolve_path=True,
        file_okay=False,
        help="Where it lives. [default: the user's cache directory]",
    ),
]


def _size(text: str) -> str:
    """Return a size as Java takes it; raise typer.BadParameter (exit code 2) for another text."""
    if re.fullmatch(r"[1-9][0-9]{0,9}[kKmMgG]?", text) is None:
        raise typer.BadParameter(f"{one_line(text)} is no size like 512m or 1g")
    return text


@app.command()
def up(
    folder: FolderOption = None,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65_535, metavar="PORT", help="Where it listens. [default: 29092, or a free port]"),
    ] = None,
    heap: Annotated[str, typer.Option(metavar="SIZE", callback=_size, help="Java's heap for it, as 512m.")] = "1g",
    secure: Annotated[bool, typer.Option("--secure", help="Add listeners with TLS, SCRAM, PLAIN and mTLS.")] = False,
    with_registry: Annotated[bool, typer.Option("--registry", help="Start a schema registry, too.")] = False,
    with_postgres: Annotated[bool, typer.Option("--postgres", help="Start a PostgreSQL server, too.")] = False,
    with_mysql: Annotated[
        bool, typer.Option("--mysql", help="Start a MariaDB server with a shop's tables, whose rows change, too.")
    ] = False,
    with_sample: Annotated[
        bool, typer.Option("--sample", help="Fill topics with a shop's messages, and go on changing its rows.")
    ] = False,
    rate: Annotated[
        float,
        typer.Option(
            min=0, max=10_000, metavar="N", help="With --sample or --mysql: N changes a second; 0 only fills."
        ),
    ] = 1.0,
    form: FormatOption = OutputFormat.TEXT,
) -> None:
    """Start it, and wait until it answers. It outlives the terminal."""
    place = folder or broker.default_folder()
    if with_postgres:
        postgres.programs()  # what is missing is said before anything is started
    if with_mysql:
        mysql.programs()
    kafka = broker.up(place, port, heap, secure=secure)
    beside = registry.up(place, secure=secure) if with_registry else registry.status(place)
    database = postgres.up(place) if with_postgres else postgres.status(place)
    tables = mysql.up(place) if with_mysql else mysql.status(place)
    if with_mysql and tables is not None:
        mysql.shop_up(place, tables, rate)
    shop = sample.up(place, kafka.bootstrap, rate) if with_sample else sample.status(place)
    _show(kafka, beside, database, tables, form)
    if form is OutputFormat.TEXT:
        _show_sample(shop, filled=with_sample)


@app.command()
def down(
    folder: FolderOption = None,
    wipe: Annotated[bool, typer.Option("--wipe", help="Delete its topics, schemas and tables, too.")] = False,
) -> None:
    """Stop it cleanly. Its topics, schemas and tables stay, unless --wipe."""
    place = folder or broker.default_folder()
    sample.down(place)
    mysql.shop_down(place)
    mysql.down(place, wipe=wipe)
    postgres.down(place, wipe=wipe)
    registry.down(place, wipe=wipe)
    stopped = broker.down(place, wipe=wipe)
    typer.echo("stopped" if stopped else "no sandbox is running")


@app.command()
def status(folder: FolderOption = None, form: FormatOption = OutputFormat.TEXT) -> None:
    """Say whether it runs, where it listens and where its log is. Exit code 1 where it does not run."""
    place = folder or broker.default_folder()
    kafka = broker.status(place)
    _show(kafka, registry.status(place), postgres.status(place), mysql.status(place), form)
    if form is OutputFormat.TEXT:
        _show_sample(sample.status(place), filled=False)
    if kafka is None:
        raise typer.Exit(1)


def _show(
    kafka: Broker | None,
    beside: RunningRegistry | None,
    database: RunningDatabase | None,
    tables: RunningMariaDb | None,
    form: OutputFormat,
) -> None:
    if form is OutputFormat.JSON:
        running = {} if kafka is None else asdict(kafka)
        others = {"registry": beside, "postgres": database, "mysql": tables}
        state = {
            "running": kafka is not None,
            **running,
            **{name: None if one is None else asdict(one) for name, one in others.items()},
        }
        typer.echo(json.dumps(state))
    elif kafka is None:
        typer.echo("no sandbox is running; start one with: ingest sandbox up")
    else:
        typer.echo(f"Kafka {kafka.version} at {kafka.bootstrap} (process {kafka.pid})\nlog: {kafka.log}")
        if beside is not None:
            typer.echo(f"schema registry: {beside.url} (process {beside.pid})\nlog: {beside.log}")
        if database is not None:
            typer.echo(f"PostgreSQL {database.version} at {database.endpoint} (process {database.pid})")
            typer.echo(f"log: {database.log}")
        if tables is not None:
            typer.echo(f"MariaDB {tables.version} at {tables.host}:{tables.port} (process {tables.pid})")
            typer.echo(f"log: {tables.log}")
        if kafka.secure is not None:
            _show_secure(kafka)
        if beside is not None and beside.tls is not None:
            _show_registry(beside.tls, f"{kafka.folder}/secure")
        if database is not None:
            _show_postgres(database)
        if tables is not None:
            _show_mysql(tables)


def _show_sample(shop: RunningSample | None, *, filled: bool) -> None:
    if shop is None and not filled:
        return
    changes = "change" if shop is not None and shop.rate == 1 else "changes"
    going = "" if shop is None else f"; {shop.rate:g} {changes} a second until: ingest sandbox down"
    typer.echo(f"\na shop's messages{going}")
    for topic, what in sample.TOPICS.items():
        typer.echo(f"  {topic:<20} {what}".rstrip())


def _show_secure(kafka: Broker) -> None:
    guarded = Secure(kafka.secure or {}, f"{kafka.folder}/secure")
    typer.echo(f'\nthe password: export INGEST_SECRET_SANDBOX="$(cat {guarded.folder}/password)"')
    for name, options in client_properties(guarded).items():
        typer.echo(f"\n  # {name}")
        for key, value in options.items():
            typer.echo(f"  properties.{key}: {value}")


def _show_registry(url: str, folder: str) -> None:
    typer.echo("\n  # schema registry, with `value.format: avro-confluent`")
    typer.echo(f"  avro-confluent.url: {url}")
    typer.echo("  avro-confluent.basic-auth.credentials-source: USER_INFO")
    typer.echo(f"  avro-confluent.basic-auth.user-info: {USER}:${{secret_values.sandbox}}")
    typer.echo(f"  avro-confluent.properties.ssl.ca.location: {folder}/ca.pem")


def _show_postgres(database: RunningDatabase) -> None:
    typer.echo(f'\nthe password: export INGEST_SECRET_POSTGRES="$(cat {shlex.quote(database.password_file)})"\n')
    typer.echo(f"sink:\n  type: postgres\n  endpoint: {database.endpoint}\n  dbname: {postgres.DATABASE}")
    typer.echo(f"  username: {postgres.USER}\n  password: ${{secret_values.postgres}}")


def _show_mysql(server: RunningMariaDb) -> None:
    password = shlex.quote(server.password_file)
    typer.echo(f'\nthe password: export INGEST_SECRET_MYSQL="$(cat {password})"\n')
    typer.echo(f"source:\n  type: mysql\n  hostname: {server.host}\n  port: {server.port}\n  username: {mysql.USER}")
    typer.echo(f"  password: ${{secret_values.mysql}}\n  tables: {mysql.DATABASE}.\\.*")
    client = f"mariadb --host={server.host} --port={server.port} --user={mysql.OWNER} {mysql.DATABASE}"
    typer.echo(f'\nto change its rows: MYSQL_PWD="$(cat {password})" {client}')
