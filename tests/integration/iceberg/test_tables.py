"""Tables of a lake, read by DuckDB: types, those that widen, names, and what a run may not change."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from lake_sink import LakeSink, lake_schema
from lake_types import expected, stored
from lake_values import HOSTILE, VALUES
from pydantic import ValidationError
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField, StringType, UUIDType

from ingest.errors import ConfigError, SchemaChangeRefused
from ingest.model import types
from ingest.model.commit import RowsRefused
from ingest.model.reject import RowError
from ingest.model.schema import Column, TableSchema
from ingest.sinks.iceberg.options import IcebergSink
from ingest.sinks.iceberg.tables import iceberg_type, our_type
from ingest.sinks.lake.table import folder_of, table_of

if TYPE_CHECKING:
    from pathlib import Path

TABLE = ("shop", "t")


def test_each_type_takes_its_values_and_gives_them_back(sink: LakeSink) -> None:
    kinds = list(VALUES)
    schema = lake_schema("id INT", *(f"c{at} {kind}" for at, kind in enumerate(kinds)))
    sink.side.declare({TABLE: schema})
    most = max(map(len, VALUES.values()))
    rows = []
    for number in range(most + 1):
        found = [VALUES[kind][number] if number < len(VALUES[kind]) else "null" for kind in kinds]
        fields = ",".join(f'"c{at}":{text}' for at, text in enumerate(found))
        rows.append((f'{{"id":{number}}}', f'{{"id":{number},{fields}}}'))
    sink.write(TABLE, schema, *rows)
    for at, kind in enumerate(kinds):
        there = sink.lake.ask(f"SELECT c{at} FROM {{}} WHERE c{at} IS NOT NULL ORDER BY id", *TABLE)
        assert [value for (value,) in there] == [expected(kind, kind, text, "iceberg") for text in VALUES[kind]], kind


def test_states_of_a_key_become_its_last_one(sink: LakeSink) -> None:
    schema = lake_schema("id BIGINT", "n INT")
    sink.side.declare({TABLE: schema})
    sink.write(
        TABLE, schema,
        ('{"id":1}', '{"id":1,"n":1}'), ('{"id":2}', '{"id":2,"n":1}'), ('{"id":1}', None), ('{"id":3}', None),
        ('{"id":1}', '{"id":1,"n":2}'), ('{"id":2}', None),
    )  # fmt: skip
    assert sink.lake.rows(*TABLE) == [(1, 2)]
    sink.write(TABLE, schema, ('{"id":1}', '{"id":1,"n":3}'), ('{"id":4}', '{"id":4}'), ('{"id":9}', None))
    assert sink.lake.rows(*TABLE) == [(1, 3), (4, None)]
    sink.write(TABLE, schema, ('{"id":1}', None), ('{"id":4}', None))
    assert sink.lake.rows(*TABLE) == []
    leftover = [path.name for path in sink.lake.folder.rglob("*-keys.parquet")]
    assert leftover == [], "files of keys are removed"


@pytest.mark.parametrize("kind", ["INT", "BIGINT", "STRING", "BYTES", "DATE", "TIMESTAMP", "DECIMAL(5,2)", "DOUBLE",
                                  "BOOLEAN", "TIME(6)", "FLOAT", "TIMESTAMP_LTZ"])  # fmt: skip
@pytest.mark.parametrize("both", [False, True])
def test_rows_are_found_by_keys_of_each_type(sink: LakeSink, kind: str, both: bool) -> None:
    """Rows of several files are superseded, by a key of one column and of two."""
    columns = (
        Column("k", types.parse(kind), nullable=False), Column("n", types.INT),
        *([Column("other", types.STRING, nullable=False)] if both else []),
    )  # fmt: skip
    schema = TableSchema(columns, ("k", "other") if both else ("k",))
    sink.side.declare({TABLE: schema})
    texts = VALUES[kind]
    for number in range(3):
        rows = []
        for other in ("a", "b") if both else ("",):
            more = f',"other":"{other}"' if both else ""
            rows += [(f'{{"k":{text}{more}}}', f'{{"k":{text},"n":{number}{more}}}') for text in texts]
        sink.write(TABLE, schema, *rows)
    assert sink.lake.rows(*TABLE, columns="n") == [(2,)] * len(texts) * (2 if both else 1)
    sink.write(TABLE, schema, (f'{{"k":{texts[0]}{more}}}', None))
    assert len(sink.lake.rows(*TABLE)) == len(texts) * (2 if both else 1) - 1


def test_a_key_that_becomes_text_is_still_the_key(sink: LakeSink) -> None:
    number, text = lake_schema("id BIGINT", "n INT"), lake_schema("id STRING", "n INT")
    sink.side.declare({TABLE: number})
    sink.write(TABLE, number, ('{"id":41}', '{"id":41,"n":1}'), ('{"id":42}', '{"id":42,"n":1}'))
    sink.side.declare({TABLE: text})
    sink.write(TABLE, text, ('{"id":41}', '{"id":41,"n":2}'), ('{"id":"x"}', '{"id":"x","n":2}'), ('{"id":42}', None))
    assert sink.lake.rows(*TABLE) == [("41", 2), ("x", 2)]
    schema = sink.lake.table(*TABLE).schema()
    assert [schema.find_field(number).name for number in schema.identifier_field_ids] == ["id"]
    assert [one.name for one in schema.fields] == ["id", "n"]


@pytest.mark.parametrize(("kind", "number"), [
    ("DECIMAL(5,2)", "1.5"), ("DECIMAL(5,2)", "0"), ("DECIMAL(20,0)", "18446744073709551615"), ("DOUBLE", "1"),
    ("DOUBLE", "1e300"), ("DOUBLE", "0.00000015"), ("FLOAT", "0.1"),
])  # fmt: skip
def test_a_key_of_numbers_that_becomes_text_has_the_texts_of_keys(sink: LakeSink, kind: str, number: str) -> None:
    before, after = lake_schema(f"id {kind}", "n INT"), lake_schema("id STRING", "n INT")
    sink.side.declare({TABLE: before})
    sink.write(TABLE, before, (f'{{"id":{number}}}', f'{{"id":{number},"n":1}}'), ('{"id":42}', '{"id":42,"n":1}'))
    sink.side.declare({TABLE: after})
    sink.write(TABLE, after, (f'{{"id":{number}}}', f'{{"id":"{number}","n":2}}'), ('{"id":42}', None))
    assert sink.lake.rows(*TABLE) == [(number, 2)]


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize(("narrow", "wide"), [
    ("BIGINT", "DOUBLE"), ("INT", "BIGINT"), ("FLOAT", "DOUBLE"), ("DATE", "TIMESTAMP"), ("INT", "DECIMAL(12,2)"),
    ("BOOLEAN", "STRING"), ("DOUBLE", "STRING"), ("DECIMAL(5,2)", "DECIMAL(9,2)"), ("TIMESTAMP", "TIMESTAMP_LTZ"),
])  # fmt: skip
def test_a_key_becomes_wider_and_rows_are_found_by_it(sink: LakeSink, narrow: str, wide: str, both: bool) -> None:
    def keyed(kind: str) -> TableSchema:
        more = (Column("other", types.INT, nullable=False),) if both else ()
        key = ("k", "other") if both else ("k",)
        return TableSchema((Column("k", types.parse(kind), nullable=False), *more, Column("n", types.INT)), key)

    more = ',"other":1' if both else ""
    first = VALUES[narrow][0]
    sink.side.declare({TABLE: keyed(narrow)})
    sink.write(TABLE, keyed(narrow), (f'{{"k":{first}{more}}}', f'{{"k":{first}{more},"n":1}}'))
    sink.side.declare({TABLE: keyed(wide)})
    again = first if narrow not in {"BOOLEAN", "DOUBLE"} else f'"{first}"'
    if (narrow, wide) == ("DATE", "TIMESTAMP"):
        again = '"2020-01-31 00:00:00"'
    if wide == "TIMESTAMP_LTZ":
        again = first[:-1] + 'Z"'
    sink.write(TABLE, keyed(wide), (f'{{"k":{again}{more}}}', f'{{"k":{again}{more},"n":2}}'))
    assert sink.lake.rows(*TABLE, columns="n") == [(2,)]
    sink.write(TABLE, keyed(wide), (f'{{"k":{again}{more}}}', None))
    assert sink.lake.rows(*TABLE) == []


def test_columns_of_a_table_that_is_there_may_be_wider(sink: LakeSink) -> None:
    wide, narrow = lake_schema("id BIGINT", "n STRING", "more INT"), lake_schema("id INT", "n BIGINT")
    sink.side.declare({TABLE: wide})
    sink.write(TABLE, wide, ('{"id":1}', '{"id":1,"n":"x","more":1}'))
    assert sink.side.undeclared({TABLE: narrow}) == set()
    sink.side.declare({TABLE: narrow})
    sink.write(TABLE, narrow, ('{"id":2}', '{"id":2,"n":5}'))
    assert sink.lake.rows(*TABLE) == [(1, "x", 1), (2, "5", None)]


@pytest.mark.parametrize(("fields", "version", "why"), [
    ([NestedField(1, "id", IntegerType(), required=True), NestedField(2, "n", UUIDType())], "2", "'n' is uuid"),
    ([NestedField(1, "id", IntegerType()), NestedField(2, "x", StringType(), required=True)], "2", "'x' is required"),
    ([NestedField(1, "id", IntegerType())], "1", "version 1"),
    ([NestedField(1, "id", IntegerType())], "code", "names code"),
])  # fmt: skip
def test_a_table_that_cannot_take_the_rows_is_refused(
    sink: LakeSink, fields: list[NestedField], version: str, why: str
) -> None:
    sink.lake.catalog.create_namespace("shop")
    code = (
        {"write.py-location-provider.impl": "pyiceberg.table.locations.SimpleLocationProvider"}
        if version == "code"
        else {"format-version": version}
    )
    sink.lake.catalog.create_table(TABLE, Schema(*fields), properties=code)
    with pytest.raises(SchemaChangeRefused) as refused:
        sink.side.declare({TABLE: lake_schema("id INT", "n INT")})
    assert why in refused.value.message


def test_nothing_is_made_before_the_first_table(tmp_path: Path) -> None:
    sink = LakeSink(tmp_path / "lake")
    assert len(sink.side.undeclared({TABLE: lake_schema("id INT", "n INT")})) == 1
    assert not (tmp_path / "lake").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written to"):
        LakeSink(tmp_path / "file" / "lake")


def test_two_tables_of_one_place_are_refused(sink: LakeSink) -> None:
    with pytest.raises(SchemaChangeRefused, match="would be one table there"):
        sink.side.declare({("t",): lake_schema("id INT"), ("default", "t"): lake_schema("id INT")})


def test_rows_that_do_not_fit_are_refused(sink: LakeSink) -> None:
    schema = lake_schema("id INT", "at TIMESTAMP")
    sink.side.declare({TABLE: schema})
    with pytest.raises(RowsRefused) as refused:
        sink.write(TABLE, schema, ('{"id":6}', '{"id":6}'), ('{"id":7}', '{"id":7,"at":"12000-01-01 00:00:00"}'))
    assert '{"id":7}' in refused.value.message
    assert "'at'" in refused.value.message
    (row,) = refused.value.rows
    assert (str(row.destination), row.key) == ("shop.t", b'{"id":7}')


def test_times_that_are_cut_are_said_once(sink: LakeSink) -> None:
    schema = lake_schema("id INT", "at TIMESTAMP")
    sink.side.declare({TABLE: schema})
    for number in range(2):
        row = f'{{"id":{number},"at":"2020-01-01 00:00:00.1234567"}}'
        sink.write(TABLE, schema, (f'{{"id":{number}}}', row))
    assert len(sink.warnings) == 1
    assert "1 times were cut" in sink.warnings[0]


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_are_names(sink: LakeSink, text: str) -> None:
    column = TableSchema((Column("id", types.INT, nullable=False), Column(text, types.BYTES)), ("id",))
    keyed = TableSchema((Column(text, types.INT, nullable=False),), (text,))
    spaced = (text.replace(".", "") or "x", "t")
    sink.side.declare({TABLE: column, ("shop", text): keyed, spaced: keyed})
    said = json.dumps(text)
    for number in range(2):
        sink.write(TABLE, column, ('{"id":1}', f'{{"id":1,{said}:"AP8="}}'))
        sink.write(("shop", text), keyed, *((f"{{{said}:{n}}}", f"{{{said}:{n}}}") for n in (number, 7)))
        sink.write(spaced, keyed, (f"{{{said}:7}}", f"{{{said}:7}}"))
    assert sink.lake.rows(*TABLE) == [(1, b"\x00\xff")]
    assert sink.lake.rows("shop", text) == [(0,), (1,), (7,)]
    assert sink.lake.rows(*spaced) == [(7,)]
    assert [one.name for one in sink.lake.table("shop", text).schema().fields] == [text]
    outside = [path for path in sink.lake.folder.parent.rglob("*.parquet") if sink.lake.folder not in path.parents]
    assert outside == []


def test_names_that_differ_by_a_character_are_two_columns(sink: LakeSink) -> None:
    names = ["a.b", "a_x2Eb", "a", "a b", "a_b", "A", "0", "_0"]
    schema = lake_schema("id INT", *(f"c{at} INT" for at in range(len(names))))
    columns = (schema.columns[0], *(Column(name, types.INT) for name in names))
    schema = TableSchema(columns, ("id",))
    sink.side.declare({TABLE: schema})
    for number in range(2):
        fields = ",".join(f'"{name}":{at + number}' for at, name in enumerate(names))
        sink.write(TABLE, schema, ('{"id":1}', f'{{"id":1,{fields}}}'))
    (row,) = sink.lake.table(*TABLE).scan().to_arrow().to_pylist()
    assert row == {"id": 1, **{name: at + 1 for at, name in enumerate(names)}}


@pytest.mark.parametrize(("given", "why"), [
    ({"warehouse": ""}, "is missing"), ({"warehouse": "s3://bucket/x"}, "is no directory"),
    ({"type": "sql", "warehouse": "x"}, "needs catalog.properties.uri"), ({"type": "odd"}, "is none of"),
    ({"type": "sql", "uri": "mysql://x"}, "no database that can hold a catalog"),
    ({"warehouse": "x", "py-io-impl": "os"}, "names code"), ({"warehouse": "x", "py-catalog-impl": "os"}, "names code"),
])  # fmt: skip
def test_catalogs_that_cannot_be_are_refused(given: dict[str, str], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        IcebergSink.model_validate({"type": "iceberg", **{f"catalog.properties.{k}": v for k, v in given.items()}})


@pytest.mark.parametrize("name", ["lake#1", "lake?x", "lake%20x"])
def test_a_directory_whose_name_is_another_one_in_a_url_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValidationError, match="which is a URL there"):
        LakeSink(tmp_path / name)


@pytest.mark.parametrize("text", ["", " ", "\0", "x" * 256, "é" * 128, "\ud800", "\n", "\x7f"])
def test_names_that_cannot_be_are_rejects(text: str) -> None:
    for table, column in ((("a", text), "c"), ((text, "t"), "c"), (("a", "t"), text)):
        with pytest.raises(RowError) as refused:
            table_of(table, TableSchema((Column(column, types.INT),), (column,)), "default", times=True)
        assert refused.value.code == "bad-name"
    with pytest.raises(RowError, match="dot"):
        table_of(("a.b", "t"), lake_schema("id INT"), "default", times=True)


def test_folders_of_two_names_are_two() -> None:
    names = ["a", "A", "a b", "a_b", "a/b", "..", ".", "x" * 200, "x" * 201, *HOSTILE]
    folders = {folder_of((name,)) for name in names}
    assert len(folders) == len(set(names))
    assert not any("/" in one or one.startswith(".") for one in folders)


def test_decimals_beyond_what_a_lake_has_are_texts() -> None:
    assert stored("DECIMAL(38,2)", "iceberg") == types.parse("DECIMAL(38,2)")
    assert our_type(iceberg_type(types.parse("DECIMAL(38,2)"))) == types.parse("DECIMAL(38,2)")
    assert Decimal("1.50") == expected("DECIMAL(5,2)", "DECIMAL(5,2)", "1.50", "iceberg")
