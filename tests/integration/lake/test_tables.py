"""Tables of both lakes, read by DuckDB: types, keys that widen, names, and what a run may not change."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from delta_lake import DeltaSinkSide
from lake_sink import LakeSink, lake_schema
from lake_types import expected
from lake_values import HOSTILE, VALUES
from pyarrow.dataset import field

from ingest.errors import SchemaChangeRefused
from ingest.model import types
from ingest.model.commit import RowsRefused
from ingest.model.reject import RowError
from ingest.model.schema import Column, TableSchema

if TYPE_CHECKING:
    from any_lake import AnyLakeSink

TABLE = ("shop", "t")
NO_COLUMNS = [one for one in HOSTILE if set(one) & set(" ,;{}()\n\t=") or one == "ID"]
"""Names that columns of Delta cannot have beside `id`."""


def test_each_type_takes_its_values_and_gives_them_back(sink: AnyLakeSink, kind: str) -> None:
    kinds = list(VALUES)
    schema = lake_schema("id INT", *(f"c{at} {of}" for at, of in enumerate(kinds)))
    sink.side.declare({TABLE: schema})
    most = max(map(len, VALUES.values()))
    rows = []
    for number in range(most + 1):
        found = [VALUES[of][number] if number < len(VALUES[of]) else "null" for of in kinds]
        fields = ",".join(f'"c{at}":{text}' for at, text in enumerate(found))
        rows.append((f'{{"id":{number}}}', f'{{"id":{number},{fields}}}'))
    sink.write(TABLE, schema, *rows)
    for at, of in enumerate(kinds):
        told = sink.lake.ask(f"SELECT c{at} FROM {{}} WHERE c{at} IS NOT NULL ORDER BY id", *TABLE)
        assert [value for (value,) in told] == [expected(of, of, text, kind) for text in VALUES[of]], of
        if isinstance(sink, DeltaSinkSide):
            rows_there = sink.lake.table(*TABLE).to_pyarrow_dataset()
            for (value,) in told:
                wanted = pa.scalar(value, rows_there.schema.field(f"c{at}").type)
                assert rows_there.to_table(filter=field(f"c{at}") == wanted).num_rows, (
                    f"statistics of {of} hide {value!r}"
                )


def test_states_of_a_key_become_its_last_one(sink: AnyLakeSink) -> None:
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
    if isinstance(sink, DeltaSinkSide):
        assert sink.lake.active(*TABLE) == []


def test_of_files_of_one_batch_the_later_one_counts(sink: AnyLakeSink) -> None:
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


@pytest.mark.parametrize("of", ["INT", "BIGINT", "STRING", "BYTES", "DATE", "TIMESTAMP", "DECIMAL(5,2)", "DOUBLE",
                                  "BOOLEAN", "TIME(6)", "FLOAT", "TIMESTAMP_LTZ", "TINYINT"])  # fmt: skip
@pytest.mark.parametrize("both", [False, True])
def test_rows_are_found_by_keys_of_each_type(sink: AnyLakeSink, of: str, both: bool) -> None:
    """Rows of several files are superseded, by a key of one column and of two."""
    columns = (
        Column("k", types.parse(of), nullable=False), Column("n", types.INT),
        *([Column("other", types.STRING, nullable=False)] if both else []),
    )  # fmt: skip
    schema = TableSchema(columns, ("k", "other") if both else ("k",))
    sink.side.declare({TABLE: schema})
    texts = VALUES[of]
    for number in range(3):
        rows = []
        for other in ("a", "b") if both else ("",):
            more = f',"other":"{other}"' if both else ""
            rows += [(f'{{"k":{text}{more}}}', f'{{"k":{text},"n":{number}{more}}}') for text in texts]
        sink.write(TABLE, schema, *rows)
    assert sink.lake.rows(*TABLE, columns="n") == [(2,)] * len(texts) * (2 if both else 1)
    sink.write(TABLE, schema, (f'{{"k":{texts[0]}{more}}}', None))
    assert len(sink.lake.rows(*TABLE)) == len(texts) * (2 if both else 1) - 1


def test_a_key_that_becomes_text_is_still_the_key(sink: AnyLakeSink) -> None:
    number, text = lake_schema("id BIGINT", "n INT"), lake_schema("id STRING", "n INT")
    sink.side.declare({TABLE: number})
    sink.write(TABLE, number, ('{"id":41}', '{"id":41,"n":1}'), ('{"id":42}', '{"id":42,"n":1}'))
    sink.side.declare({TABLE: text})
    sink.write(TABLE, text, ('{"id":41}', '{"id":41,"n":2}'), ('{"id":"x"}', '{"id":"x","n":2}'), ('{"id":42}', None))
    assert sink.lake.rows(*TABLE) == [("41", 2), ("x", 2)]
    assert [one.name for one in sink.lake.table(*TABLE).schema().fields] == ["id", "n"]
    if isinstance(sink, LakeSink):
        schema = sink.lake.table(*TABLE).schema()
        assert [schema.find_field(number).name for number in schema.identifier_field_ids] == ["id"]


@pytest.mark.parametrize(("of", "number"), [
    ("DECIMAL(5,2)", "1.5"), ("DECIMAL(5,2)", "0"), ("DECIMAL(20,0)", "18446744073709551615"), ("DOUBLE", "1"),
    ("DOUBLE", "1e300"), ("DOUBLE", "0.00000015"), ("FLOAT", "0.1"),
])  # fmt: skip
def test_a_key_of_numbers_that_becomes_text_has_the_texts_of_keys(sink: AnyLakeSink, of: str, number: str) -> None:
    before, after = lake_schema(f"id {of}", "n INT"), lake_schema("id STRING", "n INT")
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
def test_a_key_becomes_wider_and_rows_are_found_by_it(sink: AnyLakeSink, narrow: str, wide: str, both: bool) -> None:
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


def test_columns_of_a_table_that_is_there_may_be_wider(sink: AnyLakeSink) -> None:
    wide, narrow = lake_schema("id BIGINT", "n STRING", "more INT"), lake_schema("id INT", "n BIGINT")
    sink.side.declare({TABLE: wide})
    sink.write(TABLE, wide, ('{"id":1}', '{"id":1,"n":"x","more":1}'))
    assert sink.side.undeclared({TABLE: narrow}) == set()
    sink.side.declare({TABLE: narrow})
    sink.write(TABLE, narrow, ('{"id":2}', '{"id":2,"n":5}'))
    assert sink.lake.rows(*TABLE) == [(1, "x", 1), (2, "5", None)]


def test_two_tables_of_one_place_are_refused(sink: AnyLakeSink) -> None:
    with pytest.raises(SchemaChangeRefused, match="would be one table there"):
        sink.side.declare({("t",): lake_schema("id INT"), ("default", "t"): lake_schema("id INT")})


def test_rows_that_do_not_fit_are_refused(sink: AnyLakeSink) -> None:
    schema = lake_schema("id INT", "at TIMESTAMP")
    sink.side.declare({TABLE: schema})
    with pytest.raises(RowsRefused) as refused:
        sink.write(TABLE, schema, ('{"id":6}', '{"id":6}'), ('{"id":7}', '{"id":7,"at":"12000-01-01 00:00:00"}'))
    assert '{"id":7}' in refused.value.message
    assert "'at'" in refused.value.message
    (row,) = refused.value.rows
    assert (str(row.destination), row.key) == ("shop.t", b'{"id":7}')


def test_times_that_are_cut_are_said_once(sink: AnyLakeSink) -> None:
    schema = lake_schema("id INT", "at TIMESTAMP")
    sink.side.declare({TABLE: schema})
    for number in range(2):
        row = f'{{"id":{number},"at":"2020-01-01 00:00:00.1234567"}}'
        sink.write(TABLE, schema, (f'{{"id":{number}}}', row))
    assert len(sink.warnings) == 1
    assert "1 times were cut" in sink.warnings[0]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_are_names(sink: AnyLakeSink, kind: str, text: str) -> None:
    column = TableSchema((Column("id", types.INT, nullable=False), Column(text, types.BYTES)), ("id",))
    refused_there = kind == "delta" and text in NO_COLUMNS
    keyed = TableSchema((Column("id" if refused_there else text, types.INT, nullable=False),), ())
    keyed = TableSchema(keyed.columns, (keyed.columns[0].name,))
    spaced = (text.replace(".", "") or "x", "t")
    if refused_there:
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
    assert [one.name for one in sink.lake.table("shop", text).schema().fields] == [keyed.primary_key[0]]
    outside = [path for path in sink.lake.folder.parent.rglob("*.parquet") if sink.lake.folder not in path.parents]
    assert outside == []
