"""The log as mysql-replication reads it, for the types that it reads right: another reader of the same bytes."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
from typing import TYPE_CHECKING, Any

import pytest
from mysql_log import Tables, changes, place_of, read_log, tables_of
from mysql_servers import MARIADB_10, PASSWORD, USER
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

if TYPE_CHECKING:
    from mysql_servers import MySql

COLUMNS = {
    "id": "BIGINT PRIMARY KEY", "a": "TINYINT", "b": "SMALLINT UNSIGNED", "c": "MEDIUMINT", "d": "INT UNSIGNED",
    "e": "BIGINT UNSIGNED", "f": "DECIMAL(65,30)", "g": "DECIMAL(5,0)", "h": "DOUBLE", "j": "DATE", "k": "DATETIME(6)",
    "l": "DATETIME", "m": "TIME", "n": "YEAR", "o": "CHAR(10)", "p": "VARCHAR(300)",
    "q": "VARCHAR(20) CHARACTER SET gbk", "r": "VARBINARY(10)", "s": "MEDIUMTEXT", "t": "LONGBLOB",
    "u": "ENUM('a','b''c')", "v": "SET('x','y','z')", "w": "VARCHAR(10) CHARACTER SET cp1251",
}  # fmt: skip
ROWS = (
    ("1", "-128", "0", "-8388608", "0", "0", "-99999999999999999999999999999999999.999999999999999999999999999999",
     "-99999", "-1.7976931348623157e308", "'1000-01-01'", "'1000-01-01 00:00:00.000001'", "'1000-01-01'",
     "'-838:59:59'", "1901", "''", "''", "''", "''", "''", "''", "'a'", "'x'", "''"),
    ("2", "127", "65535", "8388607", "4294967295", "18446744073709551615",
     "99999999999999999999999999999999999.000000000000000000000000000001", "99999", "5e-324", "'9999-12-31'",
     "'9999-12-31 23:59:59.999999'", "'9999-12-31 23:59:59'", "'838:59:59'", "2155", "'grüße'",
     "'a\"\\\\b\\n'", "'你好'", "0x00ff10", "repeat('ü', 300)", "repeat(0x00, 300)", "'b''c'", "'x,y,z'", "'привет'"),
    ("3", *["NULL"] * 22),
)  # fmt: skip


def peer(server: MySql, file: str, position: int) -> list[tuple[dict[str, Any] | None, dict[str, Any] | None]]:
    """The rows before and after each change, as the other reader has them."""
    stream = BinLogStreamReader(
        connection_settings={"host": "127.0.0.1", "port": server.port, "user": USER, "password": PASSWORD},
        server_id=4712, log_file=file, log_pos=position, resume_stream=True, is_mariadb=True,
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
    )  # fmt: skip
    out: list[tuple[dict[str, Any] | None, dict[str, Any] | None]] = []
    for event in stream:
        for row in event.rows:
            if isinstance(event, UpdateRowsEvent):
                out.append((row["before_values"], row["after_values"]))
            else:
                deleted = isinstance(event, DeleteRowsEvent)
                out.append((row["values"], None) if deleted else (None, row["values"]))
    stream.close()
    return out


def told(value: Any, name: str) -> Any:
    """A value of the other reader as ours has it."""
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if isinstance(value, dt.datetime):
        text = value.isoformat(" ")
        return text.rstrip("0") if "." in text else text
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        seconds = int(abs(value).total_seconds())
        return f"{'-' * (value.days < 0)}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    if isinstance(value, set):
        return ",".join(sorted(value))
    if name in {"r", "t"} and value is not None:
        return base64.b64encode(value.encode() if isinstance(value, str) else value).decode()
    return value


@pytest.mark.filterwarnings("ignore:'.*' is deprecated:DeprecationWarning")  # the other reader's own
def test_values_are_those_that_another_reader_has(mysql_server: Any) -> None:
    server = mysql_server(MARIADB_10, binlog_row_metadata="FULL")
    server.execute(f"CREATE TABLE shop.t ({', '.join(f'{name} {kind}' for name, kind in COLUMNS.items())})")
    start = place_of(server)
    rows = ", ".join(f"({', '.join(row)})" for row in ROWS)
    insert = f"INSERT INTO shop.t VALUES {rows}"
    server.execute("SET sql_mode = ''", insert, "UPDATE shop.t SET a = 5", "DELETE FROM shop.t")
    records = read_log(server, Tables(tables_of(server, "shop")), start)
    ours = [json.loads(record.value()[5:], parse_float=str) for record in records]
    assert [change["op"] for change in changes(records)] == ["c"] * 3 + ["u"] * 3 + ["d"] * 3
    theirs = peer(server, start.file, start.offset)
    assert len(ours) == len(theirs) == 9
    for change, (before, after) in zip(ours, theirs, strict=True):
        for image, other in ((change["before"], before), (change["after"], after)):
            assert (image is None) == (other is None)
            for name, value in (other or {}).items():
                mine = image[name]
                want = told(value, name)
                if name == "h" and mine is not None:
                    mine = float(mine)
                if name == "g" and mine is not None:
                    mine = str(mine)
                assert mine == want, name
