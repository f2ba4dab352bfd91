"""Rows that the database refuses: which errors are a row's fault, and the search for those rows by halving.

In: changes of rows in their order, and a way to write some of them as a whole. Out: the changes that the database
refuses, each with its own words; all others are written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from ingest.model.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    import psycopg

_Row = TypeVar("_Row")
_OF_ROWS: Final = ("22", "23", "44000", "54", "P0")
"""States, or their classes, that are a row's fault: its data, a constraint, the check of a view, a value that is too
large or too deep, what a trigger raises."""
_OF_OTHERS: Final = ("23", "P0")
"""Classes that may pass once other rows are written: a foreign key, a trigger that looks at other rows."""
_OF_OTHER_ROWS: Final = ("23505", "23P01", "23503")
"""States of constraints between rows: unique values, exclusion, foreign keys."""
_MAX_TEXT: Final = 500


class Refusal(NamedTuple):
    """The reason of the database for not taking rows."""

    state: str
    text: str

    @property
    def may_pass(self) -> bool:
        """True if the row may be accepted once other rows are written."""
        return self.state.startswith(_OF_OTHERS)

    @property
    def is_between_rows(self) -> bool:
        """True if the row conflicts with other rows, which another task may be about to change."""
        return self.state in _OF_OTHER_ROWS


def refusal_of(exc: psycopg.Error) -> Refusal | None:
    """Return why rows are refused; None for an error that is not a row's fault."""
    state = exc.sqlstate or ""
    if not state.startswith(_OF_ROWS):
        return None
    primary = exc.diag.message_primary or str(exc)
    more = exc.diag.message_detail if state.startswith("22") else None  # others hold rows
    said = one_line(f"{primary}: {more}" if more else primary)[:_MAX_TEXT]
    return Refusal(state, f"{said} (SQLSTATE {state})")


def find_refused(
    changes: Sequence[_Row],
    write: Callable[[Sequence[_Row]], Refusal | None],
    key_of: Callable[[_Row], Hashable | None],
    replaces: Callable[[_Row], bool] = lambda _: True,
) -> list[tuple[_Row, Refusal]]:
    """Write all changes that the database accepts, in order. Return the refused changes with the reasons.

    `write`: writes changes as a whole, of each key the last one, or writes none of them and returns why.
    `key_of`: the key whose state a change is, if a later one takes its place; None if all of its states are written.
    `replaces`: whether a change takes the place of those before it.

    A change that may pass with other rows there is tried again once they are, as long as that brings anything: from the
    last one to the first and back, as values that move on by one pass in one of these directions. A change whose place
    a later one has taken is not refused. A later one of its key that takes the place of none is written after it again.
    """
    search = _Search(changes, write, key_of, replaces)
    refused = search.halve(list(range(len(changes))))
    while True:
        again = [at for at, why in refused if why.may_pass]
        if not again or len(again) == len(changes):
            break
        if all(key_of(changes[at]) is not None for at in again):
            again.sort(reverse=not search.backwards)
            search.backwards = not search.backwards
        still = search.halve(again)
        if len(still) == len(again):
            break
        refused = sorted([*(refusal for refusal in refused if not refusal[1].may_pass), *still])
    return [(changes[at], why) for at, why in sorted(refused) if not search.replaced(at)]


class _Search(Generic[_Row]):
    """A search among changes, which are named by their numbers."""

    def __init__(
        self,
        changes: Sequence[_Row],
        write: Callable[[Sequence[_Row]], Refusal | None],
        key_of: Callable[[_Row], Hashable | None],
        replaces: Callable[[_Row], bool],
    ) -> None:
        self._changes, self._write, self._key_of, self._replaces = changes, write, key_of, replaces
        self._newest: dict[Hashable, int] = {}
        """By key, the last change that is written."""
        self._after: dict[Hashable, int] = {}
        """By key, the last one that is written and takes the place of none."""
        self.backwards = False
        """True if changes were tried from the last one to the first."""

    def replaced(self, at: int) -> bool:
        """Return whether a later change of the same key has replaced a change."""
        key = self._key_of(self._changes[at])
        return key is not None and self._newest.get(key, -1) > at

    def halve(self, numbers: Sequence[int]) -> list[tuple[int, Refusal]]:
        """Write changes, bisecting groups that are refused. Return the changes that are refused alone."""
        refused: list[tuple[int, Refusal]] = []
        left = [numbers]
        while left:
            some = [at for at in left.pop() if not self.replaced(at)]
            why = self._write([self._changes[at] for at in self._with_later(some)]) if some else None
            if why is None:
                for at in sorted(some):
                    known = self._newest if self._replaces(self._changes[at]) else self._after
                    known[self._key_of(self._changes[at])] = at
            elif len(some) == 1:
                refused.append((some[0], why))
            else:
                middle = len(some) // 2
                left += [some[middle:], some[:middle]]
        return refused

    def _with_later(self, numbers: Sequence[int]) -> list[int]:
        """Return the numbers, sorted, and those of written changes that must be written after them."""
        keys = {key: at for at in numbers if (key := self._key_of(self._changes[at])) is not None}
        later_changes = {self._after[key] for key, at in keys.items() if self._after.get(key, -1) > at}
        return sorted({*numbers, *later_changes})
