"""`ingest schema set`: what a table was after a statement that is not understood."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import called

from ingest.checkpoint.checkpoint import Checkpoint, Progress
from ingest.checkpoint.storage import LocalStorage
from ingest.errors import ConfigError
from ingest.sources.mysql.ddl import answer_to, new_answer
from ingest.sources.mysql.log_model import LogFiles, LogPlace, ServerIdentity
from ingest.sources.mysql.state import State
from ingest.sources.mysql.tokens import ServerRules

STATEMENT = "CREATE TABLE `other` (`id` int NOT NULL, `v` varchar(5), PRIMARY KEY (`id`)) ENGINE=InnoDB"
RULES = ServerRules()


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a checkpoint with one batch of a source that has a state."""
    monkeypatch.chdir(tmp_path)
    _written(Path("c"), State(LogFiles((ServerIdentity(1),)), LogPlace("b.1", 4, 0)).to_json())
    return Path("c")


def _written(folder: Path, state: object) -> None:
    made = Checkpoint(LocalStorage(folder))
    made.bind({})
    made.begin({})
    made.done(Progress(1, {("binlog", 0): 5}, source_state=state), {})
    made.close()


def test_an_answer_is_kept_and_counts_once(checkpoint: Path) -> None:
    """It is a document of the source's state, and answers in the order in which they were given."""
    for statement in (STATEMENT, STATEMENT.replace("varchar(5)", "text")):
        said = called("schema", "set", str(checkpoint), "--table", "d.t", statement)
        assert said.code == 0, said.err
        assert "d.t: kept for the next statement" in said.out
    documents = Checkpoint(LocalStorage(checkpoint)).documents()
    types = []
    used: list[str] = []
    while (found := answer_to(("d", "t"), documents, used, server=RULES, databases={})) is not None:
        used.append(found[0])
        assert (found[1].database, found[1].name, found[1].primary_key) == ("d", "t", ("id",))
        types.append(found[1].columns[1].type)
    assert types == ["varchar", "text"]
    assert answer_to(("d", "other"), documents, (), server=RULES, databases={}) is None


@pytest.mark.parametrize(
    "statement",
    ["", "ALTER TABLE t ADD c INT", "CREATE TABLE t LIKE u", "CREATE TABLE t SELECT 1", "CREATE TABLE t (c FANCY)",
     "CREATE TABLE t (c INT", "DROP TABLE t"],
)  # fmt: skip
def test_only_a_whole_table_is_an_answer(checkpoint: Path, statement: str) -> None:
    """Anything else is refused, and nothing is kept."""
    said = called("schema", "set", str(checkpoint), "--table", "d.t", statement)
    assert said.code == ConfigError.exit_code
    assert "SHOW CREATE TABLE" in said.err
    assert Checkpoint(LocalStorage(checkpoint)).documents() == {}


def test_a_source_without_a_history_takes_no_answer(checkpoint: Path) -> None:
    """Topics have no statements."""
    _written(checkpoint.with_name("k"), None)
    said = called("schema", "set", "k", "--table", "d.t", STATEMENT)
    assert said.code == ConfigError.exit_code
    assert "no history of schemas" in said.err


def test_numbers_of_answers_go_on() -> None:
    """Other documents are passed over."""
    assert new_answer("d.t", STATEMENT, ["entries-1", "answer-9", "answer-10"])[0] == "answer-11"


def test_tables_that_are_marked_are_shown(checkpoint: Path) -> None:
    """With what changed their rows, and the command that reads them again."""
    assert "marked" not in called("status", str(checkpoint)).out
    state = State(
        LogFiles((ServerIdentity(1),)), LogPlace("b.1", 4, 0), marked={"d.t t": "ALTER TABLE: DROP PARTITION"}
    )
    _written(checkpoint.with_name("m"), state.to_json())
    said = called("status", "m")
    expected = (
        "marked:     d.t t, whose rows may differ: ALTER TABLE: DROP PARTITION (ingest backfill FILE --table 'd.t t')"
    )
    assert expected in said.out
