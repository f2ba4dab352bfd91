"""Options whose text has a grammar: header filters, named offsets, times, DDL. And the rate limit."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from driverparts import Hands
from scale import growth
from sqlglot import exp

from ingest.driver import pacing
from ingest.driver.pacing import limited_ranges
from ingest.formats.canal.options import CanalJson
from ingest.model import types
from ingest.model.text import TextError
from ingest.schema.ddl import parse_columns, parse_tables
from ingest.sources.kafka.option_texts import Headers, compile_filter, parse_offsets, parse_time

TOY, BOOK, TEST = ("depart", b"toy"), ("depart", b"book"), ("env", b"test")


@pytest.mark.parametrize(
    ("text", "headers", "wanted"),
    [
        ("depart:toy|depart:book&!env:test", [TOY], True),
        ("depart:toy|depart:book&!env:test", [BOOK], True),
        ("depart:toy|depart:book&!env:test", [TOY, TEST], False),  # from left to right: (toy | book) & !test
        ("depart:toy|depart:book&!env:test", [], False),
        ("!env:test&depart:toy|depart:book", [TEST, BOOK], True),  # (!test & toy) | book
        (" depart:toy & ! env:test ", [TOY], True),
        ("a:b:c", [("a", b"b:c")], True),
        ("a:", [("a", b"")], True),
        ("a:", [("a", None)], True),
        ("a:", [("b", b"")], False),
        ("a:", None, False),
        ("!a:x", None, True),
        ("a:x", [("a", b"y"), ("a", b"x")], True),  # a name may come more than once
        ("a:x", [("A", b"x")], False),
        ("a:é", [("a", "é".encode())], True),
        ("a:x", [("a", b"\xff")], False),
    ],
)
def test_header_filter(text: str, headers: Headers, wanted: object) -> None:
    assert compile_filter(text)(headers) is wanted


@pytest.mark.parametrize(
    ("text", "at", "why"),
    [
        ("", 0, "missing"),
        ("a:b&", 3, "missing"),
        ("a:b||c:d", 4, "missing"),
        ("(a:b)|c:d", 0, "brackets"),
        ("a:b|!!c:d", 5, "only once"),
        ("a:b|! !c:d", 6, "only once"),
        ("a:b| nocolon", 5, "no ':'"),
        ("a:b|:d", 4, "no name"),
        ("!", 0, "missing"),
        ("|".join(["a:b"] * 1001), 4000, "more than 1,000"),
        ("|".join(["a:b"] * 50_000), 4000, "more than 1,000"),
        ("!" * 200_000, 1, "only once"),
        ("(" * 200_000, 0, "brackets"),
    ],
)
def test_header_filter_errors_say_where(text: str, at: int, why: str) -> None:
    with pytest.raises(TextError, match=why) as caught:
        compile_filter(text)
    assert caught.value.at == at


def test_a_header_filter_may_have_a_thousand_terms() -> None:
    wanted = compile_filter("|".join(f"tenant:{i:03}" for i in range(999)) + "&!env:test")
    assert wanted([("tenant", b"998")])
    assert not wanted([("tenant", b"998"), ("env", b"test")])
    assert not wanted([("tenant", b"999")])


def test_a_header_filter_takes_time_by_headers_plus_terms() -> None:
    filters = {n: compile_filter("|".join(f"k{i}:v" for i in range(n))) for n in (125, 1000)}
    headers = {n: [(f"h{i}", b"v") for i in range(n)] for n in (125, 1000)}

    def look(size: int) -> None:
        for _ in range(20):
            assert not filters[size](headers[size])

    assert growth(look, 125, 3) < 3  # every header with every term is 8


def test_named_offsets() -> None:
    assert parse_offsets("partition:0,offset:42;partition:1,offset:300", ("t",)) == {("t", 0): 42, ("t", 1): 300}
    assert parse_offsets(" topic:a.b , partition:0 , offset:1 ; offset:2,partition:0,topic:c;", ("a.b", "c")) == {
        ("a.b", 0): 1, ("c", 0): 2,
    }  # fmt: skip
    assert parse_offsets("topic:any,partition:0,offset:1", None) == {("any", 0): 1}


@pytest.mark.parametrize(
    ("text", "topics", "at"),
    [
        ("", ("t",), 0),
        ("partition:0", ("t",), 0),
        ("partition:0,offset:1", ("t", "u"), 0),
        ("partition:0,offset:1", None, 0),
        ("partition:0,offset:1;partition:0,offset:2", ("t",), 21),
        ("partition:0,offset:-1", ("t",), 19),
        ("partition:0,offset:9223372036854775808", ("t",), 19),
        ("partition:x,offset:1", ("t",), 10),
        ("partition:0,offset:1,offset:2", ("t",), 21),
        ("partition:0;offset:1", ("t",), 0),
        ("topic:other,partition:0,offset:1", ("t",), 0),
        ("what:0", ("t",), 0),
    ],
)
def test_named_offsets_errors_say_where(text: str, topics: tuple[str, ...] | None, at: int) -> None:
    with pytest.raises(TextError) as caught:
        parse_offsets(text, topics)
    assert caught.value.at == at


def test_times() -> None:
    assert parse_time("1655395200000") == 1_655_395_200_000
    assert parse_time("2022-06-16T16:00:00Z") == 1_655_395_200_000
    assert parse_time("2022-06-16T16:00:00") == 1_655_395_200_000  # no zone is UTC, wherever this runs
    assert parse_time("2022-06-16T18:00:00.001+02:00") == 1_655_395_200_001
    with pytest.raises(ValueError, match="neither"):
        parse_time("yesterday")


def test_a_rate_limit_narrows_ranges_and_saves_up_a_second() -> None:
    ranges = {("t", 0): (0, 100), ("t", 1): (10, 12), ("t", 2): (0, 50)}
    assert limited_ranges(ranges, None) == ranges
    assert limited_ranges(ranges, 42) == {("t", 1): (10, 12), ("t", 2): (0, 20), ("t", 0): (0, 20)}
    assert limited_ranges(ranges, 1) == {("t", 1): (10, 11)}
    hands = Hands()
    rate = pacing.Rate(100.0, hands.clock)
    hands.move(3600.0)
    assert rate.available() == 100
    assert rate.ready()
    rate.take(100)
    assert not rate.ready()
    assert pacing.Rate(None).available() is None


@pytest.mark.parametrize(
    ("text", "why", "place"),
    [
        ("CREATE TABLE x (a INT) LIKE y", "only columns and a primary key", "x"),
        ("CREATE TABLE x (a BIGNT)", "BIGNT is no type of Flink SQL", "a"),
        ("CREATE TABLE x (a INT, a INT)", "column 'a' is there twice", "a"),
        ("CREATE TABLE x (a INT, PRIMARY KEY (b) NOT ENFORCED)", "which is no column", "x"),
        ("CREATE TABLE x (a INT); CREATE TABLE x (b INT)", "table x is there twice", "x"),
        ("CREATE TABLE x (a INT, t AS NOW())", "has no type", "t"),
        ("CREATE TABLE x (a ROW<b DECIMAL(50,1)>)", "has wrong numbers", "a"),
        (f"CREATE TABLE x (a DECIMAL({'9' * 5000}))", "has wrong numbers", "a"),
        ("CREATE TABLE x (a INT, b CHAR(²))", "has wrong numbers", "b"),
        ("CREATE TABLE x (a INT, b INTERVAL YEAR TO MONTH)", "INTERVAL cannot be read here; declare it STRING", "b"),
        ("CREATE TABLE x (a ARRAY<INTERVAL DAY>)", "INTERVAL cannot be read here; declare it STRING", "a"),
        (
            "CREATE TABLE x (a INTERVAL DAY(3) TO SECOND(6))",
            "INTERVAL cannot be read here; declare it STRING",
            "INTERVAL",
        ),
        ("CREATE TABLE x (a MULTISET<INT>)", "MULTISET cannot be read here; declare it MAP<t, INT>", "MULTISET"),
        ("CREATE TABLE x (a ARRAY<INT MULTISET>)", "MULTISET cannot be read here; declare it MAP", "MULTISET"),
        ("CREATE TABLE x (a RAW('java.lang.Long', 'AA'))", "RAW cannot be read here: its values are objects", "a"),
        ("CREATE TABLE x (a MAP<INT, RAW(ANY)>)", "RAW cannot be read here: its values are objects", "RAW"),
        ("CREATE TABLE raw (raw INT, multiset INT, interval BIGNT)", "BIGNT is no type of Flink SQL", "interval"),
        ("CREATE TABLE x (a INT, PRIMARY KEY ())", "something is missing here", ")"),
        ("DROP TABLE x", "only CREATE TABLE", "x"),
        ("CREATE TABLE x (a 'INT)", "is not closed", "CREATE TABLE x (a 'INT)"),
        ("", "no table is named", ""),
        (
            "CREATE TABLE t (i INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)",
            "a watermark has no meaning here",
            "WATERMARK",
        ),
        ("CREATE TABLE t (i INT, o BIGINT METADATA FROM 'offset' VIRTUAL)", "see metadata.list", "METADATA"),
    ],
)
def test_ddl_that_is_not_understood_says_what_and_where(text: str, why: str, place: str) -> None:
    with pytest.raises(TextError, match=why) as caught:
        parse_tables(text)
    assert text[caught.value.at : caught.value.at + caught.value.length] == place


@pytest.mark.parametrize(
    "text", ['CREATE TABLE "hunter2" (i INT)', "CREATE TABLE a.b (i INT) hunter2 c", "ALTER TABLE a hunter2", "GRANT x"]
)
def test_the_parser_of_ddl_prints_nothing_of_it(text: str, caplog: pytest.LogCaptureFixture) -> None:
    parse_tables.cache_clear()
    with pytest.raises(TextError, match="only CREATE TABLE"):
        parse_tables(text)
    assert caplog.records == []


def test_types_of_other_databases_are_refused_with_their_place() -> None:
    """Every type that the parser knows, and what can stand where a type stands: columns or a TextError, no crash."""
    understood = set()
    others = ("RAW('a','b')", "ENUM('a')", "INT[]", "MAP<INT>", "ROW<>", "ROW(a INT)", "(SELECT 1)", "INT DEFAULT 1")
    for word in [*(kind.value for kind in exp.DataType.Type), "INTERVAL DAY TO SECOND(3)", *others]:
        for text in ("a {}", "a {}(3)", "a ARRAY<{}>", "a ROW<b {}, c INT>", "a MAP<{}, STRING>"):
            with suppress(TextError):
                understood.add(f"{word}: {types.name(parse_columns(text.format(word))['a'])}")
    assert {"BIGINT: BIGINT", "BIGINT: ARRAY<BIGINT>", "VARCHAR: VARCHAR(3)", "DECIMAL: DECIMAL(3,0)"} <= understood


def test_ddl_of_flink_with_everything_that_is_understood() -> None:
    schema = parse_tables(
        "CREATE TABLE IF NOT EXISTS a.b.`x y` (id INT, n ROW<x INT, y ARRAY<STRING>> COMMENT 'c',"
        " t TIMESTAMP(3) NOT NULL, l TIMESTAMP(3) WITH LOCAL TIME ZONE, m MAP<STRING, BYTES>,"
        " CONSTRAINT k PRIMARY KEY (id) NOT ENFORCED)"
        " WITH ('connector' = 'kafka'); -- a comment"
    )[("a", "b", "x y")]
    assert [str(column) for column in schema.columns] == [
        "id INT NOT NULL", "n ROW<x INT, y ARRAY<STRING>>", "t TIMESTAMP", "l TIMESTAMP_LTZ", "m MAP<STRING, BYTES>",
    ]  # fmt: skip
    assert schema.primary_key == ("id",)
    assert {n: types.name(t) for n, t in parse_columns("`a.b` STRING, date DATE").items()} == {
        "a.b": "STRING", "date": "DATE",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("varchar(99999999999999999999)", "STRING"),
        ("varchar(\u00b2)", "STRING"),
        ("char(" + "9" * 5000 + ")", "STRING"),
        ("decimal(" + "9" * 5000 + ",2)", "STRING"),
        ("enum('1','2')", "STRING"),
        ("decimal(99,2)", "STRING"),
        ("bit(64)", "BYTES"),
        ("bit(999999999)", "STRING"),
        ("time(999999999)", "TIME(6)"),
        ("varchar(999999999)", "VARCHAR(999999999)"),
    ],
)
def test_types_that_no_database_has_harm_nothing(said: str, expected: str) -> None:
    """They come from messages."""
    decoder = CanalJson.model_validate({"canal-json.infer-schema.strategy": "MYSQL_TYPE"}).decoder("t")
    row = '{"a":null}'
    message = f'{{"data":[{row}],"table":"t","type":"INSERT","mysqlType":{{"a":{json.dumps(said)}}}}}'.encode()
    for _ in range(2):  # the second time by a pattern
        change: Any = decoder.decode([None], [message])[0]
        assert bytes(change[3]) == row.encode()
        assert change[5].types == {"a": types.parse(expected)}
