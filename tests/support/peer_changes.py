"""Changes of a table of all types as we, Debezium and Canal write them, and what Flink's formats read of the messages.

Recorded in `golden/mysql_changes.jsonl` by `record_changes.py`, for each server (`SERVERS`) and form of messages
(`FORMS`, `THEIRS`): keys and values of the messages, and the rows that Flink reads of each. The page
docs/spec/mysql.md#read-by-flink has the types that a table of Flink declares.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from backfills import BackfillShop
from mysql_servers import MARIADB_10, MYSQL_5, PASSWORD, USER

from ingest.sources.mysql.binary_values import geometry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mysql_servers import MySql

    Message = tuple[str | None, str | None]

ROOT: Final = Path(__file__).parents[2]
RECORDED: Final = ROOT / "tests" / "golden" / "mysql_changes.jsonl"
SERVERS: Final = {"mariadb": MARIADB_10, "mysql5": MYSQL_5}
FORMS: Final = {"debezium": "debezium-json", "debezium with schema": "debezium-json", "canal": "canal-json"}
"""The forms of our messages, and the formats of them."""
THEIRS: Final = {"Debezium": "debezium-json", "Canal": "canal-json"}
_IN_COLUMN: Final = {"debezium": 0, "canal": 0, "debezium with schema": 1, "Debezium": 2, "Canal": 3}
"""Which of the page's columns declares the types of a form."""
DATABASE: Final = "changes"
SESSION: Final = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'"
COLUMNS: Final = {
    "id": "BIGINT", "ti": "TINYINT", "bo": "TINYINT(1)", "si": "SMALLINT", "mi": "MEDIUMINT", "i": "INT",
    "iu": "INT UNSIGNED", "bu": "BIGINT UNSIGNED", "n": "DECIMAL(20,4)", "wide": "DECIMAL(65,30)", "f": "FLOAT",
    "d": "DOUBLE", "b1": "BIT(1)", "b13": "BIT(13)", "y": "YEAR", "dt": "DATE", "t0": "TIME", "t3": "TIME(3)",
    "t6": "TIME(6)", "d0": "DATETIME", "d3": "DATETIME(3)", "d6": "DATETIME(6)", "s0": "TIMESTAMP",
    "s6": "TIMESTAMP(6)", "c": "CHAR(5)", "v": "VARCHAR(50)", "l": "VARCHAR(20) CHARACTER SET latin1",
    "bin": "BINARY(5)", "vb": "VARBINARY(9)", "bl": "BLOB", "e": "ENUM('a','B''s','ü,x','')",
    "st": "SET('a','b c','ü')", "g": "GEOMETRY", "j": "JSON",
}  # fmt: skip
ALL_COLUMNS: Final = {**COLUMNS, "more": "INT DEFAULT 3"}
"""These, and one that a statement adds."""
NO_DAYS: Final = 50
"""The row whose dates are no days."""
_POINT: Final = "GeomFromText('POINT(1 2.5)', 4326)"
_FIRST: Final = (
    "1", "-128", "1", "-32768", "-8388608", "-2147483648", "4294967295", "9223372036854775807",
    "-1234567890123456.7891", "-0.5", "1.1", "1e100", "1", "b'1000000000001'", "2155", "'1000-01-01'", "'23:59:59'",
    "'-838:59:58.999'", "'12:13:14.123456'", "'9999-12-31 23:59:59'", "'2020-01-31 12:13:14.5'",
    "'2020-01-31 12:13:14.123456'", "'2038-01-19 03:14:07'", "'2020-01-31 12:13:14.5'", "'ab  '", r"'ü\"\\€'", "'ß€'",
    "X'00ff0100'", "X'0001ff'", "X'00ff'", "'ü,x'", "'a,ü'", _POINT, r"""'{"a": [1, null]}'""",
)  # fmt: skip
_THIRD: Final = (
    "3", "127", "-3", "32767", "8388607", "2147483647", "0", "18446744073709551615", "0", "0", "-0.1", "5e-324", "0",
    "b'1'", "1901", "'9999-12-31'", "'838:59:59'", "'-00:00:00.5'", "'-00:00:00.000001'", "'1000-01-01'",
    "'1970-01-01'", "'1969-12-31 23:59:59.999999'", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07.999999'",
    "''", "''", "''", "X''", "X''", "X''", "'a'", "''", _POINT, "'[]'",
)  # fmt: skip
CHANGES: Final = (
    f"INSERT INTO t VALUES ({', '.join(_FIRST)}), (2{', NULL' * (len(COLUMNS) - 1)}), ({', '.join(_THIRD)})",
    "UPDATE t SET v = NULL, i = 7 WHERE id = 1",
    "UPDATE t SET v = 'there', n = 0.5, dt = '2020-02-29' WHERE id = 2",
    "UPDATE t SET id = 30 WHERE id = 3",
    "UPDATE t SET id = id + 1 ORDER BY id DESC",
    "REPLACE INTO t (id, v) VALUES (2, 'again'), (9, 'new')",
    "INSERT INTO t (id, i) VALUES (9, 1) ON DUPLICATE KEY UPDATE i = 5, id = 10",
    "UPDATE t SET i = i",
    "DELETE FROM t WHERE id IN (2, 31)",
    "TRUNCATE t",
    "INSERT INTO t (id, dt) VALUES (1, '2020-02-29')",
    f"INSERT INTO t (id, dt, d0, s6) VALUES ({NO_DAYS}, '0000-00-00', '2020-00-15', '0000-00-00')",
    f"DELETE FROM t WHERE id = {NO_DAYS}",
)
LATER: Final = (
    f"ALTER TABLE t ADD more {ALL_COLUMNS['more']}, DROP si",
    "INSERT INTO t (id, more) VALUES (2, 4)",
    "UPDATE t SET more = NULL WHERE id = 2",
    "DELETE FROM t WHERE id = 2",
)
_TEXTS: Final = {"JSON": "LONGTEXT"}
"""What MySQL 5.6 has in place of a type."""
_SCHEMA: Final = '{"schema":'
_PAYLOAD: Final = ',"payload":'
_PAGE: Final = ROOT / "docs" / "spec" / "mysql.md"


def made(server: MySql) -> None:
    """Make the database with its table, and another one whose last row ends what is compared."""
    kinds = {name: kind if server.kind.is_mariadb else _TEXTS.get(kind, kind) for name, kind in COLUMNS.items()}
    columns = ", ".join(f"{name} {kind}{' NULL' if name != 'id' else ' PRIMARY KEY'}" for name, kind in kinds.items())
    server.execute(f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
    last = "CREATE TABLE last (id INT PRIMARY KEY)", "INSERT INTO last VALUES (0)"
    server.execute(SESSION, f"CREATE TABLE t ({columns})", *last, database=DATABASE)


def change(server: MySql, statements: Sequence[str]) -> None:
    """Change the table, and tell by a row of another one that this was all."""
    server.execute(SESSION, *statements, "INSERT INTO last SELECT MAX(id) + 1 FROM last", database=DATABASE)


class OurMessages:
    """Pipelines, one for each form, that stand at the log's end."""

    def __init__(self, server: MySql, folder: Path) -> None:
        self._source = {
            "type": "mysql", "hostname": "127.0.0.1", "port": server.port, "username": USER, "password": PASSWORD,
            "tables": f"{DATABASE}.t", "scan.startup.mode": "latest-offset",
        }  # fmt: skip
        self._shops = {form: BackfillShop(folder / form, own_source=True) for form in FORMS}
        for form in FORMS:
            (folder / form).mkdir()
            self._run(form)

    def _run(self, form: str) -> list[tuple[str, bytes | None, bytes | None]]:
        sink = {
            "type": "kafka", "properties.bootstrap.servers": "memory:1", "value.format": FORMS[form],
            "key.format": "json", "sink.add-tableId-to-key-enabled": False,
        }  # fmt: skip
        if form == "debezium with schema":
            sink["debezium-json.include-schema.enabled"] = True
        records, _ = self._shops[form].go(source=self._source, sink=sink, at_once=1 << 40)
        return list(records)

    def read(self) -> dict[str, list[Message]]:
        """The messages of each form of what happened meanwhile."""
        return {form: [(_text(key), _text(value)) for _, key, value in self._run(form)] for form in FORMS}


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


@dataclass
class Recorded:
    """The messages of one form, and what Flink reads of them."""

    messages: list[Message] = field(default_factory=list)
    """Keys and values."""
    rows: list[Any] = field(default_factory=list)
    """For each message its rows, [["+I", value, …], …], or {"error": …}."""


def save(found: Mapping[str, Mapping[str, Recorded]]) -> None:
    """Write what is recorded, a line for each message; a schema is there once."""
    lines: list[Any] = []
    schemas: list[str] = []
    for server, forms in found.items():
        for form, one in forms.items():
            for (key, value), rows in zip(one.messages, one.rows, strict=True):
                schema, payload = _divided(value)
                if schema is not None and schema not in schemas:
                    schemas.append(schema)
                    lines.append({"schema": schema})
                number = None if schema is None else schemas.index(schema)
                lines.append([server, form, key, number, payload, rows])
    text = "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines)
    RECORDED.write_text(text, encoding="utf-8")


def _divided(value: str | None) -> tuple[str | None, str | None]:
    if value is None or not value.startswith(_SCHEMA):
        return None, value
    schema, _, payload = value.removeprefix(_SCHEMA).partition(_PAYLOAD)
    return schema, payload[:-1]


def recorded() -> dict[str, dict[str, Recorded]]:
    """What was recorded, by server and form."""
    found: dict[str, dict[str, Recorded]] = {}
    schemas: list[str] = []
    for line in RECORDED.read_text(encoding="utf-8").splitlines():
        read = json.loads(line)
        if isinstance(read, dict):
            schemas.append(read["schema"])
            continue
        server, form, key, number, payload, rows = read
        value = payload if number is None else f"{_SCHEMA}{schemas[number]}{_PAYLOAD}{payload}}}"
        one = found.setdefault(server, {}).setdefault(form, Recorded())
        one.messages.append((key, value))
        one.rows.append(rows)
    return found


@dataclass(frozen=True)
class Declared:
    """How a table of Flink declares a column, and what its values are."""

    kind: str
    """Flink's type."""
    unit: str
    """Of numbers that stand for something else, and texts; empty where the type says it."""


def declared(form: str) -> dict[str, Declared]:
    """The columns of the table, as the page says."""
    part = _PAGE.read_text(encoding="utf-8").partition("### Read by Flink\n")[2].partition("\n## ")[0]
    found: dict[str, Declared] = {}
    for line in re.findall(r"^\| (`.*) \|$", part, re.MULTILINE):
        kinds, *cells = line.split(" | ")
        cell = cells[_IN_COLUMN[form]]
        kind, _, unit = (cells[0] if cell == "same" else cell).partition(": ")
        found |= {one: Declared(kind, unit) for one in re.findall(r"`([^`]+)`", kinds)}
    return {name: found[kind] for name, kind in ALL_COLUMNS.items()}


def question(form: str, messages: Sequence[Message]) -> dict[str, Any]:
    """What `flink_rows` is asked."""
    fields = ", ".join(f"`{name}` {one.kind}" for name, one in declared(form).items())
    return {
        "format": {**FORMS, **THEIRS}[form], "schema": form == "debezium with schema", "type": f"ROW<{fields}>",
        "timestamps": "ISO_8601" if form in {"debezium with schema", "Debezium"} else "SQL",
        "messages": [value for _, value in messages],
    }  # fmt: skip


def meant(form: str, rows: Sequence[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of Flink but those of `NO_DAYS`: kind, and for each column what its value stands for."""
    columns = declared(form)
    for message in rows:
        for kind, *values in () if isinstance(message, dict) else message:
            row = {
                name: None if value is None else _meant(ALL_COLUMNS[name], one, value)
                for (name, one), value in zip(columns.items(), values, strict=True)
            }
            if row["id"] != NO_DAYS:
                yield kind, row


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CLOCK: Final = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d+))?")


def _meant(kind: str, of: Declared, value: str) -> Any:
    """The value as the database would say it, whatever form it came in."""
    family = kind.partition("(")[0].partition(" ")[0]
    if family in {"DECIMAL", "BIGINT"}:
        if of.kind == "BYTES":
            scale = int(kind.rstrip(")").partition(",")[2] or 0) if family == "DECIMAL" else 0
            return Decimal(int.from_bytes(base64.b64decode(value), "big", signed=True)).scaleb(-scale).normalize()
        return Decimal(value).normalize()
    if family in {"FLOAT", "DOUBLE"}:
        return struct.pack("<f" if family == "FLOAT" else "<d", float(value))
    if family == "BIT":
        return _number_of_bits(of, value)
    if family in {"BINARY", "VARBINARY", "BLOB"}:
        return value.encode("latin-1") if of.kind == "STRING" else base64.b64decode(value)
    if family == "TIME":
        return _micros_of_clock(of, value)
    if family in {"DATETIME", "TIMESTAMP"}:
        return _moment(of, value)
    if family == "GEOMETRY" and value.startswith('{"wkb"'):
        parts = json.loads(value)
        stored = struct.pack("<I", parts["srid"] or 0) + base64.b64decode(parts["wkb"])
        return json.loads(json.loads(geometry(stored)))
    return json.loads(value) if family == "GEOMETRY" and value.startswith("{") else value


def _number_of_bits(of: Declared, value: str) -> int:
    if of.kind == "BOOLEAN":
        return int(value == "true")
    return int.from_bytes(base64.b64decode(value), "big") if of.kind == "BYTES" else int(value)


def _micros_of_clock(of: Declared, value: str) -> int:
    if of.kind != "STRING":
        return int(value) * (1 if of.unit == "microseconds" else 1000)
    found = _CLOCK.fullmatch(value)
    assert found is not None, value
    sign, hours, minutes, seconds, fraction = found.groups()
    micros = (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * 1_000_000 + int((fraction or "").ljust(6, "0"))
    return -micros if sign else micros


def _moment(of: Declared, value: str) -> datetime:
    if of.kind == "BIGINT":
        return _EPOCH + timedelta(microseconds=int(value) * (1 if of.unit == "microseconds" else 1000))
    return datetime.fromisoformat(value.removesuffix("Z")).replace(tzinfo=UTC)


def differing(ours: tuple[str, Sequence[Any]], theirs: tuple[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """For each type whose values Flink reads differently: the number of the row, our value and the other one.

    Each is a form and rows, of which there have to be the same kinds in the same order.
    """
    out: dict[str, list[Any]] = {}
    mine, others = list(meant(*ours)), list(meant(*theirs))
    assert [(kind, row["id"]) for kind, row in mine] == [(kind, row["id"]) for kind, row in others]
    for at, ((_, one), (_, other)) in enumerate(zip(mine, others, strict=True)):
        for name, value in one.items():
            if value != other[name]:
                out.setdefault(ALL_COLUMNS[name], []).append((at, value, other[name]))
    return out
