"""Native code reads no further than bytes go, and keeps no more than it has room for."""

from __future__ import annotations

import base64
import ctypes
from typing import Any

import pytest

from ingest.model.record import METADATA
from ingest.native import native

pytestmark = pytest.mark.compiled
if native.BUILT:
    from native_tables import COLUMNS, FITTING, INT, ROW, ROWS, TEXT, Message, a_table, an_encoder, encode

    from ingest.native.codes import MessageForm, MetadataKind, ValueCodec
    from ingest.native.contract import ColumnCodecSpec, ColumnSpec, ExtraColumnsSpec, MessageSpec, MetadataSpec
    from ingest.native.extra_columns import RowExtender
    from ingest.native.message_schemas import RowCodec
    from ingest.native.native_encoder import NativeEncoder


class Raw(ctypes.Structure):
    """RawRecord of ingest/native/records.pxd."""

    _fields_ = (
        ("key", ctypes.c_void_p), ("value", ctypes.c_void_p), ("key_size", ctypes.c_size_t),
        ("value_size", ctypes.c_size_t), ("offset", ctypes.c_int64), ("metadata", ctypes.c_void_p),
    )  # fmt: skip


class Raws(ctypes.Structure):
    """RawRecords of it."""

    _fields_ = (("records", ctypes.POINTER(Raw)), ("count", ctypes.c_ssize_t))


class Bare:
    """Records whose bytes have nothing behind them: `make sanitize` sees what is read there."""

    def __init__(self, values: list[bytes], key: bytes | None = None) -> None:
        """`key`: that of all records; None: each has its value as its key."""
        self._kept = [(ctypes.c_char * len(value)).from_buffer_copy(value) for value in values]
        self._key = None if key is None else (ctypes.c_char * len(key)).from_buffer_copy(key)
        self._records = (Raw * len(values))()
        for record, kept in zip(self._records, self._kept, strict=True):
            key_kept = kept if self._key is None else self._key
            record.key, record.value = ctypes.addressof(key_kept), ctypes.addressof(kept)
            record.key_size, record.value_size = len(key_kept), len(kept)
        self._whole = Raws(self._records, len(values))

    @property
    def raw(self) -> object:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self._whole), NAME, None)


NAME = b"ingest.model.raw.records"
ALL_KINDS = (
    '{"id":-12345678,"a":"\\u00e9\\ud83d\\ude00 long enough for all ways é","b":[1.5e-7,{"x":null}],"c":true,"d":"'
    '2020-01-31 12:13:14.5","e":null}'
)  # fmt: skip
PAYLOAD = f'{{"before":{ALL_KINDS},"after":{ALL_KINDS},"source":{{"v":1,"db":"d","schema":null,"table":"t"}},"op":"u"}}'
WHOLE = {
    "ROWS": ALL_KINDS,
    "DEBEZIUM": f'{{"schema":{{"fields":[]}},"payload":{PAYLOAD}}}',
    "CANAL": f'{{"data":[{ALL_KINDS}],"database":"d","isDdl":false,"old":[{{"a":"x"}}],"pkNames":["id"],"table":"t",'
    '"type":"UPDATE"}',
    "CANAL of rows": f'{{"data":[{ALL_KINDS},{ALL_KINDS}],"old":[null,{{"a":"x"}}],"table":"t","type":"UPDATE"}}',
    "ROWS with objects": '{"id":1,"o":{"a":"x","p":{"q":[1.5,{}],"r":{}}},"s":"2020-01-31"}',
}


@pytest.mark.parametrize("form", WHOLE)
def test_messages_that_end_anywhere_are_read_no_further(form: str) -> None:
    name, _, more = form.partition(" ")
    columns: tuple[Any, ...] = FITTING
    if more == "with objects":
        columns = tuple(ColumnSpec(name, TEXT) for name in (b"id", b"o.a", b"o.p.q", b"o.p.r", b"s"))
    places = tuple(range(len(columns)))
    table = a_table(columns=columns, sink_order=places, source_columns=len(columns))
    schema = RowCodec((ColumnCodecSpec(b"id", ValueCodec.CODEC_INT, 32),))
    options = {"flatten": True, "table_fields": (b"o.a", b"id")} if more == "with objects" else {}
    encoder = an_encoder(lambda _: table, form=MessageForm[f"FORM_{name}"], read=lambda _: schema, **options)
    text = WHOLE[form].encode()
    out: list[Any] = []
    for end in range(1, len(text)):
        for some in (text[:end], b" " * 40 + text[:end]):
            records: Any = Bare([some])
            assert encode(encoder, records, out) == 0
    assert not out
    whole: Any = Bare([text, text])
    assert encode(encoder, whole, out) == 2
    assert len(out) == (4 if more == "of rows" else 2)


def test_ids_have_no_more_fields_than_parts() -> None:
    with pytest.raises(ValueError, match="more parts"):
        an_encoder(lambda _: None, table_fields=(b"a", b"b", b"c", b"d"))
    with pytest.raises(TypeError, match="bytes"):
        an_encoder(lambda _: None, table_fields=("a",))


def test_reasons_are_kept_of_few_tables() -> None:
    """Messages may name any table; the encoders of others are not lost by that."""
    asked: list[bytes] = []

    def find(name: bytes) -> Any:
        asked.append(name)
        return "why" if name.startswith(b"n") else a_table()

    encoder = an_encoder(find, table_fields=(b"a",))
    rows = [Message(b'{"id":1,"a":"%b"}' % name) for name in (b"t", *(b"n%d" % i for i in range(10_001)), b"t", b"n1")]
    out: list[Any] = []
    done = 0
    while done < len(rows):
        batch, done = encoder.encode(rows, done)
        out += batch
    assert len(out) == 2
    skips = encoder.skipped()
    assert skips == [(i, "why") for i in (*range(1, 10_002), 10_003)]
    assert len(asked) == 10_002 + 2, "all is asked for again, once there is too much"


def some_extra(*, metadata: Any = (("__raw_key__", "RAW_KEY"),), **other: Any) -> Any:
    specs = tuple(MetadataSpec(name.encode(), MetadataKind[f"METADATA_{kind}"], 0) for name, kind in metadata)
    return RowExtender(ExtraColumnsSpec(specs, **other))


def test_keys_that_end_anywhere_are_read_no_further() -> None:
    names = (b"k_id", b"k_a", b"v_id", b"v_a", b"__raw_key__")
    columns = tuple(ColumnSpec(name, INT if name.endswith(b"id") else TEXT) for name in names)
    table = a_table(columns=columns, sink_order=(0, 1, 2, 3, 4), source_columns=5)
    extra = some_extra(key=True, key_prefix=b"k_", value_prefix=b"v_")
    encoder = NativeEncoder(MessageSpec(ROWS), lambda _: table, lambda _: None, extra)
    for key in (ROW, b'{"schema":{},"payload":%b}' % ROW):
        out: list[Any] = []
        for end in range(1, len(key)):
            for some in (key[:end], b" " * 40 + key[:end]):
                records: Any = Bare([ROW], some)
                assert encode(encoder, records, out) == 0
        assert not out
        whole: Any = Bare([ROW, b'{ "id": 1 }'], key)
        if key is not ROW:  # the reference reads columns of keys by the schema of their envelope
            assert encode(encoder, whole, out) == 0
            continue
        assert encode(encoder, whole, out) == 2
        raw = base64.b64encode(key)
        assert out[0][2] == b'{"k_id":1,"k_a":"x","v_id":1,"v_a":"x","__raw_key__":"%b"}' % raw


def test_columns_about_records_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="there is not"):
        some_extra(metadata=[("all", "KINDS")])
    with pytest.raises(ValueError, match="more columns"):
        some_extra(metadata=[(str(i), "OFFSET") for i in range(17)])
    with pytest.raises(TypeError, match="bytes"):
        some_extra(key_prefix="k_")


def test_records_without_what_is_asked_of_them_are_left() -> None:
    table = a_table(columns=(*COLUMNS, ColumnSpec(b"offset", INT)), sink_order=(0, 1, 2), source_columns=3)
    extra = some_extra(metadata=[("offset", "OFFSET")])
    encoder = NativeEncoder(MessageSpec(ROWS), lambda _: table, lambda _: None, extra)
    records: Any = Bare([ROW])
    assert encode(encoder, records, []) == 0


def test_every_column_about_a_record_has_a_kind() -> None:
    names = [f"METADATA_{name.strip('_').replace('-', '_').upper()}" for name in METADATA]
    texts = ["METADATA_KEY_TEXT", "METADATA_VALUE_TEXT"]
    assert [*names, *texts, "METADATA_KINDS"] == [*MetadataKind.__members__]


def test_every_way_of_reading_values_has_a_codec() -> None:
    from ingest.formats.typed import Reads

    assert {f"CODEC_{name}" for name in Reads.__members__} == set(ValueCodec.__members__)
