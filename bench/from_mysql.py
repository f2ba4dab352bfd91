"""MySQL into upsert topics by `ingest run`, beside what else reads MySQL, and beside the same changes from Kafka.

`python bench/from_mysql.py --rows 1000000 --changes 500000 --rounds 3`, on a MariaDB and a broker of its own. Parts:
`rates` of a snapshot and of the log, `latency` from commit to topic, `tables`: 1,000 beside 3, `memory` in `--minutes`.
See README.md here.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from functools import partial
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import latency
import mysql_peers
from mysql_peers import JavaPeer, Rate, Wanted
from peers import PARTITIONS, SLOTS, measure
from setting import INGEST, options_of, own_broker, pipeline_file, save
from soak import sample
from throughput import create, drop

# Below mysql_peers, which says where the tests' support is
from mysql_log import Tables, reader_of, tables_of  # isort: skip
from mysql_servers import MARIADB_10, PASSWORD, USER, MySql, running  # isort: skip

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    import pymysql
    from mysql_peers import Place

Figures: TypeAlias = dict[str, list[float]]
"""What was measured, by what it is."""
PARTS: Final = ("rates", "latency", "tables", "memory")
EACH: Final = 100
"""Changes in a transaction."""
SERVER: Final = {"innodb_buffer_pool_size": "512M", "innodb_log_file_size": "256M", "max_binlog_size": "1G"}
_COLUMNS: Final = (
    "(id BIGINT PRIMARY KEY, customer_id INT NOT NULL, status VARCHAR(16), amount DECIMAL(12, 2), quantity INT,"
    " sku VARCHAR(32), note VARCHAR(200), created_at DATETIME(3), updated_at TIMESTAMP(3) NULL, active TINYINT)"
)
_ROWS: Final = (
    "INSERT INTO {table} SELECT seq, seq % 9973, ELT(1 + seq % 4, 'NEW', 'PAID', 'SHIPPED', 'DONE'),"
    " seq % 100000 / 100, seq % 19, CONCAT('S', seq),"
    " LEFT(REPEAT('customer asked for gift wrap and for delivery on a later day. ', 3), 5 + seq % 130),"
    " '2026-01-01' + INTERVAL seq SECOND, FROM_UNIXTIME(1767225600 + seq), seq % 2 FROM shop.seq_{first}_to_{last}"
)
_ORDERS: Final = "(id BIGINT PRIMARY KEY, sent BIGINT, status VARCHAR(16), amount DOUBLE, note VARCHAR(80))"
PEERS: Final = {
    "snapshot": ("ingest", "debezium", "flink", "mysql --quick, two"),
    "log": (
        "ingest", "ingest from Kafka", "decoding alone", "debezium", "flink", "mysqlbinlog -v", "mysql-replication",
    ),
}  # fmt: skip
"""What reads a snapshot, and what the log."""
RATIOS: Final = {
    "snapshot, rows a second by Debezium's engine": ("snapshot", "ingest", "debezium"),
    "snapshot, rows a second by two mysql --quick": ("snapshot", "ingest", "mysql --quick, two"),
    "log, changes a second by Flink CDC's": ("log", "ingest", "flink"),
    "log, changes a second by those from a Debezium topic": ("log", "ingest", "ingest from Kafka"),
    "decoding alone, changes a second by mysqlbinlog -v": ("log", "decoding alone", "mysqlbinlog -v"),
}
SHARES: Final = {"snapshot": 0.2, "log": 0.3, "latency": 0.22, "log of many tables": 0.13}
"""Parts of `--within` in which rounds may begin; the rest is for filling tables."""
SLOW: Final = {("snapshot", "flink"): 5, ("log", "mysql-replication"): 10}
"""Of those the rate is measured over one record in so many, the first ones."""


def fill(server: MySql, table: str, rows: int) -> None:
    """Make a table of ten columns with rows in it."""
    step = 50_000
    inserts = [_ROWS.format(table=table, first=n + 1, last=min(n + step, rows)) for n in range(0, rows, step)]
    server.execute(f"CREATE TABLE {table} {_COLUMNS}", *inserts)


def change(server: MySql, table: str, rows: int, changes: int) -> tuple[int, int]:
    """Change a table in transactions of 100 changes: of five one inserts, three update, one deletes.

    Returns the lowest `id` that is left, and the one behind the highest.
    """
    low, high = 1, rows + 1
    statements = []
    for n in range(changes // EACH):
        kind = n % 5
        if kind == 0:
            statements.append(_ROWS.format(table=table, first=high, last=high + EACH - 1))
            high += EACH
        elif kind == 4:
            statements.append(f"DELETE FROM {table} WHERE id < {low + EACH}")  # noqa: S608  (our own names and numbers)
            low += EACH
        else:
            first = low + n * 7919 * EACH % (high - low - EACH)
            status = f"ELT(1 + {n} % 4, 'PAID', 'SHIPPED', 'DONE', 'LATE')"
            statements.append(
                f"UPDATE {table} SET status = {status}, amount = amount + 1, updated_at = updated_at + INTERVAL 1 DAY"  # noqa: S608  (as above)
                f" WHERE id >= {first} AND id < {first + EACH}"
            )
    server.execute(*statements)
    return low, high


def next_file(server: MySql) -> Place:
    """Begin a file of the log: where its changes will begin."""
    server.rotate()
    file, position = server.position()
    return file, position, str(server.execute("SELECT @@gtid_binlog_pos")[0][0])


class Ours:
    """Runs of `ingest run --once` into topics of their own."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        """Take a broker, and a folder for what runs leave."""
        self.bootstrap, self.folder, self.runs = bootstrap, folder, 0
        self.cpu_us = 0.0
        """CPU of all processes of the last run, per record."""
        self.rss_mib = 0
        """The highest resident set of a worker in it."""

    def __call__(self, total: int, origin: str = "", topic: str = "") -> Rate:
        """Read `total` records from where `origin` says, or from a topic."""
        self.runs += 1
        name = f"run{self.runs}"
        sink = f"{name}.all"
        create(self.bootstrap, sink, partitions=PARTITIONS)
        file = pipeline_file(self.folder, self.bootstrap, topic, name, PARTITIONS, table="all", origin=origin)
        command = [INGEST, "run", str(file), "--once", "--checkpoint", str(self.folder / name)]
        log = self.folder / f"{name}.log"
        result = measure([*command, "--master", f"local[{SLOTS}]"], self.bootstrap, sink, total, log)
        drop(self.bootstrap, name)
        lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
        self.rss_mib = max(line["worker_rss_mib"] for line in lines if line["event"] == "batch done")
        self.cpu_us = result.cpu_us
        return Rate(result.steady, result.whole)


def from_log(server: MySql, tables: str, place: Place) -> str:
    """The `source:` that reads the log from a place on."""
    more = {"file": place[0], "pos": place[1]}
    start = {f"scan.startup.specific-offset.{key}": value for key, value in more.items()}
    return server.source(tables=tables, **{"scan.startup.mode": "specific-offset"}, **start)


def decoding(wanted: Wanted) -> Rate:
    """Our reader of the log without the engine."""
    assert wanted.place is not None
    from ingest.sources.mysql.log_model import LogPlace

    reader = reader_of(wanted.server, Tables(tables_of(wanted.server, wanted.table.split(".")[0])))
    records, began, cpu = 0, time.time(), time.process_time()
    for chunk in reader.read(LogPlace(*wanted.place[:2], 0), 1 << 62):
        records += len(chunk.messages) if chunk is not None else 0
        if records >= wanted.records:
            break
    seconds = time.time() - began
    print(f"       decoding alone: {(time.process_time() - cpu) / records * 1e6:.2f} µs of CPU a change", flush=True)
    reader.close()
    return Rate(records / seconds, seconds)


def rates(bootstrap: str, folder: Path, options: argparse.Namespace) -> Figures:
    """A snapshot of a table, and its changes from the log, by each in turn."""
    rows, changes = options.rows, options.changes
    ours = Ours(bootstrap, folder)
    with running(MARIADB_10, **SERVER) as server:
        fill(server, "shop.t", rows)
        place = next_file(server)
        low, high = change(server, "shop.t", rows, changes)
        end = next_file(server)
        size = dict(server.logs())[place[0]]
        print(f"{rows:,} rows, then {changes:,} changes in {size / 1e6:.0f} MB of log, {EACH} in a transaction")
        table, log = Wanted(server, "shop.t", rows), Wanted(server, "shop.t", changes, place)

        def part(of: Wanted, what: str, name: str) -> Wanted:
            return replace(of, records=of.records // SLOW.get((what, name), 1))

        assert end[0] != place[0]
        jobs: dict[str, dict[str, Callable[[], Rate]]] = {
            "snapshot": {
                "ingest": lambda: ours(rows, server.source(tables="shop.t", **{"scan.startup.mode": "snapshot"})),
                "mysql --quick, two": lambda: mysql_peers.quick(table, halves(low, high)),
            },
            "log": {
                "ingest": lambda: ours(changes, from_log(server, "shop.t", place)),
                "ingest from Kafka": lambda: ours(changes, topic="bench"),
                "decoding alone": lambda: decoding(log),
                "mysqlbinlog -v": lambda: mysql_peers.mysqlbinlog(log),
                "mysql-replication": lambda: mysql_peers.replication(part(log, "log", "mysql-replication")),
            },
        }
        for name in ("debezium", "flink"):
            if name in options.jobs or (name == "debezium" and "ingest from Kafka" in options.jobs):
                (folder / name).mkdir()
                peer = JavaPeer(name, folder / name)
                for what, wanted in (("snapshot", table), ("log", log)):
                    jobs[what][name] = partial(peer, part(wanted, what, name))
                if name == "debezium" and "ingest from Kafka" in options.jobs:
                    create(bootstrap, "bench", partitions=1)
                    peer(log, bootstrap)
        found = {what: in_turn(what, jobs[what], ours, options) for what in PEERS}
    return ratios(found)


def halves(low: int, high: int) -> list[tuple[int, int]]:
    """Two halves of a range."""
    middle = (low + high) // 2
    return [(low, middle), (middle, high)]


def rounds(what: str, options: argparse.Namespace) -> Iterator[int]:
    """Yield the numbers of rounds: the first one, and others that are likely to end within the time for these."""
    began = time.monotonic()
    until = began + (options.within * 60 * SHARES[what] if options.within else float("inf"))
    longest = 0.0
    for i in range(options.rounds):
        start = time.monotonic()
        if i and start + longest > until:
            print(f"{what}: {i} rounds of {options.rounds}, for lack of time")
            return
        yield i
        longest = max(longest, time.monotonic() - start)


def in_turn(
    what: str, jobs: Mapping[str, Callable[[], Rate]], ours: Ours, options: argparse.Namespace
) -> dict[str, list[Rate]]:
    """Run the jobs of each round, every other round backwards, and print what was measured."""
    names = [name for name in PEERS.get(what, jobs) if name in jobs and (what not in PEERS or name in options.jobs)]
    found: dict[str, list[Rate]] = {name: [] for name in names}
    print(f"\n{'round':<7}{what:<26}{'steady k/s':>12}{'whole s':>9}{'CPU µs':>9}{'worker MiB':>12}")
    for i in rounds(what, options):
        for name in names[:: -1 if i % 2 else 1]:
            found[name].append(rate := jobs[name]())
            own = f"{ours.cpu_us:>9.1f}{ours.rss_mib:>12}" if name.startswith("ingest") else ""
            print(f"{i + 1:<7}{name:<26}{rate.steady / 1e3:>12.1f}{rate.whole:>9.1f}{own}", flush=True)
    return found


def ratios(found: Mapping[str, Mapping[str, list[Rate]]]) -> Figures:
    """The figures that were to be reached, as far as both sides were measured."""
    figures: Figures = {}
    for name, (what, ours, theirs) in RATIOS.items():
        pairs = zip(found[what].get(ours, []), found[what].get(theirs, []), strict=False)
        if values := [a.steady / b.steady for a, b in pairs]:
            figures[name] = values
    for what, measured in found.items():
        for name, seen in measured.items():
            figures[f"{what}, {name}, thousands a second"] = [rate.steady / 1e3 for rate in seen]
    return figures


class Commits(latency.Feed):
    """Commits rows at a rate, each with the time right before, as the feed of a topic does."""

    def __init__(self, port: int) -> None:
        """Connect."""
        import pymysql

        login: Any = {"host": "127.0.0.1", "port": port, "user": USER, "password": PASSWORD, "ssl_disabled": True}
        self._connection: pymysql.Connection[Any] = pymysql.connect(autocommit=True, database="shop", **login)
        self._cursor = self._connection.cursor()
        self.sent = 0

    def pause(self) -> None:
        """Let a millisecond pass."""
        time.sleep(0.001)

    def flush(self) -> None:
        """Each commit was waited for."""

    def one(self) -> None:
        """Commit one row."""
        sent = int(time.time() * 1e6)
        note = "customer asked for gift wrap"
        self._cursor.execute(f"INSERT INTO orders VALUES ({self.sent}, {sent}, 'NEW', 12.5, '{note}')")  # noqa: S608  (our own numbers)
        self.sent += 1


def delays(bootstrap: str, folder: Path, options: argparse.Namespace) -> Figures:
    """From commit to topic, beside from a topic to a topic, at the same rate."""
    found: Figures = {"MySQL": [], "Kafka": []}
    for i in rounds("latency", options):
        with running(MARIADB_10, **SERVER) as server:
            server.execute(f"CREATE TABLE shop.orders {_ORDERS}")
            create(bootstrap, f"timed{i}", partitions=latency.PARTITIONS)
            feeds: dict[str, Callable[[], latency.Feed]] = {
                "MySQL": partial(Commits, server.port), "Kafka": partial(latency.Feed, bootstrap, f"timed{i}"),
            }  # fmt: skip
            for name in list(feeds)[:: -1 if i % 2 else 1]:
                origin = server.source(tables="shop.orders") if name == "MySQL" else ""
                into = f"{name}{i}.out"
                file = pipeline_file(folder, bootstrap, f"timed{i}", into, latency.PARTITIONS, origin=origin)
                with latency.observed(bootstrap, file, folder / f"{name}{i}", feeds[name]) as (run, reader, feed):
                    seen = latency.delays_of(run, reader, feed, feeds[name], options)
                found[name].append(quantiles(seen, n=100)[98])
                print(
                    f"from {name} at {options.rate:,} changes/s for {options.seconds:.0f} s: "
                    f"p50 {median(seen) * 1e3:.0f} ms, p99 {found[name][-1] * 1e3:.0f} ms",
                    flush=True,
                )
    own, other = found["MySQL"], found["Kafka"]
    return {
        "p99 from commit to topic by that from a Kafka source": [a / b for a, b in zip(own, other, strict=True)],
        "p99 from commit to topic, ms": [seconds * 1e3 for seconds in own],
    }


def tables(bootstrap: str, folder: Path, options: argparse.Namespace) -> Figures:
    """The log of 1,000 tables beside that of 3, in transactions of ten inserts."""
    ours, each = Ours(bootstrap, folder), 10
    memory: Figures = {"3": [], "1000": []}

    def read(server: MySql, number: int, place: Place) -> Rate:
        rate = ours(options.changes, from_log(server, r"shop.\.*", place))
        memory[str(number)].append(float(ours.rss_mib))
        return rate

    with running(MARIADB_10, **SERVER) as few, running(MARIADB_10, table_open_cache=2000, **SERVER) as many:
        jobs: dict[str, Callable[[], Rate]] = {}
        for server, number in ((few, 3), (many, 1000)):
            server.execute(*(f"CREATE TABLE shop.t{n} {_COLUMNS}" for n in range(number)))
            place = next_file(server)
            server.execute(*(
                _ROWS.format(table=f"shop.t{n * 7919 % number}", first=n * each + 1, last=(n + 1) * each)
                for n in range(options.changes // each)
            ))  # fmt: skip
            jobs[f"ingest, {number:,} tables"] = partial(read, server, number, place)
        found = in_turn("log of many tables", jobs, ours, options)
    by_few, by_many = found.values()
    return {
        "log, 1,000 tables by 3, changes a second": [m.steady / f.steady for f, m in zip(by_few, by_many, strict=True)],
        "memory of a worker, 1,000 tables by 3": [m / f for f, m in zip(memory["3"], memory["1000"], strict=True)],
    }


def memory(bootstrap: str, folder: Path, options: argparse.Namespace) -> Figures:
    """All workers' memory after a sixth of the time, and at its end: after ten minutes and an hour of 60."""
    seconds = options.minutes * 60
    with running(MARIADB_10, **SERVER) as server:
        server.execute(f"CREATE TABLE shop.orders {_ORDERS}")
        origin, make = server.source(tables="shop.orders"), partial(Commits, server.port)
        file = pipeline_file(folder, bootstrap, "", "long.out", latency.PARTITIONS, origin=origin)
        with latency.observed(bootstrap, file, folder / "long", make) as (run, _, feed):
            samples, began = [], time.monotonic()
            while time.monotonic() - began < seconds:
                feed.run(options.rate, 5)
                samples.append(sample(run.pid)["workers"][0])
    part = max(1, len(samples) // 12)
    early, late = median(samples[part : 2 * part] or samples), median(samples[-part:])
    print(f"memory of the workers, {feed.sent:,} changes in {options.minutes} minutes: {early:.0f} -> {late:.0f} MiB")
    return {f"memory of the workers after {options.minutes} minutes by a sixth of them": [late / early]}


def main() -> None:
    """Measure, and print."""
    arguments = options_of(rows=20_000, changes=10_000, rounds=1, rate=1_000, minutes=0)
    arguments.add_argument("--seconds", type=float, default=30, help="How long latency is measured.")
    arguments.add_argument("--within", type=float, default=0, help="Minutes for all parts but memory; 0: all rounds.")
    arguments.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    every = sorted({name for names in PEERS.values() for name in names})
    arguments.add_argument("--jobs", nargs="*", choices=every, default=every, help="What is measured of `rates`.")
    options = arguments.parse_args()
    parts = {"rates": rates, "latency": delays, "tables": tables, "memory": memory}
    about = {"rows": options.rows, "messages": options.changes}
    for name, part in parts.items():
        if name in options.only and (name != "memory" or options.minutes):
            with own_broker() as (bootstrap, folder):
                figures = part(bootstrap, folder, options)
            print()
            for what, values in figures.items():
                print(f"{what}, median of {len(values)}: {median(values):.3g}")
            save(options, "from_mysql", figures, **about)


if __name__ == "__main__":
    main()
