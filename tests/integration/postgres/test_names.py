"""Names of tables and columns on a real PostgreSQL, in both dialects: what a message names is a name, and no SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import psycopg
import pytest
from postgres_sink import options, owned, schema, write

from ingest.model import types
from ingest.model.reject import RowError
from ingest.model.schema import Column, TableSchema
from ingest.sinks.postgres.tables import table_of

if TYPE_CHECKING:
    from postgres import Database

HOSTILE = [
    '"', "'", '"; DROP TABLE x; --', "%s", "%(id)s", "{}", "{0}", "a b", "\\", "\n", "\t", "é", "表", "😀", "select",
    "ID", "1", ".", "a.b", "$1", ":x", "x" * 63, "é" * 31, "pg_catalog.pg_class", "--", "/*", ";", "\x01", "\x7f",
]  # fmt: skip


@pytest.mark.usefixtures("_staged")
@pytest.mark.parametrize("kind", ["postgres", "hologres"])
@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_are_names(postgres: Database, name: str, kind: str, text: str) -> None:
    sink = options(postgres, type=kind)
    column = TableSchema((Column("id", types.INT, nullable=False), Column(text, types.BYTES)), ("id",))
    keyed = TableSchema((Column(text, types.INT, nullable=False),), (text,))
    owned(sink).declare({(name, "t"): column, (name, text): keyed})
    said = msgspec.json.encode(text).decode()
    with_bytes, with_key = sink.table_for((name, "t"), column), sink.table_for((name, text), keyed)
    write(sink, with_bytes, ('{"id":1}', f'{{"id":1,{said}:"AP8="}}'))
    write(sink, with_key, *((f"{{{said}:{number}}}", f"{{{said}:{number}}}") for number in (7, 8)), batch=2)
    write(sink, with_key, (f"{{{said}:8}}", None), batch=3)
    found = postgres.ask(
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = %s ORDER BY 1, 2", name
    )
    assert sorted(found) == sorted([("t", "id"), ("t", text), (text, text)])
    for table, content in (("t", b"\x00\xff"), (text, 7)):
        query = psycopg.sql.SQL("SELECT {} FROM {}")
        places = (psycopg.sql.Identifier(text), psycopg.sql.Identifier(name, table))
        assert postgres.ask(query.format(*places)) == [(content,)]


@pytest.mark.parametrize("table", [
    ("public", "ingest_run"), ("ingest_progress",), ("pg_catalog", "pg_authid"), ("information_schema", "t"),
    ("a", "pg_toast", "t"),
])  # fmt: skip
def test_tables_of_the_server_and_of_the_tool_are_rejects(table: tuple[str, ...]) -> None:
    with pytest.raises(RowError) as refused:
        table_of(table, schema("id INT"), "public")
    assert refused.value.code == "bad-name"


@pytest.mark.parametrize("text", ["", "\0", "x" * 64, "é" * 32, "\ud800", "ctid", "xmin"])
def test_names_that_cannot_be_are_rejects(text: str) -> None:
    with pytest.raises(RowError) as refused:
        table_of(("s", "t"), TableSchema((Column(text, types.INT),), ()), "public")
    assert refused.value.code == "bad-name"
