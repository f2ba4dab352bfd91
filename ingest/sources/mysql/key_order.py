"""The order of a table's keys, which is the server's.

Numbers, times and bytes are ranked here, as servers keep them as numbers and bytes. Texts, UUIDs and addresses have an
order of their own (collations, blanks at the end, MariaDB's UUIDs by their segments): the server compares them, many at
once. Rules: docs/spec/mysql.md#snapshot.
"""

from __future__ import annotations

import re
from base64 import b64decode
from decimal import Decimal
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ingest.errors import ConfigError
from ingest.sources.mysql.chunks import FLOATS, INTEGERS, NUMBERED, literal
from ingest.sources.mysql.types import BINARIES, FIXED, TEXTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ingest.sources.mysql.chunks import Bound
    from ingest.sources.mysql.types import Column

    Part: TypeAlias = Any
    """A column of a key: what orders as the server does, or what the server is asked with (a literal)."""
    Ask: TypeAlias = Callable[[str], Sequence[object]]
    """Function that runs a SELECT of one row and returns its values. It raises what the connection raises."""

_BY_SERVER: Final = TEXTS | set(FIXED)
_SINGLE: Final = Struct("<f")
_DIGITS: Final = re.compile(r"\d+").findall
ASKED: Final = 400
"""Comparisons in a statement, at most."""
_ASKED_BYTES: Final = 1 << 20
"""Bytes of a statement from which on no comparison is added; servers take 4 MiB, unless they are set otherwise."""


class KeyOrder:
    """Compares keys of rows, as records have them, with bounds, as the server gave them."""

    def __init__(self, key: Sequence[Column], ask: Ask) -> None:
        """`key`: the columns that the table is split by."""
        self._key = tuple(key)
        self._ask = ask

    def of_bound(self, bound: Bound) -> tuple[Part, ...]:
        """Return a bound as it is compared."""
        return tuple(_part_of_bound(column, text) for column, text in zip(self._key, bound, strict=True))

    def of_row(self, row: Mapping[str, Any], otherwise: Mapping[str, Any] | None = None) -> tuple[Part, ...]:
        """Return a row's key as it is compared.

        `row`: an image of a record, whose JSON numbers are int or Decimal; `otherwise`: the image before, which has
        the columns that a partial image lacks. Raise ConfigError where neither has one.
        """
        return tuple(_part_of_value(column, self._value(column, row, otherwise)) for column in self._key)

    @staticmethod
    def _value(column: Column, row: Mapping[str, Any], otherwise: Mapping[str, Any] | None) -> object:
        if column.name in row:
            return row[column.name]
        if otherwise is not None and column.name in otherwise:
            return otherwise[column.name]
        msg = f"a change in the log lacks the column {column.name}, by which its table is read in chunks"
        raise ConfigError(msg, "SET GLOBAL binlog_row_image = 'FULL', and begin the sessions that write again")

    def places(self, keys: Sequence[tuple[Part, ...]], bounds: Sequence[tuple[Part, ...]]) -> list[int]:
        """Return for each key how many bounds are below it. Bounds are in the server's order."""
        found: dict[tuple[Part, ...], list[int]] = {key: [0, len(bounds)] for key in keys}
        open_ = [key for key, (low, high) in found.items() if low < high]
        while open_:
            asked = []
            for key in open_:
                low, high = found[key]
                middle = (low + high) // 2
                answer = self._above(key, bounds[middle])
                if answer is None:
                    asked.append((key, middle))
                else:
                    _narrow(found[key], middle, above=answer)
            for (key, middle), above in zip(asked, self._answers(asked, bounds), strict=True):
                _narrow(found[key], middle, above=above)
            open_ = [key for key in open_ if found[key][0] < found[key][1]]
        return [found[key][0] for key in keys]

    def _above(self, key: tuple[Part, ...], bound: tuple[Part, ...]) -> bool | None:
        """Return whether a key is above a bound; None where the server has to say."""
        for column, ours, other in zip(self._key, key, bound, strict=True):
            if column.type in _BY_SERVER:
                return None
            if ours != other:
                return bool(ours > other)
        return False

    def _answers(self, asked: Sequence[tuple[tuple[Part, ...], int]], bounds: Sequence[tuple[Part, ...]]) -> list[bool]:
        answers: list[bool] = []
        parts: list[str] = []
        size = 0
        for key, middle in asked:
            parts.append(self._question(key, bounds[middle]))
            size += len(parts[-1])
            if len(parts) == ASKED or size > _ASKED_BYTES:
                answers += map(bool, self._ask("SELECT " + ", ".join(parts)))
                parts, size = [], 0
        if parts:
            answers += map(bool, self._ask("SELECT " + ", ".join(parts)))
        return answers

    def _question(self, key: tuple[Part, ...], bound: tuple[Part, ...]) -> str:
        """Return an expression that is true where a key is above a bound."""
        out = ""
        for column, ours, other in reversed(list(zip(self._key, key, bound, strict=True))):
            if column.type not in _BY_SERVER:
                # What is known here is not asked
                out = "1" if ours > other else out if ours == other and out else "0"
            else:
                out = f"({ours} > {other} OR ({ours} = {other} AND {out}))" if out else f"{ours} > {other}"
        return out


def _narrow(span: list[int], middle: int, *, above: bool) -> None:
    if above:
        span[0] = middle + 1
    else:
        span[1] = middle


def _part_of_bound(column: Column, text: str) -> Part:
    kind = column.type
    if kind in TEXTS:
        return _collated(column, literal(column, text))
    if kind in FIXED:
        return f"CAST({literal(column, text)} AS {kind})"
    if kind in BINARIES:
        return bytes.fromhex(text)
    if kind in INTEGERS or kind in NUMBERED or kind == "year":
        return int(text)
    if kind == "decimal":
        return Decimal(text)
    if kind in FLOATS:
        return _rounded(column, float(text))
    return _moment(kind, text)


def _part_of_value(column: Column, value: object) -> Part:
    kind = column.type
    if value is None:
        msg = f"the log has NULL in {column.name}, by which its table is read in chunks, and which is NOT NULL"
        raise ConfigError(msg, "choose another scan.incremental.snapshot.chunk.key-column")
    if kind in TEXTS:
        utf8 = str(value).encode("utf-8", "replace").hex()
        return _collated(column, f"CONVERT(_utf8mb4 X'{utf8}' USING {column.charset or 'utf8mb4'})")
    if kind in FIXED:
        return f"CAST({literal(column, str(value))} AS {kind})"
    if kind in BINARIES:
        return b64decode(str(value))
    if kind == "bit":
        return int(value) if isinstance(value, bool) else int.from_bytes(b64decode(str(value)), "big")
    if kind == "enum":
        return column.labels.index(str(value)) + 1 if value in column.labels else 0
    if kind == "set":
        labels = str(value).split(",") if value else []
        return sum(1 << column.labels.index(label) for label in labels)
    if kind in INTEGERS or kind == "year":
        return int(str(int(value))) if isinstance(value, bool) else int(str(value))
    if kind == "decimal":
        return Decimal(str(value))
    if kind in FLOATS:
        return _rounded(column, float(str(value)))
    return _moment(kind, str(value))


def _collated(column: Column, text: str) -> str:
    return f"{text} COLLATE {column.collation}" if column.collation else text


def _rounded(column: Column, value: float) -> float:
    """Return a number as its column holds it: the text of a FLOAT has fewer digits than its value as a DOUBLE."""
    return float(_SINGLE.unpack(_SINGLE.pack(value))[0]) if column.type == "float" else value


def _moment(kind: str, text: str) -> int:
    """Return a time as a whole number in the order of times."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    micros = int(fraction.ljust(6, "0")[:6])
    if kind != "time":
        # As the server keeps it: a day that is none, 2020-00-15, has its place as well
        return int("".join(_DIGITS(whole)).ljust(14, "0")) * 1_000_000 + micros
    hours, minutes, seconds = map(int, _DIGITS(whole))
    size = (hours * 3600 + minutes * 60 + seconds) * 1_000_000 + micros
    return -size if text.startswith("-") else size
