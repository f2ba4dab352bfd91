"""What a run prints to standard output: the lines of a sink that prints, and the closing summary."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from ingest.cli.screen import counted, lag_text
from ingest.config.redaction import mask
from ingest.model.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ingest.observe.events import Printed, RunEnded

GAP: Final = "  "
"""What is between two columns, and between two parts of a line."""
_NAME: Final = 44
"""Characters that the first column gets before others are left out for it, where its texts are as long."""


def table_lines(rows: Sequence[Sequence[str]], width: int | None, first_out: Sequence[str] = ()) -> Iterator[Text]:
    """Yield a heading and rows of a name and numbers, as lines of at most `width` characters; None: of any width.

    Where there is no room, columns are left out in the order of `first_out`, by their headings. A name that is longer
    than the room that is left has a line of its own.
    """
    heading = rows[0]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    shown = list(range(len(heading)))

    def room() -> int:
        return widths[0] if width is None else width - sum(widths[i] + len(GAP) for i in shown[1:])

    for name in first_out:
        if room() >= min(widths[0], _NAME):
            break
        shown.remove(heading.index(name))
    names = max(0, min(widths[0], room()))
    for row in rows:
        numbers = "".join(f"{GAP}{row[i]:>{widths[i]}}" for i in shown[1:])
        if len(row[0]) > names:
            yield Text(row[0], overflow="fold")
            if numbers.strip():
                yield Text(f"{' ' * names}{numbers}")
        else:
            yield Text(f"{row[0]:<{names}}{numbers}".rstrip())


MAX_TOPICS: Final = 10
"""Topics of which a summary says how much is left."""
MAX_COLUMNS: Final = 50
"""Columns of which it says what was left out or rounded."""
HEADINGS: Final[tuple[str, ...]] = ("table", "in", "inserted", "updated", "deleted", "rejected", "schema changes")
FIRST_OUT: Final = ("schema changes", "updated", "inserted", "deleted", "rejected", "in")
"""The columns that a narrow terminal does not have, the first of them first."""


def print_lines(event: Printed, secrets: frozenset[str]) -> None:
    """The sink's lines, each as it is."""
    stream = sys.stdout if event.stream == "out" else sys.stderr
    stream.write("".join(f"{mask(line, secrets)}\n" for line in event.lines))
    stream.flush()


def print_summary(event: RunEnded, secrets: frozenset[str]) -> None:
    """A table's line each, on standard output."""
    console = Console(highlight=False)
    rows = [HEADINGS]
    for name, line in sorted(event.tables.items()):
        numbers = (line.read, line.inserted, line.updated, line.deleted, line.rejected, line.schema_changes)
        rows.append((one_line(mask(name, secrets)), *(f"{number:,}" for number in numbers)))
    if event.tables:
        for text in table_lines(rows, console.width if sys.stdout.isatty() else None, FIRST_OUT):
            console.print(text, soft_wrap=True)
    skipped = ", ".join(f"{count:,} {reason}" for reason, count in sorted(event.skipped.items()))
    console.print(
        f"{event.pipeline}: {counted(event.records, 'record')} in {counted(event.batches, 'batch')}, "
        f"{event.seconds:.1f} s"
        f"{f', {event.rejected:,} rejected' if event.rejected else ''}{f'; skipped: {skipped}' if skipped else ''}",
        soft_wrap=True,
    )
    console.print(Text(mask(_ending(event), secrets)), soft_wrap=True)
    for what, counts in (
        ("values left out of the sink", event.withheld),
        ("fractions cut to microseconds", event.cut),
        ("unknown values of rows before a change", event.unread),
        ("numbers rounded", event.rounded),
    ):
        if counts:
            parts = ", ".join(f"{count:,} of {name}" for name, count in sorted(counts.items())[:MAX_COLUMNS])
            console.print(Text(mask(f"{what}: {parts}", secrets)), soft_wrap=True)


def _ending(event: RunEnded) -> str:
    """Why a run ended, and what it has left."""
    why = {"drained": "source drained", "signal": "stopped by a signal"}.get(event.stopped, "done")
    if event.exit_code:
        why = f"failed with exit code {event.exit_code}"
    if event.standing is not None:
        if not event.standing.waits:
            return f"ended: {why}; no backlog"
        lag = lag_text(event.standing.lag())
        return f"ended: {why}; {f'{lag} since then' if event.stopped == 'drained' else f'backlog: {lag}'}"
    if event.left is None:
        return f"ended: {why}"
    total = sum(event.left.values())
    if not total:
        return f"ended: {why}; no backlog"
    most = sorted(event.left.items(), key=lambda item: (-item[1], item[0]))
    topics = ", ".join(f"{number:,} of {one_line(topic)}" for topic, number in most[:MAX_TOPICS])
    more = f", and of {len(most) - MAX_TOPICS} more" if len(most) > MAX_TOPICS else ""
    records = counted(total, "record")
    backlog = f"{records} since then" if event.stopped == "drained" else f"backlog of {records}"
    return f"ended: {why}; {backlog} ({topics}{more})"
