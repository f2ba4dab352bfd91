"""Each state of a key as a row with the time in which it was the current one, in a real PostgreSQL."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from postgres_sink import SPLIT, Writing, gone, made, options, owned, row, schema, scope, task, writing
from pydantic import ValidationError

from ingest.encode.upsert_encoder import Record
from ingest.errors import SchemaChangeRefused
from ingest.model.commit import RowsRefused
from ingest.model.reject import RowError
from ingest.sinks.postgres import array_statements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postgres import Database
    from postgres_shop import Shop

CLOCK = {"sink.write-mode": "history"}
DATED = {**CLOCK, "sink.sequence-by": "v"}
COLUMNS = ("id INT", "v TIMESTAMP_LTZ", "n INT")
pytestmark = pytest.mark.usefixtures("_staged")


@pytest.fixture(params=["postgres", "hologres"])
def kind(request: pytest.FixtureRequest) -> str:
    """The sink's type."""
    return str(request.param)


def at(year: int) -> datetime:
    return datetime(year, 1, 1, tzinfo=UTC)


def of(key: object, year: int | None, number: object = 0) -> tuple[str, str | None]:
    return row(key, "null" if year is None else f'"{at(year):%Y-%m-%d %H:%M:%S}Z"', number)


def periods(postgres: Database, name: str, columns: str = "n, valid_from, valid_to") -> list[tuple[Any, ...]]:
    """The rows of all keys, in the order of their times."""
    return postgres.ask(f"SELECT {columns} FROM {name}.t ORDER BY id, valid_from")


def test_each_state_is_a_row_which_ends_where_the_next_one_begins(postgres: Database, name: str, kind: str) -> None:
    to = writing(postgres, name, "id INT", "v INT", "n INT", kind=kind, by=CLOCK)
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    to.write(row(1, 0, 1), row(1, 0, 2), row(2, 0, 3))
    to.write(row(1, 0, 2))
    (one, two, three, other) = periods(postgres, name)
    assert [one[0], two[0], three[0], other[0]] == [1, 2, 2, 3]
    assert before <= one[1] < one[2] == two[1] < two[2] == three[1] < datetime.now(UTC)
    assert three[2] is None
    assert other[1] == one[1], "keys have a clock of their own"
    assert other[2] is None
    as_of = f"SELECT n FROM {name}.t WHERE valid_from <= %s AND (valid_to > %s OR valid_to IS NULL)"
    assert sorted(postgres.ask(as_of, two[1], two[1])) == [(2,), (3,)]


def test_a_delete_ends_the_current_row(postgres: Database, name: str, kind: str) -> None:
    to = writing(postgres, name, "id INT", "v INT", "n INT", kind=kind, by=CLOCK)
    to.write(row(1, 0, 1), row(2, 0, 1), gone(2), gone(9))
    to.write(gone(1), gone(2))
    (one, two) = periods(postgres, name)
    assert one[1] < two[2] < one[2]
    to.write(row(1, 0, 2), gone(1), row(1, 0, 3), row(2, 0, 2))
    found = periods(postgres, name)
    assert [number for number, _, _ in found] == [1, 2, 3, 1, 2]
    assert found[0] == one, "it stays as it was"
    assert one[2] < found[1][1] < found[1][2] <= found[2][1]
    assert [end is None for _, _, end in found] == [False, False, True, False, True]


def test_deletes_may_be_ignored(postgres: Database, name: str, kind: str) -> None:
    to = writing(postgres, name, kind=kind, by={**CLOCK, "sink.delete-strategy": "ignore"})
    to.write(row(1, 0, 1), gone(1))
    to.write(gone(1))
    assert periods(postgres, name, "n, valid_to") == [(1, None)]


def test_a_state_begins_at_its_own_time_and_an_older_one_is_left_out(postgres: Database, name: str, kind: str) -> None:
    to = writing(postgres, name, *COLUMNS, kind=kind, by=DATED)
    assert to.write(of(1, 2020, 1), of(1, 2019, 2), of(1, 2022, 3)) == 1
    assert to.write(of(1, 2021, 4)) == 1, "of the row that is there"
    assert periods(postgres, name) == [(1, at(2020), at(2022)), (3, at(2022), None)]
    assert to.write(of(1, 2022, 5), of(1, 2022, 6)) == 0, "one with its time takes its place"
    assert periods(postgres, name)[1] == (6, at(2022), None)
    assert to.write(gone(1), of(1, 2021, 7)) == 1, "an older one brings nothing back"
    assert periods(postgres, name)[1][2] > at(2026)
    assert to.write(of(1, 2023, 8)) == 0, "a newer one says that the row ended before it"
    assert periods(postgres, name)[1:] == [(6, at(2022), at(2023)), (8, at(2023), None)]
    assert to.write(of(1, 2100, 9), gone(1)) == 0, "no row ends before it begins"
    begin, end = periods(postgres, name, "valid_from, valid_to")[-1]
    assert begin == at(2100) < end < at(2101)


@pytest.mark.parametrize(("column", "value", "begin"), [
    ("DATE", '"2020-01-31"', datetime(2020, 1, 31, tzinfo=UTC)),
    ("TIMESTAMP", '"2020-01-31 12:00:00.001"', datetime(2020, 1, 31, 12, 0, 0, 1000, UTC)),
    ("TIMESTAMP_LTZ", '"2020-01-31 12:00:00.001Z"', datetime(2020, 1, 31, 12, 0, 0, 1000, UTC)),
])  # fmt: skip
@pytest.mark.parametrize("more", [{}, {"type": "hologres", "sink.type-normalize-strategy": "ONLY_BIGINT_OR_TEXT"}])
def test_dates_and_times_of_all_kinds_say_when_a_row_begins(
    postgres: Database, name: str, more: dict[str, str], column: str, value: str, begin: datetime
) -> None:
    sink = options(postgres, **DATED, **more)
    to = Writing(sink, made(sink, name, schema("id INT", f"v {column}", "n INT")))
    to.write(row(1, value, 1), row(1, value, 2))
    assert to.write(row(1, value, 3), row(1, '"2019-12-31"' if column == "DATE" else '"2019-12-31 12:00:00Z"')) == 1
    assert periods(postgres, name) == [(3, begin, None)]


def test_times_that_the_server_takes_for_one_are_apart(postgres: Database, name: str) -> None:
    to = writing(postgres, name, *COLUMNS, kind="hologres", by=DATED)
    assert to.write(*(row(1, f'"2020-01-01 00:00:00.00000{digit}Z"', digit) for digit in range(3))) == 0
    begins = [begin - at(2020) for _, begin, _ in periods(postgres, name)]
    assert begins == [timedelta(milliseconds=after) for after in range(3)]


@pytest.mark.parametrize("column", ["INT", "STRING", "TIME(6)", "BOOLEAN"])
def test_a_column_that_is_no_time_stops_the_run(postgres: Database, name: str, column: str) -> None:
    with pytest.raises(SchemaChangeRefused, match="do not say when a row begins") as refused:
        made(options(postgres, **DATED), name, schema("id INT", f"v {column}"))
    assert "TIMESTAMP, TIMESTAMP_LTZ or DATE" in str(refused.value.hint)


def test_a_column_that_comes_later_counts_from_then_on(postgres: Database, name: str, kind: str) -> None:
    sink = options(postgres, type=kind, **DATED)
    Writing(sink, made(sink, name, schema("id INT", "n INT"))).write(('{"id":1}', '{"id":1,"n":1}'))
    to = Writing(sink, made(sink, name, schema("id INT", "n INT", "v TIMESTAMP_LTZ")))
    assert to.write(of(1, 2020, 2), of(1, 2019, 3), of(1, 2021, 4)) == 1, "the clock's time orders no changes"
    one, two, three = periods(postgres, name)
    assert [one[0], two[0], three[0]] == [1, 2, 4]
    assert at(2025) < one[1] < one[2] == two[1] < two[2] == three[1]
    assert to.write(of(1, 2099, 5)) == 0
    assert periods(postgres, name)[3] == (5, at(2099), None)


def test_tables_grow_while_they_keep_their_rows(postgres: Database, name: str) -> None:
    sink = options(postgres, **CLOCK)
    Writing(sink, made(sink, name, schema("id INT", "v INT", "n INT"))).write(row(1, 0, 1), row(1, 0, 2))
    to = Writing(sink, made(sink, name, schema("id BIGINT", "v INT", "n DOUBLE", "more STRING")))
    to.write(('{"id":1}', '{"id":1,"v":0,"n":2.5,"more":"x"}'), row(2**40, 0, 3))
    assert periods(postgres, name, "n, more, valid_to IS NULL") == [
        (1.0, None, False), (2.0, None, False), (2.5, "x", True), (3.0, None, True),
    ]  # fmt: skip


def test_a_table_of_its_key_alone_has_a_history(postgres: Database, name: str, kind: str) -> None:
    sink = options(postgres, type=kind, **CLOCK)
    to = Writing(sink, made(sink, name, schema("id DOUBLE")))
    to.write(('{"id":0.1}', '{"id":0.1}'), ('{"id":0.1}', None), ('{"id":0.1}', '{"id":0.1}'))
    assert periods(postgres, name, "valid_to IS NULL") == [(False,), (True,)]


def test_names_are_only_names(postgres: Database, name: str, kind: str) -> None:
    odd = {"sink.valid-from-column": "a \"%s'", "sink.valid-to-column": "{b}"}
    sink = options(postgres, type=kind, **DATED, **odd)
    to = Writing(sink, made(sink, name, schema("id INT", "v TIMESTAMP_LTZ", "valid_from INT")))
    assert to.write(('{"id":1}', '{"id":1,"v":"2020-01-01 00:00:00Z"}'), gone(1)) == 0
    assert postgres.ask(f'SELECT id FROM {name}.t WHERE "{{b}}" IS NOT NULL') == [(1,)]


def test_a_table_that_keeps_no_history_is_refused(postgres: Database, name: str) -> None:
    before, sink = options(postgres), options(postgres, **CLOCK)
    made(before, name, schema("id INT", "n INT"))
    with pytest.raises(SchemaChangeRefused, match="it has no column 'valid_from'") as refused:
        made(sink, name, schema("id INT", "n INT"))
    assert "a table that is not there" in str(refused.value.hint)
    postgres.ask(f"ALTER TABLE {name}.t ADD valid_from timestamptz, ADD valid_to timestamp")
    with pytest.raises(SchemaChangeRefused, match="its column 'valid_to' is timestamp without time zone"):
        made(sink, name, schema("id INT", "n INT"))
    postgres.ask(f"ALTER TABLE {name}.t ALTER valid_to TYPE timestamptz")
    with pytest.raises(SchemaChangeRefused, match=r"its unique index of \(id\) lets no key have a second row"):
        made(sink, name, schema("id INT", "n INT"))
    postgres.ask(f"ALTER TABLE {name}.t DROP CONSTRAINT ingest_pkey_t")
    with pytest.raises(SchemaChangeRefused, match=r"it has no unique index of \(id, valid_from\)"):
        made(sink, name, schema("id INT", "n INT"))
    postgres.ask(f"ALTER TABLE {name}.t ADD UNIQUE (valid_from, id)")
    made(sink, name, schema("id INT", "n INT"))
    assert owned(sink).undeclared({(name, "t"): schema("id INT", "n INT")}) == set()
    with pytest.raises(SchemaChangeRefused, match=r"it has no unique index of \(id\)"):
        made(before, name, schema("id INT", "n INT"))


def test_rows_with_such_a_column_are_rejects(postgres: Database) -> None:
    for column in ("valid_from", "valid_to"):
        with pytest.raises(RowError, match="which says when a row is valid") as refused:
            options(postgres, **CLOCK).table_for(("s", "t"), schema("id INT", f"{column} INT"))
        assert refused.value.code == "column-clash"


@pytest.mark.parametrize(("more", "text"), [
    ({"sink.write-mode": "history", "sink.delete-strategy": "soft"}, "write hard or ignore"),
    ({"sink.write-mode": "history", "sink.valid-to-column": "valid_from"}, "is the name of"),
    ({"sink.write-mode": "history", "sink.valid-from-column": "xmin"}, "not one of PostgreSQL's own"),
    ({"sink.valid-from-column": "a"}, r"sink\.valid-from-column needs sink\.write-mode: history"),
    ({"sink.write-mode": "append"}, "history"),
])  # fmt: skip
def test_options_that_do_not_go_together_are_refused(postgres: Database, more: dict[str, str], text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        options(postgres, **more)


def test_of_the_states_of_a_key_those_at_fault_are_told(postgres: Database, name: str, kind: str) -> None:
    sink = options(postgres, type=kind, **CLOCK)
    table = made(sink, name, schema("id INT", "v INT", "n INT"))
    postgres.ask(f"ALTER TABLE {name}.t ADD CHECK (n > 0)")
    writer = task(sink)
    writer.begin(scope())
    rows = [row(1, 5, 1), row(1, 6, -1), gone(1), row(1, 4, 2), row(2, 1, 1)]
    records = [Record(table, key.encode(), None if one is None else one.encode()) for key, one in rows]
    writer.write(records)
    with pytest.raises(RowsRefused) as caught:
        writer.commit({SPLIT: 9}, b"", final=True)
    assert [one.value for one in caught.value.rows] == [records[1][2]]
    assert periods(postgres, name) == []
    writer.abort()
    writer.write([records[0], *records[2:]])
    writer.commit({SPLIT: 9}, b"", final=True)
    assert periods(postgres, name, "n, valid_to IS NULL") == [(1, False), (2, True), (1, True)]


def test_an_attempt_after_a_commit_that_failed_writes_each_state_once(postgres: Database, name: str, kind: str) -> None:
    sink = options(postgres, type=kind, **CLOCK)
    table = made(sink, name, schema("id INT", "v INT", "n INT"))
    records = [Record(table, key.encode(), (one or "").encode()) for key, one in (row(1, 0, 1), row(1, 0, 2))]
    first = task(sink)
    first.begin(scope())
    first.write(records)
    postgres.ask(
        f"CREATE FUNCTION {name}.f() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END';"
        f"CREATE TRIGGER r AFTER INSERT ON {name}.t EXECUTE FUNCTION {name}.f()"
    )
    with pytest.raises(Exception, match="cannot write rows"):
        first.commit({SPLIT: 2}, b"", final=True)
    postgres.ask(f"DROP TRIGGER r ON {name}.t")
    assert periods(postgres, name) == []
    second = task(sink)
    resumed = second.begin(scope())
    assert resumed is None or not resumed.positions.get(SPLIT)
    second.write(records)
    second.commit({SPLIT: 2}, b"", final=True)
    assert periods(postgres, name, "n, valid_to IS NULL") == [(1, False), (2, True)]
    third = task(sink)
    again = third.begin(scope())
    assert again is not None, "what is committed is not read again"
    assert again.positions[SPLIT] == 2


def test_a_run_keeps_states_of_changed_keys_and_deletes(shop: Shop) -> None:
    shop.write(**CLOCK)
    for number in range(1, 4):
        shop.add("c", None, {"id": number, "n": number})
    shop.add("u", {"id": 1, "n": 1}, {"id": 1, "n": 10})
    assert shop.run().code == 0
    shop.add("d", {"id": 1, "n": 10}, None)
    shop.add("u", {"id": 2, "n": 2}, {"id": 7, "n": 2})
    shop.add("u", {"id": 3, "n": 3}, {"id": 3, "n": 3.5, "more": True})
    ran = shop.run()
    assert ran.code == 0, ran.err
    columns = f"SELECT id, n, more, valid_to IS NULL FROM shop.{shop.table} ORDER BY id, valid_from"
    assert shop.postgres.ask(columns) == [
        (1, 1, None, False), (1, 10, None, False), (2, 2, None, False), (3, 3, None, False), (3, 3.5, True, True),
        (7, 2, None, True),
    ]  # fmt: skip


# -- against a model ---------------------------------------------------------------------------------------------------

a_change = st.tuples(
    st.integers(1, 2), st.one_of(st.none(), st.sampled_from([2001, 2002, 2003, 2101, 2102]), st.just("gone"))
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    batches=st.lists(st.lists(a_change, min_size=1, max_size=7), min_size=1, max_size=3),
    chunk=st.integers(1, 9),
    dated=st.booleans(),
)
def test_the_rows_are_those_that_one_change_after_the_other_makes(
    postgres: Database, name: str, kind: str, batches: list[list[Any]], chunk: int, *, dated: bool
) -> None:
    postgres.ask(f"DROP SCHEMA IF EXISTS {name} CASCADE")
    to = writing(postgres, name, *COLUMNS, kind=kind, by=DATED if dated else CLOCK)
    model = HistoryModel(timedelta(milliseconds=1) if kind == "hologres" else timedelta(microseconds=1), dated=dated)
    number = 0
    before, array_statements.MAX_ROWS = array_statements.MAX_ROWS, chunk  # type: ignore[misc]
    try:
        for batch in batches:
            rows, older = [], 0
            model.clock += timedelta(hours=1)
            for key, year in batch:
                number += 1
                older += model.apply(key, year, number)
                rows.append(gone(key) if year == "gone" else of(key, year, number))
            assert to.write(*rows) == (older if dated else 0)
            time.sleep(0.01)  # the clock of the next batch is behind all times of this one
    finally:
        array_statements.MAX_ROWS = before  # type: ignore[misc]
    for key in (1, 2):
        query = f"SELECT n, valid_from, valid_to FROM {name}.t WHERE id = %s ORDER BY valid_from"
        found = postgres.ask(query, key)
        assert list(in_order(found)) == list(in_order(model.rows.get(key, [])))


class HistoryModel:
    """The rows of a table, as one change after the other makes them: number, beginning, end, own time."""

    def __init__(self, tick: timedelta, *, dated: bool) -> None:
        self.rows: dict[int, list[list[Any]]] = {}
        self.clock = at(2050)
        self._tick, self._dated = tick, dated

    def apply(self, key: int, year: Any, number: int) -> bool:
        """Apply a change; return whether it is left out."""
        rows = self.rows.setdefault(key, [])
        last = rows[-1] if rows else None
        if year == "gone":
            if last is not None and last[2] is None:
                last[2] = max(self.clock, last[1] + self._tick)
            return False
        own = at(year) if self._dated and year is not None else None
        if last is not None and last[3] is not None:
            if own is None or own < last[3]:
                return True
            if own == last[3]:
                last[0], last[2] = number, None
                return False
        begins = own or self.clock
        if last is not None:
            begins = max(begins, last[1] + self._tick)
            if not self._dated and last[2] is not None:
                begins = max(begins, last[2])
            last[2] = begins if last[2] is None else min(last[2], begins)
        rows.append([number, begins, None, own])
        return False


def in_order(rows: list[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield rows with their times; those of the clock as numbers that say their order."""
    clock = sorted({one for row in rows for one in row[1:3] if one is not None and at(2025) < one < at(2090)})
    for number, begin, end in (one[:3] for one in rows):
        yield number, *(clock.index(one) if one in clock else one for one in (begin, end))
