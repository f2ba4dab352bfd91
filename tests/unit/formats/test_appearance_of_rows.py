"""What a sample of messages suggests: keys, kinds of events, header lines, and where it suggests nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ingest.formats.appearance import (
    EventField,
    UniqueField,
    delimiter_of,
    event_field,
    header_of,
    objects,
    says_mysql_types,
    unique_field,
)


@pytest.mark.parametrize(("rows", "name"), [
    ([{"a": n, "user_id": -n, "id": n} for n in range(3)], "id"),
    ([{"a": n, "user_id": str(n)} for n in range(3)], "user_id"),
    ([{"at": str(n), "b": n} for n in range(3)], "at"),
    ([{"id": 1}, {"id": 2}, {"id": 1}], None),
    ([{"id": 1}, {"id": 2}, {}], None),
    ([{"id": 1}, {"id": 2}, {"id": None}], None),
    ([{"id": n / 2} for n in range(3)], None),
    ([{"id": [n]} for n in range(3)], None),
    ([{"id": bool(n)} for n in range(2)], None),
    ([{"a,b": n} for n in range(3)], None),
    ([{" a": n} for n in range(3)], None),
    ([{"id": 1}, {"id": 2}], None),
    ([], None),
])  # fmt: skip
def test_a_key_is_unique_in_all_messages(rows: list[dict[str, Any]], name: str | None) -> None:
    assert unique_field(rows) == (None if name is None else UniqueField(name, len(rows)))


def test_kinds_have_fields_of_their_own() -> None:
    apart = [{"k": "a", "x": 1}, {"k": "b", "y": 1}, {"k": "a", "x": 2}]
    assert event_field(apart) == EventField("k", ("a", "b"), 3)
    assert event_field([{"status": "NEW"}, {"status": "PAID", "at": 1}, {"status": "NEW"}]) is None
    assert event_field([{"type": "NEW"}, {"type": "PAID", "at": 1}, {"type": "NEW"}]) is not None
    assert event_field([{"type": "a", "x": 1}, {"type": "b", "x": 2}, {"type": "a", "x": 1}]) is None
    assert event_field([{"type": "a", "x": 1}, {"type": "b", "y": 2}, {"x": 1}]) is None
    assert event_field([{"type": str(n), str(n): 1} for n in range(30)]) is None
    assert event_field(apart[:2]) is None


def test_mysql_types_are_in_each_message_of_rows() -> None:
    def said(*messages: dict[str, Any]) -> bool:
        return says_mysql_types(json.dumps(message).encode() for message in messages)

    row = {"data": [{"id": "1"}], "mysqlType": {"id": "int"}}
    ddl = {"data": None, "isDdl": True}
    assert said(row, ddl)
    assert not said(row, row | {"mysqlType": None})
    assert not said(ddl)


def test_a_header_line_names_columns_of_numbers() -> None:
    rows = [b"1,Ada", b"2,Bob"]
    assert header_of(b"id,name", rows, ",") == ("id", "name")
    assert header_of(b'"id","full name"', rows, ",") == ("id", "full name")
    for none in (b"id,id", b"id", b"3,Cy", b"id,", b"", b",", b"\xff,a", b"id,na:me"):
        assert header_of(none, rows, ",") == (), none
    assert header_of(b"id,name", [b"a,b", b"c,d"], ",") == ()
    assert header_of(b"id,name", [], ",") == ()


def test_what_is_between_fields_is_as_often_in_each_line() -> None:
    assert delimiter_of([b"a,b", b"c,d"]) == ","
    assert delimiter_of([b"1;2,5", b"3;4"]) == ";"
    assert delimiter_of([b"a\tb", b"c\td"]) == "\t"
    assert delimiter_of([b"a|b"]) == "|"
    assert delimiter_of([]) == ","
    assert objects([b"{}", b"[]", b"{", b"7"]) == [{}]
