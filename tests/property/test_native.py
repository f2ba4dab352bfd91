"""Native code says of the common case what the reference says, or nothing: it is never more lenient."""

from __future__ import annotations

import json
from typing import Any

import pytest
from any_table import A_SINK, Message, a_case, a_number, a_row, schema, some_declared, space
from examples import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from native_encoding import ORDERS, WHOLE, compare
from picking import pick, shuffle

from ingest.formats.canal.options import CanalJson
from ingest.formats.debezium.options import DebeziumJson
from ingest.formats.json.options import Json
from ingest.formats.maxwell import MaxwellJson
from ingest.formats.ogg import OggJson

pytestmark = pytest.mark.compiled


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
        else pick(draw, [names, names, names, names[:1], [*names, "b"], [name.upper() for name in names]])
    )
    columns = [(json.dumps(name.lower(), ensure_ascii=draw(st.booleans())), draw(a_number)) for name in names]
    pairs = [f'"pk.{name[1:]}{draw(space)}:{value}' for name, value in columns]
    ones = ",".join(f"{{{draw(space)}{name}:{value}}}" for name, value in columns)
    own = ['"database":"shop"', '"table":"t"']
    shuffled = shuffle(draw, [*own, *pairs, '"_uuid":"x"'])
    texts = [
        "{" + ", ".join([*own, *pairs]) + "}", "{" + ",".join(shuffled) + "}", "{" + ",".join(own) + "}",
        "{" + ",".join(pairs) + "}", f'["shop","t",[{ones}]]', f'[ "shop" , "\\u0074" ,[{draw(space)}{ones} ] ]',
        f'["shop",null,[{ones}]]', f'["shop","t",[{ones}],1]', '["shop","t",[]]', f'["shop","t",[{ones},]]',
        f'["shop","t",[{{{",".join(f"{name}:{value}" for name, value in columns)}}}]]', '{"id":1}', "5", "", "x",
        '["shop","\\ud800",[{"id":1}]]', '{"database":"\\ud800","table":"t","pk.id":1}',
    ]  # fmt: skip
    text: str | None = pick(draw, [*texts[:2], texts[4]] if plain else [*texts, None])
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
