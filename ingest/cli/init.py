"""`ingest init`: a first pipeline file, by looking at a topic; or a repository of pipelines."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ingest import __version__
from ingest.cli.completing import client_properties
from ingest.cli.installation import SCHEMA_PLACE, schema_text
from ingest.cli.parameters import SetOption, parse_variables
from ingest.cli.render import manifests
from ingest.cli.screen import counted
from ingest.config.loader import load_text
from ingest.errors import ConfigError
from ingest.formats import FORMATS
from ingest.formats.appearance import (
    REGISTERED,
    cells,
    delimiter_of,
    event_field,
    header_of,
    looks_like,
    objects,
    says_mysql_types,
    unique_field,
)
from ingest.model.table import selector_of
from ingest.model.text import TextError, one_line, reason_of
from ingest.packages import require
from ingest.program import masked_errors
from ingest.render.first_pipeline import SINKS, Answers, DatabaseAnswers, asks_for_key, pipeline_text
from ingest.render.from_sql import pipeline_of
from ingest.render.repository import repository_files
from ingest.render.yaml_text import scalar
from ingest.schema.sql_script import parse_script
from ingest.testing.sampling import FirstLook, first_look

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.config.pipeline import Pipeline

_LOOKED_WITH: Final = "raw"
"""The format of the first look: any message is one of it."""
_FORMATS: Final = (
    "--format avro-confluent, debezium-avro-confluent, protobuf-confluent, json-confluent or debezium-json-confluent"
)
"""The formats with a registry, as a hint names them."""

_SERVER: Final = re.compile(
    r"(?:\[(?P<bracketed>[^\[\]\s]+)\]|(?P<host>[^:\[\]\s/]+))(?::(?P<port>[0-9]{1,5}))?", re.ASCII
)
_MYSQL_PORT: Final = 3306
_ALL_TABLES: Final = r"\.*.\.*"

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def init(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="The file to write; with --repo the folder. [default: pipeline.yaml, or .]"
        ),
    ] = None,
    repo: Annotated[bool, typer.Option("--repo", help="Make a repository of pipelines instead of one file.")] = False,
    brokers: Annotated[str | None, typer.Option(metavar="HOST:PORT,...", help="Kafka's bootstrap servers.")] = None,
    topic: Annotated[str | None, typer.Option(metavar="TOPIC;...", help="The topic to read, or several.")] = None,
    topic_pattern: Annotated[str | None, typer.Option(metavar="REGEX", help="Topics to read, by a pattern.")] = None,
    value_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="The messages' format. [default: as they look]",
            autocompletion=lambda: list(FORMATS.names()),
        ),
    ] = None,
    sink: Annotated[
        str | None, typer.Option(metavar="TYPE", help=f"One of {', '.join(SINKS)}.", autocompletion=lambda: list(SINKS))
    ] = None,
    place: Annotated[
        str, typer.Option("--to", metavar="PLACE", help="Brokers of the sink, a directory, or a server's host:port.")
    ] = "",
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            metavar="KEY=VALUE",
            help="A property of the Kafka client; may be repeated.",
            autocompletion=client_properties,
        ),
    ] = None,
    registry: Annotated[str | None, typer.Option(metavar="URL", help="The schema registry, if there is one.")] = None,
    primary_keys: Annotated[
        str | None,
        typer.Option("--primary-keys", metavar="COLUMN,...", help="The primary key, where messages name none."),
    ] = None,
    from_sql: Annotated[
        Path | None,
        typer.Option("--from-sql", metavar="FILE.sql", help="Take tables and INSERT INTO … SELECT of Flink SQL."),
    ] = None,
    database: Annotated[
        str | None,
        typer.Option("--mysql", metavar="HOST[:PORT]", help="Read a MySQL or MariaDB server instead of topics."),
    ] = None,
    user: Annotated[str, typer.Option(metavar="USER", help="With --mysql: its user.")] = "ingest",
    tables: Annotated[
        str | None, typer.Option(metavar="SELECTOR", help="With --mysql: its tables. [default: all that the user sees]")
    ] = None,
    look: Annotated[bool, typer.Option("--look/--no-look", help="Look at the topic, or the server.")] = True,
    variables: SetOption = None,
) -> None:
    """Write a first pipeline file from a few answers and a look at the topic; or a repository with --repo.

    What is not given is asked for, where somebody sits at the terminal. No file that is there is changed.
    """
    if repo:
        _write_all(Path() if file is None else file)
        return
    out = Path("pipeline.yaml") if file is None else file
    if out.exists():
        raise ConfigError(f"{out} is there already", "name another file, or remove it first")
    if from_sql is not None:
        _turn(from_sql, out)
        return
    if topic is not None and topic_pattern is not None:
        raise typer.BadParameter("give --topic or --topic-pattern, not both")
    values = parse_variables(variables)
    if database is not None:
        answers = Answers(
            bootstrap=brokers or "localhost:9092",
            topic=None,
            topic_pattern=None,
            format="debezium-json",
            sink=sink or _asked("--sink", f"Sink ({', '.join(SINKS)})", SINKS[0]),
            place=place,
            properties=parse_variables(properties),
            database=server_to_read(database, user, tables),
        )
        _know_sink(answers)
        if look:
            answers = _with_tables(answers, values)
        elif tables is None:
            raise typer.BadParameter("it is missing, and nobody looks at the server", param_hint="--tables")
        _finish(out, answers, values, look=look)
        return
    answers = Answers(
        bootstrap=brokers or _asked("--brokers", "Kafka's bootstrap servers", "localhost:9092"),
        topic=None if topic_pattern is not None else topic or _asked("--topic", "Topic to read", None),
        topic_pattern=topic_pattern,
        format=_LOOKED_WITH,
        sink=sink or _asked("--sink", f"Sink ({', '.join(SINKS)})", SINKS[0]),
        place=place,
        properties=parse_variables(properties),
        registry=registry,
    )
    _know_sink(answers)
    found = _looked_at(answers, values) if look else None
    answers = _with_format(answers, value_format, found)
    if found is not None:
        answers = _with_guesses(answers, found)
    _finish(out, replace(answers, primary_keys=primary_keys or _asked_for_key(answers)), values, look=look)


def _know_sink(answers: Answers) -> None:
    """Raise typer.BadParameter (exit code 2) for a sink that no first pipeline has."""
    if answers.sink not in SINKS:
        raise typer.BadParameter(f"{one_line(answers.sink)} is none of {', '.join(SINKS)}", param_hint="--sink")


def _finish(out: Path, answers: Answers, values: dict[str, str], *, look: bool) -> None:
    """Write the pipeline file, and print what a run of it would do. Raise ConfigError."""
    text = pipeline_text(answers)
    _checked(text, values)
    _write(out.parent, {out.name: text, str(SCHEMA_PLACE): schema_text()})
    if not look:
        typer.echo(f"{out} is written. Next: ingest plan {out}; ingest run {out} --once", err=True)
        return
    typer.echo(f"{out} is written. What a run of it would do (ingest plan {out}):\n", err=True)
    from ingest.cli.plan import show_plan  # noqa: PLC0415  (it imports the driver, which --no-look does not need)

    show_plan(out, values)
    typer.echo(f"\nNext: ingest run {out} --once", err=True)


def server_to_read(database: str, user: str, tables: str | None) -> DatabaseAnswers:
    """Return the server of `HOST`, `HOST:PORT` or `[HOST]:PORT`. Raise typer.BadParameter (exit code 2)."""
    address = _SERVER.fullmatch(database)
    port = int(address["port"] or _MYSQL_PORT) if address is not None else 0
    if address is None or not 0 < port < 1 << 16:
        raise typer.BadParameter(f"{one_line(database)[:100]} is no HOST or HOST:PORT", param_hint="--mysql")
    return DatabaseAnswers(address["bracketed"] or address["host"], port, user, tables or _ALL_TABLES)


def _with_tables(answers: Answers, variables: Mapping[str, str]) -> Answers:
    """Print the server's tables, and return the answers with these filled in. Raise IngestError."""
    from ingest.sources.mysql.checks import look_at  # noqa: PLC0415  (an extra that not everybody has)

    require("mysql")
    database = answers.database
    assert database is not None
    pipeline = _checked(pipeline_text(replace(answers, sink="print")), variables, strictly=True)
    with masked_errors(pipeline.secrets):
        server = look_at(pipeline.source.server)
    typer.echo(f"{server.version}: {counted(len(server.tables), 'table')} that {database.user} may read", err=True)
    for warning in server.warnings:
        typer.echo(f"warning: {one_line(warning)}", err=True)
    databases = sorted({name for name, _ in server.tables})
    if database.tables != _ALL_TABLES:
        return answers
    if not databases:
        msg = f"{database.user} may read no table of {database.host}:{database.port}"
        raise ConfigError(msg, f"GRANT SELECT ON db.* TO '{database.user}'@'…' (docs/mysql.md), or give --tables")
    names = ",".join(rf"{selector_of(name)}.\.*" for name in databases)
    return replace(answers, database=replace(database, tables=names))


def _turn(script: Path, out: Path) -> None:
    """Write the pipeline of a script of Flink SQL, and say what of the script it does not have. Raise ConfigError."""
    try:
        text = script.read_text(encoding="utf-8")
        turned = pipeline_of(parse_script(text), str(script))
    except (OSError, UnicodeDecodeError) as exc:
        why = reason_of(exc) if isinstance(exc, OSError) else "it is not UTF-8"
        raise ConfigError(f"cannot read {script}: {why}", "name a file with Flink SQL") from exc
    except TextError as exc:
        line = text.count("\n", 0, exc.at) + 1
        column = exc.at - (text.rfind("\n", 0, exc.at) + 1) + 1
        raise ConfigError(f"{script}:{line}:{column}: not Flink SQL: {exc}", "correct the script") from exc
    _write(out.parent, {out.name: turned.text, str(SCHEMA_PLACE): schema_text()})
    typer.echo(f"{out} is written. Next: ingest plan {out}; ingest run {out} --once", err=True)
    if turned.left:
        typer.echo("\nNot as in the script:", err=True)
        for left in turned.left:
            typer.echo(f"  {script}:{left.line}: {left.what}", err=True)


def _asked(option: str, question: str, default: str | None) -> str:
    """Return an answer from the terminal. Raise typer.BadParameter (exit code 2) where nobody sits there."""
    if not sys.stdin.isatty():
        raise typer.BadParameter("it is missing, and nobody can be asked", param_hint=option)
    return str(typer.prompt(question, default=default, err=True))


def _looked_at(answers: Answers, variables: Mapping[str, str]) -> FirstLook:
    """Sample the topics, print the findings, and return them. Raise IngestError."""
    looking = replace(answers, sink="print", registry=None)
    pipeline = _checked(pipeline_text(looking), variables, strictly=True)
    with masked_errors(pipeline.secrets):
        look = first_look(pipeline, lambda text: typer.echo(f"warning: {one_line(text)}", err=True))
    splits, records = counted(look.splits, "partition"), counted(look.waiting, "record")
    typer.echo(f"{counted(len(look.topics), 'topic')} with {splits} and {records}", err=True)
    if look.formats:
        looks = ", ".join(f"{count:,} like {name}" for name, count in look.formats.items())
        typer.echo(f"of {counted(sum(look.formats.values()), 'message')} that were looked at, {looks}", err=True)
    return look


def _with_format(answers: Answers, given: str | None, look: FirstLook | None) -> Answers:
    """Return the answers with the formats of values and keys: as they are given, or as the messages look."""
    chosen = given or (None if look is None else look.format)
    if chosen == REGISTERED:
        msg = "the messages have their schema in a registry, and only it knows their format"
        raise ConfigError(msg, f"give --registry URL and {_FORMATS}")
    if chosen is None:
        why = "there are no messages to look at" if look is not None else "nobody looks at the messages"
        raise ConfigError(f"the messages' format is not known: {why}", "give --format, as debezium-json")
    if answers.registry is not None and not chosen.endswith("-confluent"):
        raise ConfigError(f"--registry has no effect with the format {chosen}", f"leave it out, or give {_FORMATS}")
    keyed = chosen == "json" and look is not None and look.json_keys
    return replace(answers, format=chosen, key_format="json" if keyed else None)


def _with_guesses(answers: Answers, look: FirstLook) -> Answers:
    """Print the suggestions drawn from messages, and return the answers with these filled in."""
    values = [value for value in look.values if looks_like(value) in {answers.format, "csv", "raw"}]
    others = len(look.values) - look.formats.get(answers.format, 0)
    if others and answers.format in look.formats:
        what = "message does" if others == 1 else "messages do"
        typer.echo(
            f"{others:,} {what} not look like {answers.format}: a run ends at the first that it cannot read "
            "(exit code 65); the file has the lines with which it counts them and goes on",
            err=True,
        )
    if answers.format == "canal-json" and says_mysql_types(look.values):
        line = "canal-json.infer-schema.strategy: MYSQL_TYPE   # types as mysqlType in the messages says"
        return replace(answers, options=(line,))
    if answers.format == "csv":
        return _with_columns(answers, look, values)
    if answers.format != "json":
        return answers
    rows = objects(look.values)
    guess, kind = unique_field(rows), event_field(rows)
    if kind is None:
        return replace(answers, guess=guess)
    shown = ", ".join(one_line(one)[:40] for one in kind.kinds[:5])
    what = f"{one_line(kind.name)[:100]} tells {len(kind.kinds)} kinds of messages apart in {kind.messages:,} ({shown})"
    used = sys.stdin.isatty() and typer.confirm(f"{what}. A table for each?", default=True, err=True)
    line = f"json.decode.parser-table-id.fields: {scalar(kind.name)}"
    if not used:
        typer.echo(f"{what}: the file has the line that makes a table of each", err=True)
    return replace(answers, guess=guess, options=(f"# {what}: a table for each", line if used else f"# {line}"))


def _with_columns(answers: Answers, look: FirstLook, values: list[bytes]) -> Answers:
    """Return the answers for CSV: what is between fields, and names where splits begin with a header line."""
    mark = delimiter_of(values)
    options = [] if mark == "," else [f"csv.field-delimiter: {scalar(mark)}"]
    names: tuple[str, ...] = ()
    starts = []
    for (topic, partition), start, firsts in look.first:
        header = header_of(firsts[0], firsts[1:], mark) if firsts else ()
        header = header if all(name.isprintable() and "," not in name for name in header) else ()
        names = names or header
        starts.append(f"topic:{topic},partition:{partition},offset:{start + bool(header and header == names)}")
    if names:
        typer.echo(f"the first message is a header line: {', '.join(names)[:300]}; a run starts behind it", err=True)
        options.append(f"csv.columns: {scalar(','.join(names))}")
    rows = [dict(zip(names or _names(row), row, strict=False)) for row in cells(values, mark)]
    rows = [row for row in rows if tuple(row.values()) != names]
    behind = ";".join(starts) if names else ""
    return replace(answers, options=tuple(options), start=behind, guess=unique_field(rows))


def _names(row: list[str]) -> list[str]:
    return [f"_c{i}" for i in range(len(row))]


def _asked_for_key(answers: Answers) -> str:
    """Return the primary key entered at the terminal; without one, print a suggestion and return an empty text."""
    guess = answers.guess
    if guess is None or not asks_for_key(answers):
        return ""
    what = f"{one_line(guess.name)[:100]} is unique in the {guess.messages:,} messages that were looked at"
    if sys.stdin.isatty():
        return str(typer.prompt(f"Primary key ({what})", default=guess.name, err=True))
    typer.echo(f"{what}: if it is the key, give --primary-keys, or take the # from the file's last lines", err=True)
    return ""


def _checked(text: str, variables: Mapping[str, str], *, strictly: bool = False) -> Pipeline:
    """Return the pipeline of a text; `strictly`: each placeholder needs a value.

    Raise ConfigError with what is wrong with the answers.
    """
    loaded = load_text("init", text, "init", dict(variables))
    wrong = [one for one in loaded.diagnostics if one.severity == "error" or (strictly and one.severity == "note")]
    if loaded.pipeline is None or wrong:
        problems = "\n".join(one.text() for one in wrong)
        raise ConfigError(f"the answers make no valid pipeline:\n{problems}", "give other ones")
    return loaded.pipeline


def _write_all(folder: Path) -> None:
    """Write a repository, with the manifests of its pipeline. Raise ConfigError where a file of it is there."""
    files = repository_files(__version__)
    there = [name for name in files if (folder / name).exists()]
    if there:
        raise ConfigError(f"{folder} has {', '.join(there)} already", "name a new folder")
    _write(folder, files)
    made = {f"k8s/{name}": text for name, text in manifests(folder / "pipelines").items()}
    _write(folder, made | {str(SCHEMA_PLACE): schema_text()})
    typer.echo(f"{counted(len(files) + len(made), 'file')} in {folder}: README.md says what they are for", err=True)


def _write(folder: Path, files: Mapping[str, str]) -> None:
    """Write texts by their paths in a folder. Raise ConfigError where that fails."""
    for name, text in files.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as exc:
            raise ConfigError(f"cannot write {path}: {reason_of(exc)}", "name another place") from exc
