"""A row keeps its key: for any history of a table, equal source keys give equal sink keys, and others give others."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from examples import examples
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from inmemory import run

from ingest.model.jsontext import key_text
from ingest.native import native

SPELLINGS = [
    ["41", "41.0", "4.1e1", "41.00", "410E-1"], ['"41"', r'"\u0034\u0031"'], ['"A-77"', r'"\u0041-77"'], ["-7", "-7.0"],
    ["0", "-0", "0.0", "-0.0e5"], ["1.5", "1.50", "15e-1"], ["12345678901234567890"], ["9223372036854775808"],
    ["1e400", "10e399"], ["true"], ['"true"'], ['"2020-01-31"'], ['"2020-01-31 00:00:00"'], ['"2020-01-31T00:00:00Z"'],
    ['""'], ['" "'], ['"é"', r'"\u00e9"'], ['{"a": 1}', '{"a":1}'], ["[1, 2]"], ["0.000001", "1E-6"],
]  # fmt: skip
"""Each row: spellings of one source key."""
SINKS: list[dict[str, Any]] = [
    {},
    {"value.fields-include": "EXCEPT_KEY", "value.format": "csv", "key.format": "csv"},
    {"type": "kafka", "properties.bootstrap.servers": "memory:1", "value.format": "json", "key.format": "json"},
    {"type": "kafka", "properties.bootstrap.servers": "memory:1", "value.format": "json", "key.format": "csv"},
    {
        "type": "kafka",
        "properties.bootstrap.servers": "memory:1",
        "value.format": "json",
        "key.format": "json",
        "key.fields": "id",
        "value.fields-include": "EXCEPT_KEY",
    },
]
TYPES = {
    '"int64"': ["41", "-7", "0"], '"string"': ['"41"', '"A-77"', '""'], '"double"': ["41.0", "1.5", "0.0"],
    '"int32","name":"io.debezium.time.Date"': ["18292", "0"],
    '"int64","name":"io.debezium.time.Timestamp"': ["1580428800000", "41"],
    '"boolean"': ["true"],
}  # fmt: skip
"""Types that an envelope declares, each with keys as messages of it have them."""


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, Any, str, str]]:
    """Operation, which row, its key as it is spelled in the before image and in the after image."""
    events = []
    rows = draw(st.lists(st.sampled_from(range(len(SPELLINGS))), min_size=1, max_size=4, unique=True))
    for _ in range(draw(st.integers(2, 12))):
        old, new = draw(st.sampled_from(rows)), draw(st.sampled_from(rows))
        op = draw(st.sampled_from("ccuud"))
        old = new if op == "u" and draw(st.booleans()) else old
        events.append((op, (old, new), draw(st.sampled_from(SPELLINGS[old])), draw(st.sampled_from(SPELLINGS[new]))))
    return events


def debezium(op: str, before: str | None, after: str | None, schema: str | None = None) -> bytes:
    payload = (
        f'{{"before":{before or "null"},"after":{after or "null"},"op":"{op}",'
        '"source":{"db":"shop","schema":null,"table":"t"}}'
    )
    return (payload if schema is None else f'{{"schema":{schema},"payload":{payload}}}').encode()


def check(messages: list[bytes], rows: list[tuple[str, Any]], sink: dict[str, Any], **more: Any) -> None:
    """Run the messages; `rows`: by record that is expected, what happens and the source key, as the test knows it."""
    ran = run(
        [(None, m) for m in messages], sink=sink, transform=[{"source-table": r"\.*", "primary-keys": "id"}], **more
    )
    assert not ran.rejects
    assert len(ran.records) == len(rows)
    by_row: dict[Any, set[bytes | None]] = {}
    for (what, row), (_, key, value) in zip(rows, ran.records, strict=True):
        assert (value is None) == (what == "gone")
        by_row.setdefault(row, set()).add(key)
    assert all(len(keys) == 1 for keys in by_row.values()), by_row
    assert len(set().union(*by_row.values())) == len(by_row), by_row


@pytest.mark.parametrize("in_c", [True, False])
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=histories(), sink=st.sampled_from(SINKS))
@example(
    events=[
        ("c", (0, 0), "41", "41"), ("c", (2, 2), '"A-77"', '"A-77"'), ("u", (0, 0), "41", "41"),
        ("d", (0, 0), "41", ""),
    ],
    sink=SINKS[0],
)  # fmt: skip
def test_equal_source_keys_are_equal_sink_keys(
    events: list[Any], sink: dict[str, Any], monkeypatch: pytest.MonkeyPatch, *, in_c: bool
) -> None:
    monkeypatch.setattr(native, "BUILT", in_c and native.BUILT)
    messages, rows = [], []
    for op, (old, new), before, after in events:
        image = f'{{"id":{before if op == "d" else after},"n":1}}'
        messages.append(debezium(op, f'{{"id":{before},"n":1}}' if op in "ud" else None, image if op != "d" else None))
        if op == "d" or (op == "u" and old != new):
            rows.append(("gone", old))
        if op != "d":
            rows.append(("there", new))
    check(messages, rows, sink)


@pytest.mark.parametrize("in_c", [True, False])
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_what_a_message_declares_of_its_key_decides(data: Any, monkeypatch: pytest.MonkeyPatch, *, in_c: bool) -> None:
    """A type that other messages declare for the column has no part in it: a date stays a date's text."""
    monkeypatch.setattr(native, "BUILT", in_c and native.BUILT)
    messages, rows = [], []
    for _ in range(data.draw(st.integers(2, 8))):
        kind = data.draw(st.sampled_from(list(TYPES)))
        key, op = data.draw(st.sampled_from(TYPES[kind])), data.draw(st.sampled_from("cud"))
        image = f'{{"id":{key},"n":1}}'
        fields = f'[{{"type":{kind},"field":"id"}},{{"type":"int32","field":"n"}}]'
        schema = f'{{"fields":[{{"field":"after","fields":{fields}}}]}}'
        messages.append(debezium(op, image if op != "c" else None, image if op != "d" else None, schema))
        number = "number" if kind in {'"int64"', '"double"'} else kind
        rows.append(("gone" if op == "d" else "there", (number, Decimal(key) if number == "number" else key)))
    check(messages, rows, data.draw(st.sampled_from(SINKS)))


@given(st.decimals(allow_nan=False, allow_infinity=False) | st.integers(-(10**60), 10**60))
def test_a_number_is_what_it_is_worth(number: Decimal | int) -> None:
    text = str(number).encode()
    made = key_text(text)
    assert Decimal(made.decode()) == Decimal(number)
    assert json.loads(made) is not None
    assert key_text(made) == made
    for other in (f"{number}0" if "." in str(number) and "E" not in str(number) else str(number), f"{number:e}"):
        if Decimal(other) == Decimal(number):
            assert key_text(other.encode()) == made
