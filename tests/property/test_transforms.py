"""A transform that changes nothing changes nothing; and native code does what the reference does."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
import shapes
from bothways import both_ways, read
from examples import examples
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from inmemory import run
from shapes import DECLARED, a_message

from ingest.encode.transform_input import TransformInputEncoder
from ingest.formats.debezium.options import DebeziumJson
from ingest.transform.binder import Binder
from ingest.transform.merging import ChunkMerger

FORMS = ["debezium-json", "canal-json", "json"]
pytestmark = pytest.mark.usefixtures("java")
FEW = settings(max_examples=examples(12), deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""Each example is several jobs of Spark's."""


A_REJECT_BEFORE_NEWS = [
    (b'{"id":1}', f'{{"before":null,"after":{row},"source":{{"db":"d","table":"t"}},"op":"c"}}'.encode())
    for row in ('{"id":1,"a":1}', '{"id":1,"a":1}', '{"a":1}', '{"id":1,"a":1}', '{"id":1,"a":"x"}')
]
"""The second stage rejects one, and the first has seen by then that a type changes after it."""


def sections(form: str, most: int, **rule: str) -> dict[str, Any]:
    keys = {"primary-keys": "id"} if form == "json" else {}
    return {
        "source": {"value.format": form, "ingestion.error-tolerance.max-count": most},
        "transform": [{"source-table": r"\.*", **keys, **rule}] if keys or rule else [],
    }


@pytest.mark.parametrize("form", FORMS)
def test_all_columns_and_a_filter_that_all_rows_pass_are_no_transform(form: str) -> None:
    @FEW
    @given(st.lists(a_message(form), min_size=1, max_size=25), st.sampled_from([1, 1000]), st.sampled_from([-1, 2]))
    @example([*A_REJECT_BEFORE_NEWS], 1, 0)
    def same(messages: list[tuple[bytes | None, bytes | None]], look_ahead: int, most: int) -> None:
        plain = run(messages, look_ahead, **sections(form, most))
        changed = run(messages, look_ahead, **sections(form, most, projection="\\*", filter="TRUE"))
        assert [(t, k, read(v)) for t, k, v in changed.records] == [(t, k, read(v)) for t, k, v in plain.records]
        assert changed.rejects == plain.rejects
        assert (changed.skipped, changed.withheld) == (plain.skipped, plain.withheld)
        assert changed.changes == plain.changes
        # A table without its key is an error of either, in other words
        assert (changed.error and changed.error.exit_code) == (plain.error and plain.error.exit_code)

    same()


@pytest.mark.compiled
@pytest.mark.parametrize(("form", "options"), shapes.FORMS)
def test_native_code_does_what_the_reference_does(form: str, options: dict[str, Any]) -> None:
    rule = {
        "projection": r"\*, id % 2 AS odd, __data_event_type__ AS what, __table_name__ AS id2, 10 / (id - 2) AS part",
        "filter": "id <> 3 OR __data_event_type__ <> '-U'",
    }

    @FEW
    @given(
        st.lists(a_message(form), min_size=1, max_size=25),
        st.sampled_from([1, 1000]),
        st.sampled_from([-1, 2]),
        st.booleans(),
    )
    def same(messages: list[tuple[bytes | None, bytes | None]], look_ahead: int, most: int, given: bool) -> None:
        made = sections(form, most, **rule)
        made["source"] |= options | (DECLARED if given else {})
        both_ways(messages, look_ahead, **made)

    same()


@pytest.mark.compiled
@pytest.mark.parametrize("form", FORMS)
def test_columns_of_keys_and_records_do_what_the_reference_does(form: str) -> None:
    rule = {
        "projection": r"\*, `offset` * 2 AS twice, UPPER(topic) AS loud, `timestamp` AS at",
        "filter": "`offset` % 4 <> 1 OR id > 1",
    }

    @FEW
    @given(
        st.lists(a_message(form), min_size=1, max_size=25),
        st.sampled_from([{}, {"key.format": "json", "key.fields-prefix": "k_"}, {"key.format": "json"}]),
        st.sampled_from([-1, 2]),
    )
    def same(messages: list[tuple[bytes | None, bytes | None]], keys: dict[str, str], most: int) -> None:
        made = sections(form, most, **rule)
        made["source"] |= {"metadata.list": "topic,offset,timestamp,headers", **keys}
        both_ways(messages, 1, **made)

    same()


def debezium(before: str, after: str, op: str) -> bytes:
    return f'{{"before":{before},"after":{after},"source":{{"db":"d","table":"t"}},"op":"{op}"}}'.encode()


def updates(names: list[str], numbers: list[Any]) -> st.SearchStrategy[list[tuple[str, str, str]]]:
    """Changes of few rows: before, after, what. What was before is not always what was after last."""
    row = st.builds(
        '{{"id":{},"name":{},"n":{}}}'.format, st.integers(1, 3), st.sampled_from(names), st.sampled_from(numbers)
    )
    return st.lists(st.tuples(row, row, st.sampled_from("uuuucd")), min_size=1, max_size=25)


PLAIN = ['"a"', '"bb"', '"bb"', '"\\u00e9"']
CHANGES = updates([*PLAIN, "null"], [0, 1, 2, "null"]) | updates(PLAIN, [1, 2])
WHOLE_ROWS = {
    # The row before an update goes with the row after it, unless its key is another
    "few columns": {"projection": r"\*, UPPER(name) AS loud, 10 / n AS part", "filter": "LENGTH(name) < 2 OR n > 1"},
    "a filter that fails": {"projection": r"\*, 'x' || name AS name", "filter": "2 / n > 0"},
    "a key that is made": {"projection": "name, id + n AS id, n", "filter": "name IS NOT NULL"},
    "another key": {"projection": r"\*", "filter": "n > 0", "primary-keys": "name"},
    "soft": {"projection": r"\*", "filter": "n > 0", "converter-after-transform": "SOFT_DELETE"},
    "no filter": {"projection": "id, name || n AS name"},
    "only columns": {"projection": "n, id"},
}


@pytest.mark.compiled
@pytest.mark.parametrize("name", WHOLE_ROWS)
def test_native_updates_with_the_row_before_do_what_the_reference_does(name: str) -> None:
    def message(before: str, after: str, op: str) -> tuple[bytes, bytes]:
        images = {"u": (before, after), "c": ("null", after), "d": (before, "null")}[op]
        key = json.loads(before if op == "d" else after)["id"]
        return b'{"id":%d}' % key, debezium(*images, op)

    first = ('{"id":1,"name":"a","n":1}', '{"id":1,"name":"a","n":1}', "c")

    @FEW
    @given(CHANGES, st.sampled_from([-1, 2]))
    @example([('{"id":1,"name":"a","n":0}', '{"id":1,"name":"bb","n":0}', "u")], -1)
    def same(changes: list[tuple[str, str, str]], most: int) -> None:
        messages = [message(*c) for c in (first, *changes)]
        given_sections = sections("debezium-json", most, **WHOLE_ROWS[name])
        together = both_ways(messages, 1, **given_sections)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Binder, "of_the_row_before", lambda *_: ("", ()))
            alone = run(messages, 1, **given_sections)
        assert together.rejects == alone.rejects
        # Of a row before that is a reject itself it may be thought that it was there: it is deleted then. What may be
        # there is a row that is older than it, so nothing is there that is not there alone, too.
        there, expected = table_of(together.records), table_of(alone.records)
        assert {key: expected.get(key) for key in there} == there
        images = dict.fromkeys(row for before, after, _ in changes for row in (before, after))
        tolerant = sections("debezium-json", -1, **WHOLE_ROWS[name])
        if not run([message(row, row, "c") for row in images], 1, **tolerant).rejects:
            assert there == expected

    same()


ROWS = st.fixed_dictionaries({
    "id": st.integers(1, 3), "n": st.sampled_from([0, 1, 2, None]), "d": st.sampled_from([18262, 0, None]),
    "at": st.sampled_from([1700000000123, -1, 951782400000]), "amount": st.sampled_from(["fQ==", "AA==", "/w==", 5]),
    "blob": st.sampled_from(["aGk=", ""]), "name": st.sampled_from(["a", "bb", "\u00e9", 'q"', None]),
})  # fmt: skip
SAID = json.dumps({"type": "struct", "fields": [{"type": "struct", "field": "after", "fields": [
    {"type": "int64", "field": "id"}, {"type": "int32", "field": "n"}, {"type": "string", "field": "name"},
    {"type": "int32", "name": "io.debezium.time.Date", "field": "d"}, {"type": "bytes", "field": "blob"},
    {"type": "int64", "name": "io.debezium.time.Timestamp", "field": "at"},
    {
        "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "field": "amount",
        "parameters": {"scale": "2", "connect.decimal.precision": "10"},
    },
]}]})  # fmt: skip
CANAL_ROWS = st.fixed_dictionaries({
    "id": st.sampled_from(["1", "2", "3"]), "n": st.sampled_from(["0", "1", "2", None]),
    "d": st.sampled_from(["2020-01-31", None]), "at": st.sampled_from(["2020-01-31 12:13:14", "2024-02-29 00:00:00.5"]),
    "amount": st.sampled_from(["1.50", "-3", "0"]), "blob": st.sampled_from(["hi", ""]),
    "name": st.sampled_from(["a", "bb", "\u00e9", 'q"', None]),
})  # fmt: skip
CODES = {"id": -5, "n": 4, "d": 91, "at": 93, "amount": 3, "blob": -4, "name": 12}
TYPED = {
    "what was computed": {
        "projection": r"\*, n * 2 AS n2, YEAR(d) AS y, 10 / n AS part",
        "filter": "n < 2 OR name = 'a'",
    },
    "times and decimals": {"projection": r"\*, amount * 2 AS more, DATE_ADD(d, 1) AS next", "filter": "amount > 0"},
    "another key": {"projection": "name, id, n, d, at", "filter": "n > 0", "primary-keys": "name"},
    "soft": {"projection": r"\*, at AS then", "filter": "n > 0", "converter-after-transform": "SOFT_DELETE"},
}


def dense(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@pytest.mark.compiled
@pytest.mark.parametrize("form", ["debezium-json", "canal-json"])
def test_messages_that_tell_their_types_go_to_expressions_natively(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    days = [18262, 18263, 18263]
    if form == "canal-json":
        rows = [{"id": "1", "d": f"2020-01-0{n - 18261}"} for n in days]
        images: list[dict[str, Any]] = [{"data": [rows[0]], "old": None, "type": "INSERT"}]
        images += [{"data": [row], "old": [{"d": old["d"]}], "type": "UPDATE"} for old, row in itertools.pairwise(rows)]
        said = {"database": "d", "table": "t", "pkNames": ["id"], "sqlType": {"id": -5, "d": 91}}
        messages: list[Any] = [(None, dense({**image, **said}).encode()) for image in images]
    else:
        texts = [dense({"id": 1, "n": 1, "d": n}) for n in days]
        pairs = zip(["null", *texts], texts, "cuu", strict=False)
        messages = [
            (b'{"id":1}', f'{{"schema":{SAID},"payload":{debezium(*pair).decode()}}}'.encode()) for pair in pairs
        ]
    rule = sections(form, -1, projection="id, d, DATE_ADD(d, 1) AS next", filter="DAY(d) > 0")
    if form == "canal-json":
        rule["source"]["canal-json.infer-schema.strategy"] = "SQL_TYPE"
    monkeypatch.setattr(ChunkMerger, "_merge_message", None)
    monkeypatch.setattr(TransformInputEncoder, "upsert", None)
    done = run(messages, 1, **rule)
    assert [read(value)["next"] for _, _, value in done.records] == ["2020-01-02", "2020-01-03", "2020-01-03"]


@pytest.mark.compiled
@pytest.mark.parametrize("name", TYPED)
def test_messages_that_tell_their_types_do_what_the_book_says(name: str) -> None:
    def connect(before: Any, after: Any, op: str) -> tuple[bytes, bytes]:
        images = {"u": (before, after), "c": (None, after), "d": (before, None)}[op]
        payload = debezium(dense(images[0]), dense(images[1]), op).decode()
        key = f'{{"schema":{{}},"payload":{{"id":{(images[1] or images[0])["id"]}}}}}'
        return key.encode(), f'{{"schema":{SAID},"payload":{payload}}}'.encode()

    @FEW
    @given(
        st.lists(st.tuples(ROWS, ROWS, st.sampled_from("uuuucd")), min_size=1, max_size=25), st.sampled_from([-1, 2])
    )
    def same(changes: list[tuple[Any, Any, str]], most: int) -> None:
        both_ways([connect(*change) for change in changes], 1, **sections("debezium-json", most, **TYPED[name]))

    same()


@pytest.mark.compiled
@pytest.mark.parametrize("name", TYPED)
@pytest.mark.parametrize("strategy", ["AUTO", "SQL_TYPE"])
def test_rows_of_canal_do_what_the_book_says(name: str, strategy: str) -> None:
    def canal(before: dict[str, Any], after: dict[str, Any], kind: str) -> tuple[None, bytes]:
        changed = {column: value for column, value in before.items() if value != after[column]}
        message = {
            "data": [before if kind == "DELETE" else after], "database": "d", "isDdl": False,
            "old": [changed] if kind == "UPDATE" else None, "pkNames": ["id"], "sqlType": CODES, "table": "t",
            "type": kind,
        }  # fmt: skip
        return None, dense(message).encode()

    rule = {key: text.replace("10 / n", "10 / CAST(n AS INT)") for key, text in TYPED[name].items()}

    @FEW
    @given(
        st.lists(
            st.tuples(CANAL_ROWS, CANAL_ROWS, st.sampled_from(["UPDATE", "UPDATE", "UPDATE", "INSERT", "DELETE"])),
            min_size=1, max_size=25,
        ),
        st.sampled_from([-1, 2]),
    )  # fmt: skip
    def same(changes: list[tuple[Any, Any, str]], most: int) -> None:
        given_sections = sections("canal-json", most, **rule)
        given_sections["source"]["canal-json.infer-schema.strategy"] = strategy
        both_ways([canal(*change) for change in changes], 1, **given_sections)

    same()


@pytest.mark.compiled
def test_a_message_that_is_rejected_counts_no_row_even_as_the_first_of_its_table() -> None:
    rows = '[{"id":"1","n":"5"},{"id":"2","n":"x"}]', '[{"id":"1","n":"5"},{"id":"2","n":"6"}]'
    messages = [
        (None, f'{{"data":{data},"database":"d","pkNames":["id"],"table":"t","type":"INSERT"}}'.encode())
        for data in rows
    ]
    rule = {"source-table": r"\.*", "projection": r"\*, CAST(n AS INT) + 1 AS next"}
    ran = both_ways(messages, 1, source={"value.format": "canal-json"}, transform=[rule])
    assert ran.rejects == [(0, "transform", "expression-failed")]
    assert (ran.tables["d.t"].inserted, ran.tables["d.t"].rejected) == (2, 1)


@pytest.mark.compiled
def test_a_time_that_no_text_is_of_is_a_reject() -> None:
    late = "CASE WHEN id = 3 THEN make_timestamp(12000, 1, 1, 0, 0, 0) ELSE make_timestamp(2020, 1, 1, 0, 0, 0) END"
    rule = {"source-table": r"\.*", "projection": rf"\*, {late} AS at"}
    messages: list[Any] = [(f'{{"id":{n}}}'.encode(), debezium("null", f'{{"id":{n}}}', "c")) for n in range(5)]
    ran = both_ways(messages, 1, source={"value.format": "debezium-json"}, transform=[rule])
    assert ran.rejects == [(3, "transform", "expression-failed")]
    assert len(ran.records) == 4


def table_of(records: list[Any]) -> dict[Any, Any]:
    """What a reader of the topic has in the end."""
    last = {(topic, key): value for topic, key, value in records}
    return {key: read(value) for key, value in last.items() if value is not None}


@pytest.mark.compiled
@pytest.mark.parametrize("decoded", ["natively", "by the reference"])
def test_native_updates_with_the_row_before_are_one_row(decoded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def row(n: int) -> str:
        return json.dumps({"id": 1, "name": "a", "n": n}, separators=(",", ":"))

    updates = [(row(a), row(b), "u") for a, b in itertools.pairwise((1, 2, 0, -1, 5))]
    messages = [(b'{"id":1}', debezium(*change)) for change in (("null", row(1), "c"), *updates)]
    monkeypatch.setattr(ChunkMerger, "_merge_message", None)
    monkeypatch.setattr(TransformInputEncoder, "upsert", None)
    if decoded == "by the reference":
        monkeypatch.setattr(DebeziumJson, "form", None)
    done = run(messages, 1, **sections("debezium-json", -1, projection=r"\*, n * 2 AS n2", filter="n > 0"))
    wanted = [{"id": 1, "name": "a", "n": n, "n2": n * 2} for n in (1, 2, 5)]
    values = [None if value is None else json.loads(value) for _, _, value in done.records]
    assert values == [*wanted[:2], None, wanted[2]]
    assert done.skipped == {"filter": 1}
