"""Tables that keep each state of a key as a row: their two columns, and what is asked of a table that is there.

In: the columns' names, and the table as it is there. Out: parts of statements, or the reason why the table is none of
these. Rules: docs/spec/sinks.md#history-of-rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

_KIND: Final = "timestamp with time zone"
_MOMENT: Final = re.compile(r"timestamp(\(6\))? with time zone")
_DATED: Final = re.compile(r"date|timestamp(\(\d\))? with(out)? time zone")
_ANOTHER: Final = "route the rows to a table that is not there, so that it is made, or change the one that is"


class ChangeError(ValueError):
    """Error about a change that would lose something. Its text says which."""

    def __init__(self, text: str, hint: str | None = None) -> None:
        """Say why, and what to do; None where that depends on the server."""
        super().__init__(text)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class HistoryColumns:
    """The columns that say when a state of a key was the current one."""

    valid_from: str
    """The column of its beginning, which is part of the table's key."""
    valid_to: str
    """The column of its end; it is null in the current row."""
    unit: str = "microseconds"
    """The smallest unit of time that the server keeps, as SQL calls it."""

    @property
    def names(self) -> tuple[str, str]:
        """Both names."""
        return self.valid_from, self.valid_to

    def parts(self) -> Iterator[sql.Composed]:
        """Yield the columns as the statement has them that makes the table."""
        yield sql.SQL("{} {} NOT NULL").format(sql.Identifier(self.valid_from), sql.SQL(_KIND))
        yield sql.SQL("{} {}").format(sql.Identifier(self.valid_to), sql.SQL(_KIND))

    def check(self, columns: Mapping[str, str], key: Sequence[str], unique: Collection[frozenset[str]]) -> None:
        """Raise ChangeError for a table that is there and keeps no such rows.

        `columns`: types by names; `key`: the rows' key; `unique`: columns of which it has unique indexes.
        """
        for name in self.names:
            kind = columns.get(name)
            if kind is None or not _MOMENT.fullmatch(kind):
                is_there = f"its column {name!r} is {kind}" if kind is not None else f"it has no column {name!r}"
                msg = f"{is_there}, and a history of rows needs one of {_KIND} (sink.write-mode)"
                raise ChangeError(msg, _ANOTHER)
        lone = frozenset(key)
        if lone in unique:
            msg = f"its unique index of ({', '.join(key)}) lets no key have a second row (sink.write-mode: history)"
            raise ChangeError(msg, _ANOTHER)
        if lone | {self.valid_from} not in unique:
            msg = f"it has no unique index of ({', '.join((*key, self.valid_from))}), by which rows are found"
            raise ChangeError(msg, _ANOTHER)

    @staticmethod
    def check_sequence(column: str, values: str) -> None:
        """Raise ChangeError for a column of `sink.sequence-by` whose values, of a type, are no times."""
        if not _DATED.fullmatch(values):
            msg = f"its column {column!r} has values of {values}, which do not say when a row begins (sink.sequence-by)"
            hint = "name a column of TIMESTAMP, TIMESTAMP_LTZ or DATE, or none: then it is the server's clock"
            raise ChangeError(msg, hint)
