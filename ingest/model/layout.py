"""How a sink lays a table out that it makes: its partitions and options, as `transform:` gives them.

In: the text of `partition-keys` and `table-options`. Out: a layout. Raises TextError with the place in the text. Rules:
docs/spec/sinks.md#layout-of-tables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from ingest.model.text import TextError

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMES: Final = ("year", "month", "day", "hour")
"""Transforms of moments, from the coarsest to the finest."""
SIZED: Final = ("bucket", "truncate")
"""Transforms that have a number: of buckets, or of what a part is wide."""
MAX_WIDTH: Final = 2**31 - 1
_CALL: Final = re.compile(r"(\w+)\s*\((?:\s*(\d+)\s*,)?\s*(.*?)\s*\)", re.DOTALL)


class PartitionKey(NamedTuple):
    """A column by which a table is partitioned."""

    column: str
    transform: str = "identity"
    """`identity`, or one of `TIMES` and `SIZED`."""
    width: int = 0
    """Number of buckets, or width of what is cut to; 0 for other transforms."""

    def __str__(self) -> str:
        """Return `bucket(16, id)`, as the option has it."""
        if self.transform == "identity":
            return self.column
        return f"{self.transform}({f'{self.width}, ' if self.width else ''}{self.column})"


@dataclass(frozen=True, slots=True)
class TableLayout:
    """How a sink lays out a table that it makes."""

    partitions: tuple[PartitionKey, ...] = ()
    options: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        """Return whether it says anything."""
        return bool(self.partitions or self.options)


PLAIN: Final = TableLayout()
"""The layout of tables of which the file says nothing."""


def partition_keys(text: str) -> tuple[PartitionKey, ...]:
    """Return the keys of a text: `region, day(created_at), bucket(16, id)`. Raise TextError."""
    out: dict[PartitionKey, None] = {}
    for at, part in _parts(text):
        key = _partition_key(part, at)
        if key in out:
            msg = f"{part[:100]!r} is there twice"
            raise TextError(msg, at, len(part))
        out[key] = None
    return tuple(out)


def _parts(text: str) -> Iterator[tuple[int, str]]:
    """Yield what is between commas outside of brackets, without blanks around it, and where it begins."""
    begin = depth = 0
    for end, letter in enumerate(f"{text},"):
        depth += (letter == "(") - (letter == ")" and depth > 0)
        if letter == "," and (depth == 0 or end == len(text)):
            part = text[begin:end]
            if part.strip():
                yield begin + len(part) - len(part.lstrip()), part.strip()
            begin = end + 1


def _partition_key(text: str, at: int) -> PartitionKey:
    found = _CALL.fullmatch(text)
    if found is None:
        return PartitionKey(text)
    name, width, column = found[1].lower(), found[2], found[3]
    transform = name[:-1] if name[:-1] in TIMES and name.endswith("s") else name
    if transform not in {*TIMES, *SIZED}:
        msg = f"{found[1][:100]!r} is no transform of partitions ({', '.join((*TIMES, *SIZED))})"
        raise TextError(msg, at, len(found[1]))
    if not column or "," in column:
        msg = f"write {transform}({'N, ' if transform in SIZED else ''}COLUMN)"
        raise TextError(msg, at, len(text))
    if (width is not None) != (transform in SIZED):
        msg = f"{transform} {'needs a number: ' if width is None else 'takes no number: '}{transform}"
        raise TextError(f"{msg}({'16, ' if width is None else ''}{column[:100]})", at, len(text))
    size = int(width or 0) if len(width or "") <= len(str(MAX_WIDTH)) else MAX_WIDTH + 1
    if width is not None and not 0 < size <= MAX_WIDTH:
        msg = f"{width[:20]} is no number from 1 to {MAX_WIDTH}"
        raise TextError(msg, at, len(text))
    return PartitionKey(column, transform, size)


def table_options(text: str, delimiter: str) -> tuple[tuple[str, str], ...]:
    """Return the entries of a text: `key=value,key=value`. Raise TextError."""
    out: dict[str, str] = {}
    at = 0
    for part in text.split(delimiter):
        name, equals, value = part.partition("=")
        name = name.strip()
        if part.strip():
            if not equals or not name:
                msg = f"write key=value, with {delimiter!r} between two of them"
                raise TextError(msg, at, len(part))
            if name in out:
                msg = f"{name[:100]!r} is there twice"
                raise TextError(msg, at, len(part))
            out[name] = value.strip()
        at += len(part) + len(delimiter)
    return tuple(out.items())
