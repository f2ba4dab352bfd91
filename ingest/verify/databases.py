"""Tables of a server that speaks PostgreSQL's protocol, read back by their keys, a chunk in each transaction.

The server itself says what it would have of expected rows, by the types of its columns.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

import psycopg

from ingest.sinks.postgres.connection import connect, explain, server_of
from ingest.sinks.postgres.stored_rows import ExpectedTexts, rows_by_key
from ingest.sinks.postgres.tables import ExistingTable, SqlTable, look_up
from ingest.verify.rows import Cells, KeyedRow, SinkReader, SinkTable, TableRules, cells_of, key_of, table_for

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.sinks.postgres.connection import Connection
    from ingest.sinks.postgres.options import SqlSinkOptions

_TEXTS: Final = ("text", "character")


class DatabaseReader(SinkReader["SqlTable"]):
    """The tables of a database."""

    states = False

    def __init__(self, sink: SqlSinkOptions, pipeline: str, resources: ExitStack) -> None:
        resources.callback(self._close)
        self.sink, self._server = sink, server_of(sink)
        self._application = f"ingest verify {pipeline}"
        self._connection: Connection | None = None
        self._tables: dict[TableId, tuple[SqlTable, ExistingTable | None]] = {}
        self._targets: dict[tuple[str, str], TableId] = {}
        self._texts: dict[SqlTable, ExpectedTexts] = {}

    def tables(self, schemas: Mapping[TableId, TableSchema]) -> dict[TableId, SinkTable]:
        """Return the tables as they are. Raise IngestError."""
        out = {}
        self._texts = {}
        for target, schema in schemas.items():
            wanted: SqlTable = table_for(self.sink, target, schema)
            with self._asking(f"look the table {wanted} up") as connection, connection.transaction():
                existing = look_up(connection, wanted)
            if existing is not None:
                wanted = wanted.written_to(existing)
            self._tables[target] = wanted, existing
            self._targets[wanted.schema, wanted.name] = target
            columns = {} if existing is None else existing.columns
            missing = tuple(c.name for c in wanted.columns if existing is not None and c.name not in columns)
            rules = TableRules(
                keeps_deleted=self.sink.delete_strategy == "ignore",
                flag=wanted.deleted,
                sequence=wanted.sequence,
                of_texts=columns.get(wanted.sequence or "", "").startswith(_TEXTS),
                ends=wanted.history is not None and wanted.sequence is not None,
            )
            out[target] = SinkTable(wanted.key, rules, f"table {wanted}", missing, absent=existing is None)
        return out

    def rows(self, tables: Sequence[TableId]) -> Iterator[tuple[TableId, list[KeyedRow]]]:
        """Yield all rows of tables; of a history those that are the current ones."""
        for target in tables:
            wanted, existing = self._tables[target]
            if existing is None:
                continue
            names = [column.name for column in wanted.columns if column.name in existing.columns]
            names += [wanted.deleted] if wanted.deleted is not None and wanted.deleted in existing.columns else []
            ended = [] if wanted.history is None else [wanted.history.valid_to]
            with self._asking(f"read the table {wanted}") as connection:
                for chunk in rows_by_key(connection, wanted, existing.columns, [*names, *ended]):
                    current = [row[: len(names)] for row in chunk if not ended or row[-1] is None]
                    yield target, [self._row(wanted, existing, names, row) for row in current]

    def target(self, destination: SqlTable) -> TableId | None:
        """Return the table that a record's destination stands for."""
        return self._targets.get((destination.schema, destination.name))

    def expected(
        self, table: TableId, destination: SqlTable, records: Sequence[tuple[bytes, bytes | None]]
    ) -> list[KeyedRow]:
        """Return the row of each record, with values as the table stores them; a delete has no cells.

        `records`: key and row as JSON, None for a delete. Those that the sink refuses are left out.
        """
        _, existing = self._tables[table]
        if existing is None or not existing.columns.keys() >= set(destination.key):
            return [self._raw(destination, *record) for record in records]
        wanted = destination.written_to(existing)
        texts = self._texts.get(wanted)
        if texts is None:
            stages = self._server.dialect.stages
            texts = self._texts[wanted] = ExpectedTexts(wanted, existing.kinds, stages=stages)
        with self._asking(f"ask what the table {wanted} has of rows") as connection:
            rows = texts.of(connection, records)
        out = []
        for (_, value), row in zip(records, rows, strict=True):
            if row is not None:
                keyed = self._row(wanted, existing, texts.names, row)
                out.append(keyed if value is not None else KeyedRow(keyed.key, None))
        return out

    def _row(
        self, wanted: SqlTable, existing: ExistingTable, names: Sequence[str], row: Sequence[str | None]
    ) -> KeyedRow:
        cells: Cells = {}
        for name, text in zip(names, row, strict=True):
            if text is not None:
                cells[name] = _number(text) if existing.columns[name] == "numeric" else text
        if wanted.deleted is not None and cells.get(wanted.deleted) == "false":
            del cells[wanted.deleted]
        return KeyedRow(key_of(cells, wanted.key), cells)

    def _raw(self, wanted: SqlTable, key: bytes, value: bytes | None) -> KeyedRow:
        """Return a row as it came: there is no table that could have it."""
        of_key = cells_of(key)
        return KeyedRow(key_of(of_key, wanted.key), None if value is None else {**cells_of(value), **of_key})

    @contextmanager
    def _asking(self, what: str) -> Generator[Connection]:
        """Yield the connection, in which transactions end with their statements. Raise IngestError."""
        try:
            if self._connection is None or self._connection.closed:
                self._connection = connect(self._server, self._application)
                self._connection.autocommit = True
            yield self._connection
        except psycopg.Error as exc:
            raise explain(exc, what, self._server) from exc

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _number(text: str) -> str:
    """Return a number without zeros at the end of its fraction: a column without a scale keeps them."""
    return text.rstrip("0").rstrip(".") if "." in text else text
