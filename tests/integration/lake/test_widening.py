"""Columns that become wider, in both lakes: each type by each other one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from any_lake import KINDS, lake_of
from lake_sink import LakeSink, lake_schema
from lake_types import expected, wider
from lake_values import VALUES
from moving_rows import TABLE, partitioned

from ingest.encode.upsert_encoder import UpsertEncoder
from ingest.model import types
from ingest.model.change import Change, InlineSchema, Kind
from ingest.model.schema import Column, TableSchema
from ingest.schema.evolve import Policy, Schemas, SourceTable, StoredNumbers, evolve
from ingest.schema.infer import Inference
from ingest.schema.routes import Rules
from ingest.sinks.delta.tables import our_type
from ingest.sinks.iceberg.tables import iceberg_type

if TYPE_CHECKING:
    from pathlib import Path

    from any_lake import AnyLakeSink

    from ingest.model.types import DataType


def row(names: list[str], text: str) -> str:
    """A row that has this value in each of these columns."""
    return "{" + "".join(f'"{name}":{text},' for name in names) + '"last":7}'


def assert_types(sink: AnyLakeSink, names: list[str], wanted: list[DataType]) -> None:
    """The table has these columns between its key and its last one, with these types."""
    if isinstance(sink, LakeSink):
        fields = sink.lake.table(*TABLE).schema().fields
        assert [one.name for one in fields] == ["id", *names, "last"]
        assert [one.field_type for one in fields[1:-1]] == [iceberg_type(kind) for kind in wanted]
    else:
        found = sink.lake.types(*TABLE)
        assert list(found) == ["id", *names, "last"]
        assert [our_type(found[name]) for name in names] == wanted


@pytest.mark.parametrize("lake", KINDS)
def test_integers_become_doubles_only_if_all_of_them_are_some(tmp_path: Path, lake: str) -> None:
    sink, narrow = lake_of(lake, tmp_path), lake_schema("id INT", "c0 BIGINT", "c1 BIGINT", "last INT")
    assert not sink.side.beyond(TABLE, narrow, ["c0"]), "there is nothing yet"
    sink.side.declare({TABLE: narrow})
    some = [str(sign * (2**53 + more)) for sign in (1, -1) for more in (0, 1)]
    rows = [(f'{{"id":{at}}}', f'{{"id":{at},"c0":{some[at & 2]},"c1":{text}}}') for at, text in enumerate(some)]
    for one in rows:
        sink.write(TABLE, narrow, one)
    wider = lake_schema("id INT", "c0 DOUBLE", "c1 DOUBLE", "last INT")
    assert set(sink.side.beyond(TABLE, wider, ["c0", "c1", "id"])) == {"c1"}
    sink.side.declare({TABLE: wider})
    assert_types(sink, ["c0", "c1"], [types.DOUBLE, types.STRING])
    assert [text for (text,) in sink.lake.ask("SELECT c1 FROM {} ORDER BY id", *TABLE)] == some
    assert not sink.side.beyond(TABLE, wider, ["c0", "c1"]), "they are no BIGINT any more"


@pytest.mark.parametrize("lake", KINDS)
def test_types_by_which_a_table_keeps_numbers_are_seen(tmp_path: Path, lake: str) -> None:
    """So that rows of another type are rounded with a count, or widen the column, by what the table is."""
    sink = lake_of(lake, tmp_path)
    there = lake_schema("id BIGINT", "d DOUBLE", "f FLOAT", "e FLOAT", "s STRING", "n BIGINT", "m DOUBLE")
    rows = lake_schema("id BIGINT", "d BIGINT", "f SMALLINT", "e BIGINT", "s DOUBLE", "n INT", "m DOUBLE")
    sink.side.declare({TABLE: rows})
    assert not sink.side.stored.get(TABLE), "it is made for these rows"
    for ask in (sink.side.undeclared, sink.side.declare):
        other = (TABLE[0], ask.__name__)
        sink.side.declare({other: there})
        ask({other: rows})
        assert sink.side.stored[other] == {
            "d": types.DOUBLE, "f": types.FLOAT, "e": types.DOUBLE, "s": types.STRING
        }  # fmt: skip
    sink.write(other, rows, ('{"id":1}', '{"id":1,"d":5,"f":2,"e":16777217,"s":0.10000000000000000001,"n":1,"m":0.5}'))
    assert sink.lake.ask("SELECT d, f, e, s FROM {}", *other) == [(5, 2, 16777217, "0.10000000000000000001")]


@pytest.mark.parametrize("lake", KINDS)
@pytest.mark.parametrize("first", list(VALUES))
def test_every_type_widens_as_schemas_do(tmp_path: Path, first: str, lake: str) -> None:
    """A column for each other type becomes wider by it, and the values that are there are those of the wider type."""
    sink, widened_by = lake_of(lake, tmp_path), wider(first, lake)
    names = [f"c{at}" for at in range(len(widened_by))]
    narrow = lake_schema("id INT", *(f"{name} {first}" for name in names), "last INT")
    sink.side.declare({TABLE: narrow})
    rows = [(f'{{"id":{i}}}', row(names, text)) for i, text in enumerate(VALUES[first])]
    sink.write(TABLE, narrow, *rows, ('{"id":99}', '{"id":99}'))
    sink.write(TABLE, narrow, ('{"id":99}', None))
    columns = [Column(name, kind) for name, kind in zip(names, widened_by.values(), strict=True)]
    widened = TableSchema((narrow.columns[0], *columns, narrow.columns[-1]), ("id",))
    said = sink.side.undeclared({TABLE: widened})
    for _ in range(2):
        sink.side.declare({TABLE: widened})
        assert sink.side.undeclared({TABLE: widened}) == set()
    assert_types(sink, names, list(widened_by.values()))
    for name, (second, kind) in zip(names, widened_by.items(), strict=True):
        found = sink.lake.ask(f"SELECT {name} FROM {{}} ORDER BY id", *TABLE)
        values = [float(v) if first in {"FLOAT", "DOUBLE"} else v for (v,) in found]
        wanted = [expected(first, types.name(kind), text, lake) for text in VALUES[first]]
        assert values == wanted, (first, second)
    assert len(said) == len(widened_by), said
    sink.write(TABLE, widened, ('{"id":0}', '{"id":0}'), ('{"id":50}', row(names, VALUES[first][0])))
    assert len(sink.lake.rows(*TABLE)) == len(rows) + 1
    assert_types(sink, names, list(widened_by.values()))


@pytest.mark.parametrize("lake", KINDS)
def test_a_column_that_keeps_its_type_takes_the_values_that_fit(tmp_path: Path, lake: str) -> None:
    """With `try_evolve` only what does not fit is left out: docs/spec/schema-changes.md, E16."""
    sink = lake_of(lake, tmp_path)
    partitioned(sink, "d", "id INT", "d DATE")
    wanted = lake_schema("id INT", "d TIMESTAMP", "n INT")
    found = evolve(Schemas(), [(TABLE, wanted)], Rules(), Policy(), unfit=sink.side.unfit).sinks[TABLE]
    assert [types.name(column.type) for column in found.columns] == ["INT", "DATE", "INT"]
    sink.side.declare({TABLE: found})
    to: Any = sink.options.table_for(TABLE, found)
    encoder = UpsertEncoder(TABLE, SourceTable(wanted, (TABLE,), False), found, to, Inference(unfit_is_null=True))
    rows: list[Any] = []
    for text, said in (("2020-01-31", types.DATE), ("2020-01-31 12:00:00", types.TIMESTAMP)):
        row = msgspec.Raw(b'{"id":%d,"d":"%b","n":7}' % (len(text), text.encode()))
        encoder.upsert(Change(TABLE, Kind.INSERT, None, row, None, InlineSchema({"d": said})), rows.append)
    sink.write(TABLE, found, *((key.decode(), value.decode()) for _, key, value in rows))
    assert sink.lake.ask("SELECT id, CAST(d AS VARCHAR), n FROM {} ORDER BY id", *TABLE) == [
        (10, "2020-01-31", 7),
        (19, None, 7),
    ]
    assert encoder.withheld == {"d": 1}


@pytest.mark.parametrize("lake", KINDS)
def test_a_column_that_orders_changes_stays_where_another_checkpoint_made_it(tmp_path: Path, lake: str) -> None:
    """The first look of a new checkpoint may see texts: docs/spec/sinks.md#changes-that-come-out-of-order, W79."""
    sink = lake_of(lake, tmp_path, **{"sink.sequence-by": "v", "sink.delete-strategy": "soft"})
    sink.side.declare({TABLE: lake_schema("id INT", "v BIGINT", "n BIGINT")})
    wanted, numbers = lake_schema("id INT", "v STRING", "n STRING"), StoredNumbers(sink.side.beyond, sink.side.unfit)
    found = evolve(Schemas(), [(TABLE, wanted)], Rules(), Policy(sequence="v"), numbers=numbers)
    assert [types.name(column.type) for column in found.sinks[TABLE].columns] == ["INT", "BIGINT", "STRING"]
    assert [str(event) for event in found.withheld] == ["ALTER COLUMN v BIGINT -> STRING"]
