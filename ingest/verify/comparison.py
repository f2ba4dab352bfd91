"""The comparison of two sides, key by key, one file of their spools after the other.

In: what the source says of keys up to a position, what it says of them behind that, and what the sink has. The sink
was read while it was somewhere between both positions: so a key may have any of its states there. Out: the keys that
differ. Rules: docs/spec/verify.md.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import orjson

from ingest.verify.rows import RowDifference
from ingest.verify.spool import PARTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ingest.verify.rows import Cells, Counts, TableThere
    from ingest.verify.spool import Spool

Key: TypeAlias = tuple[int, str]
"""The number of a table, and the text of a key."""


class ComparedSides(NamedTuple):
    """What is compared."""

    before: Spool
    """States at the source up to a position that the sink had passed."""
    since: Spool
    """Those behind it, up to a position that the sink had not passed."""
    sink: Spool


@dataclass(slots=True)
class StatesOfKey:
    """What both sides say of a key."""

    before: dict[int, list[Cells | None]] = field(default_factory=dict)
    """By split of the source: its states, as far as they count."""
    since: dict[int, list[Cells | None]] = field(default_factory=dict)
    there: list[Cells | None] = field(default_factory=list)
    """Rows of the sink; None for one that is gone."""


class FoundKey(NamedTuple):
    """A key that differs, or whose last change the sink has not."""

    table: int
    key: str
    difference: RowDifference | None
    """None: the sink has an older state, which is right for a sink that is behind."""
    states: list[tuple[int, Cells | None]]
    """What the source says of it, by split, for a comparison that goes on from here."""


class Comparison:
    """The comparison of some tables."""

    def __init__(self, tables: Sequence[TableThere], counts: Sequence[Counts], *, states: bool) -> None:
        """`tables` by their numbers. `states`: whether the sink's rows are states, of which the last one counts."""
        self._tables = tables
        self._counts = counts
        self._states = states

    def compare(self, sides: ComparedSides) -> Iterator[FoundKey]:
        """Yield what differs, and what the sink has not yet; counts nothing of these."""
        for one in sides:
            one.flush()
        for part in range(PARTS):
            for (table, key), states in self._load(sides, part).items():
                found = self._compare(table, key, states)
                if found is not None:
                    yield found

    def _load(self, sides: ComparedSides, part: int) -> dict[Key, StatesOfKey]:
        out: dict[Key, StatesOfKey] = {}
        for table, _, key, cells in sides.sink.states(part):
            there = _of(out, table, key).there
            if self._states and not self._tables[table].rules.all_states:
                there.clear()
            there.append(cells)
        for table, split, key, cells in sides.before.states(part):
            self._add(table, _of(out, table, key).before, split, cells)
        for table, split, key, cells in sides.since.states(part):
            _of(out, table, key).since.setdefault(split, []).append(cells)
        return out

    def _add(self, table: int, kept: dict[int, list[Cells | None]], split: int, cells: Cells | None) -> None:
        """Add a state to those of its split: only what may still count is kept."""
        rules, states = self._tables[table].rules, kept.setdefault(split, [])
        if rules.all_states:
            states.append(cells)
            return
        if cells is None and rules.keeps_deleted:
            return
        flag = _ENDED if rules.ends else rules.flag
        if cells is None and flag is not None:
            if states and states[-1] is not None:
                states[-1] = {**states[-1], flag: "true"}
            return
        if states and self._is_older(table, cells, states[-1]):
            return
        states[:] = [cells]

    def _compare(self, table: int, key: str, of: StatesOfKey) -> FoundKey | None:
        if self._tables[table].rules.all_states:
            return self._compare_all(table, key, of)
        counts = self._counts[table]
        rows = [row for row in of.there if row is not None]
        known = bool(of.before or of.since)
        if not known and not self._tables[table].rules.extra_known:
            counts.unjudged += bool(rows)
            return None
        right, allowed = self._last(table, of)
        if not rows and all(one is None for one in right):
            counts.compared += known
            return None
        if not rows and not self._tables[table].rules.missing_known:
            counts.unjudged += 1
            return None
        counts.compared += 1
        counts.open += len(right) > 1
        row = rows[0] if rows else None
        if len(rows) < 2 and any(self._same(table, row, one) for one in right):
            return None
        if len(rows) == 1 and self._is_unknown(table, rows[0], right):
            counts.unjudged += 1
            return None
        behind = len(rows) < 2 and any(self._same(table, row, one) for one in allowed)
        difference = None if behind else self._difference(table, key, right, rows)
        states = [(split, one) for split, one in self._finals(table, of).items()]
        return FoundKey(table, key, difference, states)

    def _is_unknown(self, table: int, row: Cells, right: Sequence[Cells | None]) -> bool:
        """Return whether a row may be of a state that the source has forgotten."""
        rules = self._tables[table].rules
        if all(one is None for one in right):
            is_marked = rules.flag is not None and row.get(rules.flag) == "true"
            return is_marked or (rules.forgets and rules.keeps_deleted)
        return rules.forgets and any(self._is_older(table, one, row) for one in right)

    def _finals(self, table: int, of: StatesOfKey) -> dict[int, Cells | None]:
        """Return the last state of each split of the source that has any."""
        out: dict[int, Cells | None] = {}
        for split in dict.fromkeys([*of.before, *of.since]):
            kept = {split: list(of.before.get(split, ()))}
            for state in of.since.get(split, ()):
                self._add(table, kept, split, state)
            if kept[split]:
                out[split] = kept[split][-1]
        return out

    def _last(self, table: int, of: StatesOfKey) -> tuple[list[Cells | None], list[Cells | None]]:
        """Return the states that are right at the end, and those that were right on the way there."""
        finals = self._finals(table, of)
        right = _different(finals.values()) or [None]
        if self._tables[table].rules.sequence is not None and len(right) > 1:
            newest = right[0]  # whichever came last, this one stays
            for one in right[1:]:
                newest = newest if self._is_older(table, one, newest) else one
            right = [newest]
        allowed: list[Cells | None] = [states[-1] for states in of.before.values() if states]
        if any(split not in of.before for split in of.since):
            allowed.append(None)
        for split, states in of.since.items():
            kept = {split: list(of.before.get(split, ()))}
            for state in states:
                self._add(table, kept, split, state)
                allowed += kept[split][-1:]
        return _shown(right), _shown(allowed)

    def _is_older(self, table: int, one: Cells | None, known: Cells | None) -> bool:
        """Return whether a state is older than another one by the column that orders them."""
        rules = self._tables[table].rules
        if rules.sequence is None or one is None or known is None:
            return False
        new, old = one.get(rules.sequence), known.get(rules.sequence)
        if new is None or old is None:
            return new is None and old is not None
        if rules.of_texts:
            return new.encode() < old.encode()
        try:
            return Decimal(new) < Decimal(old)
        except InvalidOperation:
            return new < old  # times have one form, in which they are in order

    def _compare_all(self, table: int, key: str, of: StatesOfKey) -> FoundKey | None:
        """Compare the states of a key where each is a row: all have to be there, as often as the source had them."""
        counts, there = self._counts[table], self._tables[table]
        wanted = Counter(_text(row, there) for states in of.before.values() for row in states if row is not None)
        later = Counter(_text(row, there) for states in of.since.values() for row in states if row is not None)
        rows = Counter(_text(row, there) for row in of.there if row is not None)
        if not (wanted or later) and not there.rules.extra_known:
            counts.unjudged += bool(rows)
            return None
        counts.compared += 1
        lacking, more = wanted - rows, rows - wanted - later
        twice = {text for text in more if wanted[text] or later[text]}
        if there.rules.forgets or not there.rules.extra_known:
            counts.unjudged += more.total()
            more = Counter()
        if not (lacking or more):
            return None
        values = dict(zip(there.key, orjson.loads(key), strict=True))
        kind = "other" if lacking and more else "missing" if lacking else "duplicate" if twice else "extra"
        source, sink = (dict(orjson.loads(next(iter(side)))) if side else {} for side in (lacking, more))
        if kind == "duplicate":
            source = sink
        cells = _differing(source, sink) if kind == "other" else tuple((n, source.get(n), sink.get(n)) for n in source)
        difference = RowDifference(kind, values, cells, sum(rows.values()))
        states = [(split, row) for side in (of.before, of.since) for split, some in side.items() for row in some]
        return FoundKey(table, key, difference, states)

    def _same(self, table: int, one: Cells | None, other: Cells | None) -> bool:
        """Return whether a row of the sink is what the source says, but for columns that the sink lacks or adds."""
        if one is None or other is None:
            return one is other
        if not self._tables[table].left_out:
            return one == other
        return self._kept(table, one) == self._kept(table, other)

    def _kept(self, table: int, cells: Cells) -> Cells:
        """Return the cells that are compared."""
        left_out = self._tables[table].left_out
        return {name: text for name, text in cells.items() if name not in left_out}

    def _difference(self, table: int, key: str, right: Sequence[Cells | None], rows: Sequence[Cells]) -> RowDifference:
        there = self._tables[table]
        values = dict(zip(there.key, orjson.loads(key), strict=True))
        wanted = next((one for one in right if one is not None), None)
        if len(rows) > 1:
            return RowDifference("duplicate", values, _differing(wanted or {}, rows[-1]), len(rows))
        if not rows:
            assert wanted is not None
            return RowDifference("missing", values, tuple((name, text, None) for name, text in wanted.items()))
        if wanted is None:
            return RowDifference("extra", values, tuple((name, None, text) for name, text in rows[0].items()))
        return RowDifference("other", values, _differing(self._kept(table, wanted), self._kept(table, rows[0])))


_ENDED: Final = "\0ended"
"""The name of no column: it marks a row that was ended, and of which the sink knows how new it was."""


def _shown(states: Iterable[Cells | None]) -> list[Cells | None]:
    """Return the rows that are there in these states."""
    return [None if one is not None and _ENDED in one else one for one in states]


def _of(out: dict[Key, StatesOfKey], table: int, key: str) -> StatesOfKey:
    found = out.get((table, key))
    if found is None:
        found = out[table, key] = StatesOfKey()
    return found


def _different(states: Iterable[Cells | None]) -> list[Cells | None]:
    out: list[Cells | None] = []
    for one in states:
        if one not in out:
            out.append(one)
    return out


def _differing(source: Cells, sink: Cells) -> tuple[tuple[str, str | None, str | None], ...]:
    """Return the columns that differ, with both values."""
    names = dict.fromkeys([*source, *sink])
    return tuple((n, source.get(n), sink.get(n)) for n in names if source.get(n) != sink.get(n))


def _text(row: Cells, there: TableThere) -> str:
    cells = {name: text for name, text in row.items() if name not in there.left_out}
    return orjson.dumps(sorted(cells.items())).decode()
