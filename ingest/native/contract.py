"""The contract with native code about a table: one document of typed parts, from which a `RowEncoder` is made.

Places are indexes into `RowEncoderSpec.columns` unless a docstring says otherwise. Names are as JSON has them between
its quotes. Who makes a document gives numbers that fit each other; the native code refuses one that would let it read
or write where it must not, with ValueError or TypeError.

They are msgspec's structs: every worker makes these classes, and dataclasses take ten times as long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.formats.avro.native.reader import AvroReader
    from ingest.native.codes import ColumnKind, CsvKind, MessageForm, MetadataKind, SegmentKind, Spelling, ValueCodec


class ColumnSpec(msgspec.Struct, frozen=True):
    """A column of a table's rows."""

    name: bytes
    kind: ColumnKind
    fill: bytes = b""
    """The text that is written where a row lacks the column."""
    as_text: bool = False
    """True if the sink's column is a text: what is none is written as one."""
    bits: int = 64
    """The number of bits of an integer."""
    characters: int = -1
    """Most characters of a text; -1 for any number, and for JSON that becomes a text."""
    precision: int = 0
    scale: int = 0
    separator: str = " "
    """The character between a time stamp's date and time."""
    zoned: bool = False
    coarse: bool = False
    """True if keys have only values of it that a column holds as they are: no finer times, no rounded numbers."""
    type_number: int = 0
    """The number of the column's type where the sink has the same; 0 where values are to be checked in any case."""
    spelling: Spelling | int = 0


class KeySpec(msgspec.Struct, frozen=True):
    """The primary key of a table."""

    columns: tuple[int, ...]
    from_message: bool = False
    """True if a message's key has to have these columns, and no others."""
    as_text: bool = False
    """True if every value is a text in keys."""
    deletes_are_rows: bool = False
    """True if the reference makes what a delete or a change of the key becomes: rows."""


class SegmentSpec(msgspec.Struct, frozen=True):
    """A part of a record that is put together."""

    kind: SegmentKind
    text: bytes = b""
    column: int = 0
    """The place of the column; in a key's template, among the columns of the key."""


class TemplateSpec(msgspec.Struct, frozen=True):
    """The pieces of records that are no mere rows."""

    key: tuple[SegmentSpec, ...] | None
    """None: records have no key."""
    insert: tuple[SegmentSpec, ...]
    update: tuple[SegmentSpec, ...]
    """Segments of an update whose row before it is known."""
    update_alone: tuple[SegmentSpec, ...]
    """Segments of an update whose row before it is not known."""
    delete: tuple[SegmentSpec, ...] | None
    """None: a delete has no value."""
    clears_old_key: bool = False
    """True if an update that changes the key writes a tombstone under the old one."""
    splits: bool = False
    """True if the reference makes what an update that changes the key becomes: a delete and an insert."""


class SlotSpec(msgspec.Struct, frozen=True):
    """A column that goes to expressions."""

    column: int
    slot: int
    """Its place among the slots of `TransformRows`."""
    kind: str
    """The slot's kind: `s` text, `l` integer, `d` floating-point number, `b` truth value."""


class TransformInputSpec(msgspec.Struct, frozen=True):
    """The way of a table's rows to expressions."""

    transform: int
    inputs: tuple[SlotSpec, ...]
    constants: tuple[str | None, ...]
    """By slot: the text that it has in all rows, or None."""
    event: int = -1
    """The slot of what happened, or -1."""
    decisive: tuple[int, ...] = ()
    """Columns where a difference makes the row before an update go as well."""
    key: tuple[int, ...] = ()
    """Those of them that are of the result's key."""
    inserts_alone: bool = False
    """True if an insert may be an update, whose row before is not known."""
    always_before: bool = False
    """True if the row before an update goes in any case."""
    before: tuple[SlotSpec, ...] = ()
    """Columns of the row before an update that go with the row after it, where both have the same key."""


class ResultSpec(msgspec.Struct, frozen=True):
    """A column that is made of a result."""

    name: bytes
    place: int
    """The number of the result, among those that come back."""
    kind: str
    """`l` integer, `b` truth value, `d` double, `t` text, `x` what `write` makes, `c` a copy of the column that `write`
    names."""
    write: Callable[[Any], bytes] | bytes
    """Makes JSON of a value, as it does of texts that are not plain and of doubles of many digits."""


class ResultsSpec(msgspec.Struct, frozen=True):
    """The way in which rows are made of what comes back from expressions."""

    results: tuple[ResultSpec, ...]
    columns: tuple[bytes | int, ...] | None = None
    """The columns that rows shall have: names of the row's columns, or places in `results`. None: all that the row
    has, then results that are new."""
    filter: int = -1
    """The number of the result that says whether a row passes, or -1."""
    filter_before: int = -1
    """The number of the one that says whether the row before it did, or -1."""
    changeable: bool = False
    """True if nobody can tell whether the row before it did: the filter asks for the time, or for dice."""
    soft_delete: bool = False
    makes_key: bool = False
    """True if a result is of the primary key."""


class CsvSpec(msgspec.Struct, frozen=True):
    """The way in which rows in CSV are read."""

    delimiter: bytes
    """One byte."""
    quote: bytes
    """One byte; a zero: there is no quote."""
    columns: tuple[tuple[bytes, CsvKind], ...]
    """The columns in the order of the fields, with what fields are."""


class AvroSpec(msgspec.Struct, frozen=True):
    """The readers of messages in Avro, which make JSON texts of them."""

    head: int
    """Bytes in front of a message, by which its schema is known; eight at most."""
    find: Callable[[bytes], AvroReader | None]
    """Function that returns the reader of messages with this head; None for messages that the reference reads."""


class MessageSpec(msgspec.Struct, frozen=True):
    """The way in which the messages of one topic are read."""

    form: MessageForm
    types_member: bytes | None = None
    """The name of the member in which Canal's messages declare their columns' types, or None: they do not."""
    flatten: bool = False
    """True if objects within rows become columns of their own. Of messages that are rows."""
    table_fields: tuple[bytes, ...] = ()
    """Names of the fields that have the parts of the table's id, three at most; none: all rows are of one table. Of
    messages that are rows."""
    csv: CsvSpec | None = None
    """The fields of rows in CSV. None, for other messages, and where native code does not read the topic's rows."""
    registered: bool = False
    """True if values stand behind a zero and the id of the schema that declares their columns' types. Of messages that
    are rows, and of Debezium's."""
    knows_key: Callable[[bytes], bool] | None = None
    """Function that returns whether the schema of keys with this head is known: such keys stand behind a zero and the
    id of their schema, too. None: keys are as they come. Of Debezium's messages."""
    avro: AvroSpec | None = None
    """The readers of values whose JSON texts have the form; None: they are JSON as they come."""
    key_avro: AvroSpec | None = None
    """The readers of keys that begin with a zero; None: keys are as they come."""


class RowEncoderSpec(msgspec.Struct, frozen=True):
    """The way in which the rows of one table are checked and written."""

    columns: tuple[ColumnSpec, ...]
    """The source's columns in the source's order, then those that only the sink has."""
    source_columns: int
    """The number of them that are the source's."""
    sink_order: tuple[int, ...]
    """All of them, in the sink's order."""
    key: KeySpec
    template: TemplateSpec | None = None
    transform: TransformInputSpec | None = None
    results: ResultsSpec | None = None
    targets: tuple[int, int, int, int] | None = None
    """The targets of records that pass expressions by: their numbers for each `TargetUse`."""


class ColumnCodecSpec(msgspec.Struct, frozen=True):
    """The codec of one column, by the type that a message declares for it."""

    name: bytes
    codec: ValueCodec
    first: int = 0
    """A number of the codec's: bits, most characters (-1: any), precision, microseconds in one."""
    second: int = 0
    """The scale of a decimal."""
    type_number: int = 0
    """The number of the type that values have then, as in `ColumnSpec`."""
    is_number: bool = False
    """True if values are texts that hold numbers."""


class MetadataSpec(msgspec.Struct, frozen=True):
    """A column about the record that a row came in."""

    name: bytes
    kind: MetadataKind
    type_number: int
    """The number of the column's type, as in `ColumnSpec`."""


class ExtraColumnsSpec(msgspec.Struct, frozen=True):
    """The columns that rows have beside those of their message's value."""

    metadata: tuple[MetadataSpec, ...]
    key: bool = False
    """True if the fields of the message's key are columns, the first ones."""
    key_is_primary: bool = False
    """True if they are the primary key as well, where the message does not say what that is."""
    key_fields: tuple[bytes, ...] = ()
    """Names of those fields of the key that are columns, in this order. None: all of them."""
    except_key: bool = False
    """True if a column that is in the key and in the value is the key's."""
    key_prefix: bytes = b""
    """The text before the names of the key's columns."""
    value_prefix: bytes = b""
    """The text before the names of the value's columns."""
    separator: str = " "
    """The character between a time stamp's date and time."""
    key_avro: AvroSpec | None = None
    """The readers of keys in Avro; None: keys are JSON."""
    as_text: bool = False
    """True if every value is a text in keys."""
