"""Tables, rows and sinks of any kind, mostly ones that fit each other, for properties of encoding."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st
from picking import pick, pick_some, shuffle

from ingest.encode.encode import EncoderCache
from ingest.model import types
from ingest.model.numbers import Numbers, stored_as
from ingest.model.schema import Column, TableSchema, TextNumbers
from ingest.schema.evolve import Schemas, SourceTable
from ingest.schema.infer import Inference
from ingest.sinks.topics.kafka import KafkaSink
from ingest.sinks.topics.upsert_kafka import UpsertKafka

SINK: Any = UpsertKafka.model_validate({"type": "upsert-kafka", "properties.*": {"bootstrap.servers": "nowhere:1"}})
LAID_OUT: list[Any] = [
    UpsertKafka.model_validate({"type": "upsert-kafka", "properties.*": {"bootstrap.servers": "nowhere:1"}, **options})
    for options in (
        {"value.format": "csv"}, {"key.format": "csv"}, {"value.fields-include": "EXCEPT_KEY"},
        {"value.fields-include": "EXCEPT_KEY", "key.fields-prefix": "i"},
    )
] + [
    KafkaSink.model_validate({"type": "kafka", "properties.*": {"bootstrap.servers": "nowhere:1"}, **options})
    for options in (
        {}, {"key.format": "json"}, {"key.format": "csv", "partition.strategy": "hash-by-key"},
        {"value.format": "canal-json"}, {"value.format": "canal-json", "key.format": "json"}, {"value.format": "json"},
        {"value.format": "maxwell-json", "key.format": "json"}, {"value.format": "ogg-json"},
        {"value.format": "json", "key.format": "json"},
        {"value.format": "json", "key.format": "json", "sink.add-tableId-to-key-enabled": False},
        {"value.format": "json", "key.format": "csv", "value.fields-include": "EXCEPT_KEY"},
        {"value.format": "canal-json", "key.format": "json", "key.fields": "id"},
        {"value.format": "json", "key.format": "json", "key.fields": "id", "value.fields-include": "EXCEPT_KEY"},
    )
]  # fmt: skip
"""Sinks whose records are put together of pieces."""
A_SINK = st.sampled_from([SINK, SINK, *LAID_OUT])
PLACEHOLDER = "__debezium_unavailable_value"


class Message:
    """What of a record is needed here."""

    def __init__(self, key: bytes | None, value: bytes | None) -> None:
        self._key, self._value = key, value

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value


def schema(columns: dict[str, str], key: tuple[str, ...]) -> TableSchema:
    numbers = TextNumbers(len(columns) % len(TextNumbers))  # each of them, with any table
    made = tuple(
        Column(name, types.parse(kind), name not in key, text_numbers=numbers if kind == "STRING" else TextNumbers.NONE)
        for name, kind in columns.items()
    )
    return TableSchema(made, key)


def cache_of(
    form: Any,
    table: Any,
    source: TableSchema,
    sink: TableSchema,
    *,
    keyed: bool,
    to: Any = SINK,
    declared: tuple[str, ...] = (),
) -> EncoderCache:
    given = TableSchema(tuple(column for column in source.columns if column.name in declared), ())
    numbers = list(Numbers)[len(source.columns) % len(Numbers)]  # each of them, with any table
    made = EncoderCache(to.encoder, Inference(form.reading, False, {table: given}, 2000, numbers=numbers))
    kinds = dict(zip((c.name for c in sink.columns), [types.DOUBLE, types.FLOAT, types.STRING, None] * 9, strict=False))
    kept = {c.name: stored_as(c.type, kinds.get(c.name)) for c in sink.columns if len(source.columns) > len(Numbers)}
    sink = sink.with_stored({name: kind for name, kind in kept.items() if kind is not None})
    made.renew(Schemas(1, {table: SourceTable(source, (("out",),), keyed)}, {("out",): sink}), None)
    return made


KINDS = [
    "BIGINT", "INT", "TINYINT", "STRING", "VARCHAR(3)", "CHAR(3)", "BOOLEAN", "DOUBLE", "FLOAT", "DECIMAL(5,2)",
    "DECIMAL(38,0)", "TIMESTAMP", "TIMESTAMP_LTZ", "DATE", "BYTES", "NULL", "TIME(3)", "SMALLINT",
]  # fmt: skip
NAMES = ["id", "a", "b", "ключ", "note", "", "a b", "%d", "after"]
a_number = st.sampled_from([
    "0", "-0", "1", "-1", "127", "128", "-128", "2147483648", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "-9223372036854775809", "1.10", "0.5", "-0.0", "1e5", "1E400", "1e-3", "123.45", "1234.5",
    "123.456", "123.4500", "12345678901234567890123456789012345678", "00", "1.", ".5", "+1", "-", "1e", "0x1", "NaN",
    "Infinity", "1.0", "5e2", "4", "420", "42.0", "0.1", "9007199254740992", "9007199254740993", "0.30000000000000004",
    "3.3333333333333333", "16777217", "1152921504606846976", "9007199254740991.5", "0.10000000000000001",
])  # fmt: skip
a_text = st.one_of(
    st.text(max_size=6).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.text(max_size=6).map(json.dumps),
    st.sampled_from([
        '"2020-01-31 12:13:14"', '"2020-02-30 12:13:14"', '"2024-02-29 23:59:59.123456"', '"2023-02-29 00:00:00"',
        '"2020-01-31 12:13:14.1234567"', '"2020-01-31 12:13:14.123456000"', '"2020-01-31 24:13:14"', '"2020-01-31"',
        '"2020-01-31 12:13:14Z"', '"2020-01-31T12:13:14"', '"0000-01-01 00:00:00"', '"2020-01-31 12:13:14."', '"12:13"',
        r'"\ud83d\ude00"', r'"\ud83d"', r'"\ude00"', r'"\u0041"', r'"\x"', '"tab\t"', '"é"', '"\u65e5\u672c"',
        '"abcd"', '"\\/"',
        f'"{PLACEHOLDER}"', '"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="', f'"x{PLACEHOLDER}"', '"unclosed',
        '"\x7f"', '"5.00"', '"-0.0"', '"0001"', '"1e3"', '"5"', '"aGk="', '"tex"', '"texts"', '"text\\""',
    ]),
)  # fmt: skip
a_scalar = st.one_of(
    a_number,
    a_text,
    st.sampled_from([
        "null", "true", "false", "nul", "True", f"[{','.join(str(byte) for byte in PLACEHOLDER.encode())}]",
        f'["{PLACEHOLDER}"]', '["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]', f'{{"{PLACEHOLDER}":"{PLACEHOLDER}"}}',
    ]),
)  # fmt: skip
a_nested = st.recursive(
    a_scalar,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: f"[ {' , '.join(parts)}]"),
        st.lists(st.tuples(a_text, inner), max_size=3).map(
            lambda parts: "{" + ",".join(f"{name} : {value}" for name, value in parts) + "\n}"
        ),
    ),
    max_leaves=4,
)
space = st.sampled_from(["", " ", "\n\t", "\r\n  "])


def a_spelling(value: str) -> Any:
    """Other texts of a value, and some that lose something."""
    text = value.strip('"')
    others = [
        f'"{text}"', f'" {text}  "', f'"{text}.0"', f"{text}.0", f"{text}.50", f'"{text.upper()}"', f'"{text}e1"',
        f'"0{text}"', f'"+{text}"', f'"-{text}"', f'"{text.replace(" ", "T")}"', f'"{text.replace("Z", "")}"',
        f'"{text.replace(" ", "T").replace("Z", "")}.123456789"', f'"{text}.1234567"', f'"{text}.120"', f'"{text}Z"',
        f'"{text.replace("Z", ".1234567891Z")}"', f'"{text.replace("Z", "+02:00")}"', f'"{text.replace("Z", ".100Z")}"',
        f'"{text.replace("Z", ".123456789Z")}"', f'"{text[:10]}"', f'"{text}789"', f'"{text}0001"', f'"{text}\\t"',
    ]  # fmt: skip
    return st.sampled_from(others)


def some_declared(data: Any, source: TableSchema) -> tuple[str, ...]:
    """Names of columns that the pipeline declares; mostly all or none."""
    names = tuple(column.name for column in source.columns)
    return data.draw(st.sampled_from([(), names, names, names[:1], names[-1:]]))  # type: ignore[no-any-return]


@st.composite
def a_row(draw: Any, names: list[str], *, usual: dict[str, str]) -> str:
    """The text of a row, mostly one that fits."""
    odd = pick(draw, [None, *["value"] * 3, *["spelling"] * 3, "spellings", "missing", "order", "twice", "name"])
    at = pick(draw, names)
    parts = []
    for name in names:
        value = draw(a_nested) if odd == "value" and name == at else usual[name]
        if odd == "spellings" or (odd == "spelling" and name == at):
            value = draw(a_spelling(usual[name]))
        if odd != "missing" or name != at:
            quoted = json.dumps(name, ensure_ascii=odd == "name")
            parts.append(f"{quoted}{draw(space)}:{draw(space)}{value}")
    if odd == "order":
        parts = shuffle(draw, parts)
    if odd == "twice":
        parts.append(pick(draw, parts))
    text = f"{draw(space)},{draw(space)}".join(parts)
    return f"{{{draw(space)}{text}{draw(space)}}}"


USUAL = {
    "BIGINT": "42", "INT": "42", "TINYINT": "42", "SMALLINT": "7", "STRING": '"text"', "VARCHAR(3)": '"abc"',
    "CHAR(3)": '"abc"', "BOOLEAN": "true", "DOUBLE": "1.50", "FLOAT": "2", "DECIMAL(5,2)": "123.40",
    "DECIMAL(38,0)": "99999999999999999999", "TIMESTAMP": '"2020-01-31 12:13:14.5"',
    "TIMESTAMP_LTZ": '"2020-01-31 12:13:14Z"', "DATE": '"2020-01-31"', "BYTES": '"aGk="', "NULL": "null",
    "TIME(3)": '"12:13:14"',
}  # fmt: skip


@st.composite
def a_case(draw: Any) -> tuple[TableSchema, TableSchema, dict[str, str]]:
    """The schemas of both sides, and a usual value for each column."""
    names = pick_some(draw, NAMES, min_size=1, max_size=4)
    kinds = {name: pick(draw, KINDS) for name in names}
    keys = pick_some(draw, names, min_size=1, max_size=2)
    kinds |= {name: pick(draw, ["BIGINT", "STRING", "INT", "VARCHAR(3)"]) for name in keys}
    if pick(draw, [False, False, True]):
        kinds[keys[0]] = pick(draw, KINDS)
    widened = pick(draw, [None, *names])
    wide = kinds if widened is None else {**kinds, widened: "STRING"}
    wide |= dict.fromkeys(pick_some(draw, ["more", "new"], max_size=2), "BIGINT")
    order = shuffle(draw, list(wide))
    sink = schema({name: wide[name] for name in order}, tuple(keys))
    return schema(kinds, tuple(keys)), sink, {name: USUAL[kind] for name, kind in kinds.items()}
