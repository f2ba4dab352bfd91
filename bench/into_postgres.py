"""Rows into PostgreSQL by the sink, beside the same rows by psql, in turn.

The sink's writer gets batches as tasks give them, of rows of ten columns and about 300 bytes. psql copies files of the
same rows into a staging table with the columns' types (`COPY`), and from there into the table (`INSERT … ON CONFLICT DO
UPDATE`), with as many rows in a transaction. Inserts go into an empty table, changes into one that has all of the keys.
Prints rows a second of each by the clock, the sink's by psql's, and the time of this process in a row. See README.md.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import msgspec
import psycopg
from psycopg import sql
from setting import options_of, save

from ingest.encode.encode import EncoderCache
from ingest.formats.debezium.options import DebeziumJson
from ingest.model import types
from ingest.model.commit import CommitScope
from ingest.model.schema import Column, TableSchema
from ingest.native import native
from ingest.sandbox import postgres
from ingest.sandbox.process import any_port
from ingest.schema.evolve import Schemas, SourceTable
from ingest.schema.infer import Inference
from ingest.sinks.postgres.connection import server_of
from ingest.sinks.postgres.options import PostgresSink
from ingest.sinks.postgres.tables import table_of
from ingest.testing.in_memory import MemoryRecord

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

KINDS: Final = {
    "id": "BIGINT", "customer": "BIGINT", "status": "STRING", "amount": "DECIMAL(18,2)", "rate": "DOUBLE",
    "sku": "STRING", "note": "STRING", "created_at": "TIMESTAMP_LTZ", "day": "DATE", "active": "BOOLEAN",
}  # fmt: skip
SCHEMA: Final = TableSchema(tuple(Column(name, types.parse(kind)) for name, kind in KINDS.items()), ("id",))
TABLE: Final = ("shop", "orders")
_STATUS: Final = ("NEW", "PAID", "SHIPPED", "DONE")
_NOTE: Final = (
    "customer asked for gift wrap, delivery before noon, ring twice, mind the dog, leave it with the neighbour or call"
)
_ENVELOPE: Final = b'{"before":null,"after":%b,"source":{"db":"shop","table":"orders"},"op":"c"}'
_SCRIPT: Final = """\
SET client_min_messages TO warning;
CREATE TEMPORARY TABLE staging (LIKE shop.orders) ON COMMIT DELETE ROWS;
"""
_BATCH: Final = """\
BEGIN;
\\copy staging FROM '{file}'
INSERT INTO shop.orders SELECT * FROM staging ON CONFLICT (id) DO UPDATE SET {sets};
COMMIT;
"""


def rows(count: int, *, changed: bool) -> Iterator[dict[str, Any]]:
    """Yield rows; changed ones in another order, and with other values."""
    for number in range(count):
        n = number * 7919 % count if changed else number
        m = n + 13 * changed
        yield {
            "id": n, "customer": m % 9973, "status": _STATUS[m % 4], "amount": f"{m % 100_000}.{m % 100:02d}",
            "rate": m * 7919 % 10_007 / 97, "sku": None if m % 7 == 0 else f"SKU-{m:012d}-{m % 31:02d}",
            "note": f"{_NOTE[: 55 + m % 50]}, or else {_NOTE[: m % 60]}",
            "created_at": f"2026-11-{1 + m % 30:02d} {m % 24:02d}:{m % 60:02d}:{m * 7 % 60:02d}.{m * 997 % 10**6:06d}Z",
            "day": f"2026-11-{1 + m % 30:02d}", "active": m % 2 == 1,
        }  # fmt: skip


def as_json(row: dict[str, Any]) -> bytes:
    """Return a row as messages have it: a decimal is a number."""
    return msgspec.json.encode({**row, "amount": msgspec.Raw(row["amount"].encode())})


def as_copied(row: dict[str, Any]) -> str:
    """Return a row as COPY reads it."""
    texts = ["\\N" if value is None else str(value) for value in row.values()]
    return "\t".join(texts) + "\n"


class Server:
    """The server, and one table of it that both ways fill in turn."""

    def __init__(self, there: postgres.RunningDatabase) -> None:
        """Know where it is."""
        self._there = there
        self._password = Path(there.password_file).read_text(encoding="ascii")
        self.sink = PostgresSink.model_validate({
            "type": "postgres", "endpoint": there.endpoint, "dbname": postgres.DATABASE, "username": postgres.USER,
            "password": self._password,
        })  # fmt: skip

    def empty(self) -> None:
        """Create the table again."""
        server = server_of(self.sink)
        with psycopg.connect(
            host=server.host, port=server.port, dbname=server.database, user=server.user, password=server.password,
            autocommit=True,
        ) as connection:  # fmt: skip
            connection.execute("DROP TABLE IF EXISTS shop.orders")
            coordinator = self.sink.coordinator("bench", print)
            coordinator.declare({TABLE: SCHEMA})
            coordinator.close()
            connection.execute("CHECKPOINT")

    def psql(self, script: str) -> float:
        """Let psql run a script; return the seconds that it took."""
        host, port = self._there.endpoint.split(":")
        command = [
            str(postgres.programs() / "psql"), "-q", "-X", "-v", "ON_ERROR_STOP=1", "-h", host, "-p", port,
            "-U", postgres.USER, "-d", postgres.DATABASE,
        ]  # fmt: skip
        environment = {**os.environ, "PGPASSWORD": self._password}
        before = time.perf_counter()
        subprocess.run(command, input=script, text=True, check=True, env=environment)
        return time.perf_counter() - before

    def count(self) -> tuple[int, Any]:
        """Return how many rows there are, and a digest of them."""
        server = server_of(self.sink)
        with psycopg.connect(
            host=server.host, port=server.port, dbname=server.database, user=server.user, password=server.password,
        ) as connection:  # fmt: skip
            query = sql.SQL("SELECT count(*), sum(hashtext(o::text)::numeric) FROM shop.orders o")
            found = connection.execute(query).fetchone()
            assert found is not None
            return found[0], found[1]


def batches_of(sink: PostgresSink, lines: Sequence[bytes]) -> list[Any]:
    """Return rows as native code gives them to the writer; without native code, as objects."""
    table = table_of(TABLE, SCHEMA, "public")
    if not native.BUILT:
        return [[(table, b'{"id":%d}' % msgspec.json.decode(line)["id"], line)] for line in lines]
    form = DebeziumJson()
    cache = EncoderCache(sink.encoder, Inference(form.reading, False, {}, 2000))
    cache.renew(Schemas(1, {TABLE: SourceTable(SCHEMA, (TABLE,), False)}, {TABLE: SCHEMA}), None)
    encoder = native.NativeEncoders(form, cache).of("t")
    messages: list[Any] = [MemoryRecord(at, "t", None, _ENVELOPE % line) for at, line in enumerate(lines)]
    made, stop, full = [], 0, True
    while full:
        batch, stop = encoder.encode(messages, stop)
        full = batch.full
        made.append(batch)
    assert stop == len(lines), f"{stop} of {len(lines)} messages were encoded"
    return made


def by_sink(server: Server, transactions: Sequence[Sequence[Any]]) -> tuple[float, float]:
    """Write transactions of batches by the sink; return the seconds, and those of this process's processors."""
    coordinator = server.sink.coordinator("bench", lambda _: None)
    checkpoint = f"bench-{time.time_ns()}"
    coordinator.acquire(checkpoint, 1)
    scope = CommitScope(checkpoint, 1, 1, 1, 0, {("t", 0): 0}, kept=False)
    coordinator.close()
    writer = server.sink.writer("bench", 1)
    before, used = time.perf_counter(), time.process_time()
    writer.begin(scope)
    for number, batches in enumerate(transactions):
        for batch in batches:
            writer.write(batch)
        writer.commit({("t", 0): number + 1}, b"", final=number + 1 == len(transactions))
    took = time.perf_counter() - before, time.process_time() - used
    writer.close()
    return took


def main() -> None:
    """Measure, and print."""
    options = options_of(rows=200_000, transaction=50_000, rounds=5).parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        try:
            measure(Server(postgres.up(folder, any_port())), folder, options)
        finally:
            postgres.down(folder, wipe=True)


def measure(server: Server, folder: Path, options: argparse.Namespace) -> None:
    """Measure inserts, and then changes."""
    print(f"{options.rows:,} rows, {options.transaction:,} in a transaction; native code: {native.BUILT}\n")
    scripts: dict[bool, str] = {}
    given: dict[bool, list[list[Any]]] = {}
    sets = ", ".join(f"{one} = EXCLUDED.{one}" for one in KINDS if one != "id")
    for changed in (False, True):
        scripts[changed], given[changed] = _SCRIPT, []
        made = list(rows(options.rows, changed=changed))
        for at in range(0, len(made), options.transaction):
            some = made[at : at + options.transaction]
            file = folder / f"{changed}-{at}.txt"
            file.write_text("".join(map(as_copied, some)), encoding="utf-8")
            scripts[changed] += _BATCH.format(file=file, sets=sets)
            given[changed].append(batches_of(server.sink, [as_json(row) for row in some]))
    for changed, what in ((False, "inserts"), (True, "changes")):
        print(f"{what:<10}{'psql k/s':>10}{'sink k/s':>10}{'ratio':>8}{'sink µs, CPU here':>19}")
        ratios, costs, seen = [], [], set()
        for number in range(options.rounds):
            took: dict[str, float] = {}
            for way in ("psql", "sink") if number % 2 == 0 else ("sink", "psql"):
                server.empty()
                if changed:
                    server.psql(scripts[False])
                    server.psql("VACUUM ANALYZE shop.orders; CHECKPOINT;")
                if way == "psql":
                    took[way] = server.psql(scripts[changed])
                else:
                    took[way], used = by_sink(server, given[changed])
                seen.add(server.count())
            ratios.append(took["psql"] / took["sink"])
            costs.append(used / options.rows * 1e6)
            psql, sink = (options.rows / took[way] / 1e3 for way in ("psql", "sink"))
            print(f"{number + 1:<10}{psql:>10.1f}{sink:>10.1f}{ratios[-1]:>8.2f}{costs[-1]:>19.2f}", flush=True)
        assert len(seen) == 1, "both ways write the same rows"
        print(f"sink by psql, {what}, median: {median(ratios):.2f}\n")
        found = {f"{what}, rate of the sink by psql's": ratios, f"{what}, CPU of the writer, µs a row": costs}
        save(options, "into_postgres", found, rows=options.rows)


if __name__ == "__main__":
    main()
