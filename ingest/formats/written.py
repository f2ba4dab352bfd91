"""The writing direction of formats that have a schema for each table: what a sink asks of them.

A format with the method `row_writer` can be the one of a sink's keys, and of its values, which are rows then. One with
`change_writer` can be the one of its values, which tell what happened to a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from ingest.model.change import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.formats.template import Image
    from ingest.model.numbers import Rounds
    from ingest.model.schema import Column
    from ingest.model.table import TableId


class Rounding(NamedTuple):
    """Checks whether written values were rounded, by column: of keys, and of rows after and before a change."""

    keys: Mapping[str, Rounds]
    after: Mapping[str, Rounds]
    """In the row after a change."""
    before: Mapping[str, Rounds]
    """In the row before a change."""


class Renamed:
    """Mapping between the names of a schema's fields and the names of a table's columns."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        """`columns`: by the names of their fields."""
        same = all(name == column.name for name, column in columns.items())
        self._names = None if same else {name: column.name for name, column in columns.items()}

    def of(self, row: Image) -> Image:
        """Return a row by its fields' names."""
        if self._names is None:
            return row
        return {name: row[column] for name, column in self._names.items() if column in row}

    def back(self, fields: Mapping[str, Rounds]) -> Mapping[str, Rounds]:
        """Return the checks of fields, by the names of their columns."""
        names = self._names
        return fields if names is None else {names[name]: one for name, one in fields.items() if name in names}


class RowPlace(NamedTuple):
    """The place of a table's rows: the keys or the values of a topic."""

    topic: str
    part: str
    """`key` or `value`."""
    table: TableId
    asks: bool = True
    """False for rows that are written nowhere: then no registry is asked for anything."""


class RowBytes(Protocol):
    """Function that makes the bytes of a row. It raises RowError, and IngestError where a registry gives no answer."""

    def __call__(self, row: Image) -> bytes:
        """Return the bytes of a row, given as the JSON texts of its columns in the sink's table."""

    @property
    def rounds(self) -> Mapping[str, Rounds]:
        """Checks whether written values were rounded, by column. Callers read it after the first row was written."""

    def register(self) -> None:
        """Register the rows' schema if the pipeline has a registry. Raise IngestError."""

    def unregistered(self) -> str | None:
        """Return the subject that `register` would register a schema for, if any. Raise what it would raise."""


class ChangeBytes(Protocol):
    """Function that makes the bytes of a change. It raises as `RowBytes` does."""

    def __call__(self, kind: Kind, before: Image | None, after: Image | None) -> bytes | None:
        """Return the bytes of a change. None is Kafka's null."""

    @property
    def rounds(self) -> Mapping[str, Rounds]:
        """The checks of `RowBytes.rounds` for the rows before and after changes."""

    def register(self) -> None:
        """Register the changes' schema if the pipeline has a registry. Raise IngestError."""

    def unregistered(self) -> str | None:
        """Return the subject that `register` would register a schema for, if any. Raise what it would raise."""


class Upserts:
    """Values that are rows: a delete is Kafka's null."""

    def __init__(self, rows: RowBytes) -> None:
        """`rows` makes the bytes of rows."""
        self._rows = rows

    def __call__(self, kind: Kind, _before: Image | None, after: Image | None) -> bytes | None:
        """Return the bytes of the row after a change; None for a delete."""
        return None if kind is Kind.DELETE or after is None else self._rows(after)

    @property
    def rounds(self) -> Mapping[str, Rounds]:
        """The checks of `RowBytes.rounds` for the row after a change."""
        return self._rows.rounds

    def register(self) -> None:
        """Register the schema of the rows. Raise IngestError."""
        self._rows.register()

    def unregistered(self) -> str | None:
        """Return the subject that `register` would register a schema for, if any. Raise IngestError."""
        return self._rows.unregistered()


class WrittenFormat(Protocol):
    """The options model of a format that has a schema for each table."""

    def row_writer(self, place: RowPlace, columns: Mapping[str, Column]) -> RowBytes:
        """Return the function that makes a table's rows. Raise RowError for a table that the format cannot say.

        `columns` are those of the sink's table, by the names of their fields.
        """
