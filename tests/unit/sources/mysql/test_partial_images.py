"""Rows of the log that lack columns: what stands for these, and where nothing does (docs/spec/mysql.md#the-log)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from mysql_events import Log, read_bytes, table
from mysql_log import Tables

from ingest.errors import ConfigError
from ingest.sources.mysql.format import MySqlDecoder, MySqlRows
from ingest.sources.mysql.history import History, SchemaEntry
from ingest.sources.mysql.row_values import default_text
from ingest.sources.mysql.types import Column

if TYPE_CHECKING:
    from ingest.sources.mysql.types import Table

INSERT, UPDATE, DELETE = 30, 31, 32
ALL, KEY, A, B = b"\7", b"\1", b"\2", b"\4"
SHOP = table(
    "t", Column("id", "int", nullable=False), Column("a", "int"), Column("b", "int", nullable=False, default="7")
)


def read(kind: int, body: bytes, *present: bytes, of: Table = SHOP, partial: bool = True) -> list[dict[str, Any]]:
    """The changes of an event, the same by native code and by the reference. `_`: True where columns are unknown."""
    log = Log()
    log.query(b"BEGIN")
    log.table_map(7, "t", bytes([3] * len(of.columns)), b"")
    log.rows(kind, 7, len(of.columns), body, present)
    log.xid()
    tables = Tables({("shop", "t"): of}, partial=partial)
    both = [
        [value for value, _, _ in read_bytes(log.packets, log.offset, tables, native=native)[0]]
        for native in (False, True)
    ]
    assert both[0] == both[1]
    return [{**json.loads(value[5:]), "_": value[0] == 1} for value in both[0]]


def number(*values: int) -> bytes:
    """An image of integers without nulls."""
    return b"\0" + b"".join(value.to_bytes(4, "little") for value in values)


def test_an_update_has_the_columns_that_changed_and_the_key() -> None:
    (found,) = read(UPDATE, number(1) + number(5), KEY, A)
    assert (found["before"], found["after"], found["_"]) == ({"id": 1}, {"id": 1, "a": 5}, True)


def test_the_key_of_an_update_may_change() -> None:
    (found,) = read(UPDATE, number(1) + number(2), KEY, KEY)
    assert (found["before"], found["after"], found["_"]) == ({"id": 1}, {"id": 2}, True)


def test_what_the_row_before_has_is_known() -> None:
    """As in FULL_NODUP, and in tables without a key, whose rows before a change are whole."""
    (found,) = read(UPDATE, number(1, 2, 3) + number(9), ALL, B, partial=False)
    assert (found["after"], found["_"]) == ({"id": 1, "a": 2, "b": 9}, False)


def test_rows_of_several_sets_of_columns_and_deletes_are_read() -> None:
    (found,) = read(DELETE, number(4), KEY, partial=False)
    assert (found["before"], found["after"], found["_"]) == ({"id": 4}, None, False)
    both = read(UPDATE, number(1) + number(5) + number(2) + b"\1", KEY, A)
    assert [one["after"] for one in both] == [{"id": 1, "a": 5}, {"id": 2, "a": None}]


def test_an_insert_has_defaults_for_what_it_lacks() -> None:
    (found,) = read(INSERT, number(1), KEY, partial=False)
    assert (found["after"], found["_"]) == ({"id": 1, "a": None, "b": 7}, False)


def test_a_default_that_is_not_sure_stops_the_run() -> None:
    of = table("t", Column("id", "int"), Column("a", "int", default="( 1 + 1 )"))
    with pytest.raises(ConfigError, match=r"shop\.t is in the log without a") as caught:
        read(INSERT, number(1), KEY, of=of)
    assert "SET GLOBAL binlog_row_image = 'FULL'" in caught.value.hint


def test_a_sink_that_needs_whole_rows_stops_at_one_that_is_none() -> None:
    with pytest.raises(ConfigError, match=r"shop\.t is in the log without b: .* binlog_row_image") as caught:
        read(UPDATE, number(1) + number(5), KEY, A, partial=False)
    assert "SET GLOBAL binlog_row_image = 'FULL'" in caught.value.hint


def test_the_decoder_says_which_columns_are_not_known() -> None:
    options = MySqlRows()
    entries = (SchemaEntry(1, 0, ("shop", "t"), SHOP, read=True, booleans=False),)
    options.schemas.history = History(entries)
    text = b'{"before":{"id":1},"after":{"id":1,"a":5},"source":{"db":"shop","table":"t"},"op":"u"}'
    (found,) = MySqlDecoder(options, days_only=False).decode([None], [b"\1\0\0\0\1" + text])
    assert isinstance(found, tuple)
    assert found[5] is not None
    assert found[5].unsent == {"b"}


DEFAULTS = [
    (Column("c", "int"), b"null"),
    (Column("c", "int", default="-5"), b"-5"),
    (Column("c", "int", nullable=False), b"0"),
    (Column("c", "bigint", default="1 + 1"), None),
    (Column("c", "decimal", precision=5, scale=2, default="1.5"), b"1.50"),
    (Column("c", "decimal", precision=50, scale=1, nullable=False), b'"0.0"'),
    (Column("c", "float", default="1.1"), b"1.1"),
    (Column("c", "double", default="1e100"), b"1e+100"),
    (Column("c", "varchar", length=9, default="a'b"), b'"a\'b"'),
    (Column("c", "char", length=9, default="a "), b'"a"'),
    (Column("c", "text", nullable=False), b'""'),
    (Column("c", "enum", labels=("x", "y"), nullable=False), b'"x"'),
    (Column("c", "enum", labels=("x", "y"), default="y"), b'"y"'),
    (Column("c", "enum", labels=("x", "y"), default="Y"), None),
    (Column("c", "set", labels=("x", "y"), default="x,y"), b'"x,y"'),
    (Column("c", "set", labels=("x", "y"), default="y,x"), None),
    (Column("c", "date", default="2020-01-31"), b'"2020-01-31"'),
    (Column("c", "date", nullable=False), b'"0000-00-00"'),
    (Column("c", "datetime", fsp=3, default="2020-01-31 12:13:14.500"), b'"2020-01-31 12:13:14.5"'),
    (Column("c", "datetime", default="CURRENT_TIMESTAMP"), None),
    (Column("c", "timestamp", default="2020-01-31 12:13:14"), None),
    (Column("c", "time", default="-01:02:03"), b'"-01:02:03"'),
    (Column("c", "binary", length=3, nullable=False), b'"AAAA"'),
    (Column("c", "blob", nullable=False), b'""'),
    (Column("c", "int", generated=True), None),
    (Column("c", "bit", length=3, default="b'101'"), None),
]


@pytest.mark.parametrize(("column", "text"), DEFAULTS)
def test_defaults_have_the_text_of_their_type(column: Column, text: bytes | None) -> None:
    assert default_text(column) == text
