"""Rows that wait for a commit: the last states of keys, by native code and by the reference."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from any_table import Message, cache_of, schema
from native_encoding import wrap

from ingest.encode.upsert_encoder import Record
from ingest.errors import InternalError
from ingest.formats.debezium.options import DebeziumJson
from ingest.model import types
from ingest.native import native
from ingest.native.native import NativeEncoders
from ingest.sinks.lake import pending_rows
from ingest.sinks.lake import rows as lake_rows
from ingest.sinks.lake.pending_rows import PendingRows
from ingest.sinks.lake.rows import UnfitRows
from ingest.sinks.lake.table import LakeColumn, lake_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

COLUMNS = (LakeColumn("id", types.BIGINT), LakeColumn("a", types.STRING), LakeColumn("t", types.parse("TIME(9)")))


@pytest.fixture(params=["natively", "by the reference"])
def kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> PendingRows:
    if request.param == "by the reference":
        monkeypatch.setattr(lake_rows, "BUILT", False)
        assert lake_rows.keys_reader(COLUMNS, ["id"]) is None
    return PendingRows(lambda _: (COLUMNS, ("id",)))


def row(key: int, value: str, *more: str) -> tuple[bytes, bytes]:
    return b'{"id":%d}' % key, ("{" + ",".join([f'"id":{key}', f'"a":{value}', *more]) + "}").encode()


def taken(kept: PendingRows) -> dict[Any, list[tuple[int, Any, bool]]]:
    """Keys, values, and whether they are deletes, by destination."""
    out = {}
    for destination, states in kept.take():
        states.rows.validate(full=True)
        rows = states.rows.to_pylist()
        out[destination] = [(r["id"], r["a"], g) for r, g in zip(rows, states.gone.to_pylist(), strict=True)]
    return out


def test_the_last_state_of_a_key_counts(kept: PendingRows) -> None:
    kept.keep(
        [
            Record("t", *row(1, '"x"')),
            Record("u", *row(1, '"y"')),
            Record("t", *row(2, '"z"')),
            Record("t", *row(1, '"w"')),
        ]
    )
    kept.keep(
        [
            Record("t", b'{"id":2}', None),
            Record("t", *row(3, "{}")),
            Record("t", *row(4, '"v"')),
            Record("t", b'{"id":9}', None),
        ]
    )
    kept.keep([Record("t", *row(9, '"again"'))])
    assert taken(kept) == {
        "t": [(1, "w", False), (2, None, True), (3, "{}", False), (4, "v", False), (9, "again", False)],
        "u": [(1, "y", False)],
    }
    assert kept.size() == (0, 0)
    assert taken(kept) == {}
    kept.keep([Record("t", *row(1, '"new"'))])
    assert taken(kept) == {"t": [(1, "new", False)]}


def test_records_that_cannot_be_rows_are_told_and_not_kept(kept: PendingRows) -> None:
    kept.keep([Record("t", *row(1, '"good"')), Record("t", *row(2, "{}"))])
    odd = ('"t":"25:00:00"',)
    with pytest.raises(UnfitRows) as failed:
        kept.keep([
            Record("t", *row(1, '"x"', *odd)), Record("t", *row(2, '"y"', *odd)), Record("u", *row(1, '"z"', *odd)),
            Record("t", *row(3, '"c"', *odd)), Record("t", *row(1, '"y"', *odd)), Record("t", *row(5, '"e"')),
        ])  # fmt: skip
    assert [place for place, _ in failed.value.faults] == [0, 1, 2, 3, 4]
    assert failed.value.faults[0][1] == "column 't' is TIME(9), and the row has \"25:00:00\""
    kept.keep([Record("t", *row(6, "[1]"))])
    assert taken(kept) == {"t": [(1, "good", False), (2, "{}", False), (5, "e", False), (6, "[1]", False)]}


def test_keys_that_are_equal_in_the_table_are_one_key(kept: PendingRows) -> None:
    kept.keep(
        [
            Record("t", *row(41, '"x"')),
            Record("t", *row(2, '"y"')),
            Record("t", b'{"id":"41"}', None),
            Record("t", *row(3, "[1]")),
        ]
    )
    assert taken(kept) == {"t": [(2, "y", False), (41, None, True), (3, "[1]", False)]}


def test_keys_of_any_type_are_compared() -> None:
    kinds = [
        "BOOLEAN", "TINYINT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(38,2)", "STRING", "BYTES", "DATE", "TIME(3)",
        "TIMESTAMP", "TIMESTAMP_LTZ",
    ]  # fmt: skip
    columns = [LakeColumn(kind, types.parse(kind)) for kind in kinds]
    usual = (
        b'{"BOOLEAN":true,"TINYINT":1,"BIGINT":2,"FLOAT":0.1,"DOUBLE":0.1,"DECIMAL(38,2)":1.5,"STRING":"x",'
        b'"BYTES":"aGk=","DATE":"2020-01-31","TIME(3)":"12:13:14","TIMESTAMP":"2020-01-31 00:00:00",'
        b'"TIMESTAMP_LTZ":"2020-01-31 00:00:00Z"}'
    )
    other = usual.replace(b'" 00:00:00', b"T00:00:00").replace(b'"DOUBLE":0.1', b'"DOUBLE":0.10000000000000000001')
    kept = PendingRows(lambda _: (columns, kinds))
    kept.keep([Record("t", usual, None), Record("t", other, b"{}"), Record("t", usual.replace(b'"x"', b'"z"'), b"{}")])
    ((_, states),) = kept.take()
    assert states.gone.to_pylist() == [False, False]
    assert states.rows["STRING"].to_pylist() == ["x", "z"]


def test_how_much_is_kept_is_told(kept: PendingRows) -> None:
    kept.keep([Record("t", *row(n % 3, '"' + "x" * 100 + '"')) for n in range(10)])
    kept.keep([Record("t", *row(n, "[1]")) for n in range(5)])
    count, size = kept.size()
    assert count == 15
    assert 1000 < size < 10_000


def test_times_that_were_cut_are_counted_by_table(kept: PendingRows) -> None:
    fine = ('"t":"12:13:14.123456789"',)
    kept.keep([Record("t", *row(1, '"a"', *fine)), Record("t", *row(1, "[1]", *fine)), Record("u", *row(1, '"a"'))])
    assert {destination: states.cut for destination, states in kept.take()} == {"t": {"t": 2}, "u": {}}


def test_a_record_without_a_key_is_an_error_of_ours(kept: PendingRows) -> None:
    with pytest.raises(InternalError, match="without a key"):
        kept.keep([Record("t", None, b"{}")])


def test_equal_destinations_are_one_table(kept: PendingRows) -> None:
    one, other = (tuple(json.loads('["t", 1]')) for _ in range(2))
    assert one is not other
    kept.keep([Record(one, *row(1, '"x"')), Record(other, *row(1, '"y"'))])
    assert taken(kept) == {("t", 1): [(1, "y", False)]}


ORDERS = schema({"id": "BIGINT", "name": "STRING", "n": "DOUBLE"}, ("id",))
FORM = DebeziumJson()


def native_batches(messages: Sequence[bytes]) -> list[Any]:
    cache = cache_of(FORM, ("shop", "t"), ORDERS, ORDERS, keyed=False)
    encoder = NativeEncoders(FORM, cache).of("t")
    given: Any = [Message(None, message) for message in messages]
    made, stop, full = [], 0, True
    while full:
        batch, stop = encoder.encode(given, stop)
        full = batch.full
        made.append(batch)
    assert stop == len(messages)
    return made


@pytest.mark.compiled
@pytest.mark.skipif(not native.BUILT, reason="native code is not built")
def test_batches_of_native_code_are_kept_as_their_records_are(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ['"x"', "null", '"é\\n"', '"\\u00e9"', '{"a": 1}']
    messages = []
    for n in range(500):
        image = f'{{"id":{n % 150},"name":{names[n % 5]},"n":{n}.5}}'
        gone = n % 7 == 6
        messages.append(wrap("null" if gone else image, before=image if gone else "null", op="d" if gone else "c"))
    columns = lake_columns(ORDERS)
    natively, objects = (PendingRows(lambda _: (columns, ("id",))) for _ in range(2))
    monkeypatch.setattr(pending_rows.PlainKeys, "keep_record", None)  # nobody is to use it
    for batch in native_batches(messages):
        natively.keep(batch)
        objects.keep(list(batch))
    ((_, one),), ((_, other),) = natively.take(), objects.take()
    assert one.rows.num_rows == 150
    assert one.rows.equals(other.rows)
    assert one.gone.equals(other.gone)
    assert 0 < one.gone.true_count < 150
