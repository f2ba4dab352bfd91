"""What messages say again and again of types is kept, up to a limit in bytes; past it nothing is wrong."""

from __future__ import annotations

import gc
import json
import tracemalloc
from typing import Any

import msgspec
import pytest

from ingest.formats.canal import options as canal_options
from ingest.formats.canal.options import CanalJson
from ingest.formats.debezium import options as debezium_options
from ingest.formats.debezium.options import DebeziumJson
from ingest.formats.metadata_columns import ExtraColumns, MetadataColumns
from ingest.model import types
from ingest.model.cache import Cache
from ingest.model.change import Change, InlineSchema, Kind

MIB = 1 << 20


def grown(make: Any, count: int) -> int:
    """Bytes that are kept after so many calls."""
    gc.collect()
    tracemalloc.start()
    try:
        for i in range(count):
            make(i)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def envelope(number: int, size: int) -> bytes:
    """A Debezium message whose schema's text is a large one, and says what it does."""
    field = {"type": "int32", "field": "id"}
    schema = {"type": "struct", "x": f"{number:09}".rjust(size), "fields": [{"field": "after", "fields": [field]}]}
    payload = {"before": None, "after": {"id": number}, "source": {"db": "d", "table": "t"}, "op": "c"}
    return msgspec.json.encode({"schema": schema, "payload": payload})


def test_schemas_of_envelopes_take_no_more_than_their_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debezium_options, "_INLINE_SCHEMAS", Cache(10_000, 4 * MIB))
    decoder = DebeziumJson().decoder("t")

    def decode(i: int) -> None:
        (change,) = decoder.decode([None], [envelope(i, 500_000)])
        assert isinstance(change, tuple)
        assert bytes(change[3] or b"") == b'{"id":%d}' % i
        assert change[5] is not None
        assert change[5].types == {"id": types.INT}

    assert grown(decode, 40) < 6 * MIB
    large = decoder.decode([None], [envelope(1, 3 * MIB)] * 1)
    assert isinstance(large[0], tuple), "what is too large to keep is taken all the same"


def canal(number: int, size: int, table: str = "t") -> bytes:
    said = {"id": 4, "x" * size + str(number): 4}
    row = {"data": [{"id": "1"}], "database": "d", "table": table, "type": "INSERT", "sqlType": said, "pkNames": ["id"]}
    return msgspec.json.encode(row)


@pytest.mark.parametrize("tables", [1, 1000])
def test_types_of_canal_take_no_more_than_their_room(tables: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canal_options, "_INLINE_SCHEMAS", Cache(10_000, 4 * MIB))
    decoder = CanalJson.model_validate({"canal-json.infer-schema.strategy": "SQL_TYPE"}).decoder("t")

    def decode(i: int) -> None:
        (change,) = decoder.decode([None], [canal(i, 50_000, f"t{i % tables}")])
        assert isinstance(change, tuple)
        assert bytes(change[3] or b"") == b'{"id":1}'

    assert grown(decode, 200) < 12 * MIB


def test_what_a_message_says_of_types_does_not_keep_the_whole_message() -> None:
    decoder = CanalJson.model_validate({"canal-json.infer-schema.strategy": "SQL_TYPE"}).decoder("t")

    def decode(i: int) -> None:
        message = json.loads(canal(0, 1, f"t{i}"))
        message["data"] = [{"id": "1", "text": "x" * 200_000}]
        (change,) = decoder.decode([None], [msgspec.json.encode(message)])
        assert isinstance(change, tuple)

    assert grown(decode, 100) < 2 * MIB


def test_names_of_tables_are_not_kept() -> None:
    plain, rows = DebeziumJson().decoder("t"), CanalJson().decoder("t")

    def decode(i: int) -> None:
        name = f"{i}" + "x" * 400_000
        value: dict[str, Any] = {"op": "c", "after": {"id": 1}, "source": {"db": name, "table": name}}
        (change,) = plain.decode([None], [msgspec.json.encode(value)])
        assert isinstance(change, tuple)
        assert change[0] == (name, name)
        value = {"data": [{"id": "1"}], "database": name, "table": name, "type": "INSERT"}
        (change,) = rows.decode([None], [msgspec.json.encode(value)])
        assert isinstance(change, tuple)

    assert grown(decode, 150) < 2 * MIB


def test_columns_of_keys_are_not_kept() -> None:
    columns = MetadataColumns(ExtraColumns(key=True, key_is_primary=True))

    class Keyed:
        def __init__(self, text: bytes) -> None:
            self._text = text

        def key(self) -> bytes:
            return self._text

    def add(i: int) -> None:
        change = Change(("t",), Kind.INSERT, None, msgspec.Raw(b'{"a":1}'), None, None)
        name = b"k%d" % i + b"x" * 30_000
        (made,) = columns.add([change], [Keyed(b'{"%b":1}' % name)])  # type: ignore[list-item]
        assert isinstance(made, tuple)
        assert isinstance(made[5], InlineSchema)
        assert made[5].primary_key == (name.decode(),)

    assert grown(add, 300) < 1 * MIB
