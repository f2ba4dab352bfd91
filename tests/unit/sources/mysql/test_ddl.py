"""What statements do to tables and stored rows: docs/spec/mysql.md#statements. Real servers judge the columns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.sources.mysql.ddl import apply
from ingest.sources.mysql.tokens import ANSI_QUOTES, ServerRules, words
from ingest.sources.mysql.types import Column, Table

if TYPE_CHECKING:
    from ingest.sources.mysql.effects import Effect

MYSQL = ServerRules()
MARIADB = ServerRules(version=101106, mariadb=True)
STRICT = 0x200000
T = Table(
    "d", "t",
    (
        Column("id", "int", nullable=False), Column("n", "int"), Column("v", "varchar", length=10, charset="utf8mb4"),
        Column("e", "enum", charset="utf8mb4", labels=("a", "b")), Column("x", "decimal", precision=10, scale=2),
        Column("at", "datetime"), Column("b", "varbinary", length=5), Column("f", "float"),
        Column("s", "set", charset="utf8mb4", labels=("a", "b")), Column("g", "int", generated=True),
    ),
    primary_key=("id",), charset="utf8mb4",
)  # fmt: skip
TABLES = {("d", "t"): T, ("d", "u"): Table("d", "u", (Column("id", "int"),), charset="latin1")}


def said(effect: Effect) -> str:
    """An effect as one line."""
    out = [f"doubt: {', '.join(sorted('.'.join(t) for t in effect.touches)) or 'nothing'}"] if effect.doubt else []
    for what in ("made", "dropped", "emptied"):
        out += [f"{what} {'.'.join(table)}" for table in getattr(effect, what)]
    out += [f"{'.'.join(before)} is now {'.'.join(after)}" for before, after in effect.renamed]
    out += [f"marks {'.'.join(m.table)}{f'.{m.column}' if m.column else ''}: {m.why}" for m in effect.marks]
    out += [f"asks for {'.'.join(table)}" for table in sorted(effect.unknown)]
    out += [f"database {name} {charset}" for name, charset in effect.databases.items()]
    return "; ".join(out + ["rows"] * effect.is_dml)


def columns(effect: Effect, name: str = "t") -> str:
    table = effect.tables["d", name]
    assert table is not None
    return " ".join(column.name for column in table.columns)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("ALTER TABLE t ADD c INT", ""),
        ("ALTER TABLE t ADD c INT DEFAULT NULL", ""),
        ("ALTER TABLE t ADD c INT DEFAULT 5", "marks d.t.c: ADD COLUMN with a default"),
        ("ALTER TABLE t ADD c INT NOT NULL", "marks d.t.c: ADD COLUMN with NOT NULL"),
        ("ALTER TABLE t ADD c INT AS (n + 1)", "marks d.t.c: ADD COLUMN of a generated column"),
        ("ALTER TABLE t ADD c SERIAL", "marks d.t.c: ADD COLUMN with AUTO_INCREMENT"),
        ("ALTER TABLE t ADD c DATETIME DEFAULT now()", "marks d.t.c: ADD COLUMN with a default"),
        ("ALTER TABLE t DROP n", ""),
        ("ALTER TABLE t DROP n, ADD n INT", "marks d.t.n: ADD COLUMN of a name that another one had"),
        ("ALTER TABLE t MODIFY n BIGINT", ""),
        ("ALTER TABLE t MODIFY n SMALLINT", ""),
        ("ALTER TABLE t MODIFY n VARCHAR(20)", "marks d.t.n: a change from INT to VARCHAR(20)"),
        ("ALTER TABLE t MODIFY v VARCHAR(20)", ""),
        ("ALTER TABLE t MODIFY v TEXT", ""),
        ("ALTER TABLE t MODIFY v VARCHAR(5)", "marks d.t.v: a change from VARCHAR(10) to VARCHAR(5)"),
        ("ALTER TABLE t MODIFY v CHAR(20)", "marks d.t.v: a change from VARCHAR(10) to CHAR(20)"),
        ("ALTER TABLE t MODIFY v VARBINARY(40)", "marks d.t.v: a change from VARCHAR(10) to VARBINARY(40)"),
        (
            "ALTER TABLE t MODIFY v VARCHAR(10) CHARACTER SET latin1",
            "marks d.t.v: a change from VARCHAR(10) to VARCHAR(10)",
        ),
        ("ALTER TABLE t MODIFY e ENUM('c', 'b', 'a')", ""),
        ("ALTER TABLE t MODIFY e ENUM('a')", "marks d.t.e: a change from ENUM('a', 'b') to ENUM('a')"),
        ("ALTER TABLE t MODIFY e VARCHAR(5)", ""),
        ("ALTER TABLE t MODIFY s SET('a', 'c', 'b')", ""),
        ("ALTER TABLE t MODIFY s SET('b', 'a')", "marks d.t.s: a change from SET('a', 'b') to SET('b', 'a')"),
        ("ALTER TABLE t MODIFY x DECIMAL(12, 3)", ""),
        ("ALTER TABLE t MODIFY x DECIMAL(10, 1)", "marks d.t.x: a change from DECIMAL(10, 2) to DECIMAL(10, 1)"),
        ("ALTER TABLE t MODIFY at DATETIME(3)", ""),
        ("ALTER TABLE t MODIFY at TIMESTAMP NULL", "marks d.t.at: a change from DATETIME to TIMESTAMP"),
        ("ALTER TABLE t MODIFY b BLOB", ""),
        ("ALTER TABLE t MODIFY b BINARY(9)", "marks d.t.b: a change from VARBINARY(5) to BINARY(9)"),
        ("ALTER TABLE t MODIFY f DOUBLE", "marks d.t.f: a change from FLOAT to DOUBLE"),
        ("ALTER TABLE t MODIFY g INT AS (n + 5)", ""),
        ("ALTER TABLE t MODIFY n INT COMMENT 'x' FIRST", ""),
        ("ALTER TABLE t MODIFY n INT NOT NULL", ""),
        ("ALTER TABLE t CHANGE n n INT AS (id)", "marks d.t.n: a generated column"),
        ("ALTER TABLE t RENAME COLUMN n TO m", "marks d.t.m: RENAME COLUMN n TO m"),
        ("ALTER TABLE t CHANGE n N INT", "marks d.t.N: RENAME COLUMN n TO N"),
        ("ALTER TABLE t ADD c INT DEFAULT 1, RENAME TO d.w", "d.t is now d.w; marks d.w.c: ADD COLUMN with a default"),
        ("ALTER TABLE t CONVERT TO CHARACTER SET latin1", "marks d.t.v: CONVERT TO CHARACTER SET latin1"),
        ("ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", ""),
        ("ALTER TABLE t DROP PARTITION p0, p1", "marks d.t: DROP PARTITION"),
        ("ALTER TABLE t TRUNCATE PARTITION ALL", "marks d.t: TRUNCATE PARTITION"),
        (
            "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u WITHOUT VALIDATION",
            "marks d.t: EXCHANGE PARTITION; marks d.u: EXCHANGE PARTITION",
        ),
        ("ALTER TABLE t IMPORT TABLESPACE", "marks d.t: DISCARD or IMPORT TABLESPACE"),
        ("ALTER TABLE t REORGANIZE PARTITION p INTO (PARTITION q VALUES LESS THAN (5))", ""),
        ("TRUNCATE TABLE t", "emptied d.t"),
        ("TRUNCATE x.y", "emptied x.y"),
        ("DROP TABLE IF EXISTS t, `d`.u", "dropped d.t; dropped d.u"),
        ("DROP TEMPORARY TABLE t", ""),
        ("DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `t`", ""),
        ("CREATE TEMPORARY TABLE t (id INT)", ""),
        ("CREATE TABLE IF NOT EXISTS t (z INT)", ""),
        ("CREATE TABLE w (id INT)", "made d.w"),
        ("CREATE TABLE w LIKE u", "made d.w"),
        ("CREATE TABLE w LIKE nope", "made d.w; asks for d.w"),
        ("CREATE TABLE w SELECT * FROM t", "made d.w; asks for d.w"),
        ("CREATE TABLE w (id INT) START TRANSACTION", "made d.w"),
        ("CREATE OR REPLACE TABLE t (id INT)", "made d.t; dropped d.t"),
        ("CREATE TABLE t (id INT)", "doubt: d.t"),
        ("RENAME TABLE t TO w, u TO t, w TO u", "d.u is now d.t; d.t is now d.u"),
        ("RENAME TABLE t TO _t_del, _t_gho TO t", "d.t is now d._t_del; d._t_gho is now d.t; asks for d.t"),
        ("RENAME TABLE t TO x.t", "d.t is now x.t"),
        ("ALTER TABLE nope ADD c INT", "asks for d.nope"),
        ("ALTER TABLE nope RENAME t2", "d.nope is now d.t2; asks for d.t2"),
        ("ALTER TABLE t ADD c FANCY(5)", "doubt: d.t"),
        ("ALTER TABLE t DROP nope", "doubt: d.t"),
        ("ALTER TABLE t FROBNICATE 5 = ( x", "doubt: d.t"),
        ("FROBNICATE TABLE z", "doubt: nothing"),
        ("FROBNICATE `d`.`t`", "doubt: d.t"),
        ("ALTER TABLE t COMMENT 'open", "doubt: d.t"),
        ("DROP DATABASE d", "dropped d.t; dropped d.u; database d None"),
        ("CREATE DATABASE x COLLATE latin1_bin", "database x latin1"),
        ("ALTER DATABASE CHARACTER SET = utf8", "database d utf8mb3"),
        ("CREATE PROCEDURE p() BEGIN DROP TABLE t; END", ""),
        ("CREATE DEFINER=a@localhost TRIGGER g BEFORE INSERT ON t FOR EACH ROW DELETE FROM u", ""),
        ("CREATE /*!50017 DEFINER=`a`@`%`*/ /*!50003 TRIGGER g AFTER INSERT ON t FOR EACH ROW BEGIN END */", ""),
        ("CREATE ALGORITHM=UNDEFINED SQL SECURITY DEFINER VIEW v AS SELECT * FROM t", ""),
        ("/* x */ -- y\n # z\n INSERT INTO t VALUES (1)", "rows"),
        ("UPDATE t SET n = 1", "rows"),
        ("(SELECT 1)", "rows"),
        ("", ""),
        ("BEGIN", ""),
        ("FLUSH TABLES `t`", ""),
        ("GRANT ALL ON t TO a", ""),
    ],
)
def test_what_a_statement_does(statement: str, expected: str) -> None:
    """Under a strict sql_mode, as servers have it."""
    assert said(apply(TABLES, statement, default_database="d", sql_mode=STRICT, server=MYSQL)) == expected


def test_where_the_sql_mode_is_not_strict_values_may_be_cut() -> None:
    """Then a column may change stored values where it would else be refused."""
    for statement in ("ALTER TABLE t MODIFY n SMALLINT", "ALTER TABLE t MODIFY n INT NOT NULL"):
        assert len(apply(TABLES, statement, default_database="d", server=MYSQL).marks) == 1


def test_a_unique_key_of_a_text_that_is_dropped_and_added_is_asked_for() -> None:
    """The servers keep the key, and may keep it for the text's first characters only."""
    table = replace(T, unique_keys=(("v",), ("n",)), unique_names=("v", "n"))
    for statement, expected in (
        ("ALTER TABLE t DROP v, ADD v VARCHAR(20)", "doubt: d.t"),
        ("ALTER TABLE t DROP n, ADD n BIGINT", "marks d.t.n: ADD COLUMN of a name that another one had"),
    ):
        assert said(apply({("d", "t"): table}, statement, default_database="d", server=MYSQL)) == expected


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("ALTER TABLE t ADD c INT FIRST, ADD d INT AFTER c, DROP v", "c d id n e x at b f s g"),
        ("ALTER TABLE t RENAME COLUMN n TO v, RENAME COLUMN v TO n", "id v n e x at b f s g"),
        ("ALTER TABLE t DROP n, ADD n TEXT", "id v e x at b f s g n"),
        ("ALTER TABLE t ADD INDEX ((n + 1), v, (n * 2))", "id n v e x at b f s g !hidden!v!0!0 !hidden!v!1!0"),
        ("ALTER TABLE t ADD UNIQUE fx ((lower(v))), ADD c INT", "id n v e x at b f s g c !hidden!fx!0!0"),
        ("ALTER TABLE t /*!80023 ADD c INT /*!80023 INVISIBLE */ */", "id n v e x at b f s g c"),
        ("ALTER TABLE t /*!90000 DROP v, */ DROP n", "id v e x at b f s g"),
        ("ALTER TABLE t ADD (p POINT NOT NULL /*!80003 SRID 4326 */, SPATIAL INDEX (p)), ALGORITHM=INPLACE",
         "id n v e x at b f s g p"),
        ("ALTER TABLE t ADD j JSON DEFAULT (json_array()), ADD k VARCHAR(20) DEFAULT (concat('a', ',', ')'))",
         "id n v e x at b f s g j k"),
        ("ALTER TABLE t ADD w VECTOR(3) COMMENT 'x' ENGINE_ATTRIBUTE '{}' COLUMN_FORMAT FIXED STORAGE DISK",
         "id n v e x at b f s g w"),
        (("ALTER TABLE t DROP PRIMARY KEY, ADD r BIGINT UNSIGNED NOT NULL AUTO_INCREMENT INVISIBLE PRIMARY KEY FIRST,"
         " ALTER INDEX i INVISIBLE, ALTER CHECK c NOT ENFORCED"), "r id n v e x at b f s g"),
    ],
)  # fmt: skip
def test_forms_of_mysql_8(statement: str, expected: str) -> None:
    """No MySQL 8 can be had for tests; these are forms of its manual."""
    effect = apply(TABLES, statement, default_database="d", sql_mode=STRICT, server=MYSQL)
    assert effect.doubt is None
    assert columns(effect) == expected


def test_an_executable_comment_counts_from_its_version_on() -> None:
    """MariaDB leaves out those of MySQL's versions 5.7 to 9.99, and has comments of its own."""
    statement = "ALTER TABLE t ADD c INT /*!50708 UNSIGNED */ /*M!100100 COMMENT 'x' */ /*!100100 NOT NULL */"
    for server, facts in ((MYSQL, (True, "", True)), (MARIADB, (False, "x", False))):
        effect = apply(TABLES, statement, default_database="d", sql_mode=STRICT, server=server)
        table = effect.tables["d", "t"]
        assert table is not None
        added = table.columns[-1]
        assert (added.unsigned, added.comment, added.nullable) == facts


def test_names_are_folded_where_the_server_folds_them() -> None:
    """With lower_case_table_names=1 rows have small letters, and statements whatever was typed."""
    effect = apply(TABLES, "RENAME TABLE D.T TO D.W", server=ServerRules(lower_case=1))
    assert said(effect) == "d.t is now d.w"
    assert said(apply(TABLES, "DROP TABLE d.T", server=MYSQL)) == "dropped d.T"


def test_quotes_mean_what_the_sql_mode_says() -> None:
    """With ANSI_QUOTES a text in double quotes is a name."""
    effect = apply(TABLES, 'ALTER TABLE "d"."t" ADD "c ""d" INT', sql_mode=ANSI_QUOTES, server=MYSQL)
    assert columns(effect).endswith(' c "d')
    effect = apply(TABLES, 'ALTER TABLE d.t COMMENT "c"', server=MYSQL)
    assert effect.doubt is None


def test_the_character_set_of_a_column_is_inherited_as_of_the_statement() -> None:
    """Column, table, database, server: the nearest that names one."""
    for statement, expected in (
        ("CREATE TABLE w (c CHAR(3))", "cp1251"),
        ("CREATE TABLE x.w (c CHAR(3))", "utf8mb4"),
        ("CREATE TABLE w (c CHAR(3)) COLLATE latin1_bin", "latin1"),
        ("CREATE TABLE w (c CHAR(3) CHARACTER SET utf8) CHARSET latin1", "utf8mb3"),
    ):
        effect = apply({}, statement, default_database="d", server=MYSQL, databases={"d": "cp1251"})
        made = next(table for table in effect.tables.values() if table is not None)
        assert made.columns[0].charset == expected


_PIECES = st.sampled_from([
    "ALTER", "TABLE", "CREATE", "RENAME", "t", "d.t", "`t`", "ADD", "COLUMN", "DROP", "(", ")", ",", "INT", "ENUM('a'",
    "'", '"', "`", "\\", "/*", "/*!", "/*!50000", "*/", "--", "-- ", "#", "\n", "DEFAULT", "AS", "PRIMARY KEY", "TO",
    "CHANGE", "MODIFY", "AFTER", "UNIQUE", "PARTITION", "CONVERT", "LIKE", "REFERENCES", "ON DELETE", "5", "1e5", "0x",
    "x'", ".", "=", "DATABASE", "CHARACTER SET", "INDEX", "TRUNCATE", "EXCHANGE", "DEFINER", "\0", "é", "varchar(3)",
])  # fmt: skip


@given(st.lists(st.one_of(_PIECES, st.text(max_size=3)), max_size=14), st.sampled_from([0, 4, 0x100000, 0x200]))
def test_no_text_raises_an_error(pieces: list[str], sql_mode: int) -> None:
    """Whatever a statement is, it is applied or it is a doubt; what it names of ours is among what it may touch."""
    statement = " ".join(pieces)
    for server in (MYSQL, MARIADB):
        effect = apply(TABLES, statement, default_database="d", sql_mode=sql_mode, server=server)
        if effect.doubt is not None and "d.t" in statement:
            assert ("d", "t") in effect.touches
        found = words(statement, sql_mode=sql_mode, server=server)
        assert all(0 <= token.at < len(statement) for token in found.tokens)


@given(st.text())
def test_a_text_in_quotes_is_read_as_it_was_written(text: str) -> None:
    """Whatever is in it."""
    quoted = text.replace("\\", "\\\\").replace("'", "''")
    statement = f"ALTER TABLE t ADD c INT COMMENT '{quoted}', ADD `{text.replace('`', '``') or 'x'}` INT"
    effect = apply(TABLES, statement, default_database="d", server=MYSQL)
    if effect.doubt is None:
        table = effect.tables["d", "t"]
        assert table is not None
        assert table.columns[-2].comment == text
        assert table.columns[-1].name == (text or "x")
