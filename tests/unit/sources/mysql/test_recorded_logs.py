"""Logs as servers have written them lead to the rows that their own client read (tests/support/record_logs.py)."""

from __future__ import annotations

import base64
import json
import re
from decimal import Decimal
from struct import pack
from typing import TYPE_CHECKING, Any

import pytest
from recorded_logs import RECORDED, recorded, replay

if TYPE_CHECKING:
    from ingest.sources.mysql.types import Column

LOGS = sorted(path.name for path in RECORDED.iterdir())


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("native", [False, pytest.param(True, marks=pytest.mark.compiled)])
def test_a_log_leads_to_the_rows_of_its_server(name: str, native: bool) -> None:
    logs, tables = recorded(name)
    found = replay(logs, native=native)
    assert {table for database, table in found.rows if found.rows[database, table]} == {
        table for table, of in tables.items() if of["rows"]
    }
    for table, of in tables.items():
        known = found.table(("shop", table))
        assert [column.name for column in known.columns] == of["columns"], table
        ours = {row[of["columns"][0]]: row for row in found.rows.get(("shop", table), {}).values()}
        theirs = {row[0]: row for row in of["rows"]}
        assert sorted(map(str, ours)) == sorted(theirs), table
        for key, row in ours.items():
            for column, text in zip(known.columns, theirs[str(key)], strict=True):
                if column.name not in row and (("shop", table), column.name) in found.marked:
                    continue  # it has the default of a column that was added, which no event says
                assert told(row.get(column.name), column) == wanted(text, column), (table, key, column)


def told(value: Any, column: Column) -> Any:
    """A value of a record, in the form in which it can be compared."""
    if value is None:
        return None
    if column.type in {"float", "double"}:
        return pack("<f", float(value)) if column.type == "float" else float(value)
    return json.loads(value) if column.type == "geometry" else value


def wanted(text: str | None, column: Column) -> Any:
    """The same of what the client has printed."""
    kind = column.type
    if text is None:
        return None
    if kind in {"float", "double"}:
        return pack("<f", float(text)) if kind == "float" else float(text)
    if kind == "bit":
        size = ((column.length or 1) + 7) // 8
        return bool(int(text)) if column.length in {None, 1} else _base64(int(text).to_bytes(size, "big"))
    if kind in {"binary", "varbinary", "blob"}:
        return _base64(bytes.fromhex(text))
    if kind == "geometry":
        srid, _, shape = text.partition(";")
        form, _, points = shape.partition("(")
        pairs = re.sub(r"([-\d.]+) ([-\d.]+)", r"[\1,\2]", points.removesuffix(")"))
        nested = json.loads(pairs.replace("(", "[").replace(")", "]"))
        return {"type": form.title(), "coordinates": [nested] if form == "POLYGON" else nested, "srid": int(srid)}
    if kind.endswith("int") or kind == "year":
        return str(int(text))
    if kind == "decimal":
        plain = format(Decimal(text), "f")
        return plain.removeprefix("-") if not Decimal(text) else plain
    if kind in {"time", "datetime", "timestamp"}:
        plain = text.rstrip("0").rstrip(".") if "." in text else text
        return plain + "Z" * (kind == "timestamp")
    return text


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
