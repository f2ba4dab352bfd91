"""Planning, the checkpoint's files, schemas in workers: everything of the engine that needs no Spark."""

from __future__ import annotations

import os
import pickle
import stat
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError
from inmemory import pipeline

from ingest.checkpoint.checkpoint import Batch, Checkpoint, Progress
from ingest.checkpoint.storage import LocalStorage
from ingest.driver import pacing
from ingest.encode.coercer import Drift, RowCoercer
from ingest.errors import CheckpointError, CheckpointInUse, ConfigError, NoPrimaryKey, SchemaChangeRefused
from ingest.kafka.failures import is_away
from ingest.model import types
from ingest.model.schema import Column, Misfit, TableSchema
from ingest.schema.evolve import Policy, Schemas, Shaped, SourceTable, StoredNumbers, evolve, reroute
from ingest.schema.routes import KeyRule, RouteRule, Rules
from ingest.spark.session import with_retries
from ingest.task.daemon import unpacked
from ingest.task.native_support import decoded_in_python, in_python
from ingest.task.task import Delta, Setup
from ingest.task.worker import WorkerState

if TYPE_CHECKING:
    from pathlib import Path

    from ingest.model.table import TableId
    from ingest.schema.evolve import Evolution

A, B = ("t", 0), ("t", 1)


def schema(*names: str, key: str = "id") -> TableSchema:
    columns = [Column(key, types.BIGINT, nullable=False), *(Column(name, types.STRING) for name in names)]
    return TableSchema(tuple(columns), (key,))


def opened(path: Path) -> Checkpoint:
    return Checkpoint(LocalStorage(path))


def test_ranges_share_the_budget_of_a_shard_and_leave_nobody_out() -> None:
    positions, ends = {A: 10, B: 0, ("u", 0): 5}, {A: 1010, B: 20, ("u", 0): 5}
    assert pacing.even_ranges(positions, ends, {A: 0, B: 0, ("u", 0): 0}, 100) == {A: (10, 90), B: (0, 20)}
    assert pacing.even_ranges(positions, ends, {A: 0, B: 1, ("u", 0): 1}, 100) == {A: (10, 110), B: (0, 20)}
    many = {("t", i): 0 for i in range(50)}
    found = pacing.even_ranges(many, dict.fromkeys(many, 100), dict.fromkeys(many, 0), 10)
    assert len(found) == 50
    assert all(end > start for start, end in found.values())


def test_shards_are_kept_and_new_splits_go_where_there_are_fewest() -> None:
    first = pacing.assign_shards([A, B, ("t", 2), ("t", 3)], {}, 2)
    assert sorted(first.values()) == [0, 0, 1, 1]
    assert pacing.assign_shards([*first, ("u", 0)], first, 2) == {**first, ("u", 0): 0}


def test_the_budget_follows_the_rate_and_grows_by_steps() -> None:
    budget = pacing.Budget()
    budget.learn(pacing.FIRST, 0.1)
    assert budget.records == pacing.FIRST * pacing.GROWTH
    budget.learn(budget.records, 10)
    assert budget.records == pacing.FIRST * pacing.GROWTH // 2
    budget.learn(5, 1)
    assert budget.records == pacing.FIRST * pacing.GROWTH // 2, "a small batch says nothing"
    large = pacing.Budget()
    large.learn(10 * pacing.FIRST, 0.01)
    assert large.records == 10 * pacing.FIRST * pacing.GROWTH, "what cannot be cut counts as it was"


def test_progress_plans_and_schemas_read_back(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path / "c")
    checkpoint.begin({"a": "1"})
    checkpoint.bind({"source": {"cluster": "x"}})
    assert checkpoint.progress() == (Progress(batch=0), None)
    batch = Batch(1, checkpoint.run, {"t": "id"}, {A: (0, 5)}, 0, {A: 1}, "p", 7)
    checkpoint.plan(batch)
    assert checkpoint.progress()[1] == batch
    progress = Progress(1, {A: 5, B: 0}, {"t": "id"}, {A: 0, B: 1}, 3)
    checkpoint.done(progress, {})
    assert checkpoint.progress() == (progress, None)
    rules = Rules((RouteRule(r"\.*", "all"),))
    schemas = Schemas()
    for i in range(205):  # past two snapshots
        evolution = evolve(schemas, [(("s",), schema(*[f"c{n}" for n in range(i)]))], rules, Policy(max_tables=9))
        checkpoint.store(evolution)
        schemas = evolution.schemas
    assert checkpoint.schemas(rules) == schemas
    checkpoint.close()
    again = opened(tmp_path / "c")
    assert again.begin({}) == {"a": "1"}
    assert again.run == checkpoint.run + 1
    with pytest.raises(CheckpointError, match="another source cluster: x, now y"):
        again.bind({"source": {"cluster": "y"}})
    again.close()


def test_only_their_user_reads_checkpoints(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        storage = LocalStorage(tmp_path / "some" / "checkpoint")
        storage.write("batches/1.plan", b"{}")
        storage.write("more/x", b"{}")
    finally:
        os.umask(before)
    root = tmp_path / "some" / "checkpoint"
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (root, *root.rglob("*"))}
    assert {path.name: oct(mode) for path, mode in modes.items() if mode != (0o700 if path.is_dir() else 0o600)} == {}
    assert len(modes) >= 7


def test_old_batches_are_forgotten(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    for number in range(1, 60):
        checkpoint.plan(Batch(number, 1, {}, {A: (0, 1)}, 0, {A: 0}))
        checkpoint.done(Progress(number, {A: number}, {}, {A: 0}), {})
    assert len([*(tmp_path / "batches").iterdir()]) <= 42
    assert checkpoint.progress()[0].positions == {A: 59}
    checkpoint.close()


def test_a_second_user_is_refused_and_a_dead_one_is_not_waited_for_long(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from ingest.checkpoint.storage import LocalStorage\n"
        "s = LocalStorage(Path(sys.argv[1])); print('open', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdin is not None
    assert other.stdout.readline() == "open\n"
    with pytest.raises(CheckpointInUse, match=f"in use by another run .process {other.pid}"):
        opened(tmp_path)
    other.kill()
    other.wait()
    other.stdout.close()
    other.stdin.close()
    opened(tmp_path).close()


def looked_at(path: Path) -> None:
    checkpoint = opened(path)
    checkpoint.begin({})
    checkpoint.progress()


@pytest.mark.parametrize("file", ["checkpoint.json", "runs/7", "batches/7.1.done", "batches/7.1.plan"])
def test_a_damaged_checkpoint_is_said_to_be(tmp_path: Path, file: str) -> None:
    opened(tmp_path).close()
    (tmp_path / file).write_bytes(b"{")
    with pytest.raises(CheckpointError, match="is damaged"):
        looked_at(tmp_path)


def test_a_checkpoint_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CheckpointError, match="cannot use checkpoint"):
        opened(tmp_path / "file" / "c")


def test_local_masters_try_again() -> None:
    assert with_retries("local[2]") == "local[2,4]"
    assert with_retries("local[*]") == "local[*,4]"
    assert with_retries("local") == "local[1,4]"
    assert with_retries("local[2,1]") == "local[2,1]"
    assert with_retries("spark://h:7077") == "spark://h:7077"


class Broadcast:
    """What a worker sees of a broadcast."""

    def __init__(self, value: Any) -> None:
        self.value = value


def test_a_worker_follows_the_versions_of_the_schemas() -> None:
    options = pipeline()
    setup = Setup("c", 1, "p", options.source, options.sink, None, options.source.inference(10), 10, Rules())
    state = WorkerState(setup)
    one = Delta(1, {("s",): SourceTable(schema(), (("x",),), True)}, {("x",): schema()})
    two = Delta(2, {("r",): SourceTable(schema("n"), (("x",),), True)}, {("x",): schema("n")})
    empty: Any = Broadcast(Schemas())
    state.update(empty, 0, [one])
    encoder = state.records.cache.find(("s",))
    state.update(empty, 0, [one])
    assert state.records.cache.compiled[("s",)] is encoder, "nothing changed, nothing is compiled again"
    state.update(empty, 0, [one, two])
    assert ("s",) not in state.records.cache.compiled, "its sink table changed"
    base: Any = Broadcast(Schemas(5, two.sources, two.sinks))
    state.update(base, 5, [])
    assert state.schemas.version == 5
    state.update(empty, 0, [one])
    assert state.schemas.version == 1, "a batch that is run again gets its own version"


def test_evolve_refuses_what_cannot_be() -> None:
    rules = Rules((RouteRule("a,b", "x"),), keys=(KeyRule("c", ("nope",)),))
    with pytest.raises(NoPrimaryKey, match="no primary key"):
        evolve(
            Schemas(), [(("a",), TableSchema((Column("v", types.STRING),), ()))], rules, Policy("lenient", max_tables=9)
        )
    with pytest.raises(NoPrimaryKey, match="'nope'"):
        evolve(Schemas(), [(("c",), schema())], rules, Policy(max_tables=9))
    with pytest.raises(ConfigError, match="where it is routed"):
        evolve(Schemas(), [(("a",), schema()), (("b",), schema(key="k"))], rules, Policy(max_tables=9))
    known = evolve(Schemas(), [(("a",), schema())], rules, Policy("exception", max_tables=9)).schemas
    with pytest.raises(SchemaChangeRefused, match="ADD COLUMN n STRING"):
        evolve(known, [(("a",), schema("n"))], rules, Policy("exception", max_tables=9))


def test_tables_past_the_cap_are_left_out() -> None:
    seen = [((f"t{i}",), schema()) for i in range(5)]
    assert len(evolve(Schemas(), seen, Rules(), Policy("lenient", max_tables=3)).schemas.sources) == 3


def test_what_a_sink_cannot_take_is_left_out_and_asked_again() -> None:
    def unfit(_table: TableId, wanted: TableSchema) -> dict[str, str]:
        return {column.name: "so" for column in wanted.columns if column.name in {"id", "n"}}

    first = evolve(Schemas(), [(("t",), schema("a", "n"))], Rules(), Policy(), unfit=unfit)
    assert [column.name for column in first.sinks[("t",)].columns] == ["id", "a"], "a key is never left out"
    assert {str(event): why for event, why in first.withheld.items()} == {
        "ADD COLUMN n STRING": "which cannot do it: so"
    }
    assert [str(event) for event in first.events] == ["CREATE TABLE (id BIGINT NOT NULL, a STRING, PRIMARY KEY (id))"]
    second = evolve(first.schemas, [(("t",), schema("b"))], Rules(), Policy(), unfit=unfit)
    assert [str(event) for event in second.events] == ["ADD COLUMN b STRING"]
    assert [str(event) for event in second.withheld] == ["ADD COLUMN n STRING"]
    again = reroute(second.schemas, Rules(), Policy())
    assert [str(event) for event in again.events] == ["ADD COLUMN n STRING"], "the sink can by now"


def test_a_column_that_a_sink_has_already_keeps_its_type_there() -> None:
    """Only values that do not fit it are left out, whether its table is new to the pipeline or the column is."""

    def unfit(_table: TableId, wanted: TableSchema) -> dict[str, str]:
        kinds = {column.name: column.type for column in wanted.columns}
        return {"n": Misfit("so", types.INT)} if kinds.get("n", types.INT) != types.INT else {}

    first = evolve(Schemas(), [(("t",), schema("a", "n"))], Rules(), Policy(), unfit=unfit)
    later = evolve(
        evolve(Schemas(), [(("t",), schema("a"))], Rules(), Policy(), unfit=unfit).schemas,
        [(("t",), schema("n"))], Rules(), Policy(), unfit=unfit,
    )  # fmt: skip
    for found in (first, later):
        assert {column.name: column.type for column in found.sinks[("t",)].columns}["n"] == types.INT
        assert {str(event): why for event, why in found.withheld.items()} == {
            "ALTER COLUMN n INT -> STRING": "which cannot do it: so"
        }
        again = evolve(found.schemas, [(("t",), schema("b"))], Rules(), Policy(), unfit=unfit)
        assert [str(event) for event in again.events] == ["ADD COLUMN b STRING"]
        assert [str(event) for event in again.withheld] == ["ALTER COLUMN n INT -> STRING"]
    assert [str(event) for event in later.events] == ["ADD COLUMN n INT"]


def numbers_of(kind: str, *, large: bool = False) -> TableSchema:
    return TableSchema(
        (Column("id", types.BIGINT, nullable=False), Column("n", types.parse(kind), large=large)), ("id",)
    )


def seen_by(
    known: Schemas, kind: str, value: bytes = b"", large: tuple[str, ...] = (), unfit: tuple[str, ...] = ()
) -> Evolution:
    """What becomes of a table of a sink that stores numbers, whose column `n` is of another type for a value."""
    asked = StoredNumbers(
        beyond=lambda _table, _schema, names: [name for name in names if name in large],
        unfit=lambda _table, _schema: dict.fromkeys(unfit, Misfit("a view", types.DOUBLE)),
        widening={(("t",), "n"): value} if value else {},
    )
    return evolve(known, [(("t",), numbers_of(kind))], Rules(), Policy(), numbers=asked)


def test_integers_beyond_a_double_become_texts_beside_a_fraction() -> None:
    known = seen_by(Schemas(), "BIGINT").schemas
    change = seen_by(known, "DOUBLE", b"0.5")
    assert {str(event): values for event, values in change.causes.items()} == {
        "ALTER COLUMN n BIGINT -> DOUBLE": {"n": b"0.5"}
    }  # fmt: skip
    change = seen_by(known, "DOUBLE", b"0.5", large=("n",))
    assert [str(event) for event in change.events] == ["ALTER COLUMN n BIGINT -> STRING"]
    observed = [(("t",), numbers_of("BIGINT", large=True)), (("t",), numbers_of("DOUBLE"))]
    for seen in (observed, observed[::-1]):
        (column,) = evolve(Schemas(), seen, Rules(), Policy()).sinks[("t",)].columns[1:]
        assert column.type == types.STRING, "as its own look has seen it, too"


def test_a_value_that_widened_a_column_is_named_for_what_a_transform_passes_on() -> None:
    key = Column("id", types.BIGINT, nullable=False)

    def shape(_: TableId, source: TableSchema) -> Shaped:
        kind = source.columns[1].type
        return Shaped(TableSchema((key, Column("copied", kind), Column("made", kind)), ("id",)), (("copied", "n"),))

    known = evolve(Schemas(), [(("t",), numbers_of("DOUBLE"))], Rules(), Policy(), shape=shape).schemas
    assert known.number_types(("t",)) == {"n": types.DOUBLE}
    asked = StoredNumbers(widening={(("t",), "n"): b"9007199254740993"})
    change = evolve(known, [(("t",), numbers_of("STRING"))], Rules(), Policy(), shape=shape, numbers=asked)
    assert {str(event): values for event, values in change.causes.items()} == {
        "ALTER COLUMN copied DOUBLE -> STRING": {"copied": b"9007199254740993"}
    }  # fmt: skip


def test_a_column_of_numbers_that_a_sink_cannot_change_stays() -> None:
    known = seen_by(Schemas(), "DOUBLE").schemas
    change = seen_by(known, "STRING", b"9007199254740993", unfit=("n",))
    assert ([*change.events], [*change.sinks]) == ([], [])
    assert {str(event): why for event, why in change.kept.items()} == {"ALTER COLUMN n DOUBLE -> STRING": "a view"}
    assert change.schemas.sources[("t",)].schema.columns[1].type == types.STRING
    asked = StoredNumbers(unfit=lambda _table, _schema: {"n": Misfit("a view", types.DOUBLE)})
    assert [*map(str, reroute(change.schemas, Rules(), Policy(), numbers=asked).kept)] == [*map(str, change.kept)]
    assert [*map(str, reroute(change.schemas, Rules(), Policy(), numbers=StoredNumbers()).events)] == [
        "ALTER COLUMN n DOUBLE -> STRING"
    ], "the sink can by now"
    text = seen_by(known, "STRING", b'"x"', unfit=("n",))
    assert [str(event) for event in text.events] == ["ALTER COLUMN n DOUBLE -> STRING"], "without it x has no place"


def test_a_column_of_numbers_that_a_sink_had_before_stays_for_a_first_number_that_does_not_fit() -> None:
    first = seen_by(Schemas(), "STRING", b"9007199254740993.5", unfit=("n",))
    assert first.sinks[("t",)].columns[1].type == types.DOUBLE
    assert [*map(str, first.kept)] == ["ALTER COLUMN n DOUBLE -> STRING"]
    text = seen_by(Schemas(), "STRING", b'"x"', unfit=("n",))
    assert text.sinks[("t",)].columns[1].type == types.STRING, "the sink says that it cannot be"


def test_types_by_which_a_table_keeps_numbers_are_known_to_workers_and_to_the_next_change() -> None:
    known = seen_by(Schemas(), "BIGINT").with_stored({("t",): {"n": types.DOUBLE}})
    sink = pickle.loads(pickle.dumps(known.sinks[("t",)]))  # noqa: S301  (our own)
    assert (sink.columns[1].type, sink.columns[1].stored) == (types.BIGINT, types.DOUBLE)
    change = seen_by(known.schemas, "STRING", b"9007199254740993", unfit=("n",))
    assert change.sinks[("t",)].columns[1].type == types.DOUBLE, "so that it takes fractions, too"
    assert [*map(str, change.kept)] == ["ALTER COLUMN n DOUBLE -> STRING"]
    wider = seen_by(known.schemas, "STRING", b"9007199254740993")
    assert [*map(str, wider.events)] == ["ALTER COLUMN n BIGINT -> STRING"]
    assert wider.with_stored({}).sinks[("t",)].columns[1].stored is None


def test_workers_import_pyspark_from_its_folder_and_not_from_its_archive() -> None:
    path = ["/v/site/pyspark/python/lib/pyspark.zip", "/v/site/pyspark/jars/core.jar", "/u/more.zip", "/v/site"]
    assert unpacked(path) == ["/u/more.zip", "/v/site", *path[:2]]
    elsewhere = ["/opt/spark/python/lib/pyspark.zip", "/v/site"]  # a cluster's own PySpark may be another one
    assert unpacked(elsewhere) == elsewhere


@pytest.mark.parametrize("code", [KafkaError._TRANSPORT, KafkaError._NOENT, KafkaError.NOT_LEADER_FOR_PARTITION])
def test_a_broker_that_is_coming_back_is_waited_for(code: int) -> None:
    assert is_away(KafkaError(code))


def test_a_key_of_an_initial_schema_is_the_same_after_a_restart() -> None:
    given: dict[TableId, TableSchema] = {("t",): schema("n")}
    seen = evolve(Schemas(), [(("t",), schema("n"))], Rules(), Policy(), given).schemas
    assert not seen.sources[("t",)].key_from_message
    assert reroute(seen, Rules(), Policy(), given).sinks == {}
    with pytest.raises(ConfigError, match=r"gives table t changed: \(id\), now none"):
        reroute(seen, Rules(), Policy(), {})
    with pytest.raises(ConfigError, match=r"now \(n\)"):
        reroute(seen, Rules(keys=(KeyRule("t", ("n",)),)), Policy(), given)
    assert reroute(seen, Rules(), Policy(needs_key=False), {}).sinks == {}, "nobody needs it"


def test_what_is_declared_is_known_after_a_restart_and_in_workers() -> None:
    """Schemas are stored without it: the pipeline's file says it at each start."""
    ddl = "CREATE TABLE t (id BIGINT PRIMARY KEY NOT ENFORCED, n DOUBLE)"
    made = pipeline(source={"value.format": "json", "scan.value.initial-schemas.ddls": ddl})
    inference = pickle.loads(pickle.dumps(made.source.inference(10)))  # noqa: S301  (our own)
    stored = {"columns": [["id", "BIGINT", False], ["n", "DOUBLE", True], ["x", "DOUBLE", True]], "key": ["id"]}
    known = TableSchema.from_json(stored)
    conformer = RowCoercer(("t",), known, known, inference)
    assert conformer.row({"id": b"1", "n": b'" 1.50"', "x": b"1"}, None)["n"] == b"1.50"
    with pytest.raises(Drift):
        conformer.row({"id": b"1", "n": b"1", "x": b'"1.50"'}, None)


CHANGES = {"type": "kafka", "properties.bootstrap.servers": "memory:1"}
KEYED = {**CHANGES, "key.format": "json"}
AVRO_KEY = '{"type": "record", "name": "k", "fields": [{"name": "id", "type": "long"}]}'
FILTER = [{"source-table": "a.b", "filter": "id > 1"}]
LINES = {"type": "file", "path": "out"}
UPSERTS = {"type": "upsert-kafka", "properties.bootstrap.servers": "memory:1", "topic": "t"}


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("sections", "why"),
    [
        ({}, []),
        ({"source": {"value.format": "canal-json"}, "sink": KEYED}, []),
        ({"source": {"value.format": "maxwell-json"}, "sink": KEYED}, []),
        ({"source": {"value.format": "ogg-json"}, "sink": KEYED}, []),
        ({"source": {"value.format": "ogg-json", "ogg-json.unavailable-value": "null"}}, ["none that native"]),
        ({"transform": FILTER}, []),
        ({"source": {"metadata.list": "offset"}}, []),
        ({"source": {"value.format": "json", "key.format": "json"}}, []),
        ({"source": {"value.format": "json", "json.infer-schema.flatten-nested-columns.enable": True}}, []),
        ({"source": {"value.format": "canal-json", "canal-json.table.include": "a"}}, []),
        ({"source": {"value.format": "json", "key.format": "avro", "key.avro.schema": AVRO_KEY}}, []),
        ({"source": {"value.format": "avro", "avro.schema": AVRO_KEY}}, []),
        ({"source": {"value.format": "json", "key.format": "raw"}}, ["keys are of"]),
        ({"source": {"scan.header-filter": "a:b"}}, ["scan.header-filter"]),
        ({"source": UPSERTS, "sink": KEYED}, ["looked up", "none that native"]),
        ({"sink": LINES}, ["made by Python", "not written to Kafka"]),
        ({"source": {"type": "file", "path": "x"}}, ["not read from Kafka"]),
        ({"sink": {**CHANGES, "partition.strategy": "hash-by-key"}}, ["made by Python"]),
        ({"sink": {"sink.buffer-flush.max-rows": 5, "sink.buffer-flush.interval": "1s"}}, ["sink.buffer-flush"]),
        ({"source": {"schema.inference.strategy": "static"}, "transform": FILTER}, []),
        ({"sink": KEYED, "transform": FILTER}, []),
    ],
)  # fmt: skip
def test_a_worker_says_why_records_pass_through_python(sections: dict[str, Any], why: list[str]) -> None:
    found = pipeline(**sections)
    changelog = found.source.capabilities.upserts and found.sink.capabilities.changelog
    setup = Setup("s", 1, "p", found.source, found.sink, None, found.source.inference(100), 9, found.rules, changelog)
    said = in_python(setup)
    assert len(said) == len(why), said
    assert [text for text, part in zip(said, why, strict=True) if part not in text] == []
    encoders = WorkerState(setup).records.native
    assert encoders is not None
    assert encoders.decodes == (not decoded_in_python(setup))
