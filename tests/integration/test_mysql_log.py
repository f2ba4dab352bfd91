"""The log of real servers: values of all types, positions, transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from mysql_log import Tables, changes, place_of, read_log, reader_of, tables_of

if TYPE_CHECKING:
    from mysql_servers import MySql

TYPES = """id BIGINT UNSIGNED PRIMARY KEY, a TINYINT, b SMALLINT UNSIGNED, c MEDIUMINT, d INT UNSIGNED,
 e DECIMAL(30,10), f FLOAT, g DOUBLE, h BIT(1), i BIT(10), j DATE, k TIME(3), l DATETIME(6), m TIMESTAMP(2) NULL,
 n YEAR, o CHAR(10), p VARCHAR(300), q VARCHAR(20) CHARACTER SET latin1, r BINARY(4), s VARBINARY(10), t TEXT, u BLOB,
 v ENUM('a','b''c',',x'), w SET('x','y','z'), x POINT, y TIME, z DATETIME"""
ROW = r"""(18446744073709551615, -128, 65535, -8388608, 4294967295, -12345678901234567890.0123456789, 1.1, 1e100, b'1',
 b'1000000001', '2020-01-31', '-00:00:00.5', '2020-01-31 12:13:14.123456', '2020-01-31 12:13:14.5', 2020, 'abc  ',
 'grüße', 'ß€', 0x0100, 0x00ff, 'tx\n"', 0x0001, 'b''c', 'x,z', ST_GeomFromText('POINT(1 2.5)'), '-838:59:59',
 '0000-00-00 00:00:00')"""
TEXT = (
    '{"before":null,"after":{"id":18446744073709551615,"a":-128,"b":65535,"c":-8388608,"d":4294967295,'
    '"e":-12345678901234567890.0123456789,"f":1.1,"g":1e+100,"h":true,"i":"AgE=","j":"2020-01-31","k":"-00:00:00.5",'
    '"l":"2020-01-31 12:13:14.123456","m":"2020-01-31 12:13:14.5Z","n":2020,"o":"abc","p":"grüße","q":"ß€",'
    '"r":"AQAAAA==","s":"AP8=","t":"tx\\n\\"","u":"AAE=","v":"b\'c","w":"x,z",'
    r'"x":"{\"coordinates\":[1,2.5],\"type\":\"Point\",\"srid\":0}","y":"-838:59:59","z":"0000-00-00 00:00:00"},'
    '"source":{"db":"log_types","table":"t"},"op":"c"}'
)


@pytest.fixture(params=["mariadb", "mariadb11", "mysql5"])
def server(request: pytest.FixtureRequest, mariadb: MySql, mariadb11: MySql, mysql5: MySql) -> MySql:
    """Each of the servers."""
    found: MySql = {"mariadb": mariadb, "mariadb11": mariadb11, "mysql5": mysql5}[request.param]
    return found


def test_values_of_all_types_have_their_text(server: MySql) -> None:
    server.execute(
        "DROP DATABASE IF EXISTS log_types", "CREATE DATABASE log_types", f"CREATE TABLE log_types.t ({TYPES})"
    )
    start = place_of(server)
    server.execute("SET sql_mode = ''", "SET time_zone = '+00:00'", f"INSERT INTO log_types.t VALUES {ROW}")  # noqa: S608  (a constant of this file)
    server.execute("INSERT INTO log_types.t (id) VALUES (5), (6)", "UPDATE log_types.t SET a = 7 WHERE id = 5")
    server.execute("DELETE FROM log_types.t WHERE id = 6")
    tables = Tables(tables_of(server, "log_types"))
    reader = reader_of(server, tables)
    records = read_log(server, tables, start, reader)
    assert records[0].value() == b"\0\0\0\0\1" + TEXT.encode()
    found = changes(records)
    assert [(change["op"], (change["before"] or change["after"])["id"]) for change in found[1:]] == [
        ("c", 5), ("c", 6), ("u", 5), ("d", 6),
    ]  # fmt: skip
    assert (found[3]["before"]["a"], found[3]["after"]["a"], found[4]["after"]) == (None, 7, None)
    positions = [record.offset() for record in records]
    assert positions == sorted(set(positions))
    assert (reader.place.file, reader.place.offset) == server.position()
    assert sum(run.last - run.first + 1 for run in reader.gtids) == 4
    reader.close()
