"""Statements on real servers: `ddl.apply` says what information_schema says after them.

`mysql_ddl.sql` has them: each ends with `;;`, a line `---` begins again with empty databases, and `-- asks` stands
before those whose columns only the server can tell.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from examples import seed
from mysql_judge import Judge

if TYPE_CHECKING:
    from collections.abc import Iterator

STATEMENTS: Final = Path(__file__).with_name("mysql_ddl.sql")
_TYPES: Final = (
    "int", "int unsigned", "bigint", "tinyint(1)", "varchar(10)", "varchar(20) character set latin1", "char(3)", "text",
    "datetime(3)", "timestamp null", "decimal(10,2)", "enum('a','b')", "set('x','y')", "blob", "bit(3)", "double",
    "date", "varchar(1000)", "year", "binary(3)",
)  # fmt: skip
_NAMES: Final = ("a", "b", "c", "d", "E", "f g", "h")


@pytest.fixture
def judge(request: pytest.FixtureRequest) -> Iterator[Judge]:
    found = Judge(request.getfixturevalue(request.param))
    yield found
    found.close()


def _groups() -> list[list[str]]:
    text = STATEMENTS.read_text(encoding="utf-8")
    return [[part.strip().removesuffix(";;") for part in group.split(";;\n")] for group in text.split("\n---\n")]


@pytest.mark.parametrize(
    ("judge", "fewest"), [("mariadb", 290), ("mariadb11", 290), ("mysql5", 170)], indirect=["judge"]
)
def test_each_statement_leaves_the_tables_that_the_server_has(judge: Judge, fewest: int) -> None:
    """Statements that a server does not know are passed over; how few these are is tested, too."""
    wrong: list[str] = []
    count = 0
    for group in _groups():
        for database, name in judge.tables:
            judge.execute(f"DROP TABLE `{database}`.`{name}`")
        judge.execute("DROP DATABASE IF EXISTS e2")
        judge.execute("ALTER DATABASE d CHARACTER SET utf8mb4")
        judge.execute("SET SESSION sql_mode = 'STRICT_TRANS_TABLES'")
        judge.databases |= {"d": "utf8mb4"}
        judge.tables = {}
        for statement in group:
            if statement.startswith("set "):
                judge.runs(statement)
                continue
            effect = judge.runs(statement)
            if effect is None:
                continue
            count += 1
            found = judge.differs(effect)
            if bool(effect.unknown) != statement.startswith("-- asks"):
                found.append(f"asks for {effect.unknown}")
            wrong += [f"{statement[:200]}\n    {line}" for line in found]
        wrong += judge.differs()
    assert not wrong, "\n".join(wrong)
    assert count >= fewest


def _action(draw: random.Random, columns: list[str]) -> str:
    """One action of an ALTER TABLE, which may be one that the server refuses."""
    new, old = (f"`{draw.choice(names)}`" for names in (_NAMES, columns))
    kind = draw.choice(_TYPES) + draw.choice(["", "", " not null", " comment 'x'"])
    place = draw.choice(["", "", " first", f" after `{draw.choice([*columns, *_NAMES])}`"])
    return draw.choice([
        f"add {new} {kind}{place}",
        f"drop column {old.upper()}",
        f"modify {old} {kind}{place}",
        f"change {old} {new} {kind}{place}",
        f"change {old.upper()} {new} {kind}{place}",
        f"add ({new} {kind}, `z` {kind})",
        f"add unique ({old})",
        f"drop index {new}",
        f"add primary key ({old})",
        "drop primary key",
        f"alter {old} set default 5",
        f"default character set {draw.choice(['latin1', 'utf8mb4'])}",
    ])  # fmt: skip


@pytest.mark.parametrize("judge", ["mariadb", "mysql5"], indirect=True)
def test_alterations_by_chance_are_applied_as_the_server_does(judge: Judge) -> None:
    """Several actions at once: swapped names, names dropped and added again, places after new columns."""
    chosen = seed()
    draw = random.Random(chosen)
    done = 0
    for _ in range(12):
        judge.execute("DROP TABLE IF EXISTS t")
        judge.tables = {}
        names = draw.sample(_NAMES, 3)
        created = judge.runs("create table t (" + ", ".join(f"`{n}` {draw.choice(_TYPES)}" for n in names) + ")")
        assert created is not None, chosen
        assert not judge.differs(created), chosen
        for _ in range(8):
            columns = [column.name for column in judge.tables["d", "t"].columns if not column.hidden]
            statement = "alter table t " + ", ".join(_action(draw, columns) for _ in range(draw.choice([1, 1, 2, 3])))
            effect = judge.runs(statement)
            if effect is not None:
                done += 1
                wrong = judge.differs(effect)
                assert not wrong, (chosen, statement, wrong)
    assert done > 10, chosen
