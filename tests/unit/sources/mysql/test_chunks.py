"""Chunks of tables on real servers: keys of every kind, in the server's order."""

from __future__ import annotations

import itertools
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pytest
from mysql_tables import known_table, reader

from ingest.errors import ConfigError
from ingest.sources.mysql.chunks import Bound, TableChunk, keeps_order, literal, next_bound, rows_at_once, split_key
from ingest.sources.mysql.snapshot import Reading, raw_rows, statement_of
from ingest.sources.mysql.snapshot_log import KeyOrder
from ingest.sources.mysql.types import Column, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mysql_servers import MySql

    from ingest.sources.mysql.connection import Connection

KEYS: Final = {
    "ints": ("k BIGINT NOT NULL PRIMARY KEY", ["-9223372036854775808", "9223372036854775807", "0", "-1", "5", "7"]),
    "unsigned": (
        "k BIGINT UNSIGNED ZEROFILL NOT NULL PRIMARY KEY",
        ["0", "18446744073709551615", "18446744073709551614", "9223372036854775808", "9"],
    ),
    "decimals": ("k DECIMAL(65,30) NOT NULL PRIMARY KEY", [
        "-0.000000000000000000000000000001", "0", "99999999999999999999999999999999999.999999999999999999999999999999",
        "0.1", "-5", "99999999999999999999999999999999999.999999999999999999999999999998",
    ]),
    "folded": ("k VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci NOT NULL PRIMARY KEY", [
        "'a'", "'B'", "'c'", "'ä1'", "'Z'", "'z1'", "''", "'a\\t'", "'ab'", "'ß'", "'O''Brien'", "'\\\\'", "'😀'",
    ]),
    "latin": ("k VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_german2_ci NOT NULL PRIMARY KEY", [
        "'ad'", "'ä'", "'af'", "'Ö'", "'oz'", "'€'", "'z '", "'y'",
    ]),
    "swedish": ("k CHAR(20) CHARACTER SET latin1 COLLATE latin1_swedish_ci NOT NULL PRIMARY KEY", [
        "'å'", "'ä'", "'ö'", "'z'", "'y'", "'a'", "'a0'",
    ]),
    "ucs2": ("k VARCHAR(20) CHARACTER SET ucs2 NOT NULL PRIMARY KEY", ["'a'", "'b'", "'Ж'", "'漢'", "'c'"]),
    "sjis": ("k VARCHAR(20) CHARACTER SET sjis NOT NULL PRIMARY KEY", ["'表'", "'ソ'", "'a'", "'b'", "'能'"]),
    "binary_texts": ("k VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY", [
        "'a'", "'A'", "'b'", "'B'", "'é'", "'a '", "'a\\t'",
    ][:5]),
    "binaries": ("k VARBINARY(20) NOT NULL PRIMARY KEY", ["X''", "X'00'", "X'0000'", "X'FF'", "X'7F'", "X'2720'"]),
    "padded": ("k BINARY(4) NOT NULL PRIMARY KEY", ["X'00'", "X'01'", "X'0102'", "X'FFFFFFFF'", "X'80'"]),
    "blobs": ("k TINYBLOB NOT NULL, PRIMARY KEY (k(10))", ["X'00'", "X'0001'", "X'61'", "X'6100'", "X'FF'"]),
    "enums": ("k ENUM('z','a','m','B''s','ü') NOT NULL PRIMARY KEY", ["'z'", "'a'", "'m'", "'B''s'", "'ü'"]),
    "sets": ("k SET(" + ",".join(f"'s{i}'" for i in range(64)) + ") NOT NULL PRIMARY KEY", [
        "18446744073709551615", "18446744073709551614", "1", "0", "9007199254740993", "9007199254740992", "3",
    ]),
    "bits": ("k BIT(64) NOT NULL PRIMARY KEY", ["18446744073709551615", "18446744073709551614", "0", "5", "256"]),
    "flags": ("k BIT(1) NOT NULL PRIMARY KEY", ["0", "1"]),
    "years": ("k YEAR NOT NULL PRIMARY KEY", ["'0000'", "'1901'", "'2155'", "'2001'", "'1970'"]),
    "dates": ("k DATE NOT NULL PRIMARY KEY", [
        "'0000-00-00'", "'2020-00-15'", "'2020-02-31'", "'2020-03-01'", "'9999-12-31'",
    ]),
    "datetimes": ("k DATETIME(6) NOT NULL PRIMARY KEY", [
        "'0000-00-00'", "'2020-01-01 00:00:00.000001'", "'2020-01-01'", "'2020-10-25 02:30:00'",
        "'9999-12-31 23:59:59.999999'",
    ]),
    "timestamps": ("k TIMESTAMP(3) NOT NULL PRIMARY KEY", [
        # A night in autumn, whose hour comes twice in the server's own zone
        "'2020-10-25 00:30:00.001'", "'2020-10-25 01:30:00.001'", "'2020-10-25 00:30:00'", "'1970-01-01 00:00:01'",
    ]),
    "times": ("k TIME(6) NOT NULL PRIMARY KEY", [
        "'-838:59:59'", "'838:59:59'", "'-00:00:00.000001'", "'00:00:00'", "'-10:00:00'", "'100:00:00'", "'99:00:00'",
    ]),
    "singles": ("k FLOAT NOT NULL PRIMARY KEY", ["0.1", "0.2", "-0.1", "16777216", "16777218", "3e38", "1e-38"]),
    "doubles": ("k DOUBLE NOT NULL PRIMARY KEY", [
        "0.1", "0.30000000000000004", "0.3", "1e308", "-1e-300", "123456789.12345678",
    ]),
    "composite": (
        "a INT NOT NULL, k VARCHAR(9) NOT NULL, d DATETIME(3) NOT NULL, PRIMARY KEY (a, k, d)",
        [f"{a}, '{k}', '2020-01-01{d}'" for a in (1, 2) for k in ("x", "Y", "ä") for d in ("", " 00:00:00.5")],
    ),
    "of_two_texts": (
        "a VARCHAR(9) NOT NULL, k VARCHAR(9) NOT NULL, n DECIMAL(5,1) NOT NULL, PRIMARY KEY (a, k, n)",
        [f"'{a}', '{k}', {n}" for a in ("b", "A") for k in ("x", "Y") for n in ("1.5", "-1", "10")],
    ),
    "unique_only": (
        "v INT, k INT NOT NULL, w INT, UNIQUE (w), UNIQUE KEY u (k)", ["1, 5, 1", "2, 6, NULL", "3, 1, NULL"],
    ),
}  # fmt: skip
OF_MARIADB: Final = {
    "uuids": ("k UUID NOT NULL PRIMARY KEY", [
        "'123e4567-e89b-12d3-a456-426655440000'", "'123e4567-e89b-42d3-a456-426655440000'",
        "'ffffffff-ffff-1fff-9fff-ffffffffffff'", "'00000000-0000-1000-8000-ffffffffffff'",
        "'00000000-0000-7000-8000-000000000001'",
    ]),
    "inet6": ("k INET6 NOT NULL PRIMARY KEY", ["'::'", "'::1'", "'ffff::'", "'::ffff:1.2.3.4'", "'2001:db8::ff00'"]),
    "no_pad": (
        "k VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL PRIMARY KEY",
        ["'a'", "'a '", "'b'", "''"],
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=["mariadb", "mysql5"])
def both(request: pytest.FixtureRequest) -> MySql:
    server: MySql = request.getfixturevalue(request.param)
    server.execute("CREATE DATABASE IF NOT EXISTS `chunks.of`")
    return server


@pytest.fixture(scope="module")
def reading(both: MySql) -> Iterator[Connection]:
    connection = reader(both)
    yield connection
    connection.close()


def of_key(connection: Connection, name: str, ddl: str, values: Sequence[str]) -> Table:
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS `chunks.of`.`{name}`")
        cursor.execute(f"CREATE TABLE `chunks.of`.`{name}` ({ddl})")
        for value in values:
            cursor.execute(f"INSERT INTO `chunks.of`.`{name}` VALUES ({value})")
    return known_table(connection, "chunks.of", name)


def bounds_of(connection: Connection, table: Table, key: Sequence[Column], rows: int) -> list[Bound]:
    bounds: list[Bound] = []
    while (bound := next_bound(connection, table, key, bounds[-1] if bounds else None, rows)) is not None:
        bounds.append(bound)
    return bounds


def chunks_of(bounds: Sequence[Bound]) -> list[TableChunk]:
    ends = [None, *bounds, None]
    return [TableChunk(lower, upper) for lower, upper in itertools.pairwise(ends)]


@pytest.mark.parametrize("name", [*KEYS, *OF_MARIADB])
def test_keys(reading: Connection, both: MySql, name: str) -> None:
    """Each row is in one chunk; rows of the log have the place in the order that the server's own comparison gives."""
    if name in OF_MARIADB and not both.kind.is_mariadb:
        return
    ddl, values = {**KEYS, **OF_MARIADB}[name]
    table = of_key(reading, name, ddl, values)
    key = split_key(table)
    bounds = bounds_of(reading, table, key, 1)
    assert len(bounds) == len(values)
    assert bounds == [tuple(json.loads(json.dumps(list(bound)))) for bound in bounds]
    for size in (1, 2, 5):
        chunks = chunks_of(bounds_of(reading, table, key, size))
        counts = [len(list(raw_rows(reading, statement_of(Reading(table, 1, key, chunk))))) for chunk in chunks]
        assert sum(counts) == len(values)
        assert all(count == size for count in counts[:-1])
        assert counts[-1] < size or size > len(values) or counts[-1] in {0, size}

    def ask(sql: str) -> Sequence[object]:
        with reading.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchone() or ()

    order = KeyOrder(key, ask)
    rows = [image for chunk in chunks_of(bounds) for image in images_of(reading, table, key, chunk)]
    places = order.places([order.of_row(row) for row in rows], [order.of_bound(bound) for bound in bounds])
    assert places == list(range(len(values)))


def images_of(connection: Connection, table: Table, key: Sequence[Column], chunk: TableChunk) -> list[dict[str, Any]]:
    """Rows of a chunk as records have them."""
    from ingest.sources.mysql.query_values import value_writer

    writers = [value_writer(column) for column in table.columns]
    return [
        {
            column.name: None if value is None else json.loads(write(value), parse_float=Decimal)
            for column, write, value in zip(table.columns, writers, row, strict=True)
        }
        for row in raw_rows(connection, statement_of(Reading(table, 1, tuple(key), chunk)))
    ]


def table(*columns: Column, primary: Sequence[str] = (), unique: Sequence[Sequence[str]] = ()) -> Table:
    return Table("shop", "t", columns, tuple(primary), tuple(map(tuple, unique)))


ID, NAME, NOTE = (
    Column("id", "int", nullable=False), Column("Name", "varchar", 9, nullable=False, collation="latin1_bin"),
    Column("note", "varchar", 9),
)  # fmt: skip


def test_the_key_of_a_table() -> None:
    """The whole primary key; else the first unique key of which each row has values; else none."""
    assert split_key(table(ID, NAME, primary=["ID", "name"])) == (ID, NAME)
    assert split_key(table(ID, NAME, NOTE, unique=[["note"], ["name", "id"], ["id"]])) == (NAME, ID)
    assert split_key(table(ID, NOTE, unique=[["note"]])) == ()
    assert split_key(table(ID)) == ()
    made = Column("made", "int", nullable=False, generated=True)
    assert split_key(table(ID, made, unique=[["made"], ["id"]])) == (ID,)
    assert split_key(table(Column("at", "point", nullable=False), primary=["at"])) == ()
    assert split_key(table(ID, NAME, primary=["id"]), "NAME") == (NAME,)


@pytest.mark.parametrize(("chosen", "why"), [
    ("nope", "has no column nope"), ("note", "note may be null"), ("doc", "json has no order"),
])  # fmt: skip
def test_a_column_that_splits_nothing(chosen: str, why: str) -> None:
    """A column by which rows could be lost is refused, by its name."""
    given = table(ID, NOTE, Column("doc", "json", nullable=False), primary=["id"])
    with pytest.raises(ConfigError, match=rf"chunk\.key-column: shop\.t.*{why}"):
        split_key(given, chosen)


def test_bounds_after_a_change_of_the_table() -> None:
    """Bounds stay valid unless the key has other columns, or another order."""
    before = table(ID, NAME, primary=["id", "name"])
    wider = Column("id", "bigint", nullable=False)
    assert keeps_order(before, table(NOTE, wider, NAME), ["id", "Name"])
    assert not keeps_order(before, table(ID, NOTE), ["id", "Name"])
    folded = Column("Name", "varchar", 9, nullable=False, collation="latin1_swedish_ci")
    assert not keeps_order(before, table(ID, folded), ["id", "Name"])
    assert keeps_order(before, table(ID, folded), ["id"])
    assert not keeps_order(before, table(Column("id", "varchar", 9)), ["id"])


@pytest.mark.parametrize("column", [
    Column("k", "int"), Column("k", "varchar", charset="latin1"), Column("k", "datetime"), Column("k", "uuid"),
    Column("k", "double"), Column("k", "blob"), Column("k", "varchar", charset="x; DROP"), Column("k", "json"),
])  # fmt: skip
@pytest.mark.parametrize("text", ["1 OR 1=1", "' OR ''='", "`", "0x", "1;", "\\'", "g0"])
def test_only_values_are_literals(column: Column, text: str) -> None:
    """A bound of a checkpoint that somebody has changed is no statement."""
    with pytest.raises(ValueError, match="is no key"):
        literal(column, text)


def test_large_rows_are_read_in_smaller_chunks(reading: Connection) -> None:
    """A chunk has 64 MiB about, and one row at least."""
    rows = [f"{k}, REPEAT('x', 1000000)" for k in range(12)]
    large = of_key(reading, "large", "k INT PRIMARY KEY, v LONGBLOB", rows)
    with reading.cursor() as cursor:
        cursor.execute("ANALYZE TABLE `chunks.of`.large")
    assert 10 < rows_at_once(reading, large, 8096) < 200
    assert rows_at_once(reading, large, 5) == 5
    small = of_key(reading, "small", "k INT PRIMARY KEY", [])
    assert rows_at_once(reading, small, 8096) == 8096
    assert rows_at_once(reading, Table("chunks.of", "gone", (ID,)), 8096) == 8096
