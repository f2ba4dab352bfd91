"""The comparison of two sides, key by key.

In: the states that the source has of keys up to a position, those behind it, and what the sink has. The sink was read
while it was somewhere between both positions, so a key may have any of its states there. Out: the keys that differ.

States lie on the local disk, in so many files that those of one fit into memory; a key is always in the same one.
Rules: docs/spec/verify.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias
from zlib import crc32

import msgspec
import orjson

from ingest.verify.rows import Cells, Counts, RowDifference, SinkTable

PARTS: Final = 512
"""Files of a spool."""
_HELD: Final = 32 << 20
"""Bytes of states that are kept in memory until they are written."""
_OVERHEAD: Final = 50
"""Bytes that an object takes in memory beside its content, about."""
_ARRAY: Final = b"\xdd"
"""The beginning of an array of MessagePack, before the number of its elements in four bytes."""

Entry: TypeAlias = "tuple[int, int, str, Cells | None]"
"""Number of the table, number of the split of the source, key, and row."""

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[tuple[int, int, str, dict[str, str] | None]]).decode


def part_of(table: int, key: str) -> int:
    """Return the file that a key is in."""
    return crc32(key.encode("utf-8", "surrogatepass"), table) % PARTS


class Spool:
    """States in files below a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        """`name`: no other spool of the folder has it."""
        self._folder, self._name = folder, name
        self._pending: list[list[bytes]] = [[] for _ in range(PARTS)]
        self._held = 0

    def add(self, table: int, split: int, key: str, cells: Cells | None) -> None:
        """Add a state."""
        data = _encode((table, split, key, cells))
        self._pending[part_of(table, key)].append(data)
        self._held += len(data) + _OVERHEAD
        if self._held >= _HELD:
            self.flush()

    def flush(self) -> None:
        """Write the buffered states to the disk."""
        for number, entries in enumerate(self._pending):
            if entries:
                size = 5 + sum(map(len, entries))
                with self._path(number).open("ab") as file:
                    file.write(size.to_bytes(8, "big") + _ARRAY + len(entries).to_bytes(4, "big") + b"".join(entries))
                entries.clear()
        self._held = 0

    def states(self, part: int) -> Iterator[Entry]:
        """Yield the states of a file. All were written."""
        path = self._path(part)
        if not path.exists():
            return
        with path.open("rb") as file:
            while size := file.read(8):
                yield from _decode(file.read(int.from_bytes(size, "big")))

    def _path(self, number: int) -> Path:
        return self._folder / f"{self._name}.{number}"


Key: TypeAlias = tuple[int, str]
"""The number of a table, and the text of a key."""


class ComparedSides(NamedTuple):
    """The three sets of states that are compared: two of the source, one of the sink."""

    before: Spool
    """States at the source up to a position that the sink had passed."""
    since: Spool
    """States at the source after that position, up to one that the sink had not passed."""
    sink: Spool


@dataclass(slots=True)
class StatesOfKey:
    """The states of a key at the source, and its rows in the sink."""

    before: dict[int, list[Cells | None]] = field(default_factory=dict)
    """By split of the source: its states, as far as they count."""
    since: dict[int, list[Cells | None]] = field(default_factory=dict)
    sink: list[Cells | None] = field(default_factory=list)
    """Rows of the sink; None for one that is gone."""


class UnequalKey(NamedTuple):
    """A key that differs, or whose last change the sink has not."""

    table: int
    key: str
    difference: RowDifference | None
    """None: the sink has an older state, which is right for a sink that is behind."""
    states: list[tuple[int, Cells | None]]
    """Its last states at the source, by split, from which a second comparison continues."""


class Comparison:
    """The comparison of some tables."""

    def __init__(self, tables: Sequence[SinkTable], counts: Sequence[Counts], *, states: bool) -> None:
        """`tables` by their numbers. `states`: whether the sink's rows are states, of which the last one counts."""
        self._tables = tables
        self._counts = counts
        self._states = states

    def compare(self, sides: ComparedSides) -> Iterator[UnequalKey]:
        """Yield keys whose rows differ, and keys whose rows the sink does not have yet, without counting either."""
        for spool in sides:
            spool.flush()
        for part in range(PARTS):
            for (table, key), states in self._load(sides, part).items():
                unequal = self._compare(table, key, states)
                if unequal is not None:
                    yield unequal

    def _load(self, sides: ComparedSides, part: int) -> dict[Key, StatesOfKey]:
        out: dict[Key, StatesOfKey] = {}
        for table, _, key, cells in sides.sink.states(part):
            rows = _of(out, table, key).sink
            if self._states and not self._tables[table].rules.all_states:
                rows.clear()
            rows.append(cells)
        for table, split, key, cells in sides.before.states(part):
            self._add(table, _of(out, table, key).before, split, cells)
        for table, split, key, cells in sides.since.states(part):
            _of(out, table, key).since.setdefault(split, []).append(cells)
        return out

    def _add(self, table: int, kept: dict[int, list[Cells | None]], split: int, cells: Cells | None) -> None:
        """Add a state to its split's list, and drop states that can no longer matter."""
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

    def _compare(self, table: int, key: str, of: StatesOfKey) -> UnequalKey | None:
        if self._tables[table].rules.all_states:
            return self._compare_all(table, key, of)
        counts = self._counts[table]
        rows = [row for row in of.sink if row is not None]
        known = bool(of.before or of.since)
        if not known and not self._tables[table].rules.extra_known:
            counts.unjudged += bool(rows)
            return None
        right, allowed = self._last(table, of)
        if not rows and all(state is None for state in right):
            counts.compared += known
            return None
        if not rows and not self._tables[table].rules.missing_known:
            counts.unjudged += 1
            return None
        counts.compared += 1
        counts.open += len(right) > 1
        row = rows[0] if rows else None
        if len(rows) < 2 and any(self._same(table, row, state) for state in right):
            return None
        if len(rows) == 1 and self._is_unknown(table, rows[0], right):
            counts.unjudged += 1
            return None
        behind = len(rows) < 2 and any(self._same(table, row, state) for state in allowed)
        difference = None if behind else self._difference(table, key, right, rows)
        states = [*self._finals(table, of).items()]
        return UnequalKey(table, key, difference, states)

    def _is_unknown(self, table: int, row: Cells, right: Sequence[Cells | None]) -> bool:
        """Return whether a row may be of a state that the source has forgotten."""
        rules = self._tables[table].rules
        if all(state is None for state in right):
            is_marked = rules.flag is not None and row.get(rules.flag) == "true"
            return is_marked or (rules.forgets and rules.keeps_deleted)
        return rules.forgets and any(self._is_older(table, state, row) for state in right)

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
        """Return the states that the sink may have at the end, and the states that were right before."""
        finals = self._finals(table, of)
        right = _different(finals.values()) or [None]
        if self._tables[table].rules.sequence is not None and len(right) > 1:
            newest = right[0]  # whichever came last, this one stays
            for state in right[1:]:
                newest = newest if self._is_older(table, state, newest) else state
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

    def _is_older(self, table: int, state: Cells | None, known: Cells | None) -> bool:
        """Return whether a state is older than another one by the column that orders them."""
        rules = self._tables[table].rules
        if rules.sequence is None or state is None or known is None:
            return False
        new, old = state.get(rules.sequence), known.get(rules.sequence)
        if new is None or old is None:
            return new is None and old is not None
        if rules.of_texts:
            return new.encode() < old.encode()
        try:
            return Decimal(new) < Decimal(old)
        except InvalidOperation:
            return new < old  # times have one form, in which they are in order

    def _compare_all(self, table: int, key: str, of: StatesOfKey) -> UnequalKey | None:
        """Compare the states of a key where each is a row: all have to be there, as often as the source had them."""
        counts, compared = self._counts[table], self._tables[table]
        wanted = Counter(_text(row, compared) for states in of.before.values() for row in states if row is not None)
        later = Counter(_text(row, compared) for states in of.since.values() for row in states if row is not None)
        rows = Counter(_text(row, compared) for row in of.sink if row is not None)
        if not (wanted or later) and not compared.rules.extra_known:
            counts.unjudged += bool(rows)
            return None
        counts.compared += 1
        lacking, more = wanted - rows, rows - wanted - later
        twice = {text for text in more if wanted[text] or later[text]}
        if compared.rules.forgets or not compared.rules.extra_known:
            counts.unjudged += more.total()
            more = Counter()
        if not (lacking or more):
            return None
        values = dict(zip(compared.key, orjson.loads(key), strict=True))
        kind = "other" if lacking and more else "missing" if lacking else "duplicate" if twice else "extra"
        source, sink = (dict(orjson.loads(next(iter(side)))) if side else {} for side in (lacking, more))
        if kind == "duplicate":
            source = sink
        cells = _differing(source, sink) if kind == "other" else tuple((n, source.get(n), sink.get(n)) for n in source)
        difference = RowDifference(kind, values, cells, sum(rows.values()))
        states = [(split, row) for side in (of.before, of.since) for split, some in side.items() for row in some]
        return UnequalKey(table, key, difference, states)

    def _same(self, table: int, row: Cells | None, state: Cells | None) -> bool:
        """Return whether a row of the sink is a state of the source, but for columns that the sink lacks or adds."""
        if row is None or state is None:
            return row is state
        return self._kept(table, row) == self._kept(table, state)

    def _kept(self, table: int, cells: Cells) -> Cells:
        """Return the cells that are compared."""
        left_out = self._tables[table].left_out
        return {name: text for name, text in cells.items() if name not in left_out} if left_out else cells

    def _difference(self, table: int, key: str, right: Sequence[Cells | None], rows: Sequence[Cells]) -> RowDifference:
        values = dict(zip(self._tables[table].key, orjson.loads(key), strict=True))
        wanted = next((state for state in right if state is not None), None)
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
    """Return the rows of these states, None for a row that was deleted or ended."""
    return [None if state is not None and _ENDED in state else state for state in states]


def _of(out: dict[Key, StatesOfKey], table: int, key: str) -> StatesOfKey:
    states = out.get((table, key))
    if states is None:
        states = out[table, key] = StatesOfKey()
    return states


def _different(states: Iterable[Cells | None]) -> list[Cells | None]:
    out: list[Cells | None] = []
    for state in states:
        if state not in out:
            out.append(state)
    return out


def _differing(source: Cells, sink: Cells) -> tuple[tuple[str, str | None, str | None], ...]:
    """Return the columns that differ, with both values."""
    names = dict.fromkeys([*source, *sink])
    return tuple((n, source.get(n), sink.get(n)) for n in names if source.get(n) != sink.get(n))


def _text(row: Cells, table: SinkTable) -> str:
    cells = {name: text for name, text in row.items() if name not in table.left_out}
    return orjson.dumps(sorted(cells.items())).decode()
