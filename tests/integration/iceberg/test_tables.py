"""Tables of a lake, read by DuckDB: types, those that widen, names, and what a run may not change."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from lake_sink import LakeSink, lake_schema
from lake_types import expected, stored
from lake_values import HOSTILE
from pydantic import ValidationError
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField, StringType, UUIDType

from ingest.errors import ConfigError, SchemaChangeRefused
from ingest.model import types
from ingest.model.reject import RowError
from ingest.model.schema import Column, TableSchema
from ingest.sinks.iceberg.options import IcebergSink
from ingest.sinks.iceberg.tables import iceberg_type, our_type
from ingest.sinks.lake.table import folder_of, table_of

if TYPE_CHECKING:
    from pathlib import Path

TABLE = ("shop", "t")


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


# -- names -------------------------------------------------------------------------------------------------------------


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
