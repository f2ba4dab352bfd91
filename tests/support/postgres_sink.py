"""Sinks of both dialects on a real PostgreSQL, without a run: a driver's side and tasks of one checkpoint."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from examples import own_name

from ingest.encode.upsert_encoder import Record
from ingest.model import types
from ingest.model.commit import OLDER, CommitScope
from ingest.model.schema import Column, TableSchema
from ingest.sinks import SINKS

if TYPE_CHECKING:
    from postgres import Database

    from ingest.sinks.postgres.coordinator import PostgresCoordinator
    from ingest.sinks.postgres.options import SqlSinkOptions
    from ingest.sinks.postgres.tables import SqlTable
    from ingest.sinks.postgres.writer import PostgresWriter

SPLIT = ("t", 0)
VALUES: dict[str, list[str]] = {
    "BOOLEAN": ["true", "false"],
    "TINYINT": ["-128", "127"],
    "SMALLINT": ["-32768", "32767"],
    "INT": ["-2147483648", "2147483647"],
    "BIGINT": ["-9223372036854775808", "9223372036854775807"],
    "DECIMAL(5,2)": ["-999.99", "0.01"],
    "DECIMAL(38,18)": ["12345678901234567890.123456789012345678"],
    "FLOAT": ["1.5", "3.4e38"],
    "DOUBLE": ["0.1", "1.7976931348623157e308", "5e-324"],
    "STRING": ['""', '"a\\\\b\\n\\t\\"\\u00e9\\ud83d\\ude00"', '"\\\\."', '"null"'],
    "CHAR(3)": ['"abc"'],
    "VARCHAR(9)": ['"abc"'],
    "BYTES": ['"AP8="', '""'],
    "DATE": ['"2020-01-31"', '"0001-01-01"', '"infinity"'],
    "TIME(3)": ['"12:13:14.5"'],
    "TIME(6)": ['"23:59:59.999999"'],
    "TIMESTAMP": ['"2020-01-31 12:13:14.500001"', '"0001-01-01 00:00:00"', '"-infinity"'],
    "TIMESTAMP_LTZ": ['"2020-01-31 12:13:14.500001Z"', '"infinity"'],
    "ARRAY<INT>": ["[1,null]"],
    "MAP<STRING, INT>": ['{"a":1}'],
    "ROW<a INT, b STRING>": ['{"a":1,"b":null}'],
}
"""Values of each type, as rows have them."""


def schema(*columns: str, key: str = "id") -> TableSchema:
    """A table of columns, each with its type after a space."""
    made = [one.partition(" ") for one in columns]
    return TableSchema(tuple(Column(name, types.parse(kind), nullable=name != key) for name, _, kind in made), (key,))


def options(postgres: Database, **more: Any) -> SqlSinkOptions:
    """Options of a sink in this database; `type` is `postgres` where it is not given."""
    given = {
        "type": "postgres", "endpoint": f"127.0.0.1:{postgres.port}", "dbname": "postgres", "username": "ingest",
        "password": "of-the-tests", "sink.transactional-id-prefix": own_name("x"), **more,
    }  # fmt: skip
    made: Any = SINKS[given["type"]].model_validate(given)
    return made  # type: ignore[no-any-return]


Row = tuple[str, str | None]
BY = {"sink.sequence-by": "v", "sink.delete-strategy": "soft"}
warnings: list[str] = []
opened: list[Any] = []


def driver_of(sink: SqlSinkOptions, pipeline: str = "p") -> PostgresCoordinator:
    """The driver's side."""
    found = sink.coordinator(pipeline, warnings.append)
    opened.append(found)
    return found


def owned(sink: SqlSinkOptions, run: int = 1) -> PostgresCoordinator:
    """The driver's side of a run that has begun."""
    found = driver_of(sink)
    found.connect()
    found.acquire("checkpoint", run)
    return found


def task(sink: SqlSinkOptions, run: int = 1) -> PostgresWriter:
    """A task's side."""
    found = sink.writer("p", run)
    opened.append(found)
    return found


def scope(run: int = 1, batch: int = 1, shard: int = 0) -> CommitScope:
    return CommitScope("checkpoint", run, batch, run, shard, {SPLIT: 0}, kept=False)


def write(sink: SqlSinkOptions, table: SqlTable, *rows: tuple[str, str | None], run: int = 1, batch: int = 1) -> None:
    """Write rows and commit."""
    with closing(task(sink, run)) as writer:
        writer.begin(scope(run, batch))
        writer.write([Record(table, key.encode(), None if row is None else row.encode()) for key, row in rows])
        writer.commit({SPLIT: len(rows)}, b"", final=True)


def made(sink: SqlSinkOptions, name: str, table: TableSchema) -> SqlTable:
    """The table, which is there now."""
    found = owned(sink)
    found.declare({(name, "t"): table})
    return to_write(sink, name, table)


def to_write(sink: SqlSinkOptions, name: str, table: TableSchema) -> SqlTable:
    """The table as rows need it."""
    return sink.table_for((name, "t"), table)


def row(key: object, version: object, number: object = 0) -> Row:
    return f'{{"id":{key}}}', f'{{"id":{key},"v":{version},"n":{number}}}'


def gone(key: object) -> Row:
    return f'{{"id":{key}}}', None


class Writing:
    """A task that commits batches of rows."""

    def __init__(self, sink: SqlSinkOptions, table: SqlTable) -> None:
        self._sink, self._table, self._batch = sink, table, 0

    def write(self, *rows: Row) -> int:
        """Commit rows; return how many are left out."""
        self._batch += 1
        writer = task(self._sink)
        writer.begin(scope(batch=self._batch))
        writer.write([Record(self._table, key.encode(), None if one is None else one.encode()) for key, one in rows])
        writer.commit({SPLIT: 1}, b"", final=True)
        found = writer.left_out()
        assert writer.left_out() == {}, "it is told once"
        writer.close()
        assert set(found) <= {OLDER}
        return found.get(OLDER, 0)


def writing(postgres: Database, name: str, *columns: str, kind: str = "postgres", by: dict[str, str] = BY) -> Writing:
    sink = options(postgres, type=kind, **by)
    return Writing(sink, made(sink, name, schema(*(columns or ("id INT", "v INT", "n INT")))))
