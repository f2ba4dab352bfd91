"""Native code encodes what the reference has decoded as the reference does, or leaves it: any change, any encoder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from any_table import A_SINK, KINDS, LAID_OUT, SINK, a_case, a_row, cache_of, schema, some_declared
from bothways import both_ways
from examples import examples
from hypothesis import currently_in_test_context, event, example, given, settings
from hypothesis import strategies as st
from inmemory import run
from picking import pick, pick_some
from shapes import DECLARED, a_message

from ingest.encode.encode import Encoded, encode
from ingest.formats import capabilities_of
from ingest.formats.canal.options import CanalJson
from ingest.formats.debezium.options import DebeziumJson
from ingest.formats.json.options import Json
from ingest.formats.maxwell import MaxwellJson
from ingest.formats.ogg import OggJson
from ingest.model import types
from ingest.model.change import Change, InlineSchema, Kind, Reject, Skip
from ingest.native import native

if TYPE_CHECKING:
    from ingest.encode.encode import EncoderCache
    from ingest.model.change import Decoded
    from ingest.model.schema import TableSchema

pytestmark = pytest.mark.compiled

T = ("shop", "t")
MANY = 1000
"""Rejects that may pass."""


def raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode("utf-8", "surrogatepass"))


def encode_natively(changes: list[Decoded], cache: EncoderCache) -> tuple[Encoded, int]:
    """Encode with native code as far as it goes, and with the reference after that; returns how many the first took."""
    encoders = native.NativeEncoders(DebeziumJson(), cache, decodes=False)
    made, natively, at = Encoded(), 0, 0
    while True:
        encoder = encoders.of_changes()
        batch, stop = encoder.encode(changes, at)
        made.records += batch
        natively += stop - at
        for reason, count in encoder.skipped().items():
            made.skipped[reason] = made.skipped.get(reason, 0) + count
        at = made.stop = stop
        if at == len(changes):
            break
        if batch.full:
            continue
        one = encode(changes[at : at + 1], cache, MANY)
        made.records += one.records
        made.rejects += [(at, stage, reason) for _, stage, reason in one.rejects]
        for reason, count in one.skipped.items():
            made.skipped[reason] = made.skipped.get(reason, 0) + count
        at += one.stop
        made.stop, made.why = at, one.why
        if not one.stop:
            break
    encoders.settle()
    return made, natively


def shown(encoded: Encoded) -> Any:
    """All that an encoder says."""
    records = [(to, key, value if value is None else bytes(value)) for to, key, value in encoded.records]
    why = encoded.why and (type(encoded.why), encoded.why.args)
    return records, encoded.stop, why, encoded.rejects, encoded.skipped


def counters(cache: EncoderCache) -> Any:
    return {
        table: (
            e.inserted,
            e.updated,
            e.deleted,
            e.unrepresentable,
            e.bytes_out,
            e.withheld,
            e.unread,
            getattr(e, "cut", {}),
        )
        for table, e in cache.compiled.items()
    }


def compare(
    changes: list[Decoded],
    source: TableSchema,
    sink: TableSchema,
    *,
    keyed: bool,
    to: Any,
    declared: tuple[str, ...] = (),
) -> int:
    """Encode changes with native code and without, which has to be the same; returns how many native code took."""
    form = DebeziumJson()
    reference, natively = (cache_of(form, T, source, sink, keyed=keyed, to=to, declared=declared) for _ in range(2))
    expected = encode(changes, reference, MANY)
    made, taken = encode_natively(changes, natively)
    assert shown(made) == shown(expected)
    assert counters(natively) == counters(reference)
    if currently_in_test_context():
        event("all taken" if taken == len(changes) else "some taken" if taken else "all left")
    return taken


@st.composite
def a_declaration(draw: Any, source: TableSchema) -> InlineSchema | None:
    """What messages may declare of a table's rows, true or not."""
    if pick(draw, [False, True, True]):
        return None
    key = source.primary_key
    kinds = {column.name: pick(draw, [None, None, column.type, *map(types.parse, KINDS)]) for column in source.columns}
    names = pick(draw, [(), key, key, key, tuple(reversed(key)), ("no",), (*key, "no"), (*key, *key)])
    said = {name: kind for name, kind in kinds.items() if kind is not None}
    unread = {name: "it is none" for name in kinds if pick(draw, [False] * 19 + [True])}
    numbers = frozenset(name for name in kinds if pick(draw, [False, False, False, True]))
    return InlineSchema(said, names, draw(st.booleans()), unread=unread, numbers=numbers)


@st.composite
def a_change(draw: Any, source: TableSchema, usual: dict[str, str]) -> Decoded:
    """A change of a known table, mostly."""
    names = list(usual)
    some = pick_some(draw, names, min_size=1)
    kind = pick(draw, [Kind.INSERT, Kind.UPDATE, Kind.UPDATE, Kind.DELETE])
    edge = pick(draw, [""] * 9 + [" "])
    after = None if kind is Kind.DELETE else raw(edge + draw(a_row(names, usual=usual)) + edge)
    before = pick(draw, [names, names, some, None, list(source.primary_key)])
    image = None if before is None else raw(draw(a_row(before, usual=usual)))
    if after is not None and pick(draw, [False, False, False, True]):
        image = after
    key = pick(draw, [*[None] * 6, *["row"] * 3, "k", "", "{}"])
    if key == "row":
        key = draw(a_row(list(source.primary_key), usual=usual))
    declared = draw(a_declaration(source))
    table = pick(draw, [T] * 9 + [("shop", "t", "t")])
    key_bytes = None if key is None else key.encode("utf-8", "surrogatepass")
    return Change(table, kind, image, after, key_bytes, declared)


NONE = st.sampled_from([Skip("tombstone"), Skip("heartbeat"), Reject("malformed", "no JSON"), Reject("no", "x", T)])


@settings(max_examples=examples(2500))
@given(st.data())
def test_changes_as_the_book_has_them(data: Any) -> None:
    source, sink, usual = data.draw(a_case())
    one = a_change(source, usual)
    changes = data.draw(
        st.lists(st.one_of(one, one, one, one, NONE, st.lists(one, min_size=1, max_size=2)), min_size=1, max_size=4)
    )
    compare(
        changes, source, sink, keyed=data.draw(st.booleans()), to=data.draw(A_SINK),
        declared=some_declared(data, source),
    )  # fmt: skip


ORDERS = schema({"id": "BIGINT", "name": "STRING", "n": "DOUBLE"}, ("id",))
ROW = raw('{"id":1,"name":"a","n":1.50}')
SAID = InlineSchema({"id": types.BIGINT, "name": types.STRING, "n": types.DOUBLE}, ("id",))
CHANGED = InlineSchema(SAID.types, ("id",), overlay=True)
MOVED = Change(T, Kind.UPDATE, raw('{"id":2,"name":"a","n":1}'), ROW, b'{"id": 1}', SAID)


@pytest.mark.parametrize("to", [SINK, *LAID_OUT])
@pytest.mark.parametrize(
    "change",
    [
        Change(T, Kind.INSERT, None, ROW, b'{"id":1}', None),
        Change(T, Kind.INSERT, ROW, ROW, None, SAID),
        Change(T, Kind.UPDATE, None, ROW, None, SAID),
        MOVED,
        Change(T, Kind.UPDATE, raw('{"n":2}'), ROW, None, CHANGED),
        Skip("tombstone"),
    ],
)
def test_plain_changes_are_taken(change: Any, to: Any) -> None:
    """All but what becomes two records in Debezium's form."""
    left = change is MOVED and capabilities_of(to.value_format).splits_keys
    assert compare([change] * 3, ORDERS, ORDERS, keyed=True, to=to) == 3 * (not left)


@pytest.mark.parametrize("to", [SINK, *(sink for sink in LAID_OUT if sink.value_format != "json" or sink.key_format)])
@pytest.mark.parametrize(
    "change", [Change(T, Kind.DELETE, ROW, None, None, SAID), Change(T, Kind.DELETE, ROW, None, b'{"id":1}', None)]
)
def test_plain_deletes_are_taken_where_they_can_be_said(change: Any, to: Any) -> None:
    assert compare([change] * 3, ORDERS, ORDERS, keyed=True, to=to) == 3


@pytest.mark.parametrize(
    "change",
    [
        Change(T, Kind.INSERT, None, raw('{"id":1,"new":1}'), None, None),
        Change(T, Kind.INSERT, None, raw('{"id":"1"}'), None, SAID),
        Change(T, Kind.INSERT, None, raw('{"id":null}'), None, None),
        Change(T, Kind.INSERT, None, raw('{"id":1'), None, None),
        Change(T, Kind.INSERT, None, raw('{"id":1}'), b'{"no":1}', None),
        Change(T, Kind.INSERT, None, raw('{"id":1}'), None, InlineSchema({}, ("no",))),
        Change(T, Kind.UPDATE, raw('{"id":2}'), ROW, None, InlineSchema(unread={"n": "it is none"})),
        Change(T, Kind.UPDATE, raw('{"id":2}'), ROW, None, InlineSchema(unread={"id": "it is none"})),
        Change(T, Kind.DELETE, raw('{"id":2}'), None, None, InlineSchema(unread={"n": "it is none"})),
        Change(T, Kind.DELETE, None, None, b'{"id":1}', None),
        Change(("other",), Kind.INSERT, None, ROW, None, None),
        [Change(T, Kind.INSERT, None, ROW, None, None)],
        Reject("malformed", "no JSON"),
    ],
)
def test_other_changes_are_left(change: Any) -> None:
    assert compare([change], ORDERS, ORDERS, keyed=True, to=SINK) == 0


def test_a_batch_holds_the_rows_that_are_written_as_they_came() -> None:
    cache = cache_of(DebeziumJson(), T, ORDERS, ORDERS, keyed=False)
    texts = [f'{{"id":{i},"name":"{"x" * 100}","n":{i}.5}}' for i in range(450)]
    changes: list[Any] = [Change(T, Kind.INSERT, None, raw(text), None, None) for text in texts]
    encoder, batches, at = native.NativeEncoders(DebeziumJson(), cache, decodes=False).of_changes(), [], 0
    while at < len(changes):
        batch, stop = encoder.encode(changes, at)
        assert batch.full == (stop < len(changes))
        batches.append(batch)
        changes[at:stop] = [None] * (stop - at)
        at = stop
    assert [value for batch in batches for _, _, value in batch] == [text.encode() for text in texts]


@pytest.mark.parametrize(
    ("form", "made"),
    [
        ("debezium-json", DebeziumJson),
        ("canal-json", CanalJson),
        ("maxwell-json", MaxwellJson),
        ("ogg-json", OggJson),
        ("json", Json),
    ],
)
def test_whole_runs_that_are_decoded_in_python_are_the_same_without_it(form: str, made: Any) -> None:
    """As with a format of a plugin, which has no form."""

    @settings(max_examples=examples(60))
    @example([(None, b'{"id":1,"a":1}'), (None, b'{"id":1}'), (None, b'{"id":1,"id":2}')], 1, -1, False)
    @given(
        st.lists(a_message(form), min_size=1, max_size=25),
        st.sampled_from([1, 1000]),
        st.sampled_from([-1, 2]),
        st.booleans(),
    )
    def same(messages: list[tuple[bytes | None, bytes | None]], look_ahead: int, most: int, given: bool) -> None:
        sections: Any = {
            "source": {
                "value.format": form,
                "ingestion.error-tolerance.max-count": most,
                **(DECLARED if given else {}),
            },
            "transform": [{"source-table": r"\.*", "primary-keys": "id"}] if form == "json" else [],
        }
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(made, "form", None)
            both_ways(messages, look_ahead, exact=True, **sections)

    same()


A_ROW = st.builds('{{"id":{},"a":{}}}'.format, st.integers(1, 4), st.sampled_from(["1", "null", '"x"', "1.5", "true"]))


@settings(max_examples=examples(60))
@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.one_of(st.none(), A_ROW, A_ROW, A_ROW, st.just("{"))), min_size=1, max_size=25
    ),
    st.sampled_from(
        [{}, {"key.format": "json"}, {"value.format": "canal-json", "key.format": "json"}, {"value.format": "json"}]
    ),
)
def test_rows_of_upsert_topics_are_looked_up_and_encoded_the_same(
    rows: list[tuple[int, str | None]], sink: Any
) -> None:
    messages = [(b'{"id":%d}' % key, None if row is None else row.encode()) for key, row in rows]
    sections: Any = {
        "source": {
            "type": "upsert-kafka", "topic": "topic", "properties.bootstrap.servers": "memory:1",
            "key.format": "json", "value.format": "json", "scan.max.pre.fetch.records": 0,
            "ingestion.error-tolerance.max-count": -1,
        },
        "sink": {"type": "kafka", "properties.bootstrap.servers": "memory:1", **sink},
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        with_it = run(messages, 1, **sections)
        patch.setattr(native, "BUILT", False)
        without = run(messages, 1, **sections)
    assert with_it.records == without.records
    assert (with_it.rejects, with_it.skipped) == (without.rejects, without.skipped)
    assert (with_it.changes, str(with_it.error)) == (without.changes, str(without.error))
    assert all(json.loads(key)["id"] for _, key, _ in with_it.records if key is not None)
