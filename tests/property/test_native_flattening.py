"""Native code flattens rows, and finds their tables in their fields, as the reference does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from any_table import A_SINK, USUAL, Message, a_nested, schema, some_declared, space
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from native_encoding import compare

from ingest.formats.json.options import Json

pytestmark = pytest.mark.compiled


FLATTEN = {"json.infer-schema.flatten-nested-columns.enable": True}
NESTED_NAMES = ["id", "a", "a.b", "a.b.c", "a.d", "x.y.z", "x.y", "x", "ключ.é", ".", "a.", "..", "e"]
NESTED_KINDS = ["BIGINT", "STRING", "STRING", "DOUBLE", "BOOLEAN", "TIMESTAMP", "DECIMAL(5,2)", "VARCHAR(3)"]
Members = list[tuple[str, Any]]
"""The members of an object: names, and texts of values or the members of an object."""


def insert(data: Any, into: Members, name: str, value: str) -> None:
    """Put a column in an object, or in an object within it if its name has a point."""
    dots = [i for i, c in enumerate(name) if c == "."]
    split = data.draw(st.sampled_from([None, *dots, *dots]))
    if split is None:
        into.append((name, value))
        return
    first, rest = name[:split], name[split + 1 :]
    inner = [members for other, members in into if other == first and isinstance(members, list)]
    if inner and data.draw(st.integers(0, 9)):
        insert(data, inner[0], rest, value)
        return
    made: Members = []
    into.append((first, made))
    insert(data, made, rest, value)


def text_of(data: Any, members: Members, odd: str | None) -> str:
    """Write an object, sometimes with something odd in it."""
    parts = []
    for name, value in members:
        quoted = json.dumps(name, ensure_ascii=odd == "name")
        gap = data.draw(space) if odd == "space" else ""
        text = value if isinstance(value, str) else text_of(data, value, odd)
        parts.append(f"{gap}{quoted}{gap}:{gap}{text}{gap}")
    if odd == "twice":
        parts.append(data.draw(st.sampled_from(parts)))
    if odd == "order":
        parts = data.draw(st.permutations(parts))
    if odd == "empty":
        parts.append(data.draw(st.sampled_from(['"e":{}', '"e":{ }', '"a":{}', '"x":{"y":{}}', '"e":{"":{}}'])))
    return "{" + ",".join(parts) + "}"


@settings(max_examples=examples(1500))
@given(st.data())
def test_flattened_rows_as_the_book_has_them(data: Any) -> None:
    names = data.draw(st.lists(st.sampled_from(NESTED_NAMES[1:]), min_size=1, max_size=6, unique=True))
    kinds = {"id": "BIGINT", **{name: data.draw(st.sampled_from(NESTED_KINDS)) for name in names}}
    source = schema(kinds, ("id",))
    members: Members = []
    odd_one = data.draw(st.sampled_from([None, None, *kinds]))
    for name, kind in kinds.items():
        insert(data, members, name, data.draw(a_nested) if name == odd_one else USUAL[kind])
    odd = data.draw(st.sampled_from([None, None, None, "space", "twice", "order", "empty", "name"]))
    text = data.draw(space) + text_of(data, members, odd) + data.draw(space)
    fields = data.draw(st.sampled_from([[], [], ["id"], names[:1], [names[-1], "id"], ["id", *names[:2]]]))
    table = tuple(USUAL[kinds[name]].strip('"') for name in fields) or ("t",)
    form = Json.model_validate(
        {**FLATTEN, **({"json.decode.parser-table-id.fields": ",".join(fields)} if fields else {})}
    )
    message = Message(b"k", text.encode("utf-8", "surrogatepass"))
    declared, to = some_declared(data, source), data.draw(A_SINK)
    compare(form, table, source, source, message, keyed=False, to=to, declared=declared)


@settings(max_examples=examples(500))
@given(st.data())
def test_tables_of_rows_as_the_book_has_them(data: Any) -> None:
    kinds = {"id": "BIGINT", "a": data.draw(st.sampled_from(NESTED_KINDS)), "b": "STRING"}
    usual = {name: USUAL[kind] for name, kind in kinds.items()}
    fields = data.draw(st.lists(st.sampled_from(["id", "a", "b", "no"]), min_size=1, max_size=3, unique=True))
    odd = data.draw(st.sampled_from([None, None, *usual]))
    parts = [f'"{name}":{data.draw(a_nested) if name == odd else value}' for name, value in usual.items()]
    if data.draw(st.integers(0, 5)) == 0:
        parts.append(data.draw(st.sampled_from(parts)))
    text = "{" + ",".join(data.draw(st.permutations(parts))) + "}"
    table = tuple(usual.get(name, "no").strip('"') for name in fields)
    form = Json.model_validate({"json.decode.parser-table-id.fields": " , ".join(fields)})
    source = schema(kinds, ("id",))
    message = Message(None, text.encode("utf-8", "surrogatepass"))
    compare(form, table, source, source, message, keyed=False, to=data.draw(A_SINK))


NESTED = schema({"id": "BIGINT", "a.b.c": "DOUBLE", "a.d": "STRING", "l": "STRING", "e": "STRING"}, ("id",))


@pytest.mark.parametrize(
    "text",
    [
        '{"id":1,"a":{"b":{"c":1.10},"d":"x"},"l":[{"z":1}],"e":{}}',
        ' { "id" : 1 , "a" : { "b" : { "c" : 1.10 } , "d" : "x" } , "l" : [ { "z" : 1 } ] , "e" : { } } ',
        '{"id":1,"a":{"b":{"c":2}},"a.d":"y"}',
        '{"id":1,"a.b":{"c":null}}',
        '{"a":{"d":"x"},"id":1}',
        '{"id":1,"e":{},"l":{}}',
    ],
)
def test_rows_are_flattened(text: str) -> None:
    assert compare(Json.model_validate(FLATTEN), ("t",), NESTED, NESTED, Message(None, text.encode()), keyed=False)


@pytest.mark.parametrize(
    "text",
    [
        '{"id":1,"a":{"d":1},"a.d":2}',
        '{"id":1,"a":{"d":"x"},"a":{"b":{"c":2}}}',
        '{"id":1,"a":null,"a":{"d":"x"}}',
        '{"id":1,"a":{"d":"x"},"a":{}}',
        '{"id":1,"\\u0061":{"d":"x"}}',
        '{"id":1,"new":{"x":1}}',
        '{"id":1,"a":{"d":"x"}',
        '{"id":1,"a":{"d":"x"}}}',
        '{"id":1,"a":{"d":"x",}}',
        '{"id":1,"a":{"d" "x"}}',
        '{"id":1,' + '"a":{' * 40 + '"d":1' + "}" * 41,
        '{"id":1,"' + "x" * 3000 + '":{"d":1}}',
        "[1]",
        "",
    ],
)
def test_other_rows_are_not_flattened(text: str) -> None:
    assert not compare(Json.model_validate(FLATTEN), ("t",), NESTED, NESTED, Message(None, text.encode()), keyed=False)


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ('{"id":1,"a":"x","b":"y"}', True),
        ('{"b":"y","id":1,"a":"x"}', True),
        ('{"id":1,"a":"x","b":"z"}', False),
        ('{"id":1,"a":"x"}', False),
        ('{"id":1,"a":"x","b":null}', False),
        ('{"id":1,"a":"x","b":""}', False),
        ('{"id":1,"a":"x","b":{}}', False),
        ('{"id":1,"a":"x","b":"\\u0079"}', False),
    ],
)
def test_fields_say_which_table_a_row_is_of(text: str, taken: bool) -> None:
    form = Json.model_validate({"json.decode.parser-table-id.fields": "a,b"})
    source = schema({"id": "BIGINT", "a": "STRING", "b": "STRING"}, ("id",))
    assert compare(form, ("x", "y"), source, source, Message(None, text.encode()), keyed=False) is taken
