"""Native code says of the common case what the reference says, or nothing: it is never more lenient."""

from __future__ import annotations

import base64
import gc
import json
from typing import TYPE_CHECKING, Any

import pytest
from any_table import (
    A_SINK,
    KINDS,
    LAID_OUT,
    NAMES,
    PLACEHOLDER,
    SINK,
    USUAL,
    Message,
    a_case,
    a_nested,
    a_number,
    a_row,
    a_text,
    cache_of,
    schema,
    some_declared,
    space,
)
from bothways import both_ways
from examples import examples
from hypothesis import currently_in_test_context, event, example, given, settings
from hypothesis import strategies as st
from shapes import DECLARED, FORMS, a_message

from ingest.component.options import InlineSchemaOptions
from ingest.encode.encode import encode
from ingest.encode.encoder_cache import EncoderCache
from ingest.formats.canal_json import CanalJson
from ingest.formats.debezium_json import DebeziumJson
from ingest.formats.json import Json
from ingest.formats.maxwell_json import MaxwellJson
from ingest.formats.ogg_json import OggJson
from ingest.native import native
from ingest.schema.evolve import Schemas, SourceTable
from ingest.schema.infer import Inference

if TYPE_CHECKING:
    from ingest.model.schema import TableSchema

pytestmark = pytest.mark.compiled


def take(encoder: Any, messages: Any, start: int, records: list[Any]) -> int:
    """Encode messages from `start` on, and return where that ends."""
    full = True
    while full:
        batch, start = encoder.encode(messages, start)
        records += batch
        full = batch.full
    return start


def compare(
    form: Any,
    table: Any,
    source: TableSchema,
    sink: TableSchema,
    message: Message,
    *,
    keyed: bool,
    to: Any = SINK,
    declared: tuple[str, ...] = (),
) -> bool:
    """Return whether native code took the message. If so, its records are those of the reference.

    `declared`: columns whose types the pipeline gives.
    """
    reference, natively = (cache_of(form, table, source, sink, keyed=keyed, to=to, declared=declared) for _ in range(2))
    if declared and isinstance(form, InlineSchemaOptions):
        form = form.beside({table: frozenset(declared)})
    records: list[Any] = []
    encoders = native.NativeEncoders(form, natively)
    encoder = encoders.of("t")
    taken = take(encoder, [message], 0, records)
    encoders.settle()
    if currently_in_test_context():
        event("taken" if taken else "left")
    if not taken:
        assert not records
        return False
    encoded = encode(form.decoder("t").decode([message.key()], [message.value()]), reference, 0)
    assert encoded.stop == 1
    assert not encoded.rejects
    assert encoder.skipped() == [(0, reason) for reason in encoded.skipped]
    assert [(to, key) for to, key, _ in records] == [(to, key) for to, key, _ in encoded.records]
    for (_, _, made), (_, _, expected) in zip(records, encoded.records, strict=True):
        if expected is None or made is None:
            assert made is expected
            continue
        assert bytes(made) == bytes(expected), "which way a row went does not show"
        if to is SINK:
            json.loads(made)
    for at, by_table in reference.compiled.items():
        other = natively.compiled[at]
        assert (by_table.inserted, by_table.updated, by_table.deleted) == (other.inserted, other.updated, other.deleted)
        assert not by_table.unrepresentable
    return True


@settings(max_examples=examples(1000))
@given(st.data())
def test_debezium_as_the_book_has_it(data: Any) -> None:
    source, sink, usual = data.draw(a_case())
    names = list(usual)
    op = data.draw(st.sampled_from(['"c"', '"u"', '"d"', '"r"', '"u"', '"d"', '"t"', "null", '"\\u0063"', "1"]))
    before = data.draw(a_row(names, usual=usual)) if op in {'"u"', '"d"'} else "null"
    after = "null" if op == '"d"' else data.draw(a_row(names, usual=usual))
    if data.draw(st.sampled_from([False, False, False, True])):
        before = after
    key = data.draw(st.one_of(st.none(), a_row(list(source.primary_key), usual=usual)))
    at = data.draw(st.sampled_from(
        ['"db":"shop","table":"t"', '"table":"t","db":"shop","schema":null', '"table":"t","schema":"shop","x":[{}]']
    ))  # fmt: skip
    fields = [f'"before":{before}', f'"after":{after}', f'"source":{{{at}}}', f'"op":{op}', '"ts_ms":1']
    fields = data.draw(st.one_of(st.just(fields), st.permutations(fields)))
    text = "{" + data.draw(space) + ",".join(fields) + "}" + data.draw(space)
    message = Message(
        None if key is None else key.encode("utf-8", "surrogatepass"), text.encode("utf-8", "surrogatepass")
    )
    policy = data.draw(st.sampled_from(["reject", "keep"]))
    form = DebeziumJson.model_validate({"debezium-json.unavailable-value": policy})
    declared = some_declared(data, source)
    keyed, to = data.draw(st.booleans()), data.draw(A_SINK)
    compare(form, ("shop", "t"), source, sink, message, keyed=keyed, to=to, declared=declared)


@settings(max_examples=examples(400))
@given(st.data())
def test_rows_as_the_book_has_them(data: Any) -> None:
    source, sink, usual = data.draw(a_case())
    text = data.draw(space) + data.draw(a_row(list(usual), usual=usual)) + data.draw(space)
    message = Message(b"k", text.encode("utf-8", "surrogatepass"))
    form = Json.model_validate(data.draw(st.sampled_from([{}, {"json.timestamp-format.standard": "ISO-8601"}])))
    compare(
        form, ("t",), source, sink, message, keyed=False, to=data.draw(A_SINK), declared=some_declared(data, source)
    )


@settings(max_examples=examples(1000))
@given(st.data())
def test_canal_as_the_book_has_it(data: Any) -> None:
    source, sink, usual = data.draw(a_case())
    names = list(usual)
    kind = data.draw(st.sampled_from(['"INSERT"', '"UPDATE"', '"DELETE"', '"UPDATE"', '"ALTER"', "null"]))
    row = data.draw(a_row(names, usual=usual))
    changed = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    old = data.draw(a_row(changed, usual=usual)) if kind == '"UPDATE"' else None
    other = data.draw(a_row(names, usual=usual))
    some = st.sampled_from([
        f"[{row}]", f"[{row}]", f"[ {row} ]", f"[{row},{other}]", f"[{row} ,\n{other} , {row}]", f"[{row},null]",
        f"[{row},]", f"[{row},1]", "[]", "null", row,
    ])  # fmt: skip
    olds = ["null", "[null]", "[]", "[null,null]"]
    olds += [f"[{old}]", f"[{old}]", f"[{old} ,null]", f"[{old},{old}]", f"[null, {old},{row} ]"] if old else []
    keys = json.dumps(list(source.primary_key), ensure_ascii=False)
    fields = [
        f'"data":{data.draw(some)}',
        '"database":' + data.draw(st.sampled_from(['"shop"', '"shop"', '"a.b"', "null", '""'])),
        f'"old":{data.draw(st.sampled_from(olds))}',
        '"isDdl":' + data.draw(st.sampled_from(["false", "false", "null", "true"])),
        '"pkNames":' + data.draw(st.sampled_from([keys, keys, "null", "[]", '["no"]', '[ "id" , "a"]', "[1]"])),
        '"sqlType":{"id":-5}', '"table":"t"', f'"type":{kind}',
    ]  # fmt: skip
    fields = data.draw(st.one_of(st.just(fields), st.permutations(fields)))
    message = Message(b"k", ("{" + ",".join(fields) + "}").encode("utf-8", "surrogatepass"))
    table = data.draw(st.sampled_from([("shop", "t"), ("shop", "t"), ("a", "b", "t"), ("t",)]))
    keyed, to = data.draw(st.booleans()), data.draw(A_SINK)
    declared = some_declared(data, source)
    include = data.draw(st.sampled_from([
        {}, {}, {"canal-json.database.include": "shop|a.b"}, {"canal-json.table.include": "t?"},
        {"canal-json.table.include": "x.*"}, {"canal-json.database.include": ".*", "canal-json.table.include": "(a|t)"},
    ]))  # fmt: skip
    form = CanalJson.model_validate(include)
    compare(form, table, source, sink, message, keyed=keyed, to=to, declared=declared)


@settings(max_examples=examples(1000))
@given(st.data())
def test_maxwell_as_the_book_has_it(data: Any) -> None:
    source, sink, usual = data.draw(a_case())
    names, plain = list(usual), data.draw(st.booleans())
    kinds = ['"insert"', '"update"', '"delete"', '"update"', '"bootstrap-insert"']
    kind = data.draw(st.sampled_from(kinds if plain else [*kinds, '"table-alter"', "null", '"INSERT"']))
    changed = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    row, old = data.draw(a_row(names, usual=usual)), data.draw(a_row(changed, usual=usual))
    if plain:
        row, old = (
            data.draw(st.sampled_from([text, a_plain_row(usual, of)])) for text, of in ((row, names), (old, changed))
        )
    said = json.dumps(list(source.primary_key), ensure_ascii=False)
    members = [said, "null"] if plain else [said, "null", "null", "[]", '["no"]', '[ "id" , "a"]', "[1]"]
    at = ['"shop"'] if plain else ['"shop"', '"shop"', '"shop"', '"a.b"', "null", '""']
    fields = [
        f'"database":{data.draw(st.sampled_from(at))}', '"table":"t"', f'"type":{kind}', '"ts":1477053217',
        '"xid":23396', '"commit":true', f'"primary_key_columns":{data.draw(st.sampled_from(members))}',
        f'"data":{data.draw(st.sampled_from([row] if plain else [row, row, row, "null", "[]", "{}"]))}',
        f'"old":{data.draw(st.sampled_from([old] if plain else [old, old, "null", "{}", "5"]))}',
    ]  # fmt: skip
    gone = data.draw(st.sampled_from([None, 6, 8] if plain else [None, None, 0, 6, 8]))
    fields = [field for i, field in enumerate(fields) if i != gone]
    fields = data.draw(st.one_of(st.just(fields), st.permutations(fields)))
    value = data.draw(space) + "{" + ",".join(fields) + "}" + data.draw(space)
    key = data.draw(a_maxwell_key(list(source.primary_key), plain=plain))
    message = Message(*(None if part is None else part.encode("utf-8", "surrogatepass") for part in (key, value)))
    table = data.draw(st.sampled_from([("shop", "t")] if plain else [("shop", "t"), ("a", "b", "t"), ("t",)]))
    keyed, to = data.draw(st.booleans()), data.draw(A_SINK)
    form = MaxwellJson.model_validate(
        data.draw(st.sampled_from([{}, {}, {"maxwell-json.infer-schema.primitive-as-string": True}]))
    )
    compare(form, table, source, sink, message, keyed=keyed, to=to, declared=some_declared(data, source))


def a_plain_row(usual: dict[str, str], names: list[str]) -> str:
    """Return a row of the usual values of these columns."""
    return "{" + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{usual[name]}" for name in names) + "}"


@st.composite
def a_maxwell_key(draw: Any, names: list[str], *, plain: bool) -> str | None:
    """A record's key, mostly as Maxwell writes it, mostly of these columns; `plain`: certainly so."""
    names = (
        names
        if plain
        else draw(st.sampled_from([names, names, names, names[:1], [*names, "b"], [name.upper() for name in names]]))
    )
    columns = [(json.dumps(name.lower(), ensure_ascii=draw(st.booleans())), draw(a_number)) for name in names]
    pairs = [f'"pk.{name[1:]}{draw(space)}:{value}' for name, value in columns]
    ones = ",".join(f"{{{draw(space)}{name}:{value}}}" for name, value in columns)
    own = ['"database":"shop"', '"table":"t"']
    shuffled = draw(st.permutations([*own, *pairs, '"_uuid":"x"']))
    texts = [
        "{" + ", ".join([*own, *pairs]) + "}", "{" + ",".join(shuffled) + "}", "{" + ",".join(own) + "}",
        "{" + ",".join(pairs) + "}", f'["shop","t",[{ones}]]', f'[ "shop" , "\\u0074" ,[{draw(space)}{ones} ] ]',
        f'["shop",null,[{ones}]]', f'["shop","t",[{ones}],1]', '["shop","t",[]]', f'["shop","t",[{ones},]]',
        f'["shop","t",[{{{",".join(f"{name}:{value}" for name, value in columns)}}}]]', '{"id":1}', "5", "", "x",
        '["shop","\\ud800",[{"id":1}]]', '{"database":"\\ud800","table":"t","pk.id":1}',
    ]  # fmt: skip
    text: str | None = draw(st.sampled_from([*texts[:2], texts[4]] if plain else [*texts, None]))
    return text


@settings(max_examples=examples(1000))
@given(st.data())
def test_goldengate_as_the_book_has_it(data: Any) -> None:
    source, sink, usual = data.draw(a_case())
    names, plain = list(usual), data.draw(st.booleans())
    kinds = ['"I"', '"U"', '"D"', '"U"']
    kind = data.draw(st.sampled_from(kinds if plain else [*kinds, '"T"', "null", '"u"', '"\\u0055"']))
    some = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    rows = [st.just(a_plain_row(usual, names)), a_row(names, usual=usual)]
    rows += [] if plain else [a_row(some, usual=usual), st.sampled_from(["null", "null", "{}", "[]", "5"])]
    before, after = (data.draw(data.draw(st.sampled_from(rows))) for _ in range(2))
    mark = data.draw(st.sampled_from([None] if plain else [None, None, None, "true", "false", "1"]))
    if mark is not None and after.endswith("}") and len(after) > 2:
        after = after[:-1] + f",{json.dumps(names[-1] + '_isMissing', ensure_ascii=False)}:{mark}}}"
    said = json.dumps(list(source.primary_key), ensure_ascii=False)
    keys = data.draw(st.sampled_from([said] if plain else [said, said, "null", "[]", '["no"]', "[1]"]))
    at = ['"shop.t"'] if plain else ['"shop.t"', '"shop.t"', '"a.b.t"', '"t"', '".t"', '""', "1"]
    fields = [
        f'"table":{data.draw(st.sampled_from(at))}',
        f'"op_type":{kind}', '"op_ts":"2020-05-13 15:40:06.000000"', '"pos":"0143"', '"tokens":{"R":"A"}',
        f'"primary_keys":{keys}', f'"before":{before}', f'"after":{after}',
    ]  # fmt: skip
    gone = data.draw(st.sampled_from([None, None, 5, 6]))
    fields = [field for i, field in enumerate(fields) if i != gone]
    fields = data.draw(st.one_of(st.just(fields), st.permutations(fields)))
    value = data.draw(space) + "{" + ",".join(fields) + "}" + data.draw(space)
    table = data.draw(st.sampled_from([("shop", "t")] if plain else [("shop", "t"), ("a", "b", "t"), ("t",)]))
    keyed, to, declared = data.draw(st.booleans()), data.draw(A_SINK), some_declared(data, source)
    message = Message(b"k", value.encode("utf-8", "surrogatepass"))
    compare(OggJson(), table, source, sink, message, keyed=keyed, to=to, declared=declared)


@pytest.mark.parametrize("names", [["orderId"], ["orderId", "N"], ["ключ"], ["straße"], ["kİ"], ["\u212a"]])
def test_names_of_keys_in_small_letters_mean_columns(names: list[str]) -> None:
    kinds = {**dict.fromkeys(names, "BIGINT"), "v": "BIGINT"}
    row = json.dumps(dict.fromkeys(kinds, 1), ensure_ascii=False)
    key = "{" + ",".join(['"database":"shop"', '"table":"t"', *(f'"pk.{name.lower()}":1' for name in names)]) + "}"
    value = f'{{"database":"shop","table":"t","type":"insert","data":{row}}}'
    table = schema(kinds, tuple(names))
    taken = compare(MaxwellJson(), ("shop", "t"), table, table, Message(key.encode(), value.encode()), keyed=True)
    assert taken == all(name.isascii() or name == name.lower() for name in names)


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
    a_logical_type("int64", "io.debezium.time.MicroTime"): ("TIME(6)", ["45296500000", "1"], ONES),
    a_logical_type("int64", "io.debezium.time.Timestamp"): ("TIMESTAMP", LARGE, ONES),
    a_logical_type("int64", "io.debezium.time.MicroTimestamp"): ("TIMESTAMP", FINE, ONES),
    a_logical_type("int64", "io.debezium.time.NanoTimestamp"): ("BIGINT", FINE, ONES),
    a_logical_type("string", "io.debezium.time.ZonedTimestamp"): (
        "TIMESTAMP_LTZ", ['"2020-01-31T12:13:14Z"', '"2024-02-29T23:59:59.120000Z"', '"2020-01-31T12:13:14.5Z"'],
        MOMENTS,
    ),
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
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    words = {name: draw(st.sampled_from(list(said))) for name in names}
    kinds = {name: said[word][0] for name, word in words.items()}
    other = draw(st.sampled_from([None, None, *names]))
    kinds |= {} if other is None else {other: draw(st.sampled_from(KINDS))}
    wide = draw(st.sampled_from([None, None, *names]))
    sink = {**kinds, **({} if wide is None else {wide: "STRING"})}
    sink |= dict.fromkeys(draw(st.sampled_from([[], [], ["more"]])), "BIGINT")
    odd = draw(st.sampled_from([None, None, *names]))

    def value(name: str) -> str:
        _, usual, pool = said[words[name]]
        odd_ones = st.one_of(pool, ODD, st.just("null"))
        found: str = draw(odd_ones if name == odd else st.sampled_from(usual))
        return found

    def row(columns: list[str]) -> str:
        parts = [f"{json.dumps(name, ensure_ascii=False)}:{value(name)}" for name in columns]
        gap: str = draw(st.sampled_from([",", ",", ",", " , "]))
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


ORDERS = schema({"id": "BIGINT", "name": "STRING", "n": "DOUBLE"}, ("id",))
WHOLE = (
    b'{"before":{"id":1,"name":"a","n":null},"after":{"id":1,"name":"\xc3\xa9\\n","n":1.50},'
    b'"source":{"version":"2","ts_ms":5,"db":"shop","table":"t","x":{"y":[1,"z",{}]}},"op":"u","ts_ms":1}'
)


@settings(max_examples=examples(1500))
@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.binary(max_size=2), st.integers(0, 2)), max_size=3))
def test_damaged_messages_as_the_book_has_them(cuts: list[tuple[int, bytes, int]]) -> None:
    text = bytearray(WHOLE)
    for place, new, length in cuts:
        text[place : place + length] = new
    compare(DebeziumJson(), ("shop", "t"), ORDERS, ORDERS, Message(b'{"id":1}', bytes(text)), keyed=True)


WHOLE_OF_OTHERS: dict[Any, tuple[bytes, bytes]] = {
    MaxwellJson: (
        b'{"database":"shop","table":"t","pk.id":1}',
        (
            b'{"database":"shop","table":"t","type":"update","ts":5,"xid":1,"commit":true,"data":{"id":1,"name":'
            b'"\xc3\xa9\\n","n":1.50},"old":{"name":"a","n":null},"x":{"y":[1,"z",{}]}}'
        ),
    ),
    OggJson: (
        b"",
        (
            b'{"table":"shop.t","op_type":"U","op_ts":"2020","primary_keys":["id"],"tokens":{"R":[1,{}]},"before":{"id":1,'
            b'"name":"a","n":null},"after":{"id":1,"name":"\xc3\xa9\\n","n":1.50}}'
        ),
    ),
}


@pytest.mark.parametrize("form", WHOLE_OF_OTHERS)
def test_damaged_messages_of_others_as_the_book_has_them(form: Any) -> None:
    key, value = WHOLE_OF_OTHERS[form]

    @settings(max_examples=examples(1000))
    @example([])
    @given(
        st.lists(st.tuples(st.integers(0, len(key + value) - 1), st.binary(max_size=2), st.integers(0, 2)), max_size=3)
    )
    def same(cuts: list[tuple[int, bytes, int]]) -> None:
        parts = [bytearray(key), bytearray(value)]
        for place, new, length in cuts:
            part, at = (parts[0], place) if place < len(key) else (parts[1], place - len(key))
            part[at : at + length] = new
        message = Message(*(bytes(part) or None for part in parts))
        assert compare(form(), ("shop", "t"), ORDERS, ORDERS, message, keyed=True) or cuts

    same()


def wrap(after: str, *, before: str = "null", op: str = "c") -> bytes:
    return f'{{"before":{before},"after":{after},"source":{{"db":"shop","table":"t"}},"op":"{op}"}}'.encode()


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


def canal(kind: str, row: str, old: str = "null", more: str = '"pkNames":["id"]') -> bytes:
    text = f'{{"data":[{row}],"database":"shop","isDdl":false,"mysqlType":{{"id":"bigint"}},"old":{old},{more},'
    return (text + f'"table":"t","ts":1,"type":"{kind}"}}').encode()


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
    def same(messages: list[tuple[bytes | None, bytes | None]], look_ahead: int, most: int, given: bool) -> None:  # noqa: FBT001
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


def test_tables_that_share_a_topic_are_read_by_their_own_schemas() -> None:
    """More of them than schemas are kept at hand; and one schema may begin as another one does."""
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


# -- Rows that are flattened, and whose fields say which table they are of ---------------------------------------------


FLATTEN = {"json.infer-schema.flatten-nested-columns.enable": True}
NESTED_NAMES = ["id", "a", "a.b", "a.b.c", "a.d", "x.y.z", "x.y", "x", "ключ.é", ".", "a.", "..", "e"]
NESTED_KINDS = ["BIGINT", "STRING", "STRING", "DOUBLE", "BOOLEAN", "TIMESTAMP", "DECIMAL(5,2)", "VARCHAR(3)"]
Members = list[tuple[str, Any]]
"""The members of an object: names, and texts of values or the members of an object."""


def insert(data: Any, into: Members, name: str, value: str) -> None:
    """Put a column in an object, or in an object within it if its name has a point."""
    dots = [i for i, c in enumerate(name) if c == "."]
    split = data.draw(st.sampled_from([None, *dots, *dots]))
    if split is None:
        into.append((name, value))
        return
    first, rest = name[:split], name[split + 1 :]
    inner = [members for other, members in into if other == first and isinstance(members, list)]
    if inner and data.draw(st.integers(0, 9)):
        insert(data, inner[0], rest, value)
        return
    made: Members = []
    into.append((first, made))
    insert(data, made, rest, value)


def text_of(data: Any, members: Members, odd: str | None) -> str:
    """Write an object, sometimes with something odd in it."""
    parts = []
    for name, value in members:
        quoted = json.dumps(name, ensure_ascii=odd == "name")
        gap = data.draw(space) if odd == "space" else ""
        text = value if isinstance(value, str) else text_of(data, value, odd)
        parts.append(f"{gap}{quoted}{gap}:{gap}{text}{gap}")
    if odd == "twice":
        parts.append(data.draw(st.sampled_from(parts)))
    if odd == "order":
        parts = data.draw(st.permutations(parts))
    if odd == "empty":
        parts.append(data.draw(st.sampled_from(['"e":{}', '"e":{ }', '"a":{}', '"x":{"y":{}}', '"e":{"":{}}'])))
    return "{" + ",".join(parts) + "}"


@settings(max_examples=examples(1500))
@given(st.data())
def test_flattened_rows_as_the_book_has_them(data: Any) -> None:
    names = data.draw(st.lists(st.sampled_from(NESTED_NAMES[1:]), min_size=1, max_size=6, unique=True))
    kinds = {"id": "BIGINT", **{name: data.draw(st.sampled_from(NESTED_KINDS)) for name in names}}
    source = schema(kinds, ("id",))
    members: Members = []
    odd_one = data.draw(st.sampled_from([None, None, *kinds]))
    for name, kind in kinds.items():
        insert(data, members, name, data.draw(a_nested) if name == odd_one else USUAL[kind])
    odd = data.draw(st.sampled_from([None, None, None, "space", "twice", "order", "empty", "name"]))
    text = data.draw(space) + text_of(data, members, odd) + data.draw(space)
    fields = data.draw(st.sampled_from([[], [], ["id"], names[:1], [names[-1], "id"], ["id", *names[:2]]]))
    table = tuple(USUAL[kinds[name]].strip('"') for name in fields) or ("t",)
    form = Json.model_validate(
        {**FLATTEN, **({"json.decode.parser-table-id.fields": ",".join(fields)} if fields else {})}
    )
    message = Message(b"k", text.encode("utf-8", "surrogatepass"))
    declared, to = some_declared(data, source), data.draw(A_SINK)
    compare(form, table, source, source, message, keyed=False, to=to, declared=declared)


@settings(max_examples=examples(500))
@given(st.data())
def test_tables_of_rows_as_the_book_has_them(data: Any) -> None:
    kinds = {"id": "BIGINT", "a": data.draw(st.sampled_from(NESTED_KINDS)), "b": "STRING"}
    usual = {name: USUAL[kind] for name, kind in kinds.items()}
    fields = data.draw(st.lists(st.sampled_from(["id", "a", "b", "no"]), min_size=1, max_size=3, unique=True))
    odd = data.draw(st.sampled_from([None, None, *usual]))
    parts = [f'"{name}":{data.draw(a_nested) if name == odd else value}' for name, value in usual.items()]
    if data.draw(st.integers(0, 5)) == 0:
        parts.append(data.draw(st.sampled_from(parts)))
    text = "{" + ",".join(data.draw(st.permutations(parts))) + "}"
    table = tuple(usual.get(name, "no").strip('"') for name in fields)
    form = Json.model_validate({"json.decode.parser-table-id.fields": " , ".join(fields)})
    source = schema(kinds, ("id",))
    message = Message(None, text.encode("utf-8", "surrogatepass"))
    compare(form, table, source, source, message, keyed=False, to=data.draw(A_SINK))


NESTED = schema({"id": "BIGINT", "a.b.c": "DOUBLE", "a.d": "STRING", "l": "STRING", "e": "STRING"}, ("id",))


@pytest.mark.parametrize(
    "text",
    [
        '{"id":1,"a":{"b":{"c":1.10},"d":"x"},"l":[{"z":1}],"e":{}}',
        ' { "id" : 1 , "a" : { "b" : { "c" : 1.10 } , "d" : "x" } , "l" : [ { "z" : 1 } ] , "e" : { } } ',
        '{"id":1,"a":{"b":{"c":2}},"a.d":"y"}',
        '{"id":1,"a.b":{"c":null}}',
        '{"a":{"d":"x"},"id":1}',
        '{"id":1,"e":{},"l":{}}',
    ],
)
def test_rows_are_flattened(text: str) -> None:
    assert compare(Json.model_validate(FLATTEN), ("t",), NESTED, NESTED, Message(None, text.encode()), keyed=False)


@pytest.mark.parametrize(
    "text",
    [
        '{"id":1,"a":{"d":1},"a.d":2}',
        '{"id":1,"a":{"d":"x"},"a":{"b":{"c":2}}}',
        '{"id":1,"a":null,"a":{"d":"x"}}',
        '{"id":1,"a":{"d":"x"},"a":{}}',
        '{"id":1,"\\u0061":{"d":"x"}}',
        '{"id":1,"new":{"x":1}}',
        '{"id":1,"a":{"d":"x"}',
        '{"id":1,"a":{"d":"x"}}}',
        '{"id":1,"a":{"d":"x",}}',
        '{"id":1,"a":{"d" "x"}}',
        '{"id":1,' + '"a":{' * 40 + '"d":1' + "}" * 41,
        '{"id":1,"' + "x" * 3000 + '":{"d":1}}',
        "[1]",
        "",
    ],
)
def test_other_rows_are_not_flattened(text: str) -> None:
    assert not compare(Json.model_validate(FLATTEN), ("t",), NESTED, NESTED, Message(None, text.encode()), keyed=False)


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ('{"id":1,"a":"x","b":"y"}', True),
        ('{"b":"y","id":1,"a":"x"}', True),
        ('{"id":1,"a":"x","b":"z"}', False),
        ('{"id":1,"a":"x"}', False),
        ('{"id":1,"a":"x","b":null}', False),
        ('{"id":1,"a":"x","b":""}', False),
        ('{"id":1,"a":"x","b":{}}', False),
        ('{"id":1,"a":"x","b":"\\u0079"}', False),
    ],
)
def test_fields_say_which_table_a_row_is_of(text: str, taken: bool) -> None:  # noqa: FBT001
    form = Json.model_validate({"json.decode.parser-table-id.fields": "a,b"})
    source = schema({"id": "BIGINT", "a": "STRING", "b": "STRING"}, ("id",))
    assert compare(form, ("x", "y"), source, source, Message(None, text.encode()), keyed=False) is taken
