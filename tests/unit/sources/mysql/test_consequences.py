"""What a pipeline does about rows that statements change: docs/spec/mysql.md#rows-that-statements-change."""

from __future__ import annotations

import pytest

from ingest.sources.mysql.ddl import apply
from ingest.sources.mysql.effects import Remedy, RowPolicy, consequences, warning
from ingest.sources.mysql.tokens import ServerRules
from ingest.sources.mysql.types import Column, Table

TABLES = {("d", name): Table("d", name, (Column("id", "int"),), primary_key=("id",)) for name in ("t", "u", "_t_gho")}
KEYED = RowPolicy(keyed=True)
STAY, READ, DELETE = Remedy.STAY, Remedy.READ_AGAIN, Remedy.DELETE


def found(statement: str, policy: RowPolicy = KEYED, rows: int | None = 10) -> list[tuple[str, Remedy]]:
    """Remedies by table; `d.t` and `d.u` are read, `d.old` was once."""
    effect = apply(TABLES, statement, default_database="d", server=ServerRules())
    made = consequences(
        effect,
        policy,
        reads=lambda table: table[1] in {"t", "u", "old"},
        was_read=lambda table: table[1] in {"t", "u", "old"},
        rows=lambda _: rows,
    )
    return [(one.table[1], one.remedy) for one in made]


def test_a_table_that_comes_under_a_name_without_rows_is_read() -> None:
    """However large it is: it is new to the pipeline."""
    effect = apply(TABLES, "RENAME TABLE _t_gho TO d.t", default_database="d", server=ServerRules())
    made = consequences(
        effect, KEYED, reads=lambda table: table[1] == "t", was_read=lambda _: False, rows=lambda _: None
    )
    assert [one.remedy for one in made] == [Remedy.READ]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("TRUNCATE t", [("t", DELETE)]),
        ("TRUNCATE not_read", []),
        ("DROP TABLE t, u", [("t", STAY), ("u", STAY)]),
        ("CREATE TABLE old (id INT)", [("old", DELETE)]),
        ("CREATE OR REPLACE TABLE t (id INT)", [("t", DELETE)]),
        ("CREATE TABLE fresh (id INT)", []),
        ("RENAME TABLE t TO elsewhere", [("t", STAY)]),
        ("RENAME TABLE t TO x.t", [("t", STAY), ("t", READ)]),
        ("RENAME TABLE t TO _t_del, _t_gho TO t", [("t", READ)]),
        ("RENAME TABLE t TO tmp, u TO t, tmp TO u", [("t", READ), ("u", READ)]),
        ("ALTER TABLE t ADD c INT", []),
        ("ALTER TABLE t ADD c INT DEFAULT 5", [("t", READ)]),
        ("ALTER TABLE t DROP PARTITION p", [("t", STAY)]),
        ("ALTER TABLE t EXCHANGE PARTITION p WITH TABLE not_read", [("t", READ)]),
    ],
)
def test_what_becomes_of_rows(statement: str, expected: list[tuple[str, Remedy]]) -> None:
    """In a sink with one row per key, by default."""
    assert found(statement) == expected


@pytest.mark.parametrize(
    ("policy", "rows", "truncated", "marked"),
    [
        (RowPolicy(keyed=True), 1_000_000, DELETE, READ),
        (RowPolicy(keyed=True), 1_000_001, DELETE, STAY),
        (RowPolicy(keyed=True), None, DELETE, STAY),
        (RowPolicy(keyed=True, resnapshot="always"), None, DELETE, READ),
        (RowPolicy(keyed=True, resnapshot="never"), 1, DELETE, STAY),
        (RowPolicy(keyed=True, truncate="ignore"), 1, STAY, READ),
        (RowPolicy(keyed=True, max_rows=5), 6, DELETE, STAY),
        (RowPolicy(keyed=False, resnapshot="always"), 1, STAY, STAY),
    ],
)
def test_the_options_and_the_sink_decide(
    policy: RowPolicy, rows: int | None, truncated: Remedy, marked: Remedy
) -> None:
    """A sink that keeps all versions is never emptied, and nothing is read again for it."""
    assert found("TRUNCATE t", policy, rows) == [("t", truncated)]
    assert found("ALTER TABLE t ADD c INT DEFAULT 5", policy, rows) == [("t", marked)]


def test_a_warning_names_table_column_and_command() -> None:
    """Where nothing can be read again it names no command."""
    effect = apply(TABLES, "ALTER TABLE d.t ADD c INT DEFAULT 5", server=ServerRules())
    made = consequences(effect, KEYED, reads=lambda _: True, was_read=lambda _: False, rows=lambda _: None)
    said = warning(made[0], keyed=True)
    assert "d.t: ALTER TABLE: ADD COLUMN with a default (column c)" in said
    assert said.endswith("ingest backfill FILE --table d.t")
    assert "backfill" not in warning(made[0], keyed=False)
