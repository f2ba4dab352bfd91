"""Messages at random, for properties."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from picking import pick, pick_some

A_VALUE = st.sampled_from([
    "1", "2", "3000000000", "1.50", "true", "null", '"x"', '"y, z"', '{"a": 1}', "[1,2]", '"2020-01-31 12:13:14"',
    "99999999999999999999", '"' + "\\u00e9" + '"', '"7"', '" 8.0 "', "9.0", '"TRUE"', '"2020-01-31T12:13:14"',
    '"2020-01-31T12:13:14.123456789"',
])  # fmt: skip
DECLARED = {
    "scan.value.initial-schemas.ddls": "; ".join(
        f"CREATE TABLE {name} (id BIGINT, a {a}, b {b}, PRIMARY KEY (id) NOT ENFORCED)"
        for name, a, b in (("d.t", "INT", "DOUBLE"), ("d.u", "DECIMAL(10,2)", "BOOLEAN"), ("topic", "INT", "TIMESTAMP"))
    )
}
"""Types of the columns of all tables but one."""

FORMS: list[tuple[str, dict[str, Any]]] = [
    ("debezium-json", {}),
    ("canal-json", {}),
    ("canal-json", {"canal-json.database.include": "d", "canal-json.table.include": "t|v.*"}),
    ("maxwell-json", {}),
    ("ogg-json", {}),
    ("json", {}),
    ("json", {"json.infer-schema.flatten-nested-columns.enable": True}),
    ("json", {"json.decode.parser-table-id.fields": "b, a"}),
]
"""Formats with options that bear on how messages are read."""


def a_message_of_maxwell(
    draw: Any, table: str, number: int, row: str, before: str
) -> tuple[bytes | None, bytes | None]:
    """Return a message with the row's number in its key. Its key's columns are said in it, in its key, or nowhere."""
    kind = pick(draw, ["insert", "update", "delete", "update", "bootstrap-insert", "table-alter"])
    old = pick(draw, ["", f',"old":{before}', ',"old":{"a":1}', ',"old":null'])
    said = pick(draw, ['"primary_key_columns":["id"],', "", ""])
    key = pick(draw, [
        f'{{"database":"d","table":"{table}","pk.id":{number}}}', f'["d","{table}",[{{"id":{number}}}]]',
        f'{{"database":"d","table":"{table}","_uuid":"x"}}', f'{{"id":{number}}}',
    ])  # fmt: skip
    text = f'{{"database":"d","table":"{table}","type":"{kind}","ts":1,"xid":5,{said}"data":{row}{old}}}'
    return key.encode(), text.encode()


def a_message_of_golden_gate(draw: Any, table: str, row: str, before: str) -> tuple[bytes | None, bytes | None]:
    """Return a message whose images are there, lack, or are alike. Its key's columns are said in it, or nowhere."""
    op = pick(draw, "IIUUDT")
    images = {"I": f'"after":{row}', "U": f'"before":{before},"after":{row}', "D": f'"before":{row},"after":null'}
    known = pick(draw, ['"primary_keys":["id"],', '"primary_keys":["id"],', ""])
    images["U"] = pick(draw, [images["U"], f'"after":{row}', f'"before":{row},"after":{row}'])
    image = images.get(op, '"after":null')
    return None, f'{{"table":"d.{table}","op_type":"{op}",{known}{image}}}'.encode()


@st.composite
def a_message(draw: Any, form: str) -> tuple[bytes | None, bytes | None]:
    """One of a few tables with columns that come and go, or something that is none."""
    odd = pick(draw, [None] * 12 + ["none", "broken", "other"])
    key = draw(st.integers(1, 3))
    if odd == "none":
        return b'{"id":1}', None
    if odd == "broken":
        return None, pick(draw, [b"{", b"[]", b"5", b'{"op":"c"}', b"\xff", b'{"id":1,"id":2}'])
    gap = pick(draw, ["", "", "", " "])
    names = pick_some(draw, ["a", "b", "c"])
    fields = [f'"id":{gap}{key}', *(f'"{name}"{gap}:{draw(A_VALUE)}' for name in names)]
    row = "{" + f",{gap}".join(fields if draw(st.integers(0, 5)) != 5 else fields[1:]) + "}"
    if form == "json":
        return None, row.encode()
    before = f'{{"id":{draw(st.integers(1, 3))}}}'
    table = "u" if odd == "other" else "t"
    if form == "debezium-json":
        op = pick(draw, "ccuud")
        images = f'"before":{before},"after":null' if op == "d" else f'"before":null,"after":{row}'
        images = f'"before":{before},"after":{row}' if op == "u" else images
        text = f'{{{images},"source":{{"db":"d","table":"{table}"}},"op":"{op}"}}'
        return f'{{"id":{key}}}'.encode(), text.encode()
    if form == "maxwell-json":
        return a_message_of_maxwell(draw, table, key, row, before)
    if form == "ogg-json":
        return a_message_of_golden_gate(draw, table, row, before)
    kind = pick(draw, ["INSERT", "UPDATE", "DELETE"])
    rows = ",".join([row] * pick(draw, [1, 1, 1, 2]))
    text = f'{{"data":[{rows}],"database":"d","old":null,"pkNames":["id"],"table":"{table}","type":"{kind}"}}'
    return None, text.encode()
