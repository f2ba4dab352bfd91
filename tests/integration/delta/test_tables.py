"""Delta tables, read by DuckDB: types, those that widen, names, and what a run may not change."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from lake_sink import lake_schema
from lake_types import expected
from lake_values import HOSTILE, VALUES
from pyarrow.dataset import field

from ingest.errors import SchemaChangeRefused
from ingest.model import types
from ingest.model.commit import RowsRefused
from ingest.model.reject import RowError
from ingest.model.schema import Column, TableSchema

if TYPE_CHECKING:
    from delta_lake import DeltaSinkSide

TABLE = ("shop", "t")


def test_each_type_takes_its_values_and_gives_them_back(sink: DeltaSinkSide) -> None:
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
        told = sink.lake.ask(f"SELECT c{at} FROM {{}} WHERE c{at} IS NOT NULL ORDER BY id", *TABLE)
        assert [value for (value,) in told] == [expected(kind, kind, text, "delta") for text in VALUES[kind]], kind
        rows_there = sink.lake.table(*TABLE).to_pyarrow_dataset()
        for (value,) in told:
            same = rows_there.to_table(
                filter=field(f"c{at}") == pa.scalar(value, rows_there.schema.field(f"c{at}").type)
            )
            assert same.num_rows, f"statistics of {kind} hide {value!r}"


def test_states_of_a_key_become_its_last_one(sink: DeltaSinkSide) -> None:
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
    assert [path.name for path in sink.lake.folder.rglob("*-keys.parquet")] == [], "files of keys are removed"
    assert sink.lake.active(*TABLE) == []


def test_of_files_of_one_batch_the_later_one_counts(sink: DeltaSinkSide) -> None:
    schema = lake_schema("id BIGINT", "n INT")
    sink.side.declare({TABLE: schema})
    sink.write(TABLE, schema, *((f'{{"id":{n}}}', f'{{"id":{n},"n":0}}') for n in range(10)))
    found = sink.files(
        TABLE, schema,
        (('{"id":1}', '{"id":1,"n":1}'), ('{"id":2}', '{"id":2,"n":1}'), ('{"id":3}', None), ('{"id":50}', None)),
        (('{"id":1}', '{"id":1,"n":2}'), ('{"id":2}', None), ('{"id":3}', '{"id":3,"n":2}')),
        (('{"id":1}', '{"id":1,"n":3}'), ('{"id":50}', '{"id":50,"n":3}')),
    )  # fmt: skip
    sink.side.add("checkpoint", 2, found)
    others = [(n, 0) for n in (0, *range(4, 10))]
    assert sink.lake.rows(*TABLE) == sorted([(1, 3), (3, 2), (50, 3), *others])
    sink.side.add("checkpoint", 2, found)  # as a run after a crash does
    assert len(sink.lake.rows(*TABLE)) == 10


@pytest.mark.parametrize("kind", ["INT", "BIGINT", "STRING", "BYTES", "DATE", "TIMESTAMP", "DECIMAL(5,2)", "DOUBLE",
                                  "BOOLEAN", "TIME(6)", "FLOAT", "TIMESTAMP_LTZ", "TINYINT"])  # fmt: skip
@pytest.mark.parametrize("both", [False, True])
def test_rows_are_found_by_keys_of_each_type(sink: DeltaSinkSide, kind: str, both: bool) -> None:
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


def test_columns_are_added_to_tables_with_and_without_rows(sink: DeltaSinkSide) -> None:
    first, second = lake_schema("id INT"), lake_schema("id INT", "at TIMESTAMP", "n INT")
    third = lake_schema("id STRING", "at TIMESTAMP", "n DOUBLE", "late TIMESTAMP_LTZ")
    other = ("shop", "empty")
    for schema, row in ((first, "{}"), (second, '{"at":"2020-01-01 00:00:00","n":5}'), (third, '{"n":0.5}')):
        sink.side.declare({TABLE: schema, other: schema})
        number = len(schema.columns)
        key = f'{{"id":"{number}"}}' if schema is third else f'{{"id":{number}}}'
        sink.write(TABLE, schema, (key, row))
    assert [(key, n, late) for key, _, n, late in sink.lake.rows(*TABLE)] == [
        ("1", None, None), ("3", 5.0, None), ("4", 0.5, None),
    ]  # fmt: skip
    assert sink.lake.types(*TABLE) == sink.lake.types(*other)
    assert sink.lake.rows(*other) == []
    assert [one.nullable for one in sink.lake.table(*TABLE).schema().fields] == [False, True, True, True]


def test_a_key_that_becomes_text_is_still_the_key(sink: DeltaSinkSide) -> None:
    number, text = lake_schema("id BIGINT", "n INT"), lake_schema("id STRING", "n INT")
    sink.side.declare({TABLE: number})
    sink.write(TABLE, number, ('{"id":41}', '{"id":41,"n":1}'), ('{"id":42}', '{"id":42,"n":1}'))
    sink.side.declare({TABLE: text})
    sink.write(TABLE, text, ('{"id":41}', '{"id":41,"n":2}'), ('{"id":"x"}', '{"id":"x","n":2}'), ('{"id":42}', None))
    assert sink.lake.rows(*TABLE) == [("41", 2), ("x", 2)]


@pytest.mark.parametrize(("kind", "number"), [
    ("DECIMAL(5,2)", "1.5"), ("DECIMAL(5,2)", "0"), ("DECIMAL(20,0)", "18446744073709551615"), ("DOUBLE", "1"),
    ("DOUBLE", "1e300"), ("DOUBLE", "0.00000015"), ("FLOAT", "0.1"),
])  # fmt: skip
def test_a_key_of_numbers_that_becomes_text_has_the_texts_of_keys(sink: DeltaSinkSide, kind: str, number: str) -> None:
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
def test_a_key_becomes_wider_and_rows_are_found_by_it(sink: DeltaSinkSide, narrow: str, wide: str, both: bool) -> None:
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


def test_columns_of_a_table_that_is_there_may_be_wider(sink: DeltaSinkSide) -> None:
    wide, narrow = lake_schema("id BIGINT", "n STRING", "more INT"), lake_schema("id INT", "n BIGINT")
    sink.side.declare({TABLE: wide})
    sink.write(TABLE, wide, ('{"id":1}', '{"id":1,"n":"x","more":1}'))
    assert sink.side.undeclared({TABLE: narrow}) == set()
    sink.side.declare({TABLE: narrow})
    sink.write(TABLE, narrow, ('{"id":2}', '{"id":2,"n":5}'))
    assert sink.lake.rows(*TABLE) == [(1, "x", 1), (2, "5", None)]


def test_rows_of_a_table_that_others_made_stay_what_they_are(sink: DeltaSinkSide) -> None:
    """Also columns of types that no column of ours has."""
    path = sink.lake.warehouse.path(TABLE)
    sink.lake.folder.mkdir(exist_ok=True)
    inner = pa.struct([pa.field("a", pa.int8()), pa.field("b", pa.list_(pa.string()))])
    rows = pa.table({
        "id": pa.array([1, 2, 3], pa.int16()), "x": pa.array([{"a": 1, "b": ["q"]}, None, {"a": 3, "b": []}], inner),
        "at": pa.array([1, 2, 3], pa.timestamp("us", tz="UTC")),
    })  # fmt: skip
    write_deltalake(path, rows)
    schema = lake_schema("id SMALLINT", "n INT")
    sink.side.declare({TABLE: schema})
    sink.write(TABLE, schema, ('{"id":2}', '{"id":2,"n":1}'), ('{"id":4}', '{"id":4,"n":1}'))
    assert sink.lake.types(*TABLE)["id"] == "short"
    assert sink.lake.rows(*TABLE, columns="id, x, n") == [
        (1, {"a": 1, "b": ["q"]}, None), (2, None, 1), (3, {"a": 3, "b": []}, None), (4, None, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(("columns", "more", "why"), [
    ({"id": pa.int32(), "n": pa.struct([("a", pa.int32())])}, {}, "'n' is struct<a:integer>"),
    ({"id": pa.int32(), "n": pa.binary()}, {"partition_by": "n"}, "of the column 'n', which is binary"),
    ({"id": pa.int32()}, {"partition_by": "id"}, "all of its columns make partitions (id)"),
    ({"id": pa.int32()}, {"configuration": {"delta.appendOnly": "true"}}, "delta.appendOnly"),
    ({"id": pa.int32()}, {"configuration": {"delta.enableChangeDataFeed": "true"}}, "delta.enableChangeDataFeed"),
    ({"id": pa.int32()}, {"configuration": {"delta.enableDeletionVectors": "true"}}, "deletionVectors"),
])  # fmt: skip
def test_a_table_that_cannot_take_the_rows_is_refused(
    sink: DeltaSinkSide, columns: dict[str, pa.DataType], more: dict[str, Any], why: str
) -> None:
    DeltaTable.create(sink.lake.warehouse.path(TABLE), pa.schema(columns), **more)
    with pytest.raises(SchemaChangeRefused) as refused:
        sink.side.declare({TABLE: lake_schema("id INT", "n INT")})
    assert why in refused.value.message


def test_a_required_column_that_is_not_in_the_key_is_refused(sink: DeltaSinkSide) -> None:
    schema = pa.schema([pa.field("id", pa.int32()), pa.field("x", pa.string(), nullable=False)])
    DeltaTable.create(sink.lake.warehouse.path(TABLE), schema)
    with pytest.raises(SchemaChangeRefused, match="'x' is required"):
        sink.side.declare({TABLE: lake_schema("id INT", "n INT")})


def test_two_tables_of_one_place_are_refused(sink: DeltaSinkSide) -> None:
    with pytest.raises(SchemaChangeRefused, match="would be one table there"):
        sink.side.declare({("t",): lake_schema("id INT"), ("default", "t"): lake_schema("id INT")})


def test_rows_that_do_not_fit_are_refused(sink: DeltaSinkSide) -> None:
    schema = lake_schema("id INT", "at TIMESTAMP")
    sink.side.declare({TABLE: schema})
    with pytest.raises(RowsRefused) as refused:
        sink.write(TABLE, schema, ('{"id":6}', '{"id":6}'), ('{"id":7}', '{"id":7,"at":"12000-01-01 00:00:00"}'))
    (row,) = refused.value.rows
    assert (str(row.destination), row.key) == ("shop.t", b'{"id":7}')


# -- names -------------------------------------------------------------------------------------------------------------

NO_COLUMNS = [one for one in HOSTILE if set(one) & set(" ,;{}()\n\t=") or one == "ID"]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_are_names(sink: DeltaSinkSide, text: str) -> None:
    column = TableSchema((Column("id", types.INT, nullable=False), Column(text, types.BYTES)), ("id",))
    keyed = TableSchema((Column("id" if text in NO_COLUMNS else text, types.INT, nullable=False),), ())
    keyed = TableSchema(keyed.columns, (keyed.columns[0].name,))
    spaced = (text.replace(".", "") or "x", "t")
    if text in NO_COLUMNS:
        with pytest.raises(RowError) as refused:
            sink.options.table_for(TABLE, column)
        assert refused.value.code == "bad-name"
        column = lake_schema("id INT")
    sink.side.declare({TABLE: column, ("shop", text): keyed, spaced: keyed})
    said, key = json.dumps(text), json.dumps(keyed.primary_key[0])
    for number in range(2):
        sink.write(TABLE, column, ('{"id":1}', f'{{"id":1,{said}:"AP8="}}'))
        sink.write(("shop", text), keyed, *((f"{{{key}:{n}}}", f"{{{key}:{n}}}") for n in (number, 7)))
        sink.write(spaced, keyed, (f"{{{key}:7}}", f"{{{key}:7}}"))
    assert sink.lake.rows(*TABLE) == [(1, b"\x00\xff")[: len(column.columns)]]
    assert sink.lake.rows("shop", text) == [(0,), (1,), (7,)]
    assert sink.lake.rows(*spaced) == [(7,)]
    assert list(sink.lake.types("shop", text)) == [keyed.primary_key[0]]
    outside = [path for path in sink.lake.folder.parent.rglob("*.parquet") if sink.lake.folder not in path.parents]
    assert outside == []


def test_no_table_is_inside_of_another(sink: DeltaSinkSide) -> None:
    """Or the other one's vacuum would remove its files."""
    names = [("a", "b"), ("a", "b", "c"), ("a",), ("a", "b", "_delta_log"), ("a", "b", "c", "d"), ("a", "b.c")]
    schema = lake_schema("id INT")
    sink.side.declare(dict.fromkeys(names, schema))
    logs = sorted(path.parent.relative_to(sink.lake.folder).parts for path in sink.lake.folder.rglob("_delta_log"))
    tables = [parts for parts in logs if len(parts) == 2]
    assert len(tables) == len(names)
    assert all(len(parts) == 2 or parts[-1] == "_delta_log" for parts in logs)
