"""Tables of a server that speaks PostgreSQL's protocol, read back by their keys, a chunk in each transaction.

The server itself says what it would have of expected rows, by the types of its columns.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import psycopg

from ingest.errors import SchemaChangeRefused
from ingest.model.reject import RowError
from ingest.model.table import show
from ingest.sinks.postgres.connection import connect, explain
from ingest.sinks.postgres.stored_rows import ExpectedTexts, rows_by_key
from ingest.sinks.postgres.tables import look_up
from ingest.verify.rows import KeyedRow, TableRules, TableThere, key_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from ingest.encode.upsert_encoder import Destination
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.sinks.postgres.connection import Connection
    from ingest.sinks.postgres.options import SqlSinkOptions
    from ingest.sinks.postgres.tables import ExistingTable, SqlTable
    from ingest.verify.rows import Cells

_TEXTS: Final = ("text", "character")


class DatabaseReader:
    """The tables of a database."""

    states = False

    def __init__(self, sink: SqlSinkOptions, pipeline: str) -> None:
        """Connect to nothing yet."""
        self.sink = sink
        self._application = f"ingest verify {pipeline}"
        self._connection: Connection | None = None
        self._tables: dict[TableId, tuple[SqlTable, ExistingTable | None]] = {}
        self._targets: dict[tuple[str, str], TableId] = {}
        self._texts: dict[SqlTable, ExpectedTexts] = {}

    def tables(self, schemas: Mapping[TableId, TableSchema]) -> dict[TableId, TableThere]:
        """Return the tables as they are. Raise IngestError."""
        out = {}
        self._texts = {}
        for target, schema in schemas.items():
            try:
                wanted: SqlTable = self.sink.table_for(target, schema)
            except RowError as exc:  # all of its rows are rejects
                msg = f"the table {show(target)} cannot be one of the sink's: {exc}"
                raise SchemaChangeRefused(msg, "route it to another name") from None
            with self._asking(f"look the table {wanted} up") as connection, connection.transaction():
                there = look_up(connection, wanted)
            if there is not None:
                wanted = wanted.written_to(there)
            self._tables[target] = wanted, there
            self._targets[wanted.schema, wanted.name] = target
            columns = {} if there is None else there.columns
            missing = tuple(one.name for one in wanted.columns if there is not None and one.name not in columns)
            ends = wanted.history is not None
            rules = TableRules(
                keeps_deleted=self.sink.delete_strategy == "ignore",
                flag=wanted.deleted,
                sequence=wanted.sequence,
                of_texts=columns.get(wanted.sequence or "", "").startswith(_TEXTS),
                ends=ends and wanted.sequence is not None,
            )
            out[target] = TableThere(wanted.key, rules, f"table {wanted}", missing, absent=there is None)
        return out

    def rows(self, tables: Sequence[TableId]) -> Iterator[tuple[TableId, list[KeyedRow]]]:
        """Yield all rows of tables; of a history those that are the current ones."""
        for target in tables:
            wanted, there = self._tables[target]
            if there is None:
                continue
            names = [one.name for one in wanted.columns if one.name in there.columns]
            names += [wanted.deleted] if wanted.deleted is not None and wanted.deleted in there.columns else []
            ended = [] if wanted.history is None else [wanted.history.valid_to]
            with self._asking(f"read the table {wanted}") as connection:
                for chunk in rows_by_key(connection, wanted, there.columns, [*names, *ended]):
                    current = [row[: len(names)] for row in chunk if not ended or row[-1] is None]
                    yield target, [self._row(wanted, there, names, row) for row in current]

    @property
    def unreadable(self) -> Mapping[TableId, tuple[int, str]]:
        """Nothing: all rows of a table can be read."""
        return {}

    @property
    def cut(self) -> int:
        """Zero: the encoder counts them."""
        return 0

    def target(self, destination: Destination) -> TableId | None:
        """Return the table that a record's destination stands for."""
        return self._targets.get((destination.schema, destination.name))

    def expected(
        self, table: TableId, made: Destination, records: Sequence[tuple[bytes, bytes | None]]
    ) -> list[KeyedRow]:
        """Return rows as the table would have them."""
        _, there = self._tables[table]
        if there is None or not there.columns.keys() >= set(made.key):
            return [self._raw(made, *record) for record in records]
        wanted = made.written_to(there)
        texts = self._texts.get(wanted)
        if texts is None:
            stages = self.sink.dialect.stages
            texts = self._texts[wanted] = ExpectedTexts(wanted, there.kinds, stages=stages)
        with self._asking(f"ask what the table {wanted} has of rows") as connection:
            found = texts.of(connection, records)
        out = []
        for (_, value), row in zip(records, found, strict=True):
            if row is not None:
                one = self._row(wanted, there, texts.names, row)
                out.append(one if value is not None else KeyedRow(one.key, None))
        return out

    def _row(self, wanted: SqlTable, there: ExistingTable, names: Sequence[str], row: Sequence[str | None]) -> KeyedRow:
        cells: Cells = {}
        for name, text in zip(names, row, strict=True):
            if text is not None:
                cells[name] = _number(text) if there.columns[name] == "numeric" else text
        if wanted.deleted is not None and cells.get(wanted.deleted) == "false":
            del cells[wanted.deleted]
        return KeyedRow(key_of(cells, wanted.key), cells)

    def _raw(self, wanted: SqlTable, key: bytes, value: bytes | None) -> KeyedRow:
        """Return a row as it came: there is no table that could have it."""
        from ingest.verify.cells import cells_of  # noqa: PLC0415  (a table is seldom missing)

        of_key = cells_of(key)
        return KeyedRow(key_of(of_key, wanted.key), None if value is None else {**cells_of(value), **of_key})

    @contextmanager
    def _asking(self, what: str) -> Generator[Connection]:
        """Yield the connection, in which transactions end with their statements. Raise IngestError."""
        try:
            if self._connection is None or self._connection.closed:
                self._connection = connect(self.sink.server, self._application)
                self._connection.autocommit = True
            yield self._connection
        except psycopg.Error as exc:
            raise explain(exc, what, self.sink.server) from exc

    def close(self) -> None:
        """Release the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _number(text: str) -> str:
    """Return a number without zeros at the end of its fraction: a column without a scale keeps them."""
    return text.rstrip("0").rstrip(".") if "." in text else text
