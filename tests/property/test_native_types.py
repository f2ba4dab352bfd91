"""Native code reads values as the reference does, by the types that messages or the pipeline declare."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
from any_table import (
    A_SINK,
    KINDS,
    LAID_OUT,
    NAMES,
    SINK,
    Message,
    a_nested,
    a_number,
    a_text,
    cache_of,
    schema,
    some_declared,
)
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from native_encoding import canal, compare, take, wrap
from picking import pick, pick_some

from ingest.encode.encode import EncoderCache
from ingest.formats.canal.options import CanalJson
from ingest.formats.debezium.options import DebeziumJson
from ingest.native import native
from ingest.schema.evolve import Schemas, SourceTable
from ingest.schema.infer import Inference

if TYPE_CHECKING:
    from ingest.model.schema import TableSchema

pytestmark = pytest.mark.compiled


ONES = st.sampled_from([
    "0", "1", "-1", "-0", "18262", "2932896", "2932897", "-719162", "-719163", "86399999", "86400000", "45296500",
    "86399999999", "86400000000", "1700000000123", "1700000000123456", "-1", "-86400001", "253402300799999",
    "253402300800000", "-62135596800000", "-62135596800001", "253402300799999999", "253402300800000000",
    "-62135596800000000", "-62135596800000001", "9223372036854775807", "951782400000", "1709164800000", "4107542400000",
])  # fmt: skip
TEXTS = st.one_of(
    st.integers(-(10**7), 10**7).map(lambda n: n.to_bytes((n.bit_length() + 8) // 8, "big", signed=True)),
    st.binary(max_size=18),
).map(lambda raw: json.dumps(base64.b64encode(raw).decode()))
MOMENTS = st.builds(
    lambda day, mark, time, part, zone: f'"{day}{mark}{time}{part}{zone}"',
    st.sampled_from(["2020-01-31", "2024-02-29", "2023-02-29", "0001-01-01", "0000-01-01", "9999-12-31", "20-1-1"]),
    st.sampled_from(["T", " ", ""]), st.sampled_from(["00:00:00", "23:59:59", "24:00:00", "12:13", ""]),
    st.sampled_from(["", "", ".5", ".500", ".000", ".123456", ".1234567", ".123456000", "."]),
    st.sampled_from(["Z", "Z", "", "+02:00"]),
)  # fmt: skip
QUOTED = st.one_of(a_number, ONES).map(lambda text: f'"{text}"')
VARIABLE = st.one_of(
    st.builds('{{"scale":{},"value":{}}}'.format, st.integers(-20, 45), TEXTS),
    st.builds(
        '{{ "value" : {} , "scale": {}{} }}'.format, TEXTS, a_number, st.sampled_from(["", ',"scale":1', ',"x":1'])
    ),
)
ODD = st.one_of(
    a_nested, ONES, TEXTS, MOMENTS, QUOTED, st.sampled_from(["null", "true", '"1"', '"0"', '"true"', '"x"', '"é\xff"']),
    st.text(alphabet=st.characters(max_codepoint=300), max_size=5).map(lambda s: json.dumps(s, ensure_ascii=False)),
)  # fmt: skip


def a_logical_type(type_: str, name: str, **parameters: str) -> str:
    return json.dumps({"type": type_, "name": name, "version": 1, "parameters": parameters})


Words = dict[str, tuple[str, list[str], Any]]
"""What a message may say of a column: its type, texts of values that are of it, and what else may be there."""
SMALL = ["0", "1", "-7", "42"]
LARGE = ["1700000000123", "951782400000", "-1", "0", "253402300799999", "-62135596800000"]
FINE = ["1700000000123456", "45296500000", "0", "-86400000001", "1500"]
FAR = ["86400000000", "-1", "3020399000000", "9223372036825200000", "-62135596800000001"]
LONG = st.one_of(ONES, st.sampled_from(FAR))
CONNECT: Words = {
    '{"type":"int64"}': ("BIGINT", [*SMALL, "9223372036854775807"], a_number),
    '{"type":"int32"}': ("INT", SMALL, a_number),
    '{"type":"int16"}': ("SMALLINT", SMALL, a_number),
    '{"type":"string"}': ("STRING", ['"x"', '""', '"\\n"', '"é"'], a_text),
    '{"type":"boolean"}': ("BOOLEAN", ["true", "false"], ODD),
    '{"type":"double"}': ("DOUBLE", ["1.50", "2", "-0.5"], a_number),
    '{"type":"float"}': ("FLOAT", ["1.50", "2"], a_number),
    '{"type":"bytes"}': ("BYTES", ['"aGk="', '""', '"AAEC"'], TEXTS),
    '{"type":"array","items":{"type":"int32"}}': ("STRING", ["[1, 2]", "[]"], st.just("{}")),
    a_logical_type("int32", "io.debezium.time.Date"): ("DATE", ["18262", "0", "-719162", "2932896"], ONES),
    a_logical_type("int32", "org.apache.kafka.connect.data.Date"): ("DATE", ["18262"], ONES),
    a_logical_type("int32", "io.debezium.time.Time"): ("TIME(3)", ["45296500", "0"], ONES),
    a_logical_type("int64", "io.debezium.time.MicroTime"): ("TIME(6)", ["45296500000", "1"], LONG),
    a_logical_type("int64", "io.debezium.time.Timestamp"): ("TIMESTAMP", LARGE, ONES),
    a_logical_type("int64", "io.debezium.time.MicroTimestamp"): ("TIMESTAMP", FINE, LONG),
    a_logical_type("int64", "io.debezium.time.NanoTimestamp"): ("BIGINT", FINE, ONES),
    a_logical_type("string", "io.debezium.time.ZonedTimestamp"): (
        "TIMESTAMP_LTZ", ['"2020-01-31T12:13:14Z"', '"2024-02-29T23:59:59.120000Z"', '"2020-01-31T12:13:14.5Z"'],
        st.one_of(MOMENTS, st.sampled_from(['"2024-05-10T13:00:01.6048051Z"', '"infinity"'])),
    ),
    '{"type":"array","items":{"type":"int32","name":"io.debezium.time.Date"}}': ("STRING", ["[18262]", "[]"], ODD),
    a_logical_type("string", "io.debezium.data.Json"): ("STRING", [r'"{\\"a\\": 1}"'], ODD),
    a_logical_type("struct", "io.debezium.data.VariableScaleDecimal"): (
        "STRING", ['{"scale":1,"value":"fQ=="}', '{"value":"/w==","scale":-3}', '{"scale":9,"value":"AA=="}'],
        st.one_of(VARIABLE, ODD),
    ),
    **{
        a_logical_type(
            "bytes", "org.apache.kafka.connect.data.Decimal", scale=str(scale),
            **{"connect.decimal.precision": str(precision)},
        ): (f"DECIMAL({precision},{scale})", ['"fQ=="', '"AA=="', '"/w=="', '"MDk="', "0"], st.one_of(TEXTS, a_number))
        for precision, scale in [(5, 2), (38, 0), (38, 38), (10, 0), (12, 10)]
    },
    **{
        a_logical_type(
            "bytes", "org.apache.kafka.connect.data.Decimal", scale=str(scale),
            **{"connect.decimal.precision": str(precision)},
        ): ("STRING", ['"fQ=="', '"AA=="', '"/w=="', '"MDk="', "0", "1.50"], st.one_of(TEXTS, a_number))
        for precision, scale in [(40, 2), (5, 7), (10, -2), (60, 50)]
    },
}  # fmt: skip
NUMBERS = st.one_of(QUOTED, a_number, ONES)
WHOLES = ['"42"', '"0"', '"-7"', "5", '"1"']
DAYS, TIMES, TEXT = ['"2020-01-31"'], ['"12:13:14"', '"12:13:14.50"'], ['"x"', '""', '"é"']
INSTANTS = ['"2020-01-31 12:13:14"', '"2024-02-29 23:59:59.120"']
SQL_TYPES: Words = {
    "-5": ("BIGINT", WHOLES, NUMBERS), "4": ("INT", WHOLES, NUMBERS), "5": ("SMALLINT", WHOLES, NUMBERS),
    "-6": ("TINYINT", WHOLES, NUMBERS), "12": ("STRING", TEXT, a_text), "1": ("STRING", TEXT, ODD),
    "3": ("DECIMAL(38,18)", ['"12.50"', '"-3"', "1.5"], NUMBERS), "8": ("DOUBLE", ['"1.50"', '"7"', "2.5"], NUMBERS),
    "7": ("FLOAT", ['"1.50"', '"7"'], NUMBERS),
    "-7": ("BOOLEAN", ['"1"', '"0"', '"true"', "1", "false"], st.sampled_from(['"2"', '"b\'1\'"', "null"])),
    "-4": ("BYTES", ['"hi!"', '"é\xff\x7f"', '""'], ODD), "91": ("DATE", DAYS, MOMENTS), "92": ("TIME(6)", TIMES, ODD),
    "93": ("TIMESTAMP", INSTANTS, MOMENTS),
}  # fmt: skip
MYSQL_TYPES: Words = {
    '"bigint(20)"': ("BIGINT", WHOLES, NUMBERS), '"bigint unsigned"': ("DECIMAL(20,0)", WHOLES, NUMBERS),
    '"tinyint(1)"': ("BOOLEAN", ['"1"', '"0"'], NUMBERS), '"varchar(3)"': ("VARCHAR(3)", TEXT, a_text),
    '"char(3)"': ("CHAR(3)", TEXT, a_text), '"decimal(5,2)"': ("DECIMAL(5,2)", ['"12.50"', '"-3"'], NUMBERS),
    '"timestamp(6)"': ("TIMESTAMP_LTZ", INSTANTS, MOMENTS), '"datetime"': ("TIMESTAMP", INSTANTS, MOMENTS),
    '"date"': ("DATE", DAYS, MOMENTS), '"time(3)"': ("TIME(3)", TIMES, MOMENTS),
    '"blob"': ("BYTES", ['"hi"', r'"a\u0000\n\u00fF\"\\\/"'], st.one_of(ODD, a_text)),
    '"bit(9)"': ("BYTES", ['"300"', '"0"', "7"], st.one_of(NUMBERS, st.sampled_from(['"65535"', '"65536"', '"007"']))),
    '"bit(64)"': ("BYTES", ['"18446744073709551615"'], st.sampled_from(['"18446744073709551616"', '""', '"-1"'])),
    '"bit(1)"': ("BOOLEAN", ['"1"', '"b\'0\'"', r'"\u0001"'], NUMBERS),
    '"json"': ("STRING", TEXT, a_text), '"float"': ("FLOAT", ['"1.5"'], NUMBERS),
    '"double"': ("DOUBLE", ['"1.5"'], NUMBERS), '"decimal"': ("DECIMAL(5,2)", ['"12.50"', '"-3"', '"7.0"'], NUMBERS),
    '"text"': ("STRING", TEXT, ODD),
}  # fmt: skip


@st.composite
def typed_rows(draw: Any, said: Words) -> tuple[dict[str, str], TableSchema, TableSchema, Any]:
    """What is said of each column; the schemas of both sides; what makes the text of a row of these columns."""
    names = pick_some(draw, NAMES, min_size=1, max_size=4)
    words = {name: pick(draw, list(said)) for name in names}
    kinds = {name: said[word][0] for name, word in words.items()}
    other = pick(draw, [None, None, *names])
    kinds |= {} if other is None else {other: pick(draw, KINDS)}
    wide = pick(draw, [None, None, *names])
    sink = {**kinds, **({} if wide is None else {wide: "STRING"})}
    sink |= dict.fromkeys(pick(draw, [[], [], ["more"]]), "BIGINT")
    odd = pick(draw, [None, None, *names])

    def value(name: str) -> str:
        _, usual, pool = said[words[name]]
        found: str = draw(st.one_of(pool, ODD, st.just("null"))) if name == odd else pick(draw, usual)
        return found

    def row(columns: list[str]) -> str:
        parts = [f"{json.dumps(name, ensure_ascii=False)}:{value(name)}" for name in columns]
        gap: str = pick(draw, [",", ",", ",", " , "])
        return "{" + gap.join(parts) + "}"

    return words, schema(kinds, (names[0],)), schema(sink, (names[0],)), row


@settings(max_examples=examples(1000))
@given(st.data())
def test_schema_envelopes_as_the_book_has_them(data: Any) -> None:
    words, source, sink, row = data.draw(typed_rows(CONNECT))
    names = list(words)
    fields = ",".join(f'{{"field":{json.dumps(name)},{word[1:]}' for name, word in words.items())
    said = f'{{"type":"struct","fields":[{{"type":"struct","field":"after","fields":[{fields}]}}]}}'
    said = data.draw(st.sampled_from([said, said, said, said, "null", "{}", "1"]))
    op = data.draw(st.sampled_from(["c", "u", "d", "r", "u"]))
    before = row(names) if op in "ud" or data.draw(st.sampled_from([False, False, True])) else "null"
    after = row(names) if op != "d" or data.draw(st.sampled_from([False, False, True])) else "null"
    payload = wrap(after, before=before, op=op).decode("utf-8", "surrogatepass")
    parts = [f'"schema":{said}', f'"payload":{payload}']
    text = "{" + ", ".join(data.draw(st.permutations(parts))) + "}"
    image = row(names[:1])
    key = data.draw(
        st.sampled_from([None, image, f'{{"schema":{{}},"payload":{image}}}', f'{{"payload":{image},"schema":1}}'])
    )
    message = Message(*(None if part is None else part.encode("utf-8", "surrogatepass") for part in (key, text)))
    form = DebeziumJson.model_validate(
        data.draw(st.sampled_from([{}, {"debezium-json.infer-schema.primitive-as-string": True}]))
    )
    keyed, to, declared = data.draw(st.booleans()), data.draw(A_SINK), some_declared(data, source)
    compare(form, ("shop", "t"), source, sink, message, keyed=keyed, to=to, declared=declared)


@settings(max_examples=examples(1000))
@given(st.data())
def test_types_of_canal_as_the_book_has_them(data: Any) -> None:
    strategy, said = data.draw(st.sampled_from([("SQL_TYPE", SQL_TYPES), ("MYSQL_TYPE", MYSQL_TYPES)]))
    words, source, sink, row = data.draw(typed_rows(said))
    names = list(words)
    kind = data.draw(st.sampled_from(["INSERT", "UPDATE", "DELETE"]))
    olds = ["null", f"[{row(names[:1])}]", f"[{row(names[1:])}]", f"[{row(names)}]"]
    member = "sqlType" if strategy == "SQL_TYPE" else "mysqlType"
    types_ = "{" + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{word}" for name, word in words.items()) + "}"
    fields = [
        f'"data":[{row(names)}]', f'"{member}":{data.draw(st.sampled_from([types_] * 5 + ["null", "{}"]))}',
        f'"old":{data.draw(st.sampled_from(olds))}', f'"pkNames":[{json.dumps(names[0])}]', '"isDdl":false',
        '"database":"shop"', '"table":"t"', f'"type":"{kind}"',
    ]  # fmt: skip
    text = "{" + ",".join(data.draw(st.permutations(fields))) + "}"
    zoned = {"canal-json.mysql.treat-mysql-timestamp-as-datetime-enabled": False} if strategy == "MYSQL_TYPE" else {}
    whole = data.draw(st.sampled_from([{}, {"canal-json.infer-schema.primitive-as-string": True}]))
    form = CanalJson.model_validate({"canal-json.infer-schema.strategy": strategy, **zoned, **whole})
    message = Message(None, text.encode("utf-8", "surrogatepass"))
    keyed, to, declared = data.draw(st.booleans()), data.draw(A_SINK), some_declared(data, source)
    compare(form, ("shop", "t"), source, sink, message, keyed=keyed, to=to, declared=declared)


def a_fields_schema(*columns: str) -> str:
    return f'{{"type":"struct","fields":[{{"type":"struct","field":"after","fields":[{",".join(columns)}]}}]}}'


A_VARIABLE = '"type":"struct","name":"io.debezium.data.VariableScaleDecimal"'
A_DECIMAL = '"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":'


@pytest.mark.parametrize(
    ("said", "value", "expected"),
    [
        (A_VARIABLE, '{"scale":2,"value":"MDk="}', '"123.45"'),
        (A_VARIABLE, '{"value":"/w==","scale":-3}', '"-1000"'),
        (A_VARIABLE, '{"value":"AA==","scale":-3}', '"0"'),
        (A_DECIMAL + '{"scale":"-2"}', '"fQ=="', '"12500"'),
        (A_DECIMAL + '{"scale":"3","connect.decimal.precision":"50"}', '"fQ=="', '"0.125"'),
        (A_DECIMAL + '{"scale":"3","connect.decimal.precision":"50"}', "1.50", '"1.50"'),
    ],
)
def test_decimals_that_are_texts_are_taken(said: str, value: str, expected: str) -> None:
    whole = a_fields_schema('{"field":"id","type":"int32"}', f'{{"field":"n",{said}}}')
    payload = wrap(f'{{"id":1,"n":{value}}}').decode()
    message = Message(None, f'{{"schema":{whole},"payload":{payload}}}'.encode())
    source = schema({"id": "INT", "n": "STRING"}, ("id",))
    assert compare(DebeziumJson(), ("shop", "t"), source, source, message, keyed=False)
    records: list[Any] = []
    made = cache_of(DebeziumJson(), ("shop", "t"), source, source, keyed=False)
    take(native.NativeEncoders(DebeziumJson(), made).of("t"), [message], 0, records)
    assert records[0][2] == f'{{"id":1,"n":{expected}}}'.encode()


@pytest.mark.parametrize(
    ("said", "kind", "value"),
    [
        ("bit(9)", "BYTES", '"300"'), ("bit(64)", "BYTES", '"18446744073709551615"'),
        ("bit(1)", "BOOLEAN", r'"\u0001"'),
        ("bit(1)", "BOOLEAN", "\"b'0'\""), ("blob", "BYTES", r'"\u0000\n\"\u00fF"'),
    ],
)  # fmt: skip
def test_bits_and_bytes_of_canal_are_taken(said: str, kind: str, value: str) -> None:
    text = canal("INSERT", f'{{"id":"1","b":{value}}}').replace(
        b'{"id":"bigint"}', b'{"id":"bigint","b":"%b"}' % said.encode()
    )
    form = CanalJson.model_validate({"canal-json.infer-schema.strategy": "MYSQL_TYPE"})
    source = schema({"id": "BIGINT", "b": kind}, ("id",))
    assert compare(form, ("shop", "t"), source, source, Message(None, text), keyed=False)


A_DECLARED_TABLE = schema(
    {"id": "BIGINT", "i": "INT", "f": "DOUBLE", "d": "DECIMAL(10,2)", "b": "BOOLEAN", "at": "TIMESTAMP",
     "l": "TIMESTAMP_LTZ", "t": "TIME(6)"}, ("id",),
)  # fmt: skip


@pytest.mark.parametrize("to", [SINK, *LAID_OUT])
@pytest.mark.parametrize(
    "row",
    [
        '"i":"12"', '"i":" -12 "', '"i":12.00', '"i":"7.0"', '"f":"100.0"', '"d":"-1.50"', '"b":"TRUE"', '"b":" false"',
        '"at":"2020-01-31T12:13:14"', '"at":"2020-01-31T12:13:14.500"', '"at":"2020-01-31 12:13:14.123456789"',
        '"at":"2020-01-31T12:13:14.1234567"', '"l":"2020-01-31T12:13:14Z"', '"l":"2020-01-31 12:13:14"',
        '"l":"2020-01-31T12:13:14.123456789Z"', '"t":"12:13:14.1234567"', '"i":"1","f":2,"b":"True","d":" 3"',
    ],
)  # fmt: skip
def test_the_usual_spellings_are_for_native_code(row: str, to: Any) -> None:
    names = tuple(column.name for column in A_DECLARED_TABLE.columns)
    message = Message(b'{"id":1}', wrap(f'{{"id":1,{row}}}', before='{"id":1}', op="u"))
    form, at, one = DebeziumJson(), ("shop", "t"), A_DECLARED_TABLE
    assert compare(form, at, one, one, message, keyed=True, to=to, declared=names)
    assert not compare(form, at, one, one, message, keyed=True, to=to)


def test_tables_that_share_a_topic_are_read_by_their_own_schemas() -> None:
    """More of them than schemas are kept available; and one schema may begin as another one does."""
    form, tables, values = DebeziumJson(), {}, []
    for i in range(12):
        said = a_logical_type("bytes", "org.apache.kafka.connect.data.Decimal", scale=str(i))[:-1]
        fields = f'{{"field":"id","type":"int32"}},{said},"field":"n"}}'
        whole = f'{{"type":"struct","fields":[{{"type":"struct","field":"after","fields":[{fields}]}}]}}'
        payload = wrap('{"id":1,"n":"MDk="}').replace(b'"t"', b'"t%d"' % i)
        values.append(b'{"schema":%b,"payload":%b}' % (whole.encode(), payload))
        tables["shop", f"t{i}"] = schema({"id": "INT", "n": f"DECIMAL(38,{i})"}, ("id",))
    made = EncoderCache(SINK.encoder, Inference(form.reading, False, {}, 2000))
    sources = {table: SourceTable(one, ((table[1],),), key_from_message=False) for table, one in tables.items()}
    made.renew(Schemas(1, sources, {(table[1],): one for table, one in tables.items()}), None)  # type: ignore[arg-type]
    encoder = native.NativeEncoders(form, made).of("t")
    order = [*range(12), *range(11, -1, -1), *[3, 4] * 5]
    records: list[Any] = []
    assert take(encoder, [Message(None, values[i]) for i in order], 0, records) == len(order)
    digits = "12345".rjust(13, "0")
    for i, (to, key, value) in zip(order, records, strict=True):
        expected = f"{int(digits[: 13 - i])}.{digits[13 - i :]}" if i else "12345"
        assert (to.topic, key, value) == (f"t{i}", b'{"id":1}', b'{"id":1,"n":%b}' % expected.encode())
