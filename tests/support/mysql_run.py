"""What the engine does with the MySQL source, without Spark and without a sink: a coordinator and a reader in turn."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from mysql_log import changes
from mysql_servers import MARIADB_10, MYSQL_5, PASSWORD, USER
from mysql_tables import source_of

from ingest.checkpoint.checkpoint import Progress
from ingest.driver.backlog import Backlog
from ingest.driver.source_state import SourceMemory
from ingest.sources.mysql.state import LOG
from ingest.sources.stateful import SinkHabits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mysql_servers import Kind, MySql

    from ingest.model.record import Split
    from ingest.sources.stateful import SourceState

    Starter = Callable[..., MySql]


GTIDS: dict[str, Any] = {"gtid_mode": "ON", "enforce_gtid_consistency": 1}
KINDS = [MARIADB_10, MYSQL_5]


class Run:
    """A run from a server's tables, by default from the end of its log on."""

    def __init__(
        self, server: MySql, state: SourceState | None = None, stored: Mapping[Split, int] | None = None,
        *, habits: SinkHabits | None = None, note: Any = None, **options: Any,
    ) -> None:  # fmt: skip
        chosen = {"tables": r"shop.\.*", "scan.startup.mode": "latest-offset", **options}
        self.options = source_of(server, **chosen)
        self.warnings: list[str] = []
        self.coordinator: Any = self.options.coordinator("p", self.warnings.append)
        self.coordinator.writes(habits or SinkHabits(once=True))
        self.coordinator.connect()
        if state is not None:
            self.coordinator.restore(state)
        if note is not None:  # of a batch whose end no driver saw
            self.coordinator.learn([note])
        self.positions: dict[Split, int] = self.coordinator.start(stored or {}, {}, "c", None)
        self.reader: Any = self.options.reader("p")
        self.changes: list[dict[str, Any]] = []
        """All that was read, in order."""

    def batch(self, ends: Mapping[Split, int], *, part: int | None = None) -> bool:
        """Read ranges up to these ends as one task, or of the log about `part` records; whether there were any."""
        ranges = {split: (at, ends[split]) for split, at in self.positions.items() if ends[split] > at}
        self.reader.take(self.coordinator.assign(ranges), self.coordinator.shared())
        records: list[Any] = []
        reading = self.reader.read(ranges)
        for chunk in reading:
            records += [] if chunk is None else chunk.messages
            if part is not None and len(records) >= part:
                reading.close()
                break
        reached = {split: self.reader.position(split) for split in ranges}
        self.found = changes(records)
        self.changes += self.found
        self.note, self.committed = self.reader.commit_note(reached), reached
        if part is None:
            self.coordinator.learn(self.reader.notes(reached))
            self.positions |= reached
        return bool(ranges)

    def read(self, part: int | None = None) -> list[int]:
        """Read the log to where it stands, or `part` of its records, in one batch; the keys of the rows."""
        ends = {**self.positions, LOG: self.coordinator.ends(self.positions)[LOG]}
        self.batch(ends, part=part)
        return [(change["after"] or change["before"])["id"] for change in self.found]

    def once(self, between: Callable[[int], None] = lambda _batches: None) -> list[dict[str, Any]]:
        """Read as `--once` does, batch by batch; what was read. `between` is called with the number of batches."""
        memory = SourceMemory(self.coordinator)
        backlog = Backlog(
            Progress(0, self.positions), self.coordinator.ends(self.positions), drain=True, fixed=memory.fixed,
            needed=memory.needed,
        )  # fmt: skip
        before, batches = len(self.changes), 0
        between(0)
        while backlog.some():
            assert batches < 100, "it does not end"
            self.batch(backlog.ends)
            batches += 1
            between(batches)
            backlog.see(self.coordinator.ends(self.positions))
        return self.changes[before:]

    def end(self) -> tuple[SourceState, dict[Split, int]]:
        self.reader.close()
        self.coordinator.close()
        return self.coordinator.state(), dict(self.positions)


def inserts(first: int, last: int) -> list[str]:
    """Statements that insert a row each into shop.t."""
    return [f"INSERT INTO shop.t VALUES ({number})" for number in range(first, last + 1)]


def started(kind: Kind, start: Starter, server_id: int) -> MySql:
    more = GTIDS if kind is MYSQL_5 else {}
    return start(kind, server_id=server_id, log_slave_updates=1, skip_slave_start=1, **more)


def replicate(primary: MySql, replica: MySql) -> None:
    by = "MASTER_USE_GTID = slave_pos" if primary.kind is MARIADB_10 else "MASTER_AUTO_POSITION = 1"
    replica.execute(
        f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {primary.port}, MASTER_USER = '{USER}', "
        f"MASTER_PASSWORD = '{PASSWORD}', MASTER_CONNECT_RETRY = 1, {by}",
        "START SLAVE",
    )


def caught_up(replica: MySql, count: int) -> None:
    deadline = time.monotonic() + 60
    while not replica.execute("SHOW TABLES FROM shop LIKE 't'") or (
        replica.execute("SELECT COUNT(*) FROM shop.t") != [(count,)]
    ):
        assert time.monotonic() < deadline, replica.execute("SHOW SLAVE STATUS")
        time.sleep(0.02)
