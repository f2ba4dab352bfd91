"""Recorded logs, read from their first event on by the product's reader: statements of the log define the tables.

`python tests/support/recorded_logs.py FILE...` (PYTHONPATH=tests/support) says what logs of any server have.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson
from replay_server import ReplayServer

from ingest.errors import IngestError
from ingest.sources.mysql.connection import parse_version
from ingest.sources.mysql.ddl import statement_text
from ingest.sources.mysql.events import MAGIC, ROTATE, STOP, read_format
from ingest.sources.mysql.history import History, KnownSchemas
from ingest.sources.mysql.log_model import LogPlace
from ingest.sources.mysql.log_reader import LogReader
from ingest.sources.mysql.reader import _Tables
from ingest.sources.mysql.state import StatementNote
from ingest.sources.mysql.statements import StatementHistory
from ingest.sources.mysql.tokens import ServerRules

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ingest.sources.mysql.log_model import Statement
    from ingest.sources.mysql.server import MySqlServer
    from ingest.sources.mysql.types import Table

RECORDED: Final = Path(__file__).parents[1] / "unit" / "sources" / "mysql" / "recorded"
FIRST: Final = 4
Name = tuple[str, str]


def recorded(name: str) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The files of a recorded log, and what the server's client read of its tables in the end."""
    files = sorted((RECORDED / name).glob("*.gz"))
    return {path.stem: gzip.decompress(path.read_bytes()) for path in files}, json.loads(
        (RECORDED / name / "rows.json").read_text(encoding="utf-8")
    )


def events_of(log: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Where each event of a file begins, its kind, and its bytes."""
    at = FIRST
    while at + 19 <= len(log):
        size = int.from_bytes(log[at + 9 : at + 13], "little")
        yield at, log[at + 4], log[at : at + size]
        at += size


def without_end(log: bytes) -> bytes:
    """A file without the event that says that it ends: a server that has no other file goes on in this one."""
    *_, (at, kind, _) = events_of(log)
    return log[:at] if kind in {ROTATE, STOP} else log


@dataclass
class Replay:
    """The state to which a log leads."""

    server: MySqlServer
    rules: ServerRules
    native: bool = True
    rows: dict[Name, dict[tuple[str, ...], dict[str, Any]]] = field(default_factory=dict)
    """For each table: its rows by the JSON of their keys; absent columns of an image are those of the row before."""
    counts: Counter[str] = field(default_factory=Counter)
    """Changes by their kind, and statements."""
    marked: set[tuple[Name, str | None]] = field(default_factory=set)
    """Columns of which a statement changed stored rows without events."""

    def __post_init__(self) -> None:
        self.schemas = KnownSchemas()
        self._statements = StatementHistory(self.rules, {}, lambda _: True, booleans=False)
        self._next = 1

    def run(self, file: str, bound: int) -> None:
        """Read up to a bound."""
        reader = LogReader(self.server, 4711, _Tables(self.schemas, partial=True), heartbeat_s=0.5, native=self.native)
        place = LogPlace(file, FIRST, 0)
        try:
            while True:
                for chunk in reader.read(place, bound):
                    for record in chunk.messages if chunk is not None else ():
                        self._record(record.value() or b"")
                place = reader.place
                if reader.statement is None:
                    break
                self._statement(reader.statement)
            self.place = place
        finally:
            reader.close()

    def _statement(self, met: Statement) -> None:
        query = met.query
        text = statement_text(query.text, query.charset)
        note = StatementNote(met.position, met.end, query.database, text, query.sql_mode, met.time)
        history: History = self.schemas.history
        nobody: Any = None  # a server that is asked would fail: all of it is in the log
        applied = self._statements.apply(history, note, self._next, nobody, {}, ())
        self._next += len(applied.entries)
        self.schemas.history = history.with_entries(applied.entries, [met.position])
        self.counts["statements"] += 1
        effect = applied.effect
        assert effect is not None
        self.marked |= {(mark.table, mark.column) for mark in effect.marks}
        moved = {after: self.rows.pop(before, {}) for before, after in effect.renamed}
        for name in (*effect.dropped, *effect.emptied):
            if name not in dict(effect.renamed):
                self.rows.pop(name, None)
        self.rows |= moved

    def _record(self, value: bytes) -> None:
        found: Any = json.loads(value[5:], parse_float=_Text, parse_int=_Text)
        default = int.from_bytes(value[1:5], "big")
        for change in found if isinstance(found, list) else [found]:
            entry = self.schemas.entry(int(change.get("id", default)))
            assert entry is not None
            self.counts[change["op"]] += 1
            rows, before, after = self.rows.setdefault(entry.name, {}), change["before"], change["after"]
            key = entry.key or tuple(entry.types)
            old = {} if before is None else rows.pop(_key(key, before), {})
            if after is not None:
                row = {**old, **(before or {}), **after}
                rows[_key(key, row)] = row

    def table(self, name: Name) -> Table:
        """The table as it is in the end."""
        entry = self.schemas.history.at(name, 1 << 62)
        assert entry is not None
        assert entry.table is not None
        return entry.table


class _Text(str):
    """A number of a record, with the digits that it has there."""

    __slots__ = ()


def _key(names: tuple[str, ...], row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(orjson.dumps(row.get(name), default=str).decode() for name in names)


def replay(logs: Mapping[str, bytes], *, native: bool, charset: str = "utf8mb4") -> Replay:
    """Serve logs, and read all of them."""
    names = list(logs)
    served = {**logs, names[-1]: without_end(logs[names[-1]])}
    version = read_format(next(event for _, _, event in events_of(served[names[0]]))).version
    about = parse_version(version)
    major, minor, patch = (*about.numbers, 0, 0, 0)[:3]
    rules = ServerRules(
        major * 10000 + minor * 100 + patch, mariadb=about.mariadb, charset=charset,
        explicit_timestamp=about.mariadb or about.numbers >= (8,),
    )  # fmt: skip
    with ReplayServer(served, version=version, plugin="mysql_native_password") as server:
        found = Replay(server.login(), rules, native)
        found.run(names[0], sum(map(len, served.values())))
    return found


def main() -> None:
    """Read logs, and print what they have."""
    for path in map(Path, sys.argv[1:]):
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        assert data[:4] == MAGIC
        kinds = Counter(kind for _, kind, _ in events_of(data))
        print(f"{path.name}: {len(data)} bytes, events {dict(sorted(kinds.items()))}")
        for native in (False, True):
            try:
                found = replay({path.name: data}, native=native, charset="latin1")
            except (IngestError, AttributeError) as exc:
                print(f"  native={native}: {type(exc).__name__}: {str(exc)[:600]}")
                continue
            rows = {".".join(name): len(rows) for name, rows in found.rows.items()}
            print(f"  native={native}: {dict(found.counts)}, rows {rows}")


if __name__ == "__main__":
    main()
