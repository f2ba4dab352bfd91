"""Changes that come in another order than they were made, in a real PostgreSQL: the newest one wins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from postgres_sink import (
    BY,
    SPLIT,
    Writing,
    gone,
    made,
    options,
    owned,
    row,
    schema,
    scope,
    task,
    to_write,
    warnings,
    writing,
)
from pydantic import ValidationError

from ingest.encode.upsert_encoder import Record
from ingest.errors import SchemaChangeRefused
from ingest.model.commit import OLDER, RowsRefused
from ingest.sinks.postgres import array_statements

if TYPE_CHECKING:
    from postgres import Database

IGNORE = {"sink.sequence-by": "v", "sink.delete-strategy": "ignore"}
pytestmark = pytest.mark.usefixtures("_staged")


@pytest.fixture(params=["postgres", "hologres"])
def kind(request: pytest.FixtureRequest) -> str:
    """The sink's type."""
    return str(request.param)


def test_an_older_change_is_left_out_and_counted(postgres: Database, name: str, kind: str) -> None:
    to = writing(postgres, name, kind=kind)
    assert to.write(row(1, 5, 1), row(2, 5, 1)) == 0
    assert to.write(row(1, 4, 2), row(2, 6, 2), row(3, 1, 2)) == 1, "of the row that is there"
    assert postgres.rows(f"{name}.t", "id, v, n") == [(1, 5, 1), (2, 6, 2), (3, 1, 2)]
    assert to.write(row(1, 5, 3)) == 0, "of two with one value the later one counts"
    assert postgres.rows(f"{name}.t", "v, n")[1] == (5, 3)
    assert to.write(row(4, 7, 1), row(4, 9, 2), row(4, 8, 3), row(4, 9, 4), row(4, 2, 5)) == 2, "in one commit"
    assert postgres.ask(f"SELECT v, n FROM {name}.t WHERE id = 4") == [(9, 4)]
    assert to.write(row(4, 3), row(4, 8), row(4, 10, 6), row(4, 11, 7)) == 2, "what came in order is no older change"
    assert postgres.ask(f"SELECT v, n FROM {name}.t WHERE id = 4") == [(11, 7)]


def test_a_null_never_wins_over_a_value(postgres: Database, name: str, kind: str) -> None:
    to = writing(postgres, name, kind=kind)
    assert to.write(row(1, "null", 1), row(1, "null", 2)) == 0, "of two nulls the later one counts"
    assert postgres.rows(f"{name}.t", "v, n") == [(None, 2)]
    assert to.write(row(1, -9, 3)) == 0
    assert to.write(row(1, "null", 4), row(2, 1, 5), row(2, "null", 6)) == 2
    assert postgres.rows(f"{name}.t", "id, v, n") == [(1, -9, 3), (2, 1, 5)]


def test_deletes_count_whenever_they_come_and_older_changes_bring_nothing_back(
    postgres: Database, name: str, kind: str
) -> None:
    to = writing(postgres, name, kind=kind)
    flags = "id, v, _deleted"
    to.write(row(1, 5), row(2, 5), row(3, 5), row(4, 5))
    assert to.write(gone(1), gone(2), row(2, 4), row(3, 4), gone(3), gone(4), row(4, 5), gone(9)) == 2
    assert postgres.rows(f"{name}.t", flags) == [(1, 5, True), (2, 5, True), (3, 5, True), (4, 5, False)]
    assert to.write(row(1, 4), row(2, 6), row(5, 1), gone(5), row(6, 2), gone(6), row(6, 1)) == 2
    assert postgres.rows(f"{name}.t", flags) == [
        (1, 5, True), (2, 6, False), (3, 5, True), (4, 5, False), (5, 1, True), (6, 2, True),
    ]  # fmt: skip


def test_deletes_may_be_ignored(postgres: Database, name: str, kind: str) -> None:
    to = writing(postgres, name, kind=kind, by=IGNORE)
    assert to.write(row(1, 5, 1), gone(1), row(1, 4, 2), gone(1)) == 1
    assert to.write(gone(1), row(1, 3)) == 1
    assert postgres.rows(f"{name}.t") == [(1, 5, 1)]


@pytest.mark.parametrize(("column", "values"), [
    ("BIGINT", ["9", "10"]), ("DECIMAL(5,2)", ["9.99", "10.1"]), ("DOUBLE", ["1e2", "1.5e2"]),
    ("DATE", ['"2020-01-31"', '"2020-02-01"']), ("TIME(6)", ['"09:00:00"', '"10:00:00"']),
    ("TIMESTAMP", ['"2020-01-31 12:00:00.1"', '"2020-01-31 12:00:00.12"']),
    ("TIMESTAMP_LTZ", ['"0999-01-31 12:00:00Z"', '"2020-01-31 12:00:00Z"']), ("STRING", ['"10"', '"9"']),
])  # fmt: skip
def test_values_are_compared_by_the_type_of_the_column(
    postgres: Database, name: str, kind: str, column: str, values: list[str]
) -> None:
    older, newer = values
    to = writing(postgres, name, "id INT", f"v {column}", "n INT", kind=kind)
    assert to.write(row(1, newer, 1), row(2, older, 1)) == 0
    assert to.write(row(1, older, 2), row(2, newer, 2), row(3, newer, 1), row(3, older, 2)) == 2
    assert postgres.rows(f"{name}.t", "id, n") == [(1, 1), (2, 2), (3, 1)]


def test_names_are_only_names(postgres: Database, name: str, kind: str) -> None:
    sink = options(postgres, type=kind, **{"sink.sequence-by": "a \"%s'", "sink.delete-strategy": "soft"})
    to = Writing(sink, made(sink, name, schema("id INT", "a_\"%s' INT")))
    assert to.write(('{"id":1}', '{"id":1}')) == 0, "the table has no such column"
    sink = options(postgres, type=kind, **{"sink.sequence-by": "a\"%s'", "sink.delete-strategy": "soft"})
    to = Writing(sink, made(sink, f"{name}2", schema("id INT", "a\"%s' INT")))
    value = '{"id":1,"a\\"%s\'":'
    assert to.write(('{"id":1}', value + "2}"), ('{"id":1}', value + "1}")) == 1
    assert postgres.rows(f"{name}2.t", "id, _deleted") == [(1, False)]


def test_a_table_without_the_column_has_the_usual_order_which_is_said_once(postgres: Database, name: str) -> None:
    sink = options(postgres, **BY)
    coordinator = owned(sink)
    for _ in range(2):
        coordinator.declare({(name, "t"): schema("id INT", "n INT")})
    (said,) = warnings
    assert said == (
        f"the table {name}.t has no column 'v' (sink.sequence-by): its changes count in the order in which they come"
    )
    to = Writing(sink, to_write(sink, name, schema("id INT", "n INT")))
    assert to.write(('{"id":1}', '{"id":1,"n":5}'), ('{"id":1}', '{"id":1,"n":4}'), gone(2)) == 0
    assert postgres.rows(f"{name}.t") == [(1, 4, False)]
    grown = schema("id INT", "n INT", "v INT")
    to = Writing(sink, made(sink, name, grown))
    assert to.write(row(1, 3, 6), row(1, 2, 7)) == 1, "it has the column from then on"
    assert len(warnings) == 1


def test_a_key_column_orders_nothing(postgres: Database, name: str) -> None:
    sink = options(postgres, **{"sink.sequence-by": "id", "sink.delete-strategy": "soft"})
    to = Writing(sink, made(sink, name, schema("id INT", "v INT", "n INT")))
    assert to.write(row(1, 1), row(1, 0)) == 0
    assert warnings == []


@pytest.mark.parametrize("column", ["BOOLEAN", "BYTES", "ARRAY<INT>"])
def test_a_column_of_no_order_stops_the_run(postgres: Database, name: str, column: str) -> None:
    with pytest.raises(SchemaChangeRefused, match=r"its column 'v' is .* \(sink\.sequence-by\)"):
        made(options(postgres, **BY), name, schema("id INT", f"v {column}"))


def test_removed_rows_could_come_back_so_that_is_refused(postgres: Database) -> None:
    for more in ({}, {"sink.delete-strategy": "hard"}):
        with pytest.raises(ValidationError, match=r"write|needs sink\.delete-strategy: soft, or ignore"):
            options(postgres, **{"sink.sequence-by": "v", **more})


def test_of_the_states_of_a_key_those_at_fault_are_told(postgres: Database, name: str, kind: str) -> None:
    sink = options(postgres, type=kind, **BY)
    table = made(sink, name, schema("id INT", "v INT", "n INT"))
    postgres.ask(f"ALTER TABLE {name}.t ADD CHECK (n > 0)")
    writer = task(sink)
    writer.begin(scope())
    rows = [row(1, 5, 1), row(1, 6, -1), row(1, 4, -2), row(2, 1, 1), row(2, 0, 1)]
    writer.write([Record(table, key.encode(), (one or "").encode()) for key, one in rows])
    with pytest.raises(RowsRefused) as caught:
        writer.commit({SPLIT: 9}, b"", final=True)
    assert [one.value for one in caught.value.rows] == [(one or "").encode() for _, one in rows[1:3]]
    writer.abort()
    assert writer.left_out() == {}, "nothing is committed"
    writer.write([Record(table, key.encode(), (one or "").encode()) for key, one in [rows[0], *rows[3:]]])
    writer.commit({SPLIT: 9}, b"", final=True)
    assert writer.left_out() == {OLDER: 1}
    assert postgres.rows(f"{name}.t", "id, v, n") == [(1, 5, 1), (2, 1, 1)]


# -- against a model ---------------------------------------------------------------------------------------------------

a_change = st.tuples(st.integers(1, 2), st.one_of(st.none(), st.integers(0, 3), st.just("gone")))


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(batches=st.lists(st.lists(a_change, min_size=1, max_size=6), min_size=1, max_size=3), chunk=st.integers(1, 9))
def test_the_table_is_what_one_change_after_the_other_makes(
    postgres: Database, name: str, kind: str, batches: list[list[Any]], chunk: int
) -> None:
    postgres.ask(f"DROP SCHEMA IF EXISTS {name} CASCADE")
    to = writing(postgres, name, kind=kind)
    rows: dict[int, list[Any]] = {}
    number = 0
    before, array_statements.MAX_ROWS = array_statements.MAX_ROWS, chunk  # type: ignore[misc]
    try:
        for batch in batches:
            given_rows, older = [], 0
            for key, version in batch:
                number += 1
                older += applied(rows, key, version, number)
                given_rows.append(gone(key) if version == "gone" else row(key, json_of(version), number))
            assert to.write(*given_rows) == older
    finally:
        array_statements.MAX_ROWS = before  # type: ignore[misc]
    assert postgres.rows(f"{name}.t", "id, v, n, _deleted") == [(key, *rows[key]) for key in sorted(rows)]


def json_of(version: int | None) -> str:
    return "null" if version is None else str(version)


def applied(rows: dict[int, list[Any]], key: int, version: Any, number: int) -> bool:
    """Apply a change to rows; return whether it is left out."""
    there = rows.get(key)
    if version == "gone":
        if there is not None:
            there[2] = True
        return False
    if there is not None and there[0] is not None and (version is None or version < there[0]):
        return True
    rows[key] = [version, number, False]
    return False
