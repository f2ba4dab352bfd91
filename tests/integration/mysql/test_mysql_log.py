"""The log of real servers: values of all types, positions, transactions."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from mysql_log import Tables, changes, place_of, read_log, reader_of, tables_of
from mysql_servers import MARIADB_10, MARIADB_11

from ingest.errors import DataLoss
from ingest.model.record import offset_of
from ingest.sources.mysql.binary_values import decode_text
from ingest.sources.mysql.types import Table

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
    server.execute("SET sql_mode = ''", "SET time_zone = '+00:00'", f"INSERT INTO log_types.t VALUES {ROW}")
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


def _ids(records: list[Any]) -> list[tuple[str, int]]:
    return [(change["op"], (change["after"] or change["before"])["id"]) for change in changes(records)]


@pytest.fixture
def shop(server: MySql) -> MySql:
    """A server with a table that has transactions, `t`, and one that has none, `m`."""
    server.execute("DROP DATABASE IF EXISTS log_shop", "CREATE DATABASE log_shop")
    for name, engine in (("t", "InnoDB"), ("m", "MyISAM")):
        server.execute(f"CREATE TABLE log_shop.{name} (id INT PRIMARY KEY, a INT) ENGINE {engine}")
    return server


def test_what_was_rolled_back_does_not_count(shop: MySql) -> None:
    start = place_of(shop)
    shop.execute(
        "BEGIN", "INSERT INTO t VALUES (1, 1)", "SAVEPOINT one", "INSERT INTO t VALUES (2, 2)", "ROLLBACK TO one",
        "INSERT INTO t VALUES (3, 3)", "COMMIT", database="log_shop",
    )  # fmt: skip
    if shop.kind.is_mariadb:  # MySQL with GTIDs refuses what mixes tables
        shop.execute(
            "BEGIN", "INSERT INTO t VALUES (4, 4)", "INSERT INTO m VALUES (4, 4)", "ROLLBACK",
            # what cannot be rolled back makes the server log the rollback itself
            "BEGIN", "INSERT INTO t VALUES (5, 5)", "SAVEPOINT a", "INSERT INTO m VALUES (6, 6)",
            "INSERT INTO t VALUES (7, 7)", "ROLLBACK TO a", "INSERT INTO t VALUES (8, 8)", "COMMIT",
            database="log_shop",
        )  # fmt: skip
    tables = Tables(tables_of(shop, "log_shop"))
    for native in (True, False):
        reader = reader_of(shop, tables, native=native)
        found = [
            (change["source"]["table"], change["after"]["id"])
            for change in changes(read_log(shop, tables, start, reader))
        ]
        reader.close()
        rows = {"t": "SELECT id FROM log_shop.t ORDER BY 1", "m": "SELECT id FROM log_shop.m ORDER BY 1"}
        want = {table: [row[0] for row in shop.execute(query)] for table, query in rows.items()}
        assert {name: sorted(at for table, at in found if table == name) for name in "tm"} == want


def test_rows_of_xa_count_when_they_are_committed(shop: MySql) -> None:
    start = place_of(shop)
    one = ("XA START 'one'", "INSERT INTO t VALUES (1, 1), (2, 2)", "XA END 'one'", "XA PREPARE 'one'")
    if shop.kind.is_mariadb:
        shop.execute(*one, database="log_shop")
        middle = place_of(shop)
        shop.execute("INSERT INTO log_shop.t VALUES (5, 5)", "XA COMMIT 'one'")
    else:  # MySQL 5.6 rolls back what is prepared when its session ends, and logs nothing before the commit
        shop.execute("INSERT INTO t VALUES (5, 5)", *one, "XA COMMIT 'one'", database="log_shop")
    shop.execute(
        "XA START 'two'", "INSERT INTO t VALUES (3, 3)", "XA END 'two'", "XA COMMIT 'two' ONE PHASE",
        "XA START 'three'", "INSERT INTO t VALUES (4, 4)", "XA END 'three'", "XA PREPARE 'three'",
        "XA ROLLBACK 'three'",
        database="log_shop",
    )  # fmt: skip
    tables = Tables(tables_of(shop, "log_shop"))
    for native in (True, False):
        reader = reader_of(shop, tables, native=native)
        records = read_log(shop, tables, start, reader)
        assert [at for _, at in _ids(records)] == [5, 1, 2, 3]
        offsets = [record.offset() for record in records]
        assert offsets == sorted(set(offsets))
        assert (reader.place.file, reader.place.offset) == shop.position()
        reader.close()
    if shop.kind.is_mariadb:
        for rotate in (False, True):  # what was prepared is looked for in the log, also in the file before
            if rotate:
                one = ("XA START 'late'", "INSERT INTO t VALUES (9, 9)", "XA END 'late'", "XA PREPARE 'late'")
                shop.execute(*one, database="log_shop")
                shop.rotate()
                middle = place_of(shop)
                shop.execute("XA COMMIT 'late'")
            later = reader_of(shop, tables)
            out = [
                record
                for chunk in later.read(middle, shop.position()[1])
                for record in (chunk.messages if chunk is not None else ())
            ]
            assert [at for _, at in _ids(out)] == ([9] if rotate else [5, 1, 2, 3])
            later.close()


def test_a_statement_stops_the_reading_until_it_has_an_answer(shop: MySql) -> None:
    start = place_of(shop)
    shop.execute("INSERT INTO t VALUES (1, 1)", "ALTER TABLE t ADD COLUMN b INT", database="log_shop")
    shop.execute("CREATE TABLE other (id INT PRIMARY KEY)", "INSERT INTO t VALUES (2, 2, 2)", database="log_shop")
    tables = Tables({("log_shop", "t"): tables_of(shop, "log_shop")["log_shop", "t"]}, all_known=False)
    reader = reader_of(shop, tables)
    columns = tables.tables["log_shop", "t"].columns
    tables.tables["log_shop", "t"] = Table("log_shop", "t", columns[:2])
    assert [at for _, at in _ids(read_log(shop, tables, start, reader))] == [1]
    met = reader.statement
    assert met is not None
    assert met.query.text.startswith(b"ALTER TABLE t ADD COLUMN b INT")
    assert (met.query.database, reader.place.position) == ("log_shop", reader.place.offset)
    assert reader._decoder.opened <= met.position
    tables.known.add(met.position)
    tables.tables["log_shop", "t"] = Table("log_shop", "t", columns)
    assert changes(read_log(shop, tables, reader.place, reader))[0]["after"] == {"id": 2, "a": 2, "b": 2}
    reader.close()


def test_a_statement_whose_rows_the_log_lacks_is_data_loss(shop: MySql) -> None:
    start = place_of(shop)
    shop.execute("SET binlog_format = 'STATEMENT'", "INSERT INTO t VALUES (1, 1)", database="log_shop")
    tables = Tables(tables_of(shop, "log_shop"))
    with pytest.raises(DataLoss, match=r"its rows are not in the log: INSERT INTO t VALUES \(1, 1\)"):
        read_log(shop, tables, start)
    del tables.tables["log_shop", "t"]
    assert read_log(shop, tables, start) == []


def test_images_have_the_columns_that_the_session_logs(shop: MySql) -> None:
    start = place_of(shop)
    shop.execute("SET binlog_row_image = 'MINIMAL'", "INSERT INTO t VALUES (1, 1)", "UPDATE t SET a = 2",
                 "DELETE FROM t", database="log_shop")  # fmt: skip
    tables = Tables(tables_of(shop, "log_shop"))
    for native in (True, False):
        reader = reader_of(shop, tables, native=native)
        found = [(change["before"], change["after"]) for change in changes(read_log(shop, tables, start, reader))]
        assert found == [(None, {"id": 1, "a": 1}), ({"id": 1}, {"id": 1, "a": 2}), ({"id": 1}, None)]
        reader.close()


def test_a_log_that_was_written_anew_is_data_loss(mysql_server: Any) -> None:
    server = mysql_server(MARIADB_10)
    server.execute("CREATE TABLE shop.t (id INT PRIMARY KEY)")
    tables = Tables(tables_of(server, "shop"))
    reader = reader_of(server, tables)
    start = place_of(server)
    server.execute("INSERT INTO shop.t VALUES (1)")
    assert len(read_log(server, tables, start, reader)) == 1
    place = reader.place
    reader.close()
    server.reset_master()
    server.execute(*["INSERT INTO shop.t SELECT max(id) + 1 FROM shop.t"] * 38)
    with pytest.raises(DataLoss):
        list(reader_of(server, tables).read(place, server.position()[1]))


def test_a_compressed_log_of_mariadb_is_read(mysql_server: Any) -> None:
    server = mysql_server(MARIADB_10, log_bin_compress=1, log_bin_compress_min_len=10)
    server.execute("CREATE TABLE shop.t (id INT PRIMARY KEY, a TEXT)")
    start = place_of(server)
    server.execute(
        "INSERT INTO shop.t SELECT seq, repeat('a', 20) FROM shop.seq_1_to_3000", "UPDATE shop.t SET a = 'b'"
    )
    server.execute("DELETE FROM shop.t")
    tables = Tables(tables_of(server, "shop"))
    records = read_log(server, tables, start)
    found = [change for record in records for change in _changes_of(record)]
    assert [change["op"] for change in found] == ["c"] * 3000 + ["u"] * 3000 + ["d"] * 3000
    assert [change["after"]["id"] for change in found[:3000]] == list(range(1, 3001))
    offsets = [record.offset() for record in records]
    assert offsets == sorted(set(offsets))


def _changes_of(record: Any) -> list[Any]:
    """The changes of a record, which may be several."""
    found: Any = changes([record])[0]
    return [found] if isinstance(found, dict) else found


def test_positions_go_on_over_files_and_a_connection_is_kept(mysql_server: Any) -> None:
    server = mysql_server(MARIADB_11)
    server.execute("CREATE TABLE shop.t (id INT PRIMARY KEY)")
    start = place_of(server)
    tables = Tables(tables_of(server, "shop"))
    reader = reader_of(server, tables)
    positions: list[int] = []
    for at in range(6):
        server.execute("INSERT INTO shop.t SELECT count(*) FROM shop.t")
        if at % 2:
            server.rotate()
        place = reader.place if at else start
        bases = {}
        base = 0
        for name, size in server.logs():
            bases[name] = base
            base += size
        found = [
            record
            for chunk in reader.read(place, bases[server.position()[0]] + server.position()[1], bases=bases)
            for record in (chunk.messages if chunk is not None else ())
        ]
        assert [one for _, one in _ids(found)] == [at]
        positions += [offset_of(record) for record in found]
    assert positions == sorted(set(positions))
    assert len([row for row in server.execute("SHOW PROCESSLIST") if row[4] == "Binlog Dump"]) == 1
    reader.close()


def test_texts_are_what_the_server_converts_them_to(mariadb: MySql) -> None:
    chance = random.Random(7)
    sets = mariadb.execute("SHOW CHARACTER SET")
    assert len(sets) > 38
    for charset, _, _, most in sets:
        if charset in {"binary", "filename", "utf32"}:
            continue
        texts = [bytes((one,)) for one in range(256)] if most < 4 and charset != "ucs2" else []
        texts += [chance.randbytes(2) for _ in range(200)] if most > 1 else []
        texts += ["€ä你あ가😀a".encode()] if charset == "utf8mb4" else []
        rows = ",".join(f"(X'{text.hex()}')" for text in texts)
        found = mariadb.execute(
            "CREATE TEMPORARY TABLE shop.texts (a VARBINARY(40))",
            f"INSERT INTO shop.texts VALUES {rows}",
            f"SELECT a, HEX(CONVERT(CONVERT(a USING {charset}) USING utf8mb4)) FROM shop.texts",
        )
        for data, converted in found:
            text = bytes.fromhex(converted or "3f").decode(errors="replace")
            if "?" not in text and "\ufffd" not in text and not "\ue000" <= max(text or "\0") <= "\uf8ff":
                assert decode_text(charset, data) == (text, True), (charset, data)


@pytest.mark.parametrize("older", [False, True])
def test_types_of_mariadb_have_the_text_of_a_query(mysql_server: Any, older: bool) -> None:
    server = mysql_server(MARIADB_10, mysql56_temporal_format=0 if older else 1)
    types = {
        "id": "INT PRIMARY KEY", "u": "UUID", "v": "INET6", "w": "INET4", "a": "TIME(3)", "b": "TIME",
        "c": "DATETIME(1)",
        "d": "DATETIME", "e": "TIME(6)", "f": "DATETIME(6)", "g": "TIMESTAMP(4) NULL", "h": "TIMESTAMP NULL",
        "i": "VARCHAR(400) COMPRESSED", "j": "LONGTEXT COMPRESSED", "k": "JSON", "l": "DECIMAL(40,2)", "m": "CHAR(250)",
        "n": "SET('a','b')" if older else "ENUM('a','b')",
    }  # fmt: skip
    server.execute(f"CREATE TABLE shop.t ({', '.join(f'{name} {kind}' for name, kind in types.items())})")
    start = place_of(server)
    insert = f"INSERT INTO shop.t VALUES ({', '.join(['%s'] * len(types))})"
    rows = [
        (1, "550e8400-e29b-41d4-a716-446655440000", "2001:db8::1", "10.0.255.1", "-01:02:03.5", "838:59:59",
         "2020-01-31 12:13:14.5", "1000-01-01", "-00:00:00.000001", "9999-12-31 23:59:59.999999",
         "2020-01-31 12:13:14.0625", "2037-12-31 23:59:59", "a" * 400, "b" * 5000, '{"a": [1, 2]}', "-1.10", "ü" * 250,
         "a"),
        (2, "0190163d-8694-739b-aea5-966c26f8ad91", "::ffff:1.2.3.4", "0.0.0.1", "00:00:00", "-838:59:59",
         "0001-01-01 00:00:00", "2020-12-31 23:59:59", "838:59:59.999999", "1970-01-01 00:00:00.1", None, None, "", "",
         "[]", "0.00", "", "a"),
        (3, "00000000-0000-0000-0000-000000000000", "::", "255.255.255.255", *[None] * 14),
    ]  # fmt: skip
    with server.connect(init_command="SET time_zone = '+00:00'") as connection, connection.cursor() as cursor:
        for row in rows:
            cursor.execute(insert, row)
        names = ", ".join(f"CAST({name} AS CHAR) AS {name}" for name in types)
        cursor.execute(f"SELECT {names} FROM shop.t ORDER BY id")
        said = cursor.fetchall()
    for native in (True, False):
        tables = Tables(tables_of(server, "shop"))
        reader = reader_of(server, tables, native=native)
        found = [change["after"] for change in changes(read_log(server, tables, start, reader))]
        reader.close()
        assert len(found) == len(said) == 3
        for ours, theirs in zip(found, said, strict=True):
            for name, text in zip(types, theirs, strict=True):
                kind = types[name]
                want: Any = text
                if text is not None and kind.split("(")[0] in {"TIME", "DATETIME", "TIMESTAMP", "TIMESTAMP NULL"}:
                    want = (text.rstrip("0").rstrip(".") if "." in text else text) + "Z" * kind.startswith("TIMESTAMP")
                assert (str(ours[name]) if name == "id" else ours[name]) == want, (name, native)
