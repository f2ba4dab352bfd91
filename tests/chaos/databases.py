"""Faults of runs into a table of PostgreSQL: at the end it has the last of each key, and each change counted once.

A trigger notes each row that is written, in the order of the transactions: a change that was applied twice is there
twice, whatever the table looks like.
"""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import psutil
from kills import add
from postgres import running
from rig import KEYS, Rig
from storm import Report, Scale, broker
from table_reader import TableReader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from postgres import Database

POINTS = (
    "worker before-commit:1", "worker after-commit:1", "driver before-done:1", "driver after-plan:1",
    "worker before-commit:2", "worker after-commit:2",
)  # fmt: skip
_TABLES = """
CREATE SCHEMA shop;
CREATE TABLE shop.orders (id bigint PRIMARY KEY, n bigint);
CREATE TABLE shop.noted (at bigserial PRIMARY KEY, id bigint, n bigint);
CREATE FUNCTION shop.note() RETURNS trigger LANGUAGE plpgsql AS
  'BEGIN INSERT INTO shop.noted (id, n) VALUES (NEW.id, NEW.n); RETURN NULL; END';
CREATE TRIGGER note AFTER INSERT OR UPDATE ON shop.orders FOR EACH ROW EXECUTE FUNCTION shop.note();
CREATE FUNCTION shop.rest() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.05); RETURN NULL; END';
CREATE TRIGGER rest AFTER INSERT ON shop.orders FOR EACH STATEMENT EXECUTE FUNCTION shop.rest();
"""
"""The second trigger lets transactions take long enough to be hit."""
_TWICE = "SELECT n, count(*) FROM shop.noted GROUP BY n HAVING count(*) > 1"
_DISORDER = (
    "SELECT count(*) FROM (SELECT n - lag(n) OVER (PARTITION BY id ORDER BY at) AS step FROM shop.noted) s"
    " WHERE step <= 0"
)
_WRONG = (
    "SELECT count(*) FROM shop.orders o FULL JOIN (SELECT k AS id, k + (%(sent)s - 1 - k) / %(keys)s * %(keys)s AS n"
    " FROM generate_series(0, %(keys)s - 1) k) last USING (id) WHERE o.n IS DISTINCT FROM last.n"
)
"""Keys whose row is not the last one that was sent, of so many changes."""


@contextmanager
def database_rig(folder: Path, scale: Scale, rate: int) -> Iterator[tuple[Rig, Database]]:
    """A pipeline into a table of a server of its own."""
    with broker(folder) as bootstrap, running() as database:
        database.ask(_TABLES)
        rig = Rig(folder, bootstrap, "exactly-once", total=scale.changes, seed=scale.seed, rate=rate)
        head, rest = rig.file.read_text().split("sink:\n", 1)
        rig.file.write_text(f"{head}{database.sink()}pipeline:\n{rest.split('pipeline:', 1)[1]}")
        rig.reader = TableReader(lambda: database.rows("shop.orders", "id, n"))  # type: ignore[assignment]
        yield rig, database


def judged(rig: Rig, database: Database, report: Report) -> Report:
    """The report, with what the database itself says of the changes."""
    report.twice += sum(count - 1 for _, count in database.ask(_TWICE))
    report.disorder += database.ask(_DISORDER)[0][0]
    with database.connection() as connection:
        found = connection.execute(_WRONG, {"sent": rig.load.total, "keys": KEYS}).fetchall()
    if found != [(0,)]:
        rig.wrong(f"{found[0][0]} keys have a row that is not their last one")
    if database.ask("SELECT count(DISTINCT id) FROM shop.noted") != [(KEYS,)]:
        rig.wrong("the trigger did not note each key")
    return report


def postgres_killed(folder: Path, _guarantee: str, scale: Scale) -> Report:
    """Into PostgreSQL: `kill -9` of the driver, or of a worker, at random moments, in turn."""
    with database_rig(folder, scale, rate=500) as (rig, database):
        rig.begin()
        for i in range(scale.moments):
            rig.progress()
            rig.moment(2.0)
            process = rig.process
            assert process is not None
            if i % 2:
                rig.until(lambda: bool(rig.workers()), "there are workers")
                victim = rig.chance.choice(sorted(rig.workers(), key=lambda p: p.pid))
                with suppress(psutil.Error):
                    victim.kill()
                    rig.strike(f"killed worker {victim.pid}")
                continue
            process.kill()
            rig.strike(f"killed driver {process.pid}")
            rig.started_again(process)
        return judged(rig, database, rig.finish())


def postgres_around_commits(folder: Path, _guarantee: str, scale: Scale) -> Report:
    """Into PostgreSQL: a worker dies before or after a commit; the driver, around a batch."""
    with database_rig(folder, scale, rate=1_000_000) as (rig, database):
        rig.fill()
        for i in range(scale.moments):
            who, _, point = POINTS[i % len(POINTS)].partition(" ")
            rig.with_faults(**{who: point})
            code = rig.once()
            if code == -signal.SIGKILL or [*rig.folder.glob(f"fault-{rig.starts - 1}/struck")]:
                rig.strike(f"a {who} died {point}; the run ended with {code}")
            add(rig, 2000)
        rig.with_faults()
        rig.once()
        return judged(rig, database, rig.read_all())


def postgres_gone(folder: Path, _guarantee: str, scale: Scale) -> Report:
    """Into PostgreSQL: the server crashes (`stop -m immediate`) in a transaction, and comes back later."""
    with database_rig(folder, scale, rate=500) as (rig, database):
        rig.begin()
        for i in range(scale.moments):
            rig.progress()
            rig.moment(1.0)
            busy = in_transaction(database)
            database.stop("immediate")
            try:
                rig.strike(f"the server crashed, with {busy} transactions of tasks that had written")
                if not busy:
                    rig.wrong("no transaction was under way")
                time.sleep((0.0, 1.5, 8.0)[i % 3])
            finally:
                database.start()
        return judged(rig, database, rig.finish())


def in_transaction(database: Database) -> int:
    """How many transactions of tasks are in the middle of writing; waits for one."""
    query = (
        "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'ingest%' AND state = 'active'"
        ' AND query LIKE \'%INSERT INTO "shop"."orders"%\''
    )
    deadline = time.monotonic() + 60
    with database.connection() as connection:
        connection.autocommit = True
        while time.monotonic() < deadline:
            found: Any = connection.execute(query).fetchone()
            if found[0]:
                return int(found[0])
            time.sleep(0.005)
    return 0
