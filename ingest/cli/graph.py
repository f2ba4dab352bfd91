"""`ingest graph FILE`: draws a pipeline as Mermaid: where records come from, which tables they are, where rows go."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ingest.checkpoint.inspect import opened
from ingest.checkpoint.schema_history import current, history
from ingest.cli.checkpoint import CheckpointOption
from ingest.cli.parameters import SetOption, parse_variables
from ingest.config.loader import load_checked
from ingest.config.redaction import mask
from ingest.errors import CheckpointError
from ingest.model.table import TableId, show
from ingest.model.text import one_line
from ingest.paths import usual_checkpoint
from ingest.schema.routes import rule_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ingest.config.pipeline import Pipeline, Transform

_MOST: Final = 200
"""Tables that a drawing has, at most: nobody reads more, and browsers do not draw them."""
_LONGEST: Final = 120
"""Characters of a label."""
_SPECIAL: Final = re.compile(r'[#"<>&`\\\[\]{}()|;]')
"""Characters that mean something in a label of Mermaid's."""

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def graph(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline file.")],
    variables: SetOption = None,
    checkpoint: CheckpointOption = None,
) -> None:
    """Draw a pipeline as Mermaid: topics, tables, routes, the sink's tables.

    Tables are those that the checkpoint knows; without one, the rules stand for them.
    """
    pipeline = load_checked(file, parse_variables(variables))
    tables = known_tables(checkpoint or str(usual_checkpoint(pipeline.pipeline.name)), needed=checkpoint is not None)
    typer.echo(drawn(pipeline, tables))


def known_tables(where: str, *, needed: bool) -> list[TableId]:
    """Return the source tables in a checkpoint; empty without a checkpoint, unless `needed`."""
    try:
        with opened(where, {}, write=False) as found:
            return sorted(version.table for version in current(history(found, observed=True), None))
    except CheckpointError:
        if needed:
            raise
        return []


def drawn(pipeline: Pipeline, tables: Sequence[TableId]) -> str:
    """Return the text of a drawing."""
    drawing = Drawing(lambda text: mask(text, pipeline.secrets))
    middle = drawing.node(pipeline.pipeline.name, "{{", "}}")
    for origin in origins_of(pipeline):
        drawing.arrow(drawing.node(f"{pipeline.source.type}: {origin}", "[(", ")]"), middle)
    for source, done, target in ways_of(pipeline, tables):
        table = drawing.node(source, "[", "]")
        drawing.arrow(middle, table)
        drawing.arrow(table, drawing.node(f"{pipeline.sink.type}: {target}", "[(", ")]"), done)
    return "\n".join(["flowchart LR", *drawing.lines])


class Drawing:
    """Nodes and arrows, each drawn once."""

    def __init__(self, clean: Callable[[str], str]) -> None:
        """`clean` removes secrets from a text, which it would not know in a label."""
        self._clean = clean
        self.lines: dict[str, None] = {}
        self._names: dict[str, str] = {}

    def node(self, text: str, begin: str, end: str) -> str:
        """Return the name of a node with this text, in a shape that is between two brackets."""
        shape = f'{begin}"{label(self._clean(text))}"{end}'
        name = self._names.setdefault(shape, f"n{len(self._names)}")
        self.lines[f"    {name}{shape}"] = None
        return name

    def arrow(self, start: str, end: str, text: str = "") -> None:
        """Draw an arrow between two nodes."""
        written = f'-- "{label(self._clean(text))}" -->' if text else "-->"
        self.lines[f"    {start} {written} {end}"] = None


def origins_of(pipeline: Pipeline) -> Sequence[str]:
    """Return where records come from: topics, a pattern of topics, or files."""
    source = pipeline.source
    if (pattern := getattr(source, "topic_pattern", None)) is not None:
        return (f"topics like {pattern}",)
    topics: Sequence[str] = getattr(source, "topics", ())
    return topics or (str(getattr(source, "path", "")),)


def ways_of(pipeline: Pipeline, tables: Sequence[TableId]) -> Iterator[tuple[str, str, str]]:
    """Yield a source table, what is done to its rows, and a sink table, for each way that rows go."""
    if not tables:
        for transform in pipeline.transform:
            yield f"tables like {transform.source_table}", done_by(transform), "tables as their routes say"
        for route in pipeline.route:
            yield f"tables like {route.source_table}", "", route.sink_table
        if not pipeline.route:
            yield "other tables" if pipeline.transform else "all tables", "", "tables of the same names"
    rules = pipeline.rules
    for table in tables[:_MOST]:
        rule = rule_of(rules.transforms, table)
        done = "" if rule is None else done_by(pipeline.transform[rule.number])
        for target in rules.targets(table):
            yield show(table), done, show(target)
    if len(tables) > _MOST:
        yield f"{len(tables) - _MOST} more tables", "", "tables as their routes say"


def done_by(transform: Transform) -> str:
    """Return what a transform does to rows, in a few words."""
    parts = ("projection" if transform.projection else "", f"where {transform.filter}" if transform.filter else "")
    return ", ".join(part for part in parts if part)


def label(text: str) -> str:
    """Return a text as a label: nothing in it means anything to Mermaid, or to the browser that draws it."""
    return _SPECIAL.sub(lambda found: f"#{ord(found[0])};", one_line(text)[:_LONGEST])
