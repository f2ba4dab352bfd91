"""Rows that the database refuses: which errors are a row's fault, and the search for those rows by halving.

In: rows, and a way to write some of them as a whole. Out: the rows that the database refuses, each with its own words;
all others are written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from ingest.model.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import psycopg

_Row = TypeVar("_Row")
_OF_ROWS: Final = ("22", "23", "44000", "54", "P0")
"""States, or their classes, that are a row's fault: its data, a constraint, the check of a view, a value that is too
large or too deep, what a trigger raises."""
_OF_OTHERS: Final = ("23", "P0")
"""Classes that may pass once other rows are written: a foreign key, a trigger that looks at other rows."""
_MAX_TEXT: Final = 500


class Refusal(NamedTuple):
    """The reason of the database for not taking rows."""

    state: str
    text: str

    @property
    def may_pass(self) -> bool:
        """True if the row may be taken when other rows are there."""
        return self.state.startswith(_OF_OTHERS)


def refusal_of(exc: psycopg.Error) -> Refusal | None:
    """Return why rows are refused; None for an error that is not a row's fault."""
    state = exc.sqlstate or ""
    if not state.startswith(_OF_ROWS):
        return None
    primary = exc.diag.message_primary or str(exc)
    more = exc.diag.message_detail if state.startswith("22") else None  # others hold rows
    said = one_line(f"{primary}: {more}" if more else primary)[:_MAX_TEXT]
    return Refusal(state, f"{said} (SQLSTATE {state})")


def find_refused(rows: Sequence[_Row], write: Callable[[Sequence[_Row]], Refusal | None]) -> list[tuple[_Row, Refusal]]:
    """Write all rows that can be written; returns those that are refused, with the reasons.

    `write`: writes rows as a whole, or writes none of them and returns why.

    A row that may pass with other rows there is tried again once they are, as long as that brings anything.
    """
    refused = _halve(rows, write)
    while True:
        again = [row for row, why in refused if why.may_pass]
        if not again or len(again) == len(rows):
            return refused
        still = _halve(again, write)
        if len(still) == len(again):
            return refused
        rows, refused = again, [*(one for one in refused if not one[1].may_pass), *still]


def _halve(rows: Sequence[_Row], write: Callable[[Sequence[_Row]], Refusal | None]) -> list[tuple[_Row, Refusal]]:
    """Write rows, half by half where they are refused together; returns those that are refused alone."""
    refused: list[tuple[_Row, Refusal]] = []
    left = [rows]
    while left:
        some = left.pop()
        why = write(some) if some else None
        if why is None:
            continue
        if len(some) == 1:
            refused.append((some[0], why))
            continue
        middle = len(some) // 2
        left += [some[middle:], some[:middle]]
    return refused
