"""The form of a format's messages, with the options that native code reads them by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ingest.model.table import TableId, table_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ingest.formats.avro.native.reader import AvroReader
    from ingest.model.types import DataType


class Lines(msgspec.Struct, frozen=True):
    """The usual dialect of CSV, with another delimiter or quote, and the columns of tables."""

    delimiter: str
    """One character of ASCII."""
    quote: str | None
    """One character of ASCII; None: there is no quote."""
    columns: Callable[[TableId], Mapping[str, DataType | None] | None]
    """Function that returns the columns of a table, with their types where those are declared; None where they have no
    names."""


class AvroMessages(msgspec.Struct, frozen=True):
    """Messages in Avro: native code makes JSON texts of them, which have the form."""

    head: int
    """Bytes in front of a message, by which its schema is known; 0: all messages are of one schema."""
    values: Callable[[bytes], AvroReader | None]
    """Function that returns the native reader of messages with this head; None where the reference reads them."""
    keys: Callable[[bytes], AvroReader | None] | None = None
    """The same for the keys of change messages that are such messages as well. None: they are as they come."""


def parts_that_are_there(parts: list[str]) -> TableId:
    """Return an id of the parts that are not empty."""
    return tuple(part for part in parts if part)


def table_in_database(parts: list[str]) -> TableId:
    """Return the id of a table that messages name by its database and its name, without a schema between them."""
    database, _, name = parts
    return table_in(database, name)


class Form(msgspec.Struct, frozen=True):
    """A form that native code knows: most messages of a format have it."""

    name: str
    """`debezium`, `canal`, `maxwell`, `ogg`, or `rows` and `csv`: each message is a row."""
    flatten: bool = False
    """True if objects within a row become columns of their own. For `rows`."""
    table_fields: tuple[str, ...] = ()
    """Fields that have the parts of the table's id; none: the topic is the table. For `rows`."""
    table_of: Callable[[list[str]], TableId | str] = parts_that_are_there
    """Function of the parts of a table's id, as messages have them; those that a message lacks are empty.

    It returns the id, without parts where the topic is the table; or the reason why messages of it are skipped."""
    lines: Lines | None = None
    """For `csv`."""
    registered: bool = False
    """True if messages stand behind a zero and the id of a schema: of these `inline_types` makes the types of columns.
    For `rows` and `debezium`."""
    knows_key: Callable[[bytes], bool] | None = None
    """Function that returns whether the schema of keys with this head is known here: keys that begin with a zero stand
    behind the id of their schema, too. None: keys are as they come. For `debezium`."""
    avro: AvroMessages | None = None
    """For `rows` and `debezium`. None: messages are JSON as they come."""
