"""Layout of rows of text in columns, and numbers in words, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ingest.model.text import size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


def rows_as_text(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield one line of text for each row. All columns are as wide as their longest text. `rows` must not be empty."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def length(seconds: float) -> str:
    """Return a length of time: `42 s`, `12 min`, `3 h 5 min`."""
    minutes = int(seconds // 60)
    if minutes < 1:
        return f"{max(seconds, 0):.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60:,} h {minutes % 60} min"


def lag_text(lag: Mapping[str, Any]) -> str:
    """Return what of a database waits: `3.4 MiB of the log, 12 s behind; about 40,000 rows of 3 tables`.

    `lag`: of `Standing.lag`.
    """
    parts = []
    if lag["bytes"]:
        behind = f", {length(lag['seconds'])} behind" if lag["seconds"] else ""  # else nobody knows since when it waits
        parts.append(f"{size(lag['bytes'])} of the log{behind}")
    if lag["tables"]:
        left = "" if lag["seconds_left"] is None else f", about {length(lag['seconds_left'])} left"
        parts.append(f"about {counted(lag['rows'], 'row')} of {counted(lag['tables'], 'table')}{left}")
    return "; ".join(parts) or "nothing"


def counted(count: int, what: str) -> str:
    """Return a number with the noun that it counts: `1 record`, `1,204 records`, `0 batches`."""
    many = f"{what}es" if what.endswith("ch") else f"{what}s"
    return f"{count:,} {what if count == 1 else many}"
