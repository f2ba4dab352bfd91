"""Documents for native code about messages: how those of a topic are read, and what columns rows have beside them.

In: options of formats, and the columns that messages declare. Out: documents of contract.py; None where the reference
reads the messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.model import temporal
from ingest.model.data_type import (
    ArrayType,
    BooleanType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    StructType,
)
from ingest.model.types import INTEGER_BITS, STRING
from ingest.native.codes import CsvKind, MessageForm, MetadataKind, ValueCodec
from ingest.native.contract import (
    AvroSpec,
    ColumnCodecSpec,
    CsvSpec,
    ExtraColumnsSpec,
    MessageSpec,
    MetadataSpec,
)
from ingest.native.specs import ENDLESS, number_of, plain_name, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.formats import Format
    from ingest.formats.form import AvroMessages, Form, Lines
    from ingest.formats.metadata_columns import ExtraColumns
    from ingest.formats.typed import TypedColumn
    from ingest.model.data_type import DataType


def message_spec(messages: Format, topic: str) -> MessageSpec:
    """Return how the messages of a topic are read. The format has a `form`."""
    form, inline_types = messages.form, getattr(messages, "inline_types", None)
    assert form is not None
    fields = tuple(text_of(name) for name in form.table_fields)
    member = None if inline_types is None else inline_types[0].encode()
    csv = None if form.lines is None else _csv_spec(form.lines, topic)
    values, keys = (None, None) if form.avro is None else _avro_specs(form.avro)
    code = MessageForm[f"FORM_{form.name.upper()}"]
    return MessageSpec(code, member, form.flatten, fields, csv, form.registered, form.knows_key, values, keys)


def _avro_specs(avro: AvroMessages) -> tuple[AvroSpec, AvroSpec | None]:
    """Return how values are read, and keys where those are such messages as well."""
    return AvroSpec(avro.head, avro.values), None if avro.keys is None else AvroSpec(avro.head, avro.keys)


def _csv_spec(lines: Lines, topic: str) -> CsvSpec | None:
    """Return how rows in CSV are read; None where the reference reads those of the topic."""
    columns = lines.columns((topic,))
    if columns is None or not all(map(plain_name, columns)):
        return None
    kinds = tuple((text_of(name), _csv_kind(data_type)) for name, data_type in columns.items())
    return CsvSpec(lines.delimiter.encode(), (lines.quote or "\0").encode(), kinds)


def _csv_kind(data_type: DataType | None) -> CsvKind:
    if isinstance(data_type, (FloatType, DoubleType, DecimalType)) or type(data_type) in INTEGER_BITS:
        return CsvKind.CSV_NUMBER
    if isinstance(data_type, BooleanType):
        return CsvKind.CSV_BOOLEAN
    return CsvKind.CSV_OTHER if isinstance(data_type, (ArrayType, MapType, StructType)) else CsvKind.CSV_TEXT


def inline_spec(columns: Mapping[str, TypedColumn], *, as_string: bool) -> tuple[ColumnCodecSpec, ...] | None:
    """Return what messages say of their columns' types.

    `as_string`: every column is a text, so that the message declares no value of another type.
    """
    if not columns or not all(plain_name(name) for name in columns):
        return None
    return tuple(
        ColumnCodecSpec(
            text_of(name),
            ValueCodec[f"CODEC_{how.name}"],
            min(first, ENDLESS),
            second,
            number,
            column.is_number,
        )
        for name, column in columns.items()
        for (how, first, second), number in ((column.reads, 0 if as_string else number_of(column.type)),)
    )


# -- Columns from keys and metadata ------------------------------------------------------------------------------------


def extra_columns_spec(extra: ExtraColumns) -> ExtraColumnsSpec:
    """Return what columns rows have beside those of their message's value."""
    metadata = tuple(
        MetadataSpec(text_of(name), MetadataKind[_metadata_kind(name, extra)], number_of(extra.type_of(name)))
        for name in extra.metadata
    )
    return ExtraColumnsSpec(
        metadata,
        key=extra.key,
        key_is_primary=extra.key_is_primary,
        key_fields=tuple(text_of(name) for name in extra.key_fields),
        except_key=extra.except_key,
        key_prefix=text_of(extra.key_prefix),
        value_prefix=text_of(extra.value_prefix),
        separator=" " if extra.standard == temporal.SQL else "T",
        key_avro=_key_avro(extra),
        as_text=extra.as_string,
    )


def reads_keys(extra: ExtraColumns) -> bool:
    """Return whether native code reads the columns of keys of a format that is not JSON."""
    return _key_avro(extra) is not None


def _key_avro(extra: ExtraColumns) -> AvroSpec | None:
    """Return how keys in Avro are read; None for those of other formats."""
    form: Form | None = getattr(extra.key_format, "form", None)
    return None if form is None or form.avro is None or form.name != "rows" else _avro_specs(form.avro)[0]


def _metadata_kind(name: str, extra: ExtraColumns) -> str:
    if name.startswith("__raw_") and extra.type_of(name) == STRING:
        return f"METADATA_{name.strip('_').removeprefix('raw_').upper()}_TEXT"
    if name == "op_ts":
        return "METADATA_TIMESTAMP"
    return f"METADATA_{name.strip('_').replace('-', '_').upper()}"
