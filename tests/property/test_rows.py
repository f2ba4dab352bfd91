"""Whatever rows come, in whatever order and however the work is cut: what is written says what was read."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from inmemory import run, table

from ingest.formats.debezium.options import DebeziumJson
from ingest.model.change import Reject, Skip

values = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**20), 10**20), st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8"), max_size=8), st.lists(st.integers(0, 9), max_size=2),
    st.dictionaries(st.sampled_from("nm"), st.integers(0, 9), max_size=2),
)  # fmt: skip
rows = st.dictionaries(st.sampled_from(["n", "m", 'q"', "", "é"]), values, max_size=4)
events = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from("cud"), rows, st.booleans()), min_size=1, max_size=12
)  # key, op, other columns, white space


def as_message(key: int, op: str, row: dict[str, Any], *, spaced: bool) -> tuple[bytes, bytes]:
    full = {"id": key, **row}
    after = None if op == "d" else full
    before = None if op == "c" else {"id": key}
    value = {"before": before, "after": after, "source": {"db": "d", "table": "t"}, "op": op}
    separators = (" , ", " : ") if spaced else (",", ":")
    return json.dumps({"id": key}).encode(), json.dumps(value, separators=separators, ensure_ascii=spaced).encode()


def expected(events: list[tuple[int, str, dict[str, Any], bool]]) -> dict[int, dict[str, Any]]:
    out: dict[int, dict[str, Any]] = {}
    for key, op, row, _ in events:
        out.pop(key, None)
        if op != "d":
            out[key] = row
    return out


def same(written: Any, read: Any) -> bool:
    """Equal, or the JSON text of it, where the column became a STRING."""
    if isinstance(written, str) and not isinstance(read, str) and read is not None:
        return bool(json.loads(written) == read)
    return bool(written == read)


@given(events, st.integers(1, 20))
def test_the_last_state_of_every_key_is_what_its_last_message_said(
    events: list[tuple[int, str, dict[str, Any], bool]], look_ahead: int
) -> None:
    ran = run([as_message(k, op, row, spaced=s) for k, op, row, s in events], look_ahead=look_ahead)
    assert ran.rejects == []
    state: dict[int, dict[str, Any]] = {}
    for _, key, value in ran.records:
        number = json.loads(key or b"")["id"]
        assert key == b'{"id":%d}' % number
        state.pop(number, None)
        if value is not None:
            state[number] = json.loads(value)
    wanted = expected(events)
    assert state.keys() == wanted.keys()
    for number, row in state.items():
        assert row.pop("id") == number
        for name, value in row.items():
            assert same(value, wanted[number].get(name)), (name, value)
        assert wanted[number].keys() <= row.keys()


@given(events, st.integers(1, 20), st.integers(1, 20))
def test_how_far_a_task_looks_ahead_changes_no_row_of_the_final_schema(
    events: list[tuple[int, str, dict[str, Any], bool]], one: int, two: int
) -> None:
    messages = [as_message(k, op, row, spaced=s) for k, op, row, s in events]
    a, b = run(messages, look_ahead=one), run(messages, look_ahead=two)
    assert [(topic, key) for topic, key, _ in a.records] == [(topic, key) for topic, key, _ in b.records]
    assert {c.name: c.type for c in table(a, "d.t").columns} == {c.name: c.type for c in table(b, "d.t").columns}


@given(st.lists(st.binary(max_size=60) | st.none(), max_size=20), st.booleans())
def test_a_decoder_never_raises(values: list[bytes | None], include: bool) -> None:
    decoder = DebeziumJson(**{"debezium-json.schema-include": include}).decoder("t")
    out = decoder.decode(values, values)
    assert len(out) == len(values)
    assert all(isinstance(change, (tuple, Reject, Skip)) for change in out)


@given(
    st.lists(st.sampled_from('{}[]",:0123456789eE+-.truefalsn\\u d8opaftbr') | st.characters(), max_size=60).map(
        "".join
    )
)
def test_half_broken_rows_are_rejects_or_valid_json(text: str) -> None:
    value = b'{"op":"c","after":' + text.encode("utf-8", "surrogatepass") + b',"source":{"db":"d","table":"t"}}'
    ran = run([(b'{"id":1}', value)]) if _has_id(text) else None
    if ran is None:
        return
    for _, _, written in ran.records:
        msgspec.json.decode(written or b"null")
    assert len(ran.records) + len(ran.rejects) <= 1


def _has_id(text: str) -> bool:
    try:
        return "id" in msgspec.json.decode(text.encode(), type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError):
        return False
