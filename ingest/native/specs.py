"""Documents for native code: about tables, transforms and messages, and the columns that rows have beside theirs.

In: encoders of the reference, options of formats, and the columns that messages declare. Out: documents of contract.py;
None where the native code cannot do what is asked, which the reference does then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from ingest.encode.change_encoder import ChangeEncoder, RecordTemplate, TypedKey
from ingest.encode.compiled_transform import EVENT, ResultMerger
from ingest.encode.upsert_encoder import UpsertEncoder
from ingest.formats.template import ColumnRef, ImageRef, Segments, ValueTemplate, json_cells
from ingest.model import temporal
from ingest.model.numbers import FLOATS, Numbers
from ingest.model.types import (
    INTEGER_BITS,
    STRING,
    TIMES,
    ArrayType,
    BinaryType,
    BooleanType,
    CharType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    NullType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VarcharType,
    is_text,
)
from ingest.native.codes import ColumnKind, CsvKind, MessageForm, MetadataKind, SegmentKind, Spelling, ValueCodec
from ingest.native.contract import (
    AvroSpec,
    ColumnCodecSpec,
    ColumnSpec,
    CsvSpec,
    ExtraColumnsSpec,
    KeySpec,
    MessageSpec,
    MetadataSpec,
    ResultSpec,
    ResultsSpec,
    RowEncoderSpec,
    SegmentSpec,
    SlotSpec,
    TemplateSpec,
    TransformInputSpec,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ingest.encode.transform_input import TransformInputEncoder
    from ingest.formats import Format
    from ingest.formats.form import AvroMessages, Form, Lines
    from ingest.formats.metadata_columns import ExtraColumns
    from ingest.formats.typed import TypedColumn
    from ingest.model.schema import Column
    from ingest.model.types import DataType

    AnyEncoder = UpsertEncoder | ChangeEncoder | TransformInputEncoder

_MAX_KEYS: Final = 16
_MAX_TYPES: Final = 10_000
_MAX_RESULTS: Final = 1000
ENDLESS: Final = 1 << 40
"""More characters than any text has: messages may declare a VARCHAR of any length."""


def plain_name(name: str) -> bool:
    """Return whether a name stands in JSON as it is, without escapes, as native code compares it."""
    return '"' not in name and "\\" not in name and all(c >= " " for c in name)


# -- Tables ------------------------------------------------------------------------------------------------------------


def table_spec(encoder: UpsertEncoder | ChangeEncoder) -> RowEncoderSpec | None:
    """Return how rows of an encoder are checked and written, without what its records are put together of."""
    source, sink = encoder.source, encoder.sink
    sink_columns = {column.name: column for column in sink.columns}
    names, own = _names(encoder), len(source.columns)
    places = {name: i for i, name in enumerate(names)}
    if len(sink.primary_key) > _MAX_KEYS or len(names) != len(sink.columns):
        return None
    if not all(plain_name(column.name) for column in source.columns):
        return None
    if not encoder.bare_numbers.isdisjoint(sink.primary_key):
        return None  # rare: a decimal of the key has grown past 38 digits
    none = frozenset[str]()
    coarse, typed = (encoder.coarse, encoder.typed_key) if isinstance(encoder, UpsertEncoder) else (none, none)
    columns = [
        _column(
            c.name,
            c.type,
            sink_columns[c.name],
            encoder,
            declared=c.name in encoder.declared,
            fine=c.name not in coarse,
            coarse=c.name in coarse or c.name in typed,
        )
        for c in source.columns
    ]
    columns += [ColumnSpec(text_of(name), ColumnKind.COLUMN_OTHER, _fill(name)) for name in names[own:]]
    apart = isinstance(encoder, UpsertEncoder) and encoder.deletes_are_rows
    places_of_key = tuple(places[name] for name in sink.primary_key)
    key = KeySpec(places_of_key, encoder.key_from_message, encoder.strings_in_keys, apart)
    return RowEncoderSpec(tuple(columns), own, tuple(places[column.name] for column in sink.columns), key)


def _names(encoder: UpsertEncoder | ChangeEncoder) -> list[str]:
    """Return the columns in the order of their places: the source's, then those that only the sink has."""
    return [*dict.fromkeys(column.name for side in (encoder.source, encoder.sink) for column in side.columns)]


def text_of(name: str) -> bytes:
    """Return a name as JSON has it between its quotes."""
    return msgspec.json.encode(name)[1:-1]


def _fill(name: str) -> bytes:
    return b",%b:null" % msgspec.json.encode(name)


def _column(
    name: str, before: DataType, sink: Column, encoder: AnyEncoder, *, declared: bool, fine: bool, coarse: bool = False
) -> ColumnSpec:
    """Return what a column takes, of a type in the source and one in the sink."""
    after, kept = sink.type, sink.number_type
    spelling = Spelling.SPELLING_USUAL
    if declared:
        spelling = Spelling.SPELLING_FINE if fine else Spelling.SPELLING_ANY
    kind, more = _kind(before, after, encoder.standard)
    if isinstance(kept, FLOATS) and encoder.numbers is not Numbers.TEXTS:
        kind, more = _kind_of_number(before, kept, kind, more, encoder.numbers)
        coarse = True
    number = number_of(before) if before == after else 0
    more |= {"as_text": is_text(after), "coarse": coarse, "type_number": number, "spelling": spelling}
    return ColumnSpec(text_of(name), kind, _fill(name), **more)


def _kind(before: DataType, after: DataType, standard: str) -> tuple[ColumnKind, dict[str, Any]]:
    """Return the kind by which native code handles a column, and the fields of its `ColumnSpec` that the kind needs."""
    kind, column_kind = type(before), ColumnKind.COLUMN_OTHER
    more: dict[str, Any] = {}
    if kind is NullType:
        column_kind = ColumnKind.COLUMN_NULL
    elif kind is BooleanType:
        column_kind = ColumnKind.COLUMN_BOOL
    elif kind in INTEGER_BITS:
        column_kind, more = ColumnKind.COLUMN_INT, {"bits": INTEGER_BITS[kind]}
    elif kind in {FloatType, DoubleType}:
        column_kind = ColumnKind.COLUMN_DOUBLE
    elif kind is StringType:
        column_kind = ColumnKind.COLUMN_TEXT
    elif isinstance(before, (CharType, VarcharType)):
        column_kind, more = ColumnKind.COLUMN_TEXT, {"characters": min(before.length, ENDLESS)}
    elif isinstance(before, DecimalType):
        column_kind, more = ColumnKind.COLUMN_DECIMAL, {"precision": before.precision, "scale": before.scale}
    elif kind in {TimestampNTZType, TimestampType} and (not isinstance(after, TIMES) or after == before):
        column_kind = ColumnKind.COLUMN_TIMESTAMP
        more = {"separator": " " if standard == temporal.SQL else "T", "zoned": kind is TimestampType}
    elif kind is DateType and (not isinstance(after, TIMES) or after == before):
        column_kind = ColumnKind.COLUMN_DATE
    elif kind is TimeType and (is_text(after) or after == before):
        column_kind = ColumnKind.COLUMN_TIME
    elif kind is BinaryType and (is_text(after) or after == before):
        column_kind = ColumnKind.COLUMN_BYTES
    return column_kind, more


def _kind_of_number(
    before: DataType, kept: DataType, kind: ColumnKind, more: dict[str, Any], numbers: Numbers
) -> tuple[ColumnKind, dict[str, Any]]:
    """Return the kind of a column whose values become binary numbers: it takes those that plainly are one."""
    single = isinstance(kept, FloatType)
    if isinstance(before, FLOATS) and (numbers is not Numbers.COMPUTED or (single and before != kept)):
        kind = ColumnKind.COLUMN_EXACT_FLOAT if single else ColumnKind.COLUMN_EXACT_DOUBLE
    elif kind == ColumnKind.COLUMN_INT:
        more = {"bits": min(more["bits"], 25 if single else 54)}
    elif kind == ColumnKind.COLUMN_DECIMAL:  # rare: a table has the pipeline's DECIMAL as a binary number
        kind, more = ColumnKind.COLUMN_OTHER, {}
    return kind, more


_numbers: dict[DataType, int] = {}


def number_of(data_type: DataType) -> int:
    """Return a number for each type, the same for equal ones; 0 where there are too many: messages may declare any.

    0 as well for what is no type of values: they have to be looked at.
    """
    if isinstance(data_type, NullType):
        return 0
    if len(_numbers) < _MAX_TYPES:
        return _numbers.setdefault(data_type, len(_numbers) + 1)
    return _numbers.get(data_type, 0)


# -- Templates ---------------------------------------------------------------------------------------------------------


def template_spec(encoder: ChangeEncoder, template: RecordTemplate) -> TemplateSpec | None:
    """Return what the records of an encoder are put together of; None for pieces that native code does not have."""
    key, source_names = encoder.sink.primary_key, {column.name for column in encoder.source.columns}
    if not isinstance(template.value, ValueTemplate) or any(name not in source_names for name in key):
        return None
    if encoder.metadata is not None or isinstance(template.key, TypedKey):
        return None
    cells = [piece for piece in template.key or () if isinstance(piece, ColumnRef)]
    value = template.value
    pieces = (*(template.key or ()), *value.insert, *value.update, *value.alone, *(value.delete or ()))
    if any(isinstance(piece, ColumnRef) and piece.write is not None for piece in pieces):
        return None
    if template.moves and cells and len(cells) < len(key):
        return None  # native code compares whole primary keys
    if any(cell.name not in key for cell in cells) or not all(plain_name(c.name) for c in encoder.sink.columns):
        return None
    if ImageRef.BEFORE in (*value.insert, *value.alone):
        return None
    if any(not isinstance(piece, bytes) and piece is not ImageRef.BEFORE for piece in value.delete or ()):
        return None
    places = {name: i for i, name in enumerate(_names(encoder))}
    names = [column.name for column in encoder.sink.columns]
    return TemplateSpec(
        key=None if template.key is None else _segments(template.key, {name: i for i, name in enumerate(key)}, ()),
        insert=_segments(value.insert, places, names),
        update=_segments(value.update, places, names),
        update_alone=_segments(value.alone, places, names),
        delete=None if value.delete is None else _segments(value.delete, places, ()),
        clears_old_key=template.moves,
        splits=template.splits,
    )


def _segments(pieces: Segments, places: Mapping[str, int], row: Sequence[str]) -> tuple[SegmentSpec, ...]:
    """Return pieces as segments; `row`: the columns of a row after a change."""
    segments: list[SegmentSpec] = []
    for piece in pieces:
        if isinstance(piece, bytes):
            segments.append(SegmentSpec(SegmentKind.SEGMENT_TEXT, piece))
        elif isinstance(piece, ColumnRef):
            kind = SegmentKind.SEGMENT_CSV if piece.csv else SegmentKind.SEGMENT_JSON
            segments.append(SegmentSpec(kind, column=places[piece.name]))
        elif piece is ImageRef.BEFORE:
            segments.append(SegmentSpec(SegmentKind.SEGMENT_BEFORE))
        else:
            segments += _segments(json_cells((name, ColumnRef(name)) for name in row), places, ())
    return tuple(segments)


# -- Transforms --------------------------------------------------------------------------------------------------------


def transform_input_spec(encoder: TransformInputEncoder) -> RowEncoderSpec | None:
    """Return how the rows of a table go to expressions."""
    columns, key = encoder.source.schema.columns, encoder.source.schema.primary_key
    ours = {name: place for name, place in encoder.ours if name not in encoder.constants}
    if ours.keys() - {EVENT} or not all(plain_name(column.name) for column in columns):
        return None
    places = {column.name: i for i, column in enumerate(columns)}
    if len(key) > _MAX_KEYS or any(name not in places for name in key):
        return None
    if not encoder.bare_numbers.isdisjoint(encoder.key_columns):
        return None  # as above
    # Values of the result's key keep the text that they came as, so that other spellings of them are a fallback
    spelled = encoder.declared.difference(encoder.key_columns)
    result_columns = tuple(_column(c.name, c.type, c, encoder, declared=c.name in spelled, fine=False) for c in columns)
    constants: list[str | None] = [None] * encoder.slots
    for name, place in encoder.ours:
        constants[place] = encoder.constants.get(name)
    transform = TransformInputSpec(
        encoder.transform.number,
        inputs=_slots(encoder.inputs, places),
        constants=tuple(constants),
        event=ours.get(EVENT, -1),
        decisive=tuple(places[name] for name in encoder.decisive),
        key=tuple(places[name] for name in encoder.key),
        inserts_alone=encoder.upserts,
        always_before=encoder.images,
        before=_slots(encoder.was, places),
    )
    order, from_message = tuple(range(len(columns))), encoder.source.key_from_message
    key_spec = KeySpec(tuple(places[name] for name in key), from_message)
    return RowEncoderSpec(result_columns, len(columns), order, key_spec, transform=transform)


def _slots(inputs: Iterable[tuple[str, str, int]], places: Mapping[str, int]) -> tuple[SlotSpec, ...]:
    return tuple(SlotSpec(places[name], slot, kind) for name, kind, slot in inputs)


def results_spec(merger: ResultMerger) -> ResultsSpec | None:
    """Return how rows are made of the results of a transform."""
    if len(merger.transform.outputs) > _MAX_RESULTS:
        return None
    filter_at, was_at, changeable, soft_delete, key_made, names, places, kinds, writers, columns = merger.native_form()
    results = zip(names, places, kinds.decode(), writers, strict=True)
    return ResultsSpec(
        tuple(ResultSpec(name, place, kind, write) for name, place, kind, write in results),
        columns,
        filter_at,
        was_at,
        changeable=changeable,
        soft_delete=soft_delete,
        makes_key=key_made,
    )


# -- Messages ----------------------------------------------------------------------------------------------------------


def message_spec(messages: Format, topic: str) -> MessageSpec:
    """Return how the messages of a topic are read. The format has a `form`."""
    form, inline_types = messages.form, messages.inline_types
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
            text_of(name), ValueCodec[f"CODEC_{how.name}"], min(first, ENDLESS), second, number, column.is_number
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
    form: Form | None = None if extra.key_format is None else extra.key_format.form
    return None if form is None or form.avro is None or form.name != "rows" else _avro_specs(form.avro)[0]


def _metadata_kind(name: str, extra: ExtraColumns) -> str:
    if name.startswith("__raw_") and extra.type_of(name) == STRING:
        return f"METADATA_{name.strip('_').removeprefix('raw_').upper()}_TEXT"
    if name == "op_ts":
        return "METADATA_TIMESTAMP"
    return f"METADATA_{name.strip('_').replace('-', '_').upper()}"
