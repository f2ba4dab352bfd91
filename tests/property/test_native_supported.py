"""Messages that native code takes, and messages that it leaves to the reference."""

from __future__ import annotations

import gc
import json
from typing import Any

import pytest
from any_table import PLACEHOLDER, Message, cache_of, schema
from bothways import both_ways
from examples import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from native_encoding import ORDERS, WHOLE, canal, compare, take, wrap
from shapes import DECLARED, FORMS, a_message

from ingest.formats.canal.options import CanalJson
from ingest.formats.debezium.options import DebeziumJson
from ingest.native import native
from ingest.schema.evolve import Schemas, SourceTable

pytestmark = pytest.mark.compiled


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b'{"id":1}', wrap('{"id":1,"name":"a","n":1.5}')),
        (b'{"id": 1}', wrap('{"id":1,"name":"a","n":1.5}')),
        (None, wrap('{"id":1,"name":"a"}')),
        (None, wrap('{"n":1.5,"id":1}', before='{"id":2}', op="u")),
        (None, wrap('{ "n":1.5, "id":1 , "name":""}', before='{"id":2}', op="u")),
        (None, wrap('{"id":1,"name":5,"n":null}', op="r")),
        (None, wrap('{"id":1,"name":{"a":["\\"", 1 ]},"n":null}')),
        (None, wrap("null", before='{"id":1,"name":"a","n":1.5}', op="d")),
        (None, WHOLE),
        (None, None),
        (None, b'{"payload":' + wrap('{"id":1}') + b"}"),
        (b'{"schema":{"x":1},"payload":{"id":1}}', b'{"schema":null,"payload":' + wrap('{"id":1}') + b"}"),
    ],
)
def test_what_is_plain_is_taken(key: bytes | None, value: bytes | None) -> None:
    assert compare(DebeziumJson(), ("shop", "t"), ORDERS, ORDERS, Message(key, value), keyed=True)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b'{"no":1}', wrap('{"id":1}')),
        (None, wrap('{"id":1,"new":1}')),
        (None, wrap('{"id":1.5}')),
        (None, wrap('{"id":null}')),
        (None, wrap('{"name":"a"}')),
        (None, wrap('{"id":1,"n":"x"}')),
        (None, wrap(f'{{"id":1,"name":"{PLACEHOLDER}"}}')),
        (None, wrap("null")),
        (None, wrap('{ "id":1, "n":5 }')),
        (None, wrap('{"id":1}', op="t")),
        (None, wrap('{"id":1}').replace(b"shop", b"other")),
        (None, wrap('{"id":1}') + b"x"),
        (None, wrap('{"id":1,"name":"\\ud800"}')),
        (None, wrap('{"id":1,"name":"a"}').replace(b'"a"', b'"\xff"')),
        (None, wrap('{"id":1,"name":' + "[" * 100 + "]" * 100 + "}")),
        (None, b'{"payload":null}'),
        (None, b'{"payload":' + wrap('{"id":1}') + b',"other":1}'),
        (None, b'{"payload":' + wrap('{"id":1}') + b',"schema":1}'),
        (None, b'{"payload":' + wrap('{"id":1}') + b',"payload":null}'),
    ],
)
def test_what_is_not_is_left(key: bytes | None, value: bytes | None) -> None:
    assert not compare(DebeziumJson(), ("shop", "t"), ORDERS, ORDERS, Message(key, value), keyed=True)


def test_order_is_kept_and_counters_are_handed_over() -> None:
    made = cache_of(DebeziumJson(), ("shop", "t"), ORDERS, ORDERS, keyed=False)
    values = [wrap(f'{{"id":{i % 3},"name":"{i}","n":1}}') for i in range(100)]
    values[50] = wrap('{"id":1,"new":1}')
    messages: Any = [Message(None, value) for value in values]
    records: list[Any] = []
    encoders = native.NativeEncoders(DebeziumJson(), made)
    encoder = encoders.of("t")
    assert take(encoder, messages, 0, records) == 50
    assert take(encoder, messages, 51, records) == 100
    assert [json.loads(value)["name"] for _, _, value in records] == [str(i) for i in range(100) if i != 50]
    for _ in range(2):
        encoders.settle()
        assert made.compiled["shop", "t"].inserted == 99


def test_what_was_counted_is_the_plans_that_it_was_counted_by() -> None:
    made = cache_of(DebeziumJson(), ("shop", "t"), ORDERS, ORDERS, keyed=False)
    encoders = native.NativeEncoders(DebeziumJson(), made)
    message: Any = Message(None, wrap('{"id":1,"name":"a","n":1}'))
    assert take(encoders.of("t"), [message], 0, []) == 1
    older = made.compiled["shop", "t"]
    wider = ORDERS.merge(schema({"id": "BIGINT", "new": "BIGINT"}, ("id",)))
    made.renew(Schemas(2, {("shop", "t"): SourceTable(wider, (("out",),), False)}, {("out",): wider}), None)
    encoder = encoders.of("t")
    gc.collect()
    assert take(encoder, [message, message], 0, []) == 2
    encoders.settle()
    assert (older.inserted, made.compiled["shop", "t"].inserted) == (1, 2)


def test_other_schemas_are_taken_at_once() -> None:
    made = cache_of(DebeziumJson(), ("shop", "t"), ORDERS, ORDERS, keyed=False)
    encoders = native.NativeEncoders(DebeziumJson(), made)
    message: Any = Message(None, wrap('{"id":1,"new":1}'))
    records: list[Any] = []
    assert take(encoders.of("t"), [message], 0, records) == 0
    wider = ORDERS.merge(schema({"id": "BIGINT", "new": "BIGINT"}, ("id",)))
    made.renew(Schemas(2, {("shop", "t"): SourceTable(wider, (("out",),), False)}, {("out",): wider}), None)
    assert take(encoders.of("t"), [message], 0, records) == 1
    assert json.loads(records[0][2]) == {"id": 1, "new": 1, "name": None, "n": None}


@pytest.mark.parametrize(
    ("value", "keys"),
    [
        (canal("INSERT", '{"id":1,"name":"a","n":2}'), ['{"id":1}']),
        (canal("UPDATE", '{"id":1,"name":"a","n":2}', '[{"name":"b"}]'), ['{"id":1}']),
        (canal("UPDATE", '{"id":1,"name":"a","n":2}', "[null]"), ['{"id":1}']),
        (canal("UPDATE", '{"id":1,"name":"a","n":2}', '[{"id":7}]'), ['{"id":7}', '{"id":1}']),
        (canal("UPDATE", '{"id":1,"name":"a","n":2}', '[{"id":1}]', '"pkNames":null'), ['{"id":1}']),
        (canal("UPDATE", '{"id":1,"name":"a","n":2}', '[{"id":"x"}]'), ['{"id":"x"}', '{"id":1}']),
        (canal("DELETE", '{"id":1,"name":"a","n":2}'), ['{"id":1}']),
        (canal("INSERT", '{"id":1},{"id":2}'), ['{"id":1}', '{"id":2}']),
        (canal("DELETE", '{"id":1,"name":"a"} , {"id":2},{"id":1}'), ['{"id":1}', '{"id":2}', '{"id":1}']),
        (canal("UPDATE", '{"id":1},{"id":2,"n":4}', '[{"id":3},{"n":2}]'), ['{"id":3}', '{"id":1}', '{"id":2}']),
        (canal("UPDATE", '{"id":1},{"id":2}', "[ null,\n null ]"), ['{"id":1}', '{"id":2}']),
        (canal("UPDATE", '{"id":1},{"id":2}'), ['{"id":1}', '{"id":2}']),
    ],
)
def test_canal_messages_of_rows_are_taken(value: bytes, keys: list[str]) -> None:
    assert compare(CanalJson(), ("shop", "t"), ORDERS, ORDERS, Message(None, value), keyed=True)
    records: list[Any] = []
    made = cache_of(CanalJson(), ("shop", "t"), ORDERS, ORDERS, keyed=True)
    assert take(native.NativeEncoders(CanalJson(), made).of("t"), [Message(None, value)], 0, records) == 1
    assert [key.decode() for _, key, _ in records] == keys


@pytest.mark.parametrize(
    "value",
    [
        canal("INSERT", '{"id":1},{"id":2,"new":1}'),
        canal("INSERT", '{"id":1},null'),
        canal("INSERT", '{"id":1},'),
        canal("INSERT", '{"id":1},2'),
        canal("INSERT", '{"id":1},{"id":2}', "[null]"),
        canal("UPDATE", '{"id":1},{"id":2}', '[{"n":1},2]'),
        canal("INSERT", '{"id":1}', more='"pkNames":["other"]'),
        canal("UPDATE", '{"id":1}', '[{"n":1},{"n":2}]'),
        canal("ALTER", '{"id":1}'),
        canal("INSERT", '{"id":1}').replace(b'"isDdl":false', b'"isDdl":true'),
    ],
)
def test_other_canal_messages_are_left(value: bytes) -> None:
    assert not compare(CanalJson(), ("shop", "t"), ORDERS, ORDERS, Message(None, value), keyed=True)


def test_a_source_is_read_whatever_source_came_before() -> None:
    """Sources are compared with one that came: what is alike is not looked at again."""
    from ingest.native.codes import MessageForm  # not there without a compiler
    from ingest.native.contract import MessageSpec
    from ingest.native.native_encoder import NativeEncoder

    said: list[Any] = []
    encoder = NativeEncoder(
        MessageSpec(MessageForm.FORM_DEBEZIUM), lambda name: said.append(tuple(name.split(b"\0")[:3])), lambda _: None
    )
    long = '"x":"' + "y" * 2000 + '"'
    expected = []
    for source, (db, part, table) in [
        ('{"v":1,"db":"d","table":"t","pos":1}', ("d", "", "t")),
        ('{"v":1,"db":"d","table":"t","pos":1}', ("d", "", "t")),
        ('{"v":1,"db":"d","table":"t1","pos":12}', ("d", "", "t1")),
        ('{"v":1,"db":"d","table":"t","pos":1,"schema":"s"}', ("d", "s", "t")),
        ('{"v":1,"db":"dd","table":"t" ,"pos":1}', ("dd", "", "t")),
        ('{"v":1,"db": "d","table":"u","pos":1}', ("d", "", "u")),
        ('{"v":12,"db":null,"table":"u","pos":1}', ("", "", "u")),
        ('{"table":"w","db":"d","v":1}', ("d", "", "w")),
        ('{"v":1,"db":"d","table":"t","pos":{"a":[1]}}', ("d", "", "t")),
        ('{"v":1,"dc":"d","table":"t","pos":1}', ("", "", "t")),
        ("{" + long + ',"db":"d","table":"z"}', ("d", "", "z")),
        ("{" + long + ',"db":"e","table":"z"}', ("e", "", "z")),
        ('{"table":"t"}', ("", "", "t")),
        ('{ "table":"t"}', ("", "", "t")),
        ('{"table":"t","db":"d"}', ("d", "", "t")),
    ]:
        value = f'{{"before":null,"after":{{"id":1}},"source":{source},"op":"c"}}'.encode()
        messages: list[Any] = [Message(None, value)]
        assert take(encoder, messages, 0, []) == 0
        expected.append((db.encode(), part.encode(), table.encode()))
    assert said == expected
    for broken in (
        '{"v":1,"db":"d","table":"t","pos":}',
        '{"v":1,"db":"d","table":"t","pos":1',
        '{"v":1,"db":"d","table":"t"',
    ):
        value = f'{{"before":null,"after":{{"id":1}},"op":"c","source":{broken}'.encode()
        messages = [Message(None, value)]
        assert take(encoder, messages, 0, []) == 0
    assert said == expected


@pytest.mark.parametrize(("form", "options"), FORMS)
def test_whole_runs_are_the_same_without_it(form: str, options: dict[str, Any]) -> None:
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
                **options,
                "ingestion.error-tolerance.max-count": most,
                **(DECLARED if given else {}),
            },
            "transform": [{"source-table": r"\.*", "primary-keys": "id"}] if form == "json" else [],
        }
        both_ways(messages, look_ahead, exact=True, **sections)

    same()


@pytest.mark.parametrize("odd", [PLACEHOLDER.encode(), b"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==", b"\xff", b"\xc3"])
def test_what_is_odd_is_seen_wherever_it_is(odd: bytes) -> None:
    form, table = DebeziumJson(), ("shop", "t")
    source = schema({"id": "BIGINT", "a": "STRING"}, ("id",))
    text = b'{"op":"c","after":{"id":1,"a":"%b%b%b"},"source":{"db":"shop","table":"t"}}'
    for before in range(40):
        for after in (0, 1, 17):
            plain, other = (text % (b"x" * before, what, b"y" * after) for what in (b"__ X1", odd))
            assert compare(form, table, source, source, Message(b'{"id":1}', plain), keyed=True)
            assert not compare(form, table, source, source, Message(b'{"id":1}', other), keyed=True)
