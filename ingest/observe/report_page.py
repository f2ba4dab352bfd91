"""The page of a report: one HTML file that needs no other, no network and no JavaScript.

In: the facts of a run. Out: the text of the page. Names and values come from messages: each is escaped, and the page
itself forbids scripts and anything from elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from math import ceil, floor, log10
from shlex import quote
from typing import TYPE_CHECKING, Final

from ingest.model.text import size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ingest.observe.report import RunFacts

MAX_TABLES: Final = 1_000
"""Tables that have a line of their own: those with the most records."""


def page(facts: RunFacts, clean: Callable[[str], str]) -> str:
    """Return the page. `clean` removes secrets from a text."""

    def text(value: object) -> str:
        return escape(clean(str(value)))

    name = text(facts.pipeline)
    parts = (
        _head(facts, text),
        _marked(facts, text),
        _charts(facts),
        _snapshot(facts, text),
        _tables(facts, text),
        _history(facts, text),
        _rejects(facts, text),
        _list("Warnings", facts.warnings, text),
        _options(facts, text),
    )
    body = "\n".join(line for part in parts for line in part)
    style = files("ingest.observe").joinpath("report.css").read_text(encoding="utf-8")
    return f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{name}: report of a run</title>
<style>
{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


def _head(facts: RunFacts, text: Callable[[object], str]) -> Iterator[str]:
    ended, started, points = facts.ended, facts.started, facts.points
    records = sum(point.records for point in points) if ended is None else ended.records
    rejected = sum(point.rejected for point in points) if ended is None else ended.rejected
    seconds = facts.until - facts.since if ended is None else ended.seconds
    yield f"<h1>{text(facts.pipeline)}</h1>"
    run = "" if started is None else f"run {started.run} of checkpoint <code>{text(started.checkpoint)}</code>, "
    yield f'<p class="dim">{run}started {_when(facts.since)}, ingest {text(facts.version)}</p>'
    yield f"<p>{_state(facts, text)}</p>"
    yield from (
        f'<p class="bad">The {text(side)} has not answered for {_length(outage.away_s)}: {text(outage.why)}</p>'
        for side, outage in sorted(facts.away.items())
    )
    unit = _unit(facts)
    numbers = (
        (f"{unit} read", f"{records:,}", False),
        ("duration", _length(seconds), False),
        (f"average throughput ({unit}/s)", f"{records / max(seconds, 0.001):,.0f}", False),
        ("rejected", f"{rejected:,}", rejected > 0),
        *_backlog(facts),
    )
    shown = (f"<div><b{' class=bad' if bad else ''}>{number}</b>{title}</div>" for title, number, bad in numbers)
    yield f'<div class="facts">{"".join(shown)}</div>'
    if started is not None and started.in_python:
        yield f'<p class="dim">Records pass through Python: {text("; ".join(started.in_python))}</p>'


def _unit(facts: RunFacts) -> str:
    """Return the unit of what is read: a database has changes, not records."""
    return "records" if facts.standing is None else "changes"


def _backlog(facts: RunFacts) -> Iterator[tuple[str, str, bool]]:
    """Yield the backlog and the lag, each with a title that says the unit."""
    standing = facts.standing
    if standing is None:
        yield "backlog (records)", f"{facts.backlog[-1][1]:,}" if facts.backlog else "not known", False
        return
    yield "log backlog", size(standing.lag_bytes), False
    yield "log lag", _length(standing.lag_s), False
    if standing.tables:
        yield "snapshot rows left (estimate)", f"{standing.rows_left:,}", False
        if standing.seconds_left is not None and facts.ended is None:
            yield "snapshot time left (estimate)", _length(standing.seconds_left), False


def _marked(facts: RunFacts, text: Callable[[object], str]) -> Iterator[str]:
    """Yield the tables whose rows in the sink may differ."""
    marked = {} if facts.standing is None else facts.standing.marked
    if not marked:
        return
    yield f"<h2>Tables whose rows may differ ({len(marked):,})</h2>"
    yield '<p class="dim">A statement has changed rows that are not in the log.</p>'
    rows = (
        (text(name), text(why), f"<code>ingest backfill FILE --table {text(quote(name))}</code>")
        for name, why in sorted(marked.items())[:MAX_TABLES]
    )
    yield from _grid(("table", "cause", "remedy"), rows)


def _snapshot(facts: RunFacts, text: Callable[[object], str]) -> Iterator[str]:
    """Yield how far the rows of a database's tables are read."""
    standing = facts.standing
    if standing is None or not standing.tables:
        return
    yield f"<h2>Snapshot: tables that are being read ({len(standing.tables):,})</h2>"
    others = standing.tables_done
    done = f"{others:,} other table{' has' if others == 1 else 's have'} been read completely." if others else ""
    yield f'<p class="dim">{done} Totals are estimates.</p>'
    rows = (
        (text(name), f"{progress.read:,}", f"{progress.rows:,}", f"{progress.chunks_read:,}", f"{progress.chunks:,}")
        for name, progress in sorted(standing.tables.items())[:MAX_TABLES]
    )
    yield from _grid(("table", "rows read", "rows (estimate)", "chunks read", "chunks (estimate)"), rows, numbers=4)


def _state(facts: RunFacts, text: Callable[[object], str]) -> str:
    ended = facts.ended
    if ended is None:
        what = "Running." if facts.started is not None else "Starting: not everything is connected yet."
        return f"{what} Written {_when(facts.until)}; updated every 30 seconds."
    if ended.exit_code:
        return f'<span class="bad">Failed with exit code {ended.exit_code}</span>: {text(ended.stopped)}'
    return {"drained": "Ended: the source was drained.", "signal": "Ended: stopped by a signal."}.get(
        ended.stopped, f"Ended: {text(ended.stopped)}"
    )


def _charts(facts: RunFacts) -> Iterator[str]:
    points = facts.points
    yield "<h2>Throughput, backlog and lag</h2>"
    if not points:
        yield '<p class="dim">No batch has completed.</p>'
    if not facts.backlog:
        return
    counts, numbers = Axes(facts.since, facts.until), Axes(facts.since, facts.until, whole=False)
    rates = [(batch.began, batch.ended, batch.records / max(batch.ended - batch.began, 0.001)) for batch in points]
    behind = [(batch.began, batch.ended, batch.event_lag_s) for batch in points if batch.event_lag_s is not None]
    rejected = [(batch.began, batch.ended, float(batch.rejected)) for batch in points]
    yield '<div class="charts">'
    if points:
        yield counts.bars(f"Throughput ({_unit(facts)}/s)", rates)
    unit = "Backlog (records)" if facts.standing is None else "Log backlog (bytes)"
    yield counts.steps(unit, facts.backlog)
    if any(rows for _, rows in facts.unread):
        yield counts.steps("Snapshot rows left (estimate)", facts.unread)
    if behind:
        yield numbers.bars("Event-time lag (s)", behind)
    if any(batch.rejected for batch in points):
        yield counts.bars(f"Rejected {_unit(facts)} per batch", rejected)
    yield "</div>"


def _tables(facts: RunFacts, text: Callable[[object], str]) -> Iterator[str]:
    tables = facts.tables if facts.ended is None else facts.ended.tables
    if not tables:
        return
    yield f"<h2>Tables ({len(tables):,})</h2>"
    most = sorted(tables.items(), key=lambda item: (-item[1].read, item[0]))
    titles: tuple[str, ...] = ("table", "read", "inserted", "updated", "deleted", "rejected", "schema changes")
    titles = titles if facts.ended is not None else titles[:-1]
    rows = (
        (
            text(name),
            *(
                f"{number:,}"
                for number in (
                    counters.read,
                    counters.inserted,
                    counters.updated,
                    counters.deleted,
                    counters.rejected,
                    counters.schema_changes,
                )[: len(titles) - 1]
            ),
        )
        for name, counters in most[:MAX_TABLES]
    )
    yield from _grid(titles, rows, numbers=len(titles) - 1)
    if len(most) > MAX_TABLES:
        yield f'<p class="dim">and {len(most) - MAX_TABLES:,} more</p>'


def _history(facts: RunFacts, text: Callable[[object], str]) -> Iterator[str]:
    changes = facts.changes if facts.kept is None else facts.kept
    by_table: dict[str, list[tuple[str, str]]] = {}
    for change in changes:
        by_table.setdefault(change.table, []).append(("" if change.at is None else _when(change.at), change.text))
    if not by_table:
        return
    of = "this run" if facts.kept is None else "all runs of the checkpoint"
    yield f'<h2>Schemas of the sink\'s tables</h2><p class="dim">Changes of {of}.</p>'
    for table in sorted(by_table)[:MAX_TABLES]:
        events = by_table[table]
        opened = " open" if len(by_table) <= 3 else ""
        count = f"{len(events):,} change{'' if len(events) == 1 else 's'}"
        yield f"<details{opened}><summary><b>{text(table)}</b> <span class=dim>{count}</span></summary>"
        yield from _grid(("when", "what"), ((when, f"<code>{text(what)}</code>") for when, what in events))
        yield "</details>"


def _rejects(facts: RunFacts, text: Callable[[object], str]) -> Iterator[str]:
    codes = sorted({*facts.rejects, *facts.samples}, key=lambda code: (-facts.rejects.get(code, 0), code))
    if not codes:
        return
    yield "<h2>Rejected records</h2>"
    for code in codes:
        stage, name = code
        count = facts.rejects.get(code, 0)
        yield f"<details open><summary><b>{text(stage)}/{text(name)}</b> <span class=bad>{count:,}</span></summary>"
        yield from _items(facts.samples.get(code, ()), text)
        yield "</details>"


def _list(title: str, items: Iterable[str], text: Callable[[object], str]) -> Iterator[str]:
    lines = list(items)
    if lines:
        yield f"<h2>{title}</h2>"
        yield from _items(lines, text)


def _items(items: Iterable[str], text: Callable[[object], str]) -> Iterator[str]:
    yield "<ul>"
    yield from (f"<li><code>{text(line)}</code></li>" for line in items)
    yield "</ul>"


def _options(facts: RunFacts, text: Callable[[object], str]) -> Iterator[str]:
    yield "<h2>Options</h2>"
    rows = ((f"<code>{text(name)}</code>", f"<code>{text(value)}</code>") for name, value in facts.options.items())
    yield from _grid(("option", "value"), rows)


def _grid(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]], numbers: int = 0) -> Iterator[str]:
    """Yield a table. The cells are HTML already; the last `numbers` columns are numbers."""
    first = len(titles) - numbers
    kinds = ["" if number < first else ' class="n"' for number in range(len(titles))]
    yield '<div class="wide"><table><thead><tr>'
    yield "".join(f"<th{kind}>{title}</th>" for kind, title in zip(kinds, titles, strict=True))
    yield "</tr></thead><tbody>"
    for row in rows:
        yield f"<tr>{''.join(f'<td{kind}>{cell}</td>' for kind, cell in zip(kinds, row, strict=True))}</tr>"
    yield "</tbody></table></div>"


def _when(seconds: float) -> str:
    return f"<span class=when>{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC</span>"


def _length(seconds: float) -> str:
    """Return a length of time in words: `4.2 s`, `12 min 5 s`, `3 h 5 min`."""
    whole = round(seconds)
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600:,} h {whole % 3600 // 60} min"


WIDTH: Final = 640
HEIGHT: Final = 190
_LEFT: Final = 62
_RIGHT: Final = 14
_TOP: Final = 12
_BOTTOM: Final = 24
_TICKS: Final = 4
_MOST_TIMES: Final = 7
"""Labels below the axis of time after the first."""
_BAR: Final = 2.0
"""The width of the thinnest bar."""
_STEPS: Final = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800,
)  # fmt: skip
"""Seconds between two labels of the axis of time."""


@dataclass(frozen=True, slots=True)
class Axes:
    """The axes of a chart: time from the start of a run to its end, or to now, and values from zero on."""

    since: float
    """Seconds since 1970, as all times."""
    until: float
    whole: bool = True
    """True if values are counts."""

    def bars(self, title: str, bars: Sequence[tuple[float, float, float]]) -> str:
        """Return a figure with a bar from one time to another for each value."""
        top, step = self._top([value for _, _, value in bars])
        drawn = []
        for began, ended, value in bars:
            left, right = self._x(began), self._x(ended)
            left = max(_LEFT, min(left, right - _BAR))
            drawn.append(
                f'<rect class="bar" x="{left:.1f}" width="{max(right - left, _BAR):.1f}" '
                f'y="{_y(value / top):.1f}" height="{_y(0) - _y(value / top):.1f}"/>'
            )
        return self._figure(title, top, step, drawn)

    def steps(self, title: str, points: Sequence[tuple[float, float]]) -> str:
        """Return a figure of values, each of which holds from its time until that of the next one, or the end."""
        top, step = self._top([value for _, value in points])
        ends = [*(at for at, _ in points[1:]), self.until]
        places = [
            f"{self._x(at):.1f},{_y(value / top):.1f}"
            for (began, value), ended in zip(points, ends, strict=True)
            for at in (began, ended)
        ]
        path, base = " ".join(places), f"{_y(0):.1f}"
        first, last = f"{self._x(points[0][0]):.1f}", f"{self._x(self.until):.1f}"
        drawn = [
            f'<polygon class="area" points="{first},{base} {path} {last},{base}"/>',
            f'<polyline class="curve" points="{path}"/>',
        ]
        return self._figure(title, top, step, drawn)

    @property
    def _length(self) -> float:
        return max(1.0, self.until - self.since)

    def _x(self, at: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * min(max(at - self.since, 0.0), self._length) / self._length

    def _top(self, values: Sequence[float]) -> tuple[float, float]:
        """Return the highest value of the axis, and that between two lines."""
        most = max(1.0, *values)
        step = nice(most / _TICKS)
        step = max(1.0, step) if self.whole else step
        return step * ceil(most / step), step

    def _figure(self, title: str, top: float, step: float, drawn: Sequence[str]) -> str:
        lines = []
        for number in range(round(top / step) + 1):
            y = _y(number * step / top)
            lines += [
                f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>',
                f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{short(number * step)}</text>',
            ]
        between = between_labels(self._length)
        for number in range(floor(self._length / between) + 1):
            x = self._x(self.since + number * between)
            anchor = "end" if x > WIDTH - 2 * _RIGHT else "middle"
            lines.append(f'<text x="{x:.1f}" y="{HEIGHT - 6}" text-anchor="{anchor}">{span(number * between)}</text>')
        shown = "\n".join([*lines, *drawn])
        return (
            f"<figure><figcaption>{title}</figcaption>"
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">\n{shown}\n</svg></figure>'
        )


def _y(part: float) -> float:
    """Return where a part of the highest value is, from 0 to 1."""
    return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * part


def between_labels(seconds: float) -> int:
    """Return the seconds between two labels of an axis of this length: whole minutes from two minutes on."""
    least = 60 if seconds >= 120 else 1
    fits = (step for step in _STEPS if step >= least and seconds / step <= _MOST_TIMES)
    return next(fits, ceil(seconds / _MOST_TIMES / 86_400) * 86_400)


def nice(step: float) -> float:
    """Return the next 1, 2 or 5 times a power of ten."""
    power = 10.0 ** floor(log10(step))
    return next((factor * power for factor in (1, 2, 5) if factor * power >= step * 0.999), 10 * power)


def short(value: float) -> str:
    """Return a number in a few characters: `1.5 M`."""
    for bound, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= bound:
            return f"{value / bound:.3g}{unit}"
    return f"{value:.3g}"


def span(seconds: int) -> str:
    """Return whole seconds, minutes, hours or days in a few characters: `90 s`, `12 min`, `1 h 30 min`, `3 d`."""
    minutes = seconds // 60
    if seconds % 60:
        return f"{seconds} s"
    if minutes < 60:
        return f"{minutes} min" if minutes else "0"
    if minutes < 2 * 24 * 60 or minutes % (24 * 60):
        return f"{minutes // 60} h" + (f" {minutes % 60} min" if minutes % 60 else "")
    return f"{minutes // (24 * 60)} d"
