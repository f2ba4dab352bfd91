"""Rows of decoded changes go to expressions natively as the reference sends them, or are left to it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from any_table import a_case, a_row, cache_of, some_declared
from examples import examples
from hypothesis import event, given, settings
from hypothesis import strategies as st
from picking import pick, pick_some

from ingest.encode.compiled_transform import EVENT, TABLE, CompiledTransform, Input, slot_of, together
from ingest.encode.transform_input import TransformInputEncoder
from ingest.formats.debezium.options import DebeziumJson
from ingest.model import types
from ingest.model.change import Change, InlineSchema, Kind, Reject, Skip
from ingest.model.reject import IgnoredErrors
from ingest.native import native
from ingest.schema.evolve import Schemas, SourceTable
from ingest.task.encoding import ChunkEncoder
from ingest.task.read_half import ReadChunk
from ingest.task.rejects import RejectLimit
from ingest.task.task import TaskProgress, TaskResult
from ingest.testing.in_memory import MemoryRecord
from ingest.transform.rows import ReferenceRows, RetainedRows, layout, rows_of
from ingest.transform.spill import NativeToRows, SpillStage

if TYPE_CHECKING:
    from ingest.encode.compiled_transform import CompiledTransforms
    from ingest.encode.encode import EncoderCache
    from ingest.model.change import Decoded
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId

pytestmark = pytest.mark.compiled

T = ("shop", "t")
SPLIT = ("topic", 0)


def raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode("utf-8", "surrogatepass"))


@st.composite
def a_transform(draw: Any, source: TableSchema) -> CompiledTransforms:
    """A transform that needs some columns of a table, and in which some decide."""
    names = [column.name for column in source.columns]
    kinds = {column.name: column.type for column in source.columns}
    some = st.lists(st.sampled_from(names), unique=True)

    def inputs(chosen: list[str], first: int) -> tuple[Input, ...]:
        return tuple(
            Input(n, kinds.get(n, types.STRING), f"{slot_of(kinds.get(n, types.STRING))}{i + first}")
            for i, n in enumerate(chosen)
        )

    ours = pick_some(draw, [EVENT, TABLE])
    needed = inputs(draw(some) + ours, 0)
    decisive = draw(some) + pick(draw, [[], [], [EVENT]])
    key = tuple(pick_some(draw, names, min_size=1))
    was = inputs(draw(some), len(needed))
    transform = CompiledTransform(
        0, T, needed, (), None, None, frozenset([*decisive, *key]), key, was_inputs=was,
    )  # fmt: skip
    return together([transform])


@st.composite
def a_change(draw: Any, source: TableSchema, usual: dict[str, str]) -> Decoded:
    """A change of a table with a transform, or of one without."""
    names = list(usual)

    def row(columns: list[str]) -> str:
        if pick(draw, [False, False, False, True]):
            return draw(a_row(columns, usual=usual))  # type: ignore[no-any-return]
        fields = [
            f"{json.dumps(name, ensure_ascii=False)}:{pick(draw, [usual[name]] * 3 + ['null'])}" for name in columns
        ]
        return f"{{{','.join(fields)}}}"

    kind = pick(draw, [Kind.INSERT, Kind.UPDATE, Kind.UPDATE, Kind.UPDATE, Kind.DELETE])
    after = None if kind is Kind.DELETE else raw(row(names))
    some = pick_some(draw, names, min_size=1)
    before = pick(draw, [names, names, names, some, None])
    image = None if before is None else raw(row(before))
    if after is not None and pick(draw, [False, True]):
        image = after
    key = draw(a_row(list(source.primary_key), usual=usual)) if pick(draw, [False, False, True]) else None
    key_bytes = None if key is None else key.encode("utf-8", "surrogatepass")
    read = pick(draw, [None, None, lambda image: image])
    names_said = pick(draw, [(), source.primary_key, ("no",)])
    said = InlineSchema({c.name: c.type for c in source.columns}, names_said, draw(st.booleans()), read)
    declared = pick(draw, [None, None, said])
    table = pick(draw, [T, T, T, ("shop", "u")])
    return Change(table, kind, image, after, key_bytes, declared)


class Ahead:
    """A look-ahead that only notes where a split stopped."""

    def __init__(self) -> None:
        self.stopped: set[Any] = set()

    def stop(self, split: Any, _message: Any, _changes: Any) -> None:
        self.stopped.add(split)

    def look(self, _: Any) -> None:
        pass


def a_cache(
    source: TableSchema, sink: TableSchema, transforms: CompiledTransforms, declared: tuple[str, ...], *, keyed: bool,
    images: bool, upserts: bool,
) -> EncoderCache:  # fmt: skip
    cache = cache_of(DebeziumJson(), T, source, sink, keyed=keyed, declared=declared)
    sources: dict[TableId, SourceTable] = {
        T: SourceTable(source, (("out",),), keyed, output=sink), ("shop", "u"): SourceTable(source, (("out",),), keyed),
    }  # fmt: skip
    cache.renew(Schemas(1, sources, {("out",): sink}), None)
    cache.transform_input = lambda table, known: TransformInputEncoder(
        transforms, table, known, cache._inference, images=images, upserts=upserts
    )
    return cache


def send(changes: list[Decoded], cache: EncoderCache, transforms: CompiledTransforms, *, natively: bool) -> Any:
    """Send changes to expressions; returns all that went, and how many of the messages native code took."""
    targets = native.TargetTable()
    encoders: Any = SimpleNamespace(targets=targets, native=None, cache=cache)
    rows: Any = ReferenceRows(layout(transforms))
    stage = None
    if natively:
        encoders.native = native.NativeEncoders(DebeziumJson(), cache, targets, decodes=False)
        rows = rows_of(layout(transforms))
        stage = NativeToRows(encoders, rows)
    result = TaskResult(0, TaskProgress({SPLIT: 0}))
    limit = RejectLimit(1000, result.counters, IgnoredErrors())
    decoder: Any = SimpleNamespace(decode=lambda *_: changes)
    ahead: Any = Ahead()
    encoder = ChunkEncoder(stage, decoder, None, cache, ahead, limit, marked=True)
    spill = SpillStage(transforms, rows, None, encoders, limit, "", {SPLIT: 0}, result)  # type: ignore[arg-type]
    manifest = spill.begin(SPLIT)
    messages = [MemoryRecord(i, "topic", b"", b"") for i in range(len(changes))]
    taken, error = 0, ""
    try:
        for part in encoder.parts(ReadChunk(SPLIT, "topic", messages, len(messages))):
            spill.add(manifest, part)
            taken += 0 if part.marks else part.stop - part.start
    except Exception as exc:  # noqa: BLE001  (a changed key ends the run)
        error = str(exc)
    if encoders.native is not None:
        encoders.native.settle()
    retained, batch = rows.take()
    kept = RetainedRows(retained)
    stay = [
        (
            kept.transforms[i], kept.targets[i] >= 0 and targets.known[kept.targets[i]], kept.offsets[i],
            kept.events[i], read(kept.texts[i]), kept.keys[i],
        )
        for i in range(kept.size)
    ]  # fmt: skip
    # What is written is counted where it is written
    counts = {table: (e.withheld, getattr(e, "cut", {})) for table, e in cache.compiled.items()}
    offsets = [at for part in manifest.offsets for at in part]
    rejects = [(r.at, r.stage, r.reason) for r in manifest.rejects]
    said = (offsets, rejects, manifest.skipped, spill._positions, ahead.stopped, error)
    return (stay, batch.to_pylist(), said, counts), taken


def read(text: bytes | None) -> Any:
    return None if text is None else json.loads(text, parse_float=str, parse_int=str)


@settings(max_examples=examples(1000))
@given(st.data())
def test_rows_go_to_expressions_as_the_book_has_it(data: Any) -> None:
    source, sink, usual = data.draw(a_case())
    transforms = data.draw(a_transform(source))
    one = a_change(source, usual)
    odd = st.sampled_from([Skip("tombstone"), Reject("malformed", "no JSON")])
    changes = data.draw(
        st.lists(st.one_of(one, one, one, one, odd, st.lists(one, min_size=1, max_size=2)), min_size=1, max_size=4)
    )
    declared = some_declared(data, source)
    how = {name: data.draw(st.booleans()) for name in ("keyed", "images", "upserts")}
    caches = [a_cache(source, sink, transforms, declared, **how) for _ in range(2)]
    natively, taken = send(changes, caches[0], transforms, natively=True)
    expected, _ = send(changes, caches[1], transforms, natively=False)
    event("all taken" if taken == len(changes) else "some taken" if taken else "all left")
    assert natively == expected
