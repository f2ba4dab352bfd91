"""Records with keys, headers and times, in every format that has them, for columns that come from there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from picking import pick, pick_some, shuffle

from ingest.formats.canal.options import CanalJson
from ingest.formats.debezium.options import DebeziumJson
from ingest.formats.json.options import Json
from ingest.formats.maxwell import MaxwellJson
from ingest.formats.metadata_columns import ExtraColumns
from ingest.formats.ogg import OggJson
from ingest.model.record import METADATA
from ingest.testing.in_memory import MemoryRecord

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(slots=True)
class Sent(MemoryRecord):
    """A record of which everything is given."""

    kind: int = 1
    epoch: int | None = 0

    def timestamp(self) -> tuple[int, int]:
        """Return which time it is, and milliseconds."""
        return (self.kind, -1 if self.millis is None else self.millis)

    def leader_epoch(self) -> int:
        """Return the epoch, which is an integer or None."""
        return self.epoch  # type: ignore[return-value]


A_HEADER = st.tuples(
    st.sampled_from(["a", "b", "trace-id", "ключ", 'q"', "\\", "\n", "", "topic"]),
    st.one_of(st.none(), st.binary(max_size=7), st.just(b"__debezium_unavailable_value")),
)

MILLIS = st.sampled_from([
    None, 0, 1, -1, 1_700_000_000_123, 1_700_000_000_120, 951_782_400_000, 253_402_300_799_999, 253_402_300_800_000,
    2**63 - 1, 2**63, 9_223_372_036_854_775,
])  # fmt: skip


USUAL_HEADERS = st.sampled_from([[], [("a", b"1"), ("b", None)], [("ключ", b"\0\xff")]])
ODD_HEADERS = st.one_of(st.lists(A_HEADER, max_size=4), st.just([(str(i), b"x") for i in range(40)]))
HEADERS = st.one_of(USUAL_HEADERS, USUAL_HEADERS, USUAL_HEADERS, ODD_HEADERS)
MOSTLY_NOW = st.one_of(st.just(1_700_000_000_123), MILLIS)


@st.composite
def a_record(draw: Any, key: bytes | None, value: bytes | None, index: int = 0) -> Sent:
    """A record with this key and value."""
    headers, millis = draw(HEADERS), draw(MOSTLY_NOW)
    return Sent(
        index, "topic", key, value, pick(draw, [0, 3]), index, millis, headers,
        pick(draw, [0, 1, 1, 1, 2]), pick(draw, [0, 7, None]),
    )  # fmt: skip


SOME_METADATA = st.one_of(
    st.just(()), st.lists(st.sampled_from(METADATA), unique=True).map(tuple), st.permutations(METADATA).map(tuple)
)

KEY_FIELDS = st.sampled_from([(), (), (), ("id",), ("k", "id"), ("id", "d")])


@st.composite
def some_extra(draw: Any, form: Any) -> ExtraColumns:
    """Options that ask for columns."""
    key = draw(st.booleans())
    of_key, of_value = pick(draw, [("", ""), ("", ""), ("k_", ""), ("", "v_"), ("k_", "v_"), ("é.", "i")])
    metadata = draw(SOME_METADATA)
    made = ExtraColumns(
        key, form.name == "json", None, of_key if key else "", of_value, metadata, form.reading.standard,
        form.reading.as_string, draw(KEY_FIELDS) if key else (), key and draw(st.booleans()),
        frozenset(pick_some(draw, ["__raw_key__", "__raw_value__"])),
    )  # fmt: skip
    return made or ExtraColumns(metadata=("offset",))


KINDS = {"id": "BIGINT", "a": "STRING", "n": "DOUBLE", "d": "DATE"}

USUAL = {"id": ["1"] * 7 + ["2"], "a": ['"x"', '"é"', '""'], "n": ["1.50", "2"], "d": ['"2020-01-31"']}

ODD = st.sampled_from([
    "null", '"1"', "1.0", "01", '"\\u0031"', '"topic"', '{"topic": 1}', "[ 1 ]", "1e0", "true", "18262", '"partition"',
    '"__debezium_unavailable_value"', "x", '"\\\\"', "12345678901234567890",
    '"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="',
])  # fmt: skip

SPACE = st.sampled_from(["", "", "", " ", "\n"])


@st.composite
def an_object(draw: Any, names: Sequence[str], odd: str | None = None) -> str:
    """The text of an object with these fields, and now and then something odd: in `odd`, if that is one of them."""
    what = pick(draw, [None] * 14 + ["value", "more", "missing", "order", "twice", "escape", "metadata"])
    gap = draw(SPACE)
    fields = []
    for name in names:
        is_odd = name == odd or (what == "value" and name == names[-1])
        value = draw(ODD) if is_odd else pick(draw, USUAL.get(name, ["1"]))
        quoted = json.dumps(name, ensure_ascii=False)
        fields.append(f"{quoted}{gap}:{gap}{value}")
    if what == "more":
        fields.append('"new":1')
    if what == "metadata":
        fields.append(f'"{pick(draw, METADATA)}":1')
    if what == "missing":
        fields = fields[1:]
    if what == "order":
        fields = shuffle(draw, fields)
    if what == "twice" and fields:
        fields.append(fields[0])
    if what == "escape":
        fields = [field.replace('"id"', '"\\u0069d"') for field in fields]
    return f"{{{gap}{f',{gap}'.join(fields)}{gap}}}"


@st.composite
def a_key(draw: Any) -> bytes | None:
    """A record's key, mostly an object."""
    names = pick(draw, [["id"], ["id"], ["id"], ["id", "k"], ["k"], [], ["v_id"], ["d", "id"]])
    image = draw(an_object(names))
    text = pick(draw, [
            None, *[image] * 20, f" {image} ", f'{{"schema":{{}},"payload":{image}}}',
            f'{{"schema":{SAID_OF_KEY},"payload":{image}}}', f'{{"schema":{SAID_OF_KEY},"payload":{image}}}',
            f'{{"payload":{image},"schema":null}}', f'{{"schema":1,"payload":{image},"x":1}}', f'{{"payload":{image}}}',
            '{"schema":1,"payload":2}', "5", "null", "", "[]", '{"id":', '{"id":"\\ud800"}', '{"\\u0069d":1}',
        ])  # fmt: skip
    return None if text is None else text.encode("utf-8", "surrogatepass")


SAID_OF_KEY = json.dumps({"type": "struct", "fields": [
    {"field": "id", "type": "int64"}, {"field": "k", "type": "double"}, {"field": "v_id", "type": "int8"},
    {"field": "d", "type": "int32", "name": "io.debezium.time.Date"},
]})  # fmt: skip
SAID = json.dumps({"type": "struct", "fields": [{"type": "struct", "field": "after", "fields": [
    {"field": "id", "type": "int64"}, {"field": "a", "type": "string"}, {"field": "n", "type": "double"},
    {"field": "d", "type": "int32", "name": "io.debezium.time.Date"},
]}]})  # fmt: skip

CODES = {"id": -5, "a": 12, "n": 8, "d": 91}


@st.composite
def a_value(draw: Any, form: Any, *, typed: bool) -> bytes | None:
    """A message of a form; `typed`: one that declares its columns' types."""
    names = pick(draw, [["id", "a", "n", "d"], ["id", "a", "n", "d"], ["id", "n"], ["a", "d"]])
    row, old = draw(an_object(names)), draw(an_object(names))
    if typed:
        row, old = (text.replace('"2020-01-31"', "18262") for text in (row, old)) if form.name != "canal-json" else (
            text.replace(":1", ':"1"') for text in (row, old)
        )  # fmt: skip
    if pick(draw, [False] * 12 + [True]):
        return None
    if form.name == "json":
        return str(row).encode()
    kind = pick(draw, ["c", "u", "u", "d", "r", "t"])
    if form.name == "canal-json":
        part = draw(an_object(pick(draw, [["id"], ["a"], ["a", "n"], []])))
        olds = pick(draw, ["null", f"[{part}]", f"[{part}]", "[null]"])
        primary = pick(draw, ['["id"]', '["id"]', "null", '["a"]', "[]"])
        what = {"c": "INSERT", "u": "UPDATE", "d": "DELETE"}.get(kind, "INSERT")
        said = f'"sqlType":{json.dumps(CODES)},' if typed else ""
        rows = pick(draw, [row] * 4 + [f"{row},{draw(an_object(names))}"])
        olds = olds if rows == row else pick(draw, ["null", f"[{part}, {part}]", f"[{part},null]"])
        text = f'{{"data":[{rows}],"database":"shop","isDdl":false,"old":{olds},"pkNames":{primary},{said}'
        return (text + f'"table":"t","type":"{what}"}}').encode()
    if form.name == "maxwell-json":
        part = draw(an_object(pick(draw, [["id"], ["a"], ["a", "n"], []])))
        olds = pick(draw, ["", f',"old":{part}', f',"old":{part}', ',"old":null'])
        primary = pick(draw, ['"primary_key_columns":["id"],', '"primary_key_columns":["a"],', "", ""])
        what = {"c": "insert", "u": "update", "d": "delete"}.get(kind, "bootstrap-insert")
        return f'{{"database":"shop","table":"t","type":"{what}",{primary}"data":{row}{olds}}}'.encode()
    if form.name == "ogg-json":
        primary = pick(draw, ['"primary_keys":["id"],', '"primary_keys":["a"],', "", ""])
        images = pick(draw, [f'"before":{old},"after":{row}', f'"after":{row}', f'"before":{old}'])
        what = {"c": "I", "u": "U", "d": "D", "t": "T"}.get(kind, "I")
        return f'{{"table":"shop.t","op_type":"{what}",{primary}{images}}}'.encode()
    before = pick(draw, [old, "null"]) if kind in "ud" else pick(draw, ["null"] * 5 + [old])
    after = "null" if kind == "d" else row
    text = f'{{"before":{before},"after":{after},"source":{{"db":"shop","table":"t"}},"op":"{kind}"}}'
    said = pick(draw, [SAID, SAID, "null"])
    return (f'{{"schema":{said},"payload":{text}}}' if typed else text).encode()


FORMS: dict[str, Any] = {
    "debezium": (DebeziumJson(), False),
    "debezium with types": (DebeziumJson(), True),
    "debezium of texts": (DebeziumJson.model_validate({"debezium-json.infer-schema.primitive-as-string": True}), False),
    "canal": (CanalJson(), False),
    "canal with types": (CanalJson.model_validate({"canal-json.infer-schema.strategy": "SQL_TYPE"}), True),
    "maxwell": (MaxwellJson(), False),
    "ogg": (OggJson(), False),
    "json": (Json(), False),
    "flattened json": (Json.model_validate({"json.infer-schema.flatten-nested-columns.enable": True}), False),
    "json in ISO 8601": (Json.model_validate({"json.timestamp-format.standard": "ISO-8601"}), False),
}
