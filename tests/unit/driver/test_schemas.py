"""Schemas on the driver: what reaches the sink before it is stored, and what travels to workers."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from driverparts import A, Told, context, coordinator

from ingest.checkpoint.checkpoint import Checkpoint
from ingest.checkpoint.storage import MemoryStorage
from ingest.driver import dispatcher as sending
from ingest.driver.dispatcher import SchemaBroadcast
from ingest.driver.ledger import RunCounters
from ingest.driver.schemas import SchemaRules, SchemaStore, policy_of, warn_withheld
from ingest.driver.sink_tables import KeyPartitions, SinkTables
from ingest.errors import ConfigError
from ingest.model import types
from ingest.model.schema import Column, TableSchema, TextNumbers
from ingest.observe.events import RunEnded, SchemaChanged
from ingest.schema.routes import Rules
from ingest.sinks import SinkCoordinator
from ingest.testing.in_process import InProcessRunner

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ingest.model.table import TableId

T: TableId = ("t",)
U: TableId = ("u",)


def schema(*names: str) -> TableSchema:
    columns = [Column("id", types.BIGINT, nullable=False), *(Column(name, types.STRING) for name in names)]
    return TableSchema(tuple(columns), ("id",))


class Picky(SinkCoordinator):
    """A sink that says what it is asked for, and refuses a table named so."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.topics = self.places = self.rows = self
        self.checkpoint = checkpoint
        self.prepared: list[tuple[TableId, list[int]]] = []
        self.gone: set[str] = set()
        self.emptied: list[TableId] = []
        self.keeps = False

    def empty(self, table: TableId) -> bool:
        self.emptied.append(table)
        return not self.keeps

    def keep_only(self, *_: Any) -> int:
        raise NotImplementedError

    def hashed(self, _tables: Iterable[TableId], *, again: bool = False) -> dict[str, Any]:
        return {}

    def filled(self, _tables: Iterable[TableId]) -> set[str]:
        return set()

    def close(self) -> None:
        return

    def connect(self) -> str:
        return "sink"

    def fingerprint(self, _identity: str) -> dict[str, Any]:
        return {}

    def topics_of(self, tables: Iterable[TableId]) -> set[str]:
        return {".".join(table) for table in tables}

    def missing(self, tables: Iterable[TableId]) -> set[str]:
        return self.gone & self.topics_of(tables)

    def prepare(self, tables: Iterable[TableId], *, dry_run: bool) -> None:
        assert not dry_run
        for table in tables:
            self.prepared.append((table, self.checkpoint.version_numbers()))
            if table == ("refused",):
                msg = "no such table"
                raise ConfigError(msg)


class CompiledRule:
    """A store of schemas, with all that it works with."""

    def __init__(self, *, same_cluster: bool = False, **sections: Any) -> None:
        self.told = Told()
        about = context(self.told, **sections)
        self.checkpoint = Checkpoint(MemoryStorage())
        self.checkpoint.bind({})
        self.sink = Picky(self.checkpoint)
        keys = KeyPartitions(about, self.sink, self.checkpoint)
        tables = SinkTables(self.sink, coordinator({("t", 0): 1}), self.told, keys, same_cluster=same_cluster)
        pipeline = about.pipeline
        rules = SchemaRules(pipeline.rules, policy_of(pipeline), pipeline.source.inference(100))
        self.summary = RunEnded("p")
        self.store = SchemaStore(
            about, rules, tables, self.checkpoint, RunCounters(self.summary, 100), warn_withheld(about)
        )


def test_a_change_reaches_the_sink_before_it_is_stored() -> None:
    made = CompiledRule()
    evolution = made.store.evolve([(T, schema("a"))])
    assert evolution is not None
    assert made.sink.prepared == [(T, [])], "no version was stored then"
    assert made.checkpoint.version_numbers() == [1]
    assert made.store.schemas.version == 1
    assert [type(event) for event in made.told.events] == [SchemaChanged]
    assert made.summary.tables["t"].schema_changes == 1
    assert made.store.evolve([(T, schema("a"))]) is None, "nothing is new"
    assert made.checkpoint.version_numbers() == [1]


def test_what_a_sink_refuses_is_not_stored() -> None:
    made = CompiledRule()
    with pytest.raises(ConfigError):
        made.store.evolve([(("refused",), schema())])
    assert made.checkpoint.version_numbers() == []
    assert made.store.schemas.version == 0
    assert made.told.events == []


def test_a_pipeline_must_not_read_what_it_writes() -> None:
    with pytest.raises(ConfigError, match="topic t is one of its source's and of its sink's"):
        CompiledRule(same_cluster=True).store.evolve([(T, schema())])
    assert CompiledRule(same_cluster=True).store.evolve([(("elsewhere",), schema())]) is not None


def test_a_store_takes_over_what_another_run_left_and_prepares_the_sink_for_it() -> None:
    made = CompiledRule()
    made.store.evolve([(T, schema("a"))])
    again = CompiledRule()
    again.checkpoint.storage.write("schemas/1.json", made.checkpoint.storage.read("schemas/1.json") or b"")
    stored = again.store.take_over()
    assert stored.sinks == again.store.schemas.sinks == made.store.schemas.sinks
    assert again.sink.prepared == [(T, [1])]


def test_a_topic_that_was_written_and_is_gone_is_said() -> None:
    made = CompiledRule()
    made.store.evolve([(T, schema("a"))])
    again = CompiledRule()
    again.checkpoint.storage.write("schemas/1.json", made.checkpoint.storage.read("schemas/1.json") or b"")
    again.sink.gone = {"t"}
    again.store.take_over()
    (warning,) = again.told.warnings
    assert warning.startswith("topic t is not there, although its table was written before")
    assert again.sink.prepared == [(T, [1])]


def test_a_table_that_rows_go_to_no_more_is_not_made_again() -> None:
    made = CompiledRule()
    made.store.evolve([(T, schema("a"))])
    again = CompiledRule(route=[{"source-table": "t", "sink-table": "elsewhere"}], same_cluster=True)
    again.checkpoint.storage.write("schemas/1.json", made.checkpoint.storage.read("schemas/1.json") or b"")
    again.sink.gone = {"t", "elsewhere"}
    again.store.take_over()
    assert {table for table, _ in again.sink.prepared} == {("elsewhere",)}
    assert again.told.warnings == [], "its topic is new"


def test_what_the_sink_is_not_to_see_is_told_once() -> None:
    made = CompiledRule(pipeline={"schema.change.behavior": "ignore"})
    made.store.evolve([(T, schema())])
    for name in ("a", "b", "a"):
        made.store.evolve([(T, schema(name))])
    assert [text.split(" is withheld")[0] for text in made.told.warnings] == [
        "table t: ADD COLUMN a STRING", "table t: ADD COLUMN b STRING",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sections", "column", "value", "told"),
    [
        ({}, "id", b'"5.00"', 1),
        ({"sink": {"key.format": "csv"}}, "id", b'"5.00"', 1),
        ({}, "id", None, 1),  # a statement of the source
        ({}, "id", b'"x"', 0),  # numbers keep their keys beside texts
        ({}, "id", b"1" * 39, 0),  # a number that has no room is a number in the key
        ({}, "n", b'"5.00"', 0),
        ({"source": {"debezium-json.infer-schema.primitive-as-string": True}}, "id", b'"5.00"', 0),
    ],
)
def test_a_key_that_gets_its_numbers_as_texts_is_said(
    sections: dict[str, Any], column: str, value: bytes | None, told: int
) -> None:
    made = CompiledRule(**sections)
    numbers = TableSchema((Column("id", types.BIGINT, nullable=False), Column("n", types.BIGINT)), ("id",))
    columns = [replace(one, type=types.STRING) if one.name == column else one for one in numbers.columns]
    texts = replace(numbers, columns=tuple(columns))
    widening = {} if value is None else {(T, column): value}
    for seen in (numbers, texts, texts):
        made.store.evolve([(T, seen)], widening if seen is texts else {})
    assert len(made.told.warnings) == told
    assert all(f"column {column!r} of the key gets its numbers as texts" in text for text in made.told.warnings)


def test_a_raw_key_that_gets_other_bytes_is_said() -> None:
    made = CompiledRule(sink={"key.format": "raw"})
    for kind in ("INT", "BIGINT", "STRING"):
        made.store.evolve([(T, TableSchema((Column("id", types.parse(kind), nullable=False),), ("id",)))])
    said = "table t: column 'id' of the key becomes {} now, which has other bytes in a raw key: what was written as {}"
    assert [text.partition(" stays there")[0] for text in made.told.warnings] == [
        said.format("BIGINT", "INT"), said.format("STRING", "BIGINT")
    ]  # fmt: skip


@pytest.mark.parametrize("observed", ["ab", "ba"])
def test_a_column_that_was_a_number_keeps_that_in_the_checkpoint_and_in_workers(observed: str) -> None:
    made = CompiledRule()
    number = Column("id", types.parse("DECIMAL(38,2)"), nullable=False)
    text = Column("id", types.STRING, nullable=False, text_numbers=TextNumbers.QUOTED)
    of = {"a": TableSchema((number,), ("id",)), "b": TableSchema((text,), ("id",))}
    made.store.evolve([(T, of["b"])])
    assert not made.store.schemas.sources[T].schema.bare_numbers, "it was never a number"
    made.store.evolve([(U, of[name]) for name in observed], {(U, "id"): b'"5.00"'})
    kept = made.checkpoint.schemas(Rules()).sources[U].schema
    sent = pickle.loads(pickle.dumps(made.store.schemas.sources[U].schema))  # noqa: S301  (our own)
    assert kept.bare_numbers == sent.bare_numbers == {"id"}
    assert made.told.warnings == []


def test_workers_get_what_changed_and_everything_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "MAX_DELTAS", 2)
    made = CompiledRule()
    sent = SchemaBroadcast(InProcessRunner(lambda: (None, None)), made.store, coordinator({A: 0}))
    assert (sent.version, sent.deltas) == (0, [])
    sent.add(None)
    assert sent.deltas == []
    names: list[str] = []
    for version in (1, 2):
        names.append(f"c{version}")
        sent.add(made.store.evolve([(T, schema(*names))]))
        assert (sent.version, [delta.version for delta in sent.deltas]) == (0, [*range(1, version + 1)])
    sent.add(made.store.evolve([(T, schema(*names, "more"))]))
    assert (sent.version, sent.deltas) == (3, [])
    assert sent.base.value is sent.newest is made.store.schemas


def test_many_tables_in_one_version_are_broadcast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "MAX_DELTA_TABLES", 3)
    made = CompiledRule()
    sent = SchemaBroadcast(InProcessRunner(lambda: (None, None)), made.store, coordinator({A: 0}))
    sent.add(made.store.evolve([((name,), schema()) for name in "abc"]))
    assert (sent.version, sent.deltas) == (1, [])


def test_a_table_that_the_source_empties_is_emptied_in_the_sink() -> None:
    made = CompiledRule()
    made.store.evolve([(T, schema()), (("u",), schema())])
    made.store.empty([T, ("never-seen",)])
    assert made.sink.emptied == [T]
    assert made.told.warnings == []


@pytest.mark.parametrize(
    ("sections", "keeps", "why"),
    [
        ({"route": [{"source-table": "t|u", "sink-table": "both"}]}, False, "rows of u are there, too"),
        ({"sink": {"exclude.schema.changes": "truncate.table"}}, False, "leaves truncate.table out"),
        ({"sink": {"exclude.schema.changes": "truncate"}}, False, "leaves truncate.table out"),
        ({}, True, "the sink keeps rows that are gone"),
    ],
)
def test_rows_that_stay_are_said(sections: dict[str, Any], keeps: bool, why: str) -> None:
    made = CompiledRule(**sections)
    made.sink.keeps = keeps
    made.store.evolve([(T, schema()), (("u",), schema())])
    left = made.store.empty([T])
    assert left == ({T: f"it was emptied; its rows stay in both: {why}"} if "route" in sections else {})
    assert made.sink.emptied == ([T] if keeps else [])
    (warning,) = made.told.warnings
    assert warning.startswith("table t was emptied; its rows stay in ")
    assert why in warning
