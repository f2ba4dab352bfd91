"""Rows of which only some columns came, in a real PostgreSQL: the other columns keep what the table has."""

from __future__ import annotations

import json
import random
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from postgres_sink import SPLIT, made, options, schema, scope, task

from ingest.encode.upsert_encoder import PartialRow, Record
from ingest.model.commit import NO_ROW, RowsRefused

if TYPE_CHECKING:
    from postgres import Database

    from ingest.sinks.postgres.options import SqlSinkOptions
    from ingest.sinks.postgres.tables import SqlTable

COLUMNS = ("id INT", "a INT", "b STRING", "c BYTES")


def key(number: int) -> bytes:
    return b'{"id":%d}' % number


def whole(number: int, a: int | None = None, b: str | None = None) -> tuple[bytes, bytes]:
    return key(number), json.dumps({"id": number, "a": a, "b": b, "c": "AP8="}).encode()


def part(number: int, of: int | None = None, **columns: Any) -> tuple[bytes, PartialRow]:
    """The columns of a row that came; `of`: the key that the row had before."""
    made = PartialRow(json.dumps({"id": number, **columns}).encode())
    made.old_key = None if of is None else key(of)
    return key(number), made


def gone(number: int) -> tuple[bytes, None]:
    return key(number), None


def write(sink: SqlSinkOptions, table: SqlTable, *rows: tuple[bytes, bytes | None], batch: int = 1) -> int:
    """Write rows and commit; return how many changes had no row."""
    with closing(task(sink)) as writer:
        writer.begin(scope(batch=batch))
        writer.write([Record(table, *row) for row in rows])
        writer.commit({SPLIT: len(rows)}, b"", final=True)
        found = writer.left_out()
        assert set(found) <= {NO_ROW}
        return found.get(NO_ROW, 0)


def test_columns_that_did_not_come_stay(postgres: Database, name: str) -> None:
    sink = options(postgres)
    table = made(sink, name, schema(*COLUMNS))
    write(sink, table, whole(1, 1, "x"), whole(2, 2, "y"), part(2, a=20), part(2, b=None))
    assert postgres.rows(f"{name}.t", "id, a, b") == [(1, 1, "x"), (2, 20, None)]
    left = write(sink, table, part(1, a=None), part(1, b="z", c="AA=="), part(2, c=None), part(9, a=9), batch=2)
    assert postgres.rows(f"{name}.t", "id, a, b, c") == [(1, None, "z", b"\0"), (2, 20, None, None)]
    assert left == 1, "there is no row whose other columns the table has"


def test_a_row_takes_its_columns_along_to_another_key(postgres: Database, name: str) -> None:
    sink = options(postgres)
    table = made(sink, name, schema(*COLUMNS))
    write(sink, table, whole(1, 1, "x"), whole(2, 2, "y"), part(3, of=1, a=10))
    write(sink, table, part(1, of=2), part(2, of=3, b="moved"), part(2, c=None), whole(3, 3, "new"), batch=2)
    assert postgres.rows(f"{name}.t", "id, a, b, c") == [
        (1, 2, "y", b"\0\xff"), (2, 10, "moved", None), (3, 3, "new", b"\0\xff"),
    ]  # fmt: skip
    # The row of the new key is there already, as where a chunk was read later than this change
    assert write(sink, table, part(3, of=2, a=30), part(8, of=7, a=1), batch=3) == 1
    assert postgres.rows(f"{name}.t", "id, a, b") == [(1, 2, "y"), (3, 30, "new")]


@pytest.mark.parametrize(("deletes", "left"), [("soft", [(1, 1, "x", True), (2, 5, "x", False)]), ("ignore", None)])
def test_a_row_that_moves_is_gone_as_others_are(postgres: Database, name: str, deletes: str, left: Any) -> None:
    sink = options(postgres, **{"sink.delete-strategy": deletes})
    table = made(sink, name, schema(*COLUMNS))
    write(sink, table, whole(1, 1, "x"))
    write(sink, table, part(2, of=1, a=5), batch=2)
    flag = ", _deleted" if left else ""
    assert postgres.rows(f"{name}.t", f"id, a, b{flag}") == (left or [(1, 1, "x"), (2, 5, "x")])


def test_a_part_is_refused_as_other_rows_are(postgres: Database, name: str) -> None:
    sink = options(postgres)
    table = made(sink, name, schema(*COLUMNS))
    write(sink, table, whole(1, 1, "x"), whole(2, 2, "y"))
    postgres.ask(f"ALTER TABLE {name}.t ADD CHECK (a < 100)")
    with closing(task(sink)) as writer:
        writer.begin(scope(batch=2))
        bad = part(1, a=500)
        writer.write([Record(table, *bad), Record(table, *part(1, b="z")), Record(table, *part(2, a=3))])
        with pytest.raises(RowsRefused) as caught:
            writer.commit({SPLIT: 3}, b"", final=True)
        assert [(row.key, row.value) for row in caught.value.rows] == [bad]
    assert write(sink, table, part(1, b="z"), part(2, a=3), batch=2) == 0
    assert postgres.rows(f"{name}.t", "id, a, b") == [(1, 1, "z"), (2, 3, "y")]


def test_any_order_of_changes_ends_as_in_the_database(postgres: Database, name: str) -> None:
    sink = options(postgres)
    table = made(sink, name, schema(*COLUMNS))
    chance = random.Random(39)
    rows: dict[int, dict[str, Any]] = {}
    for batch in range(1, 41):
        changes: list[tuple[bytes, bytes | None]] = []
        for _ in range(chance.randint(1, 12)):
            number, other = chance.randint(1, 6), chance.randint(1, 6)
            columns: dict[str, Any] = {}
            if chance.random() < 0.6:
                columns["a"] = chance.choice([None, chance.randint(0, 9)])
            if chance.random() < 0.6:
                columns["b"] = chance.choice([None, "x", 'é"\\'])
            if number not in rows:
                rows[number] = {"a": chance.randint(0, 9), "b": "new"}
                changes.append(whole(number, rows[number]["a"], "new"))
            elif chance.random() < 0.2:
                del rows[number]
                changes.append(gone(number))
            elif other not in rows and chance.random() < 0.4:
                rows[other] = {**rows.pop(number), **columns}
                changes.append(part(other, of=number, **columns))
            else:
                rows[number] |= columns
                changes.append(part(number, **columns))
        assert write(sink, table, *changes, batch=batch) == 0
        found = postgres.rows(f"{name}.t", "id, a, b")
        assert found == [(number, row["a"], row["b"]) for number, row in sorted(rows.items())], batch
