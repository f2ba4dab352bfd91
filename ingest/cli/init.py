"""`ingest init`: a first pipeline file, by looking at a topic; or a repository of pipelines."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ingest import __version__
from ingest.cli.parameters import SetOption, parse_variables
from ingest.cli.render import manifests
from ingest.config.loader import load_text
from ingest.errors import ConfigError
from ingest.formats.appearance import REGISTERED
from ingest.model.text import one_line
from ingest.program import masked_errors
from ingest.render.first_pipeline import SINKS, Answers, pipeline_text
from ingest.render.repository import repository_files
from ingest.testing.first_look import FirstLook, first_look

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.config.pipeline import Pipeline

_LOOKED_WITH: Final = "raw"
"""The format of the first look: any message is one of it."""
_FORMATS: Final = (
    "--format avro-confluent, debezium-avro-confluent, protobuf-confluent, json-confluent or debezium-json-confluent"
)
"""The formats with a registry, as a hint names them."""

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def init(
    file: Annotated[
        Path | None, typer.Argument(help="The file to write; with --repo the folder. [default: pipeline.yaml, or .]")
    ] = None,
    repo: Annotated[bool, typer.Option("--repo", help="Make a repository of pipelines instead of one file.")] = False,
    brokers: Annotated[str | None, typer.Option(metavar="HOST:PORT,...", help="Kafka's bootstrap servers.")] = None,
    topic: Annotated[str | None, typer.Option(metavar="TOPIC;...", help="The topic to read, or several.")] = None,
    topic_pattern: Annotated[str | None, typer.Option(metavar="REGEX", help="Topics to read, by a pattern.")] = None,
    value_format: Annotated[
        str | None, typer.Option("--format", metavar="FORMAT", help="The messages' format. [default: as they look]")
    ] = None,
    sink: Annotated[str | None, typer.Option(metavar="TYPE", help=f"One of {', '.join(SINKS)}.")] = None,
    place: Annotated[
        str, typer.Option("--to", metavar="PLACE", help="Brokers of the sink, a directory, or a server's host:port.")
    ] = "",
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="KEY=VALUE", help="A property of the Kafka client; may be repeated."),
    ] = None,
    registry: Annotated[str | None, typer.Option(metavar="URL", help="The schema registry, if there is one.")] = None,
    look: Annotated[bool, typer.Option("--look/--no-look", help="Look at the topic.")] = True,
    variables: SetOption = None,
) -> None:
    """Write a first pipeline file from a few answers, by looking at a topic; or a repository with --repo.

    What is not given is asked for, where somebody sits at the terminal. No file that is there is changed.
    """
    if repo:
        _write_all(Path() if file is None else file)
        return
    out = Path("pipeline.yaml") if file is None else file
    if out.exists():
        raise ConfigError(f"{out} is there already", "name another file, or remove it first")
    if topic is not None and topic_pattern is not None:
        msg = "give --topic or --topic-pattern, not both"
        raise typer.BadParameter(msg)
    values = parse_variables(variables)
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
    if answers.sink not in SINKS:
        msg = f"{one_line(answers.sink)} is none of {', '.join(SINKS)}"
        raise typer.BadParameter(msg, param_hint="--sink")
    found = _looked_at(answers, values) if look else None
    answers = _with_format(answers, value_format, found)
    text = pipeline_text(answers)
    _checked(text, values)
    _write(out.parent, {out.name: text})
    typer.echo(f"{out} is written. Next: ingest plan {out}; ingest run {out} --once", err=True)


def _asked(option: str, question: str, default: str | None) -> str:
    """Return an answer from the terminal. Raise typer.BadParameter (exit code 2) where nobody sits there."""
    if not sys.stdin.isatty():
        msg = "it is missing, and nobody can be asked"
        raise typer.BadParameter(msg, param_hint=option)
    return str(typer.prompt(question, default=default, err=True))


def _looked_at(answers: Answers, variables: Mapping[str, str]) -> FirstLook:
    """Return what is in the topics, and say it. Raise IngestError."""
    looking = replace(answers, sink="print", registry=None)
    pipeline = _checked(pipeline_text(looking), variables, strictly=True)
    with masked_errors(pipeline.secrets):
        found = first_look(pipeline, lambda text: typer.echo(f"warning: {one_line(text)}", err=True))
    topics = f"{len(found.topics)} topic{'' if len(found.topics) == 1 else 's'}"
    typer.echo(f"{topics} with {found.splits} partitions and {found.waiting:,} records", err=True)
    if found.formats:
        looks = ", ".join(f"{count:,} like {name}" for name, count in found.formats.items())
        typer.echo(f"of {sum(found.formats.values()):,} messages that were looked at, {looks}", err=True)
    return found


def _with_format(answers: Answers, given: str | None, found: FirstLook | None) -> Answers:
    """Return the answers with the formats of values and keys: as they are given, or as the messages look."""
    chosen = given or (None if found is None else found.format)
    if chosen == REGISTERED:
        msg = "the messages have their schema in a registry, and only it knows their format"
        raise ConfigError(msg, f"give --registry URL and {_FORMATS}")
    if chosen is None:
        why = "there are no messages to look at" if found is not None else "nobody looks at the messages"
        raise ConfigError(f"the messages' format is not known: {why}", "give --format, as debezium-json")
    if answers.registry is not None and not chosen.endswith("-confluent"):
        msg = f"--registry has no effect with the format {chosen}"
        raise ConfigError(msg, f"leave it out, or give {_FORMATS}")
    keyed = chosen == "json" and found is not None and found.json_keys
    return replace(answers, format=chosen, key_format="json" if keyed else None)


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
    _write(folder, made)
    typer.echo(f"{len(files) + len(made)} files in {folder}: README.md says what they are for", err=True)


def _write(folder: Path, files: Mapping[str, str]) -> None:
    """Write texts by their paths in a folder. Raise ConfigError where that fails."""
    for name, text in files.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as exc:
            raise ConfigError(f"cannot write {path}: {exc.strerror}", "name another place") from exc
