"""What becomes of rows that are deleted at the source, in a real PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from postgres_sink import SPLIT, made, options, owned, schema, scope, task, write
from pydantic import ValidationError

from ingest.encode.upsert_encoder import Record
from ingest.errors import SchemaChangeRefused
from ingest.model.commit import RowsRefused
from ingest.model.reject import RowError
from ingest.sinks.postgres.tables import table_of

if TYPE_CHECKING:
    from postgres import Database
    from postgres_shop import Shop

    from ingest.sinks.postgres.options import SqlSinkOptions
    from ingest.sinks.postgres.tables import SqlTable

SOFT = {"sink.delete-strategy": "soft"}


def soft(sink: SqlSinkOptions, name: str, *columns: str) -> SqlTable:
    """A table whose deleted rows stay, which is there now."""
    return made(sink, name, schema(*columns))


def row(key: object, value: object) -> tuple[str, str | None]:
    return f'{{"id":{key}}}', None if value is None else f'{{"id":{key},"n":{value}}}'


@pytest.mark.usefixtures("_staged")
@pytest.mark.parametrize("kind", ["postgres", "hologres"])
def test_a_deleted_row_stays_and_may_come_back(postgres: Database, name: str, kind: str) -> None:
    sink = options(postgres, type=kind, **SOFT)
    table = soft(sink, name, "id INT", "n INT")
    write(sink, table, row(1, 1), row(2, 2))
    write(sink, table, row(1, None), row(9, None), batch=2)
    assert postgres.rows(f"{name}.t", "id, n, _deleted") == [(1, 1, True), (2, 2, False)]
    write(sink, table, row(1, 3), row(2, None), row(2, 4), batch=3)
    assert postgres.rows(f"{name}.t", "id, n, _deleted") == [(1, 3, False), (2, 4, False)]


@pytest.mark.usefixtures("_staged")
def test_the_values_of_a_row_that_is_written_and_deleted_at_once_stay(postgres: Database, name: str) -> None:
    sink = options(postgres, **SOFT, **{"sink.delete-column": "a \"b'%s"})
    table = soft(sink, name, "id DOUBLE", "n INT")
    write(sink, table, row(1, 1), row(1, 2), row(1, None), row(1, None), row(0.1, 3), row("0.10000000000000001", None))
    flag = '"a ""b\'%s"'
    assert postgres.rows(f"{name}.t", f"id, n, {flag}") == [(0.1, 3, True), (1, 2, True)]
    write(sink, table, row(1, None), row("1.0", 5), batch=2)
    assert postgres.rows(f"{name}.t", f"id, n, {flag}") == [(0.1, 3, True), (1, 5, False)]


@pytest.mark.usefixtures("_staged")
def test_a_table_of_its_key_alone_has_deleted_rows(postgres: Database, name: str) -> None:
    sink = options(postgres, **SOFT)
    table = soft(sink, name, "id INT")
    write(sink, table, ('{"id":1}', '{"id":1}'), ('{"id":2}', '{"id":2}'), ('{"id":2}', None))
    write(sink, table, ('{"id":2}', '{"id":2}'), ('{"id":1}', None), batch=2)
    assert postgres.rows(f"{name}.t", "id, _deleted") == [(1, True), (2, False)]


@pytest.mark.usefixtures("_staged")
def test_deletes_may_be_ignored(postgres: Database, name: str) -> None:
    sink = options(postgres, **{"sink.delete-strategy": "ignore"})
    table = made(sink, name, schema("id INT", "n INT"))
    write(sink, table, row(1, 1), row(1, None), row(2, 2))
    write(sink, table, row(2, None), row(3, None), batch=2)
    assert postgres.rows(f"{name}.t") == [(1, 1), (2, 2)]


def test_the_column_is_added_to_tables_that_are_there(postgres: Database, name: str) -> None:
    before = options(postgres)
    write(before, made(before, name, schema("id INT", "n INT")), row(1, 1), row(2, 2))
    sink = options(postgres, **SOFT)
    coordinator = owned(sink)
    (statement,) = coordinator.undeclared({(name, "t"): schema("id INT", "n INT")})
    assert statement.endswith('ADD COLUMN IF NOT EXISTS "_deleted" boolean NOT NULL DEFAULT false')
    table = soft(sink, name, "id INT", "n INT")
    assert coordinator.undeclared({(name, "t"): schema("id INT", "n INT")}) == set()
    write(sink, table, row(1, None))
    assert postgres.rows(f"{name}.t", "id, n, _deleted") == [(1, 1, True), (2, 2, False)]


def test_a_column_that_cannot_say_it_is_refused(postgres: Database, name: str) -> None:
    sink = options(postgres, **SOFT)
    made(options(postgres), name, schema("id INT", "_deleted STRING"))
    with pytest.raises(SchemaChangeRefused, match="its column '_deleted' is text"):
        soft(sink, name, "id INT")
    with pytest.raises(RowError) as refused:
        table_of((name, "t"), schema("id INT", "_deleted BOOLEAN"), "public", sink.deleted)
    assert refused.value.code == "column-clash"


@pytest.mark.parametrize("column", ["", "\0", "x" * 64, "é" * 32, "\ud800", "ctid", "xmin"])
def test_names_that_no_column_can_have_are_refused(postgres: Database, column: str) -> None:
    with pytest.raises(ValidationError):
        options(postgres, **SOFT, **{"sink.delete-column": column})


def test_the_column_needs_deleted_rows_that_stay(postgres: Database) -> None:
    with pytest.raises(ValidationError, match=r"sink\.delete-column needs sink\.delete-strategy: soft"):
        options(postgres, **{"sink.delete-column": "gone"})


@pytest.mark.usefixtures("_staged")
def test_of_a_row_and_its_delete_the_one_at_fault_is_told(postgres: Database, name: str) -> None:
    sink = options(postgres, **SOFT)
    table = soft(sink, name, "id INT", "n INT")
    postgres.ask(f"ALTER TABLE {name}.t ADD CHECK (n > 0), ADD CHECK (NOT _deleted OR n < 10)")
    writer = task(sink)
    writer.begin(scope())
    rows = [row(1, -1), row(1, None), row(2, 50), row(2, None), row(3, 5), row(3, None)]
    writer.write([Record(table, key.encode(), None if value is None else value.encode()) for key, value in rows])
    with pytest.raises(RowsRefused) as caught:
        writer.commit({SPLIT: 9}, b"", final=True)
    found = [(one.key, one.value) for one in caught.value.rows]
    assert found == [(b'{"id":1}', b'{"id":1,"n":-1}'), (b'{"id":2}', None)]


def test_a_run_marks_rows_as_deleted_from_then_on(shop: Shop) -> None:
    for number in range(1, 4):
        shop.add("c", None, {"id": number, "n": number})
    assert shop.run().code == 0
    shop.write(**SOFT)
    shop.add("d", {"id": 1, "n": 1}, None)
    shop.add("u", {"id": 2, "n": 2}, {"id": 7, "n": 2})
    shop.add("c", None, {"id": 8, "n": 8})
    shop.add("d", {"id": 8, "n": 8}, None)
    ran = shop.run()
    assert ran.code == 0, ran.err
    assert shop.rows("id, n, _deleted") == [
        (1, 1, True), (2, 2, True), (3, 3, False), (7, 2, False), (8, 8, True),
    ]  # fmt: skip
    shop.write(**{"sink.delete-strategy": "ignore"})
    shop.add("d", {"id": 3, "n": 3}, None)
    assert shop.run().code == 0
    assert shop.rows("id, _deleted")[2] == (3, False)


def test_a_table_that_the_source_empties_loses_its_rows(postgres: Database, name: str) -> None:
    """Not where deleted rows stay, or where a table has a history; a table that is not there is none to empty."""
    sink = options(postgres)
    table = made(sink, name, schema("id INT", "n INT"))
    write(sink, table, row(1, 1), row(2, 2))
    side = owned(sink)
    assert side.empty((name, "t"))
    assert side.empty((name, "never-made"))
    assert postgres.rows(f"{name}.t", "id") == []
    write(sink, table, row(2, 3), batch=2)
    for more in (SOFT, {"sink.write-mode": "history"}):
        assert not owned(options(postgres, **more)).empty((name, "t"))
    assert postgres.rows(f"{name}.t", "id, n") == [(2, 3)]
