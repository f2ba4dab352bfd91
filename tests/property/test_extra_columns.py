"""Columns from keys and metadata: native code says of them what the reference says, or nothing."""

from __future__ import annotations

from typing import Any

import pytest
from bothways import both_ways_of, left_to_the_reference
from examples import examples
from hypothesis import currently_in_test_context, event, given, settings
from hypothesis import strategies as st
from inmemory import pipeline
from keyed_records import FORMS, KINDS, Sent, a_key, a_record, a_value, some_extra

from ingest.encode.encode import EncoderCache, encode
from ingest.formats.debezium.options import DebeziumJson
from ingest.formats.json.options import Json
from ingest.formats.metadata_columns import ExtraColumns, MetadataColumns
from ingest.model import types
from ingest.model.record import METADATA, bytes_in
from ingest.model.schema import Column, TableSchema
from ingest.native import native
from ingest.schema.evolve import Schemas, SourceTable
from ingest.schema.infer import Inference
from ingest.sinks.topics.kafka import KafkaSink
from ingest.sinks.topics.upsert_kafka import UpsertKafka
from ingest.testing.in_memory_run import run_in_memory

pytestmark = pytest.mark.compiled

SERVERS = {"properties.*": {"bootstrap.servers": "nowhere:1"}}
SINKS: list[Any] = [
    UpsertKafka.model_validate({"type": "upsert-kafka", **SERVERS}),
    UpsertKafka.model_validate({"type": "upsert-kafka", "value.fields-include": "EXCEPT_KEY", **SERVERS}),
    KafkaSink.model_validate({"type": "kafka", **SERVERS}),
    KafkaSink.model_validate({"type": "kafka", "value.format": "canal-json", "key.format": "json", **SERVERS}),
]


def tables(data: Any, extra: ExtraColumns) -> tuple[TableSchema, TableSchema]:
    """Return a table with all columns that there may be, as the source and the sink have it."""
    of_value = {extra.value_prefix + name: types.parse(kind) for name, kind in KINDS.items()}
    of_key = {extra.key_prefix + name: types.parse("BIGINT") for name in ("id", "k")} if extra.key else {}
    columns = {**of_key, **of_value, **{name: extra.type_of(name) for name in extra.metadata}}
    keys = [name for name in (extra.key_prefix + "id", extra.value_prefix + "id") if name in columns]
    keys += [name for name in ("offset", "topic") if name in columns]
    primary = tuple(data.draw(st.lists(st.sampled_from(keys), min_size=1, max_size=2, unique=True)))
    source = TableSchema(tuple(Column(name, t, nullable=name not in primary) for name, t in columns.items()), primary)
    wide = data.draw(st.sampled_from([None, None, None, *columns]))
    order = data.draw(st.sampled_from([list(columns), list(reversed(columns))]))
    made = {name: types.STRING if name == wide else columns[name] for name in order}
    sink = TableSchema(tuple(Column(name, t, nullable=name not in primary) for name, t in made.items()), primary)
    return source, sink


def compare(
    form: Any, extra: ExtraColumns, source: TableSchema, sink: TableSchema, record: Any, *, keyed: bool, to: Any
) -> bool:
    """Return whether native code took a record. If so, it made of it what the reference makes."""
    table: Any = ("topic",) if form.name == "json" else ("shop", "t")
    caches = []
    for _ in range(2):
        made = EncoderCache(to.encoder, Inference(form.reading, False, {}, 2000))
        made.renew(Schemas(1, {table: SourceTable(source, (("out",),), keyed)}, {("out",): sink}), None)
        caches.append(made)
    encoders = native.NativeEncoders(form, caches[1], None, extra)
    encoder = encoders.of("topic")
    batch, taken = encoder.encode([record], 0)
    records = [*batch]
    # What is kept of one message may not be of the next one
    encoder.encode([Sent(1, "other", b'{"id":77}', record.value())], 0)
    assert [*batch] == records
    if currently_in_test_context():
        event("taken" if taken else "left")
    if not taken:
        assert not records
        return False
    caches[1] = made = EncoderCache(to.encoder, Inference(form.reading, False, {}, 2000))
    made.renew(Schemas(1, {table: SourceTable(source, (("out",),), keyed)}, {("out",): sink}), None)
    encoders = native.NativeEncoders(form, made, None, extra)
    encoder = encoders.of("topic")
    assert encoder.encode([record], 0)[1] == 1
    encoders.settle()
    decoded = form.decoder("topic", keyed=extra.key).decode([record.key()], [record.value()])
    encoded = encode(MetadataColumns(extra).add(decoded, [record]), caches[0], 0)
    assert (encoded.stop, encoded.why, encoded.rejects) == (1, None, [])
    assert len(encoder.skipped()) == sum(encoded.skipped.values())
    expected = [(at, key, None if value is None else bytes(value)) for at, key, value in encoded.records]
    assert records == expected
    for at, by_table in caches[0].compiled.items():
        other = made.compiled[at]
        assert (by_table.inserted, by_table.updated, by_table.deleted) == (other.inserted, other.updated, other.deleted)
        assert by_table.bytes_out == other.bytes_out
        assert other.bytes_in == (0 if encoded.skipped else bytes_in(record))
    return True


@pytest.mark.parametrize("name", FORMS)
def test_native_code_does_what_the_reference_does(name: str) -> None:
    form, typed = FORMS[name]

    @settings(max_examples=examples(250))
    @given(st.data())
    def same(data: Any) -> None:
        extra = data.draw(some_extra(form))
        source, sink = tables(data, extra)
        record = data.draw(a_record(data.draw(a_key()), data.draw(a_value(form, typed=typed))))
        keyed, to = data.draw(st.booleans()), data.draw(st.sampled_from(SINKS))
        compare(form, extra, source, sink, record, keyed=keyed, to=to)

    same()


def wrap(before: str, after: str, op: str) -> bytes:
    return f'{{"before":{before},"after":{after},"source":{{"db":"shop","table":"t"}},"op":"{op}"}}'.encode()


ALL = ExtraColumns(metadata=METADATA)
ROW = '{"id":1,"a":"x","n":2,"d":null}'
SPACED = '{"id": 1, "a": "x", "n": 2, "d": null}'
BOTH = ExtraColumns(key=True, key_prefix="k_", value_prefix="v_", metadata=("offset", "headers"))
HEADERS: Any = [("trace", b"\x00\xff\x10"), ("none", None), ("ключ", b"")]


@pytest.mark.parametrize(
    "extra",
    [
        ALL, BOTH, ExtraColumns(key=True), ExtraColumns(key=True, value_prefix="v_"),
        ExtraColumns(key=True, key_fields=("id",)), ExtraColumns(key=True, except_key=True),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "value",
    [
        wrap("null", ROW, "c"), wrap("null", SPACED, "r"), wrap(ROW, SPACED, "u"), wrap('{"id":1}', ROW, "u"),
        wrap(ROW, "null", "d"), None,
    ],
)  # fmt: skip
def test_what_is_plain_is_taken(extra: ExtraColumns, value: bytes | None) -> None:
    columns = {**{f"{extra.key_prefix}{n}": types.BIGINT for n in ("id",) if extra.key},
               **{extra.value_prefix + name: types.parse(kind) for name, kind in KINDS.items()},
               **{name: extra.type_of(name) for name in extra.metadata}}  # fmt: skip
    key = f"{extra.value_prefix}id"
    table = TableSchema(tuple(Column(name, t, nullable=name != key) for name, t in columns.items()), (key,))
    record = Sent(0, "topic", b'{"id": 1}', value, 3, 42, 1_700_000_000_123, HEADERS, 2, None)
    assert compare(DebeziumJson(), extra, table, table, record, keyed=True, to=SINKS[0])


@pytest.mark.parametrize("before", ["null", '{"id":1}'])
def test_a_row_without_its_value_is_deleted_by_its_key(before: str) -> None:
    extra = ExtraColumns(key=True, key_is_primary=True, metadata=("partition",))
    table = TableSchema((Column("id", types.BIGINT, nullable=False), Column("partition", types.INT)), ("id",))
    value = None if before == "null" else before.encode()
    assert compare(Json(), extra, table, table, Sent(0, "topic", b'{"id":1}', value), keyed=True, to=SINKS[0])
    assert not compare(Json(), extra, table, table, Sent(0, "topic", None, None), keyed=True, to=SINKS[0])


DDL = (
    "CREATE TABLE shop.t ({0}id BIGINT, {0}n DOUBLE, {0}d DATE, PRIMARY KEY ({0}id) NOT ENFORCED); "
    "CREATE TABLE {1} ({0}id INT, {0}n DECIMAL(10, 2))"
)
OPTIONS: list[dict[str, Any]] = [
    {"metadata.list": "topic,partition,offset,timestamp,timestamp-type,headers,leader-epoch,__raw_key__,__raw_value__"},
    {"metadata.list": "offset"}, {"key.format": "json"}, {"key.format": "json", "key.fields-prefix": "k_"},
    {"key.format": "json", "value.fields-prefix": "v_", "metadata.list": "timestamp,topic"},
    {"value.fields-prefix": "v_"},
    {"metadata.list": "offset,headers", "scan.value.initial-schemas.ddls": DDL.format("", "topic")},
    {"key.format": "json", "value.fields-prefix": "v_", "scan.value.initial-schemas.ddls": DDL.format("v_", "topic")},
    {"key.format": "json", "key.fields": "id"}, {"key.format": "json", "value.fields-include": "EXCEPT_KEY"},
]  # fmt: skip


@st.composite
def some_records(draw: Any, form: Any, *, typed: bool) -> list[Sent]:
    """Records of one split, most of one table whose columns stay."""
    made = []
    for i in range(draw(st.integers(1, 20))):
        key = draw(st.one_of(st.sampled_from([b'{"id":1}', b'{"id":2}']), a_key()))
        made.append(draw(a_record(key, draw(a_value(form, typed=typed)), i)))
    return made


@pytest.mark.parametrize("name", FORMS)
def test_whole_runs_are_the_same_without_it(name: str) -> None:
    form, typed = FORMS[name]
    given_options: dict[str, dict[str, Any]] = {
        "debezium of texts": {"debezium-json.infer-schema.primitive-as-string": True},
        "canal with types": {"canal-json.infer-schema.strategy": "SQL_TYPE"},
        "flattened json": {"json.infer-schema.flatten-nested-columns.enable": True},
        "json in ISO 8601": {"json.timestamp-format.standard": "ISO-8601"},
    }

    @settings(max_examples=examples(25))
    @given(
        some_records(form, typed=typed), st.sampled_from(OPTIONS), st.sampled_from([1, 1000]), st.sampled_from([-1, 2])
    )
    def same(records: list[Sent], options: dict[str, Any], look_ahead: int, most: int) -> None:
        source = {
            "value.format": form.name, "ingestion.error-tolerance.max-count": most, **options,
            **given_options.get(name, {}),
        }  # fmt: skip
        both_ways_of(records, look_ahead, exact=True, source=source)

    same()


@pytest.mark.parametrize("options", OPTIONS)
def test_most_records_of_a_run_are_for_native_code(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = left_to_the_reference(monkeypatch)
    records = [
        Sent(i, "topic", b'{"id":%d}' % i, wrap("null", ROW.replace("1", str(i), 1), "c"), 0, i, 1_700_000_000_000 + i,
             HEADERS)
        for i in range(250)
    ]  # fmt: skip
    done = run_in_memory(pipeline(source={"value.format": "debezium-json", **options}), records, look_ahead=1)
    assert not done.rejects
    assert len(done.records) == len(records)
    assert sum(decoded) <= 100, "the first chunk, which is looked at for what else is new"
