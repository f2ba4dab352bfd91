"""What a checkpoint says about schemas, as the command shows it; and caps against a topic made to break them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from commands import called
from inmemory import pipeline, run

from ingest.checkpoint.checkpoint import Checkpoint
from ingest.checkpoint.storage import LocalStorage
from ingest.model import types
from ingest.model.schema import Column, TableSchema
from ingest.schema.evolve import Policy, Schemas, evolve
from ingest.schema.routes import RouteRule, Rules

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A checkpoint with three versions: a table, a column, a wider type with a name to hide behind."""
    checkpoint = Checkpoint(LocalStorage(tmp_path / "c"))
    checkpoint.begin({})
    checkpoint.bind({})
    rules, schemas = Rules((RouteRule("a.b", "out.b"),)), Schemas()
    key = Column("id", types.BIGINT, nullable=False)
    for more in ((), (Column("n", types.INT),), (Column("n", types.BIGINT), Column("evil\n\x1b[31m", types.STRING))):
        seen = TableSchema((key, *more), ("id",))
        evolution = evolve(schemas, [(("a", "b"), seen)], rules, Policy())
        checkpoint.store(evolution)
        schemas = evolution.schemas
    checkpoint.close()
    return str(tmp_path / "c")


def ask(*arguments: str, code: int = 0) -> str:
    done = called("schema", *arguments)
    assert done.code == code, done.err
    return done.out + done.err


def test_schemas_are_shown_as_they_are_and_as_they_were(place: str) -> None:
    assert ask("show", place) == (
        f"out.b (version 3)\n  {'id'.ljust(14)}  BIGINT NOT NULL\n  {'n'.ljust(14)}  BIGINT\n"
        "  evil\\n\\x1b[31m  STRING\n  primary key (id)\n"
    )
    assert "a.b (version 1)" in ask("show", place, "a.b", "--observed", "--version", "1")
    assert json.loads(ask("show", place, "out.b", "--version", "2", "--format", "json")) == [{
        "table": "out.b", "version": 2, "primary_key": ["id"],
        "columns": [
            {"name": "id", "type": "BIGINT", "nullable": False}, {"name": "n", "type": "INT", "nullable": True},
        ],
    }]  # fmt: skip


def test_the_history_and_the_difference_between_versions(place: str) -> None:
    lines = [line.split("  ")[-1] for line in ask("history", place).splitlines()]
    assert lines == [
        "out.b> CREATE TABLE (id BIGINT NOT NULL, PRIMARY KEY (id))", "out.b> ADD COLUMN n INT",
        "out.b> ALTER COLUMN n INT -> BIGINT", "out.b> ADD COLUMN evil\\n\\x1b[31m STRING",
    ]  # fmt: skip
    assert [v["version"] for v in json.loads(ask("history", place, "--format", "json"))] == [1, 2, 3]
    assert ask("diff", place, "--from", "1", "--to", "2").splitlines()[1:] == ["out.b> ADD COLUMN n INT"]
    assert json.loads(ask("diff", place, "out.b", "--format", "json"))[0]["from"] == 2
    assert "knows no sink table 'a.b'" in ask("show", place, "a.b", code=78)
    assert "there is no checkpoint" in ask("show", place + "x", code=78)


def test_a_topic_made_of_tables_and_a_row_made_of_columns_stop_at_the_caps() -> None:
    messages = [
        (b'{"id":1}', b'{"op":"c","after":{"id":1},"source":{"db":"d","table":"t%d"}}' % i) for i in range(10_050)
    ]
    wide = {"op": "c", "after": {"id": 1, **{f"c{i}": i for i in range(2_000)}}, "source": {"db": "d", "table": "t0"}}
    ran = run([*messages, (b'{"id":1}', json.dumps(wide).encode())], look_ahead=20_000, route=[
        {"source-table": r"\.*", "sink-table": "all"},
    ])  # fmt: skip
    assert ran.error is None
    assert ran.schemas is not None
    assert len(ran.schemas.sources) == pipeline().pipeline.max_tables == 10_000
    assert {code for _, _, code in ran.rejects} == {"too-many-tables", "too-many-columns"}
    assert len(ran.rejects) == 51
    assert len(ran.records) == 10_000


@pytest.mark.parametrize(
    "arguments",
    [["show", "--version", "99"], ["show", "--version", "0"], ["diff", "--to", "4"], ["diff", "--from", "9"]],
)
def test_a_version_that_is_not_there_is_refused_with_those_that_are(place: str, arguments: list[str]) -> None:
    said = ask(arguments[0], place, *arguments[1:], code=78)
    assert f"has no version {arguments[-1]} of the schemas" in said
    assert "it has 1 to 3" in said
    assert ask(arguments[0], place, *arguments[1:], "--format", "json", code=78) == said
