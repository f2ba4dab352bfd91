"""Values of all types of MySQL as Debezium's and Canal's messages have them, recorded in `golden/mysql_peers.json`.

For each type: `ours`, what our own source reads of its rows; `debezium` (3.5, on MariaDB 10.11) has the schema of the
column and the values of the snapshot and of the log, `canal` (1.1.7) what it says of the type, and the log's values.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from struct import pack
from typing import TYPE_CHECKING, Any, Final

from inmemory import run
from mysql_values import OF_MARIADB, TYPES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ingest.testing.in_memory_run import InMemoryRun

_PAGE: Final = Path(__file__).parents[2] / "docs" / "spec" / "mysql.md"
RECORDED: Final = Path(__file__).parents[1] / "golden" / "mysql_peers.json"
KINDS: Final = {kind: of for kind, of in {**TYPES, **OF_MARIADB}.items() if not kind.startswith("INET")}
KINDS["YEAR"] = [one for one in KINDS["YEAR"] if one != "'0000'"]
KINDS["TEXT"] = ["REPEAT('ab', 40)", "''"]
"""What Debezium 3.5 can read: its parser of DDL stops at INET4 and INET6, and its snapshot at the year 0000."""
NAMES: Final = {kind: f"t{at}" for at, kind in enumerate(KINDS)}
"""The table that has the rows of a type: `id`, and the value as `v`."""


def recorded() -> dict[str, dict[str, Any]]:
    """What was recorded, by type."""
    found: dict[str, dict[str, Any]] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return found


def told() -> dict[str, tuple[str, str]]:
    """What the page says of types whose values differ: of Debezium's and of Canal's."""
    part = _PAGE.read_text(encoding="utf-8").partition("### Values of others\n")[2].partition("\n##")[0]
    rows = re.findall(r"^\| `([^`|]+)` \| ([^|]*) \| ([^|]*) \|$", part, re.MULTILINE)
    return {kind: (debezium.strip(), canal.strip()) for kind, debezium, canal in rows}


def tables(first: int) -> list[str]:
    """Statements that fill the tables, which are there, with rows from an id on."""
    return [
        f"INSERT INTO {NAMES[kind]} VALUES {', '.join(f'({at}, {one})' for at, one in enumerate(literals, first))}"
        for kind, literals in KINDS.items()
    ]


def debezium_message(table: str, schema: Any, at: int, value: Any) -> bytes:
    """A message of Debezium's with its schema, for a row."""
    fields = [{"type": "int32", "optional": False, "field": "id"}]
    if schema is not None:  # of a type that Debezium knows
        fields.append({**schema, "field": "v"})
    after = {"type": "struct", "fields": fields, "optional": True, "field": "after"}
    row = {"id": at} if schema is None else {"id": at, "v": value}
    payload = {"before": None, "after": row, "source": {"db": "d", "table": table}, "op": "c"}
    return json.dumps({"schema": {"type": "struct", "fields": [after]}, "payload": payload}).encode()


def canal_message(table: str, types: Any, at: int, value: Any) -> bytes:
    """A message of Canal's for a row."""
    mysql, code = types
    return json.dumps({
        "data": [{"id": str(at), "v": value}], "database": "d", "isDdl": False, "mysqlType": {"id": "int", "v": mysql},
        "old": None, "pkNames": ["id"], "sqlType": {"id": 4, "v": code}, "table": table, "type": "INSERT",
    }).encode()  # fmt: skip


def read(messages: Iterable[tuple[str, bytes]], count: int, **source: Any) -> dict[str, list[Any]]:
    """What a pipeline writes of messages, each behind its type: for each row a value, or the code of its reject."""
    given = list(messages)
    ran: InMemoryRun = run(
        [(None, message) for _, message in given], 1000, source=source,
        transform=[{"source-table": r"\.*", "primary-keys": "id"}],
    )  # fmt: skip
    assert ran.error is None, ran.error
    rejects = {index: code for index, _, code in ran.rejects}
    rows = {(topic, json.loads(key or b"")["id"]): json.loads(value or b"", parse_float=str).get("v")
            for topic, key, value in ran.records}  # fmt: skip
    out: dict[str, list[Any]] = {}
    places: dict[str, int] = {}
    for index, (kind, _) in enumerate(given):
        at = places[kind] = places.get(kind, -1) + 1
        place = f"d.{NAMES[kind]}", at
        out.setdefault(kind, []).append(rows[place] if index not in rejects else {"reject": rejects[index]})
    assert len(given) == count
    return out


def of_debezium(found: dict[str, dict[str, Any]], way: str) -> dict[str, list[Any]]:
    """The values that our format `debezium-json` reads. `way`: snapshot or log."""
    messages = [
        (kind, debezium_message(NAMES[kind], one["debezium"]["schema"], at, value))
        for kind, one in found.items()
        for at, value in enumerate(one["debezium"][way])
    ]
    return read(messages, len(messages), **{"value.format": "debezium-json"})


def of_canal(found: dict[str, dict[str, Any]]) -> dict[str, list[Any]]:
    """The values that our format `canal-json` reads."""
    messages = [
        (kind, canal_message(NAMES[kind], one["canal"]["types"], at, value))
        for kind, one in found.items()
        for at, value in enumerate(one["canal"]["values"])
    ]
    return read(messages, len(messages), **{
        "value.format": "canal-json", "canal-json.infer-schema.strategy": "MYSQL_TYPE",
        "canal-json.mysql.treat-mysql-timestamp-as-datetime-enabled": False,
        "canal-json.mysql.treat-tinyint1-as-boolean.enabled": False,
    })  # fmt: skip


def differing(
    ours: Mapping[str, Sequence[Any]], theirs: Mapping[str, Sequence[Any]]
) -> dict[str, list[tuple[str, Any, Any]]]:
    """For each type whose values do not mean the same: the literals of such, our value and the other one."""
    out: dict[str, list[tuple[str, Any, Any]]] = {}
    for kind, values in theirs.items():
        wrong = [
            (literal, mine, other)
            for literal, mine, other in zip(KINDS[kind], ours[kind], values, strict=True)
            if _meant(kind, mine) != _meant(kind, other)
        ]
        if wrong:
            out[kind] = wrong
    return out


def _meant(kind: str, value: Any) -> Any:
    """A value without the spelling of numbers, and without zeros at the end of a fraction."""
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        return value
    if kind.startswith("FLOAT"):
        return pack("<f", float(value)) if kind == "FLOAT" else float(value)
    if kind.startswith(("DOUBLE", "DECIMAL")):
        return float(value) if kind.startswith("DOUBLE") else Decimal(value)
    if kind.startswith(("TIME", "DATETIME")) and "." in str(value):
        return str(value).removesuffix("Z").rstrip("0").removesuffix(".")
    return str(value).removesuffix("Z") if kind.startswith("TIME") else value
