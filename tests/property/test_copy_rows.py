"""Lines of COPY: native code makes those of the reference here, whatever the JSON, or leaves the records."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from any_table import a_nested, a_scalar, a_spelling, a_text
from examples import examples
from hypothesis import event, example, given, settings
from hypothesis import strategies as st
from picking import pick, shuffle
from typed_rows import TYPED, typed_rows

from ingest.model.jsontext import parse_row
from ingest.model.reject import RowError
from ingest.sinks.postgres.statements import lines_maker

pytestmark = pytest.mark.compiled
NAMES = ["id", "a", "b", "ключ", "", "a b", "%d", "{", 'q"', "\\"]
a_value = st.one_of(a_scalar.flatmap(a_spelling), a_text, a_nested, st.text(max_size=9).map(json.dumps))
an_end = st.sampled_from(
    [r'"\\."', r'"\\N"', r'"\n\r\t\b\f\\\/"', '"\x7f\u2028"', r'"\u0000"', r'"a\u0000"', '[ 1,\n2,\t"\\\\"]']
)


def line(names: list[str], key: list[str], number: int, key_text: bytes, row_text: bytes | None) -> bytes | None:
    """The line of a record; None where it has none. The slow way, by PostgreSQL's documents."""
    try:
        row = {} if row_text is None else parse_row(msgspec.Raw(row_text))
        row.update(
            dict.fromkeys(key, b"null") | {n: v for n, v in parse_row(msgspec.Raw(key_text)).items() if n in key}
        )
        texts = [said(row.get(name, b"null")) for name in names]
    except (RowError, ValueError, msgspec.DecodeError):
        return None
    if any(text is None for name, text in zip(names, texts, strict=True) if name in key):
        return None
    shown = ["\\N" if text is None else escaped(text) for text in texts]
    return "\t".join([str(number), "t" if row_text is None else "f", *shown]).encode() + b"\n"


def said(value: bytes) -> str | None:
    """The text of a value, as `json_to_record` gives it; None for null. Raise ValueError for a zero character."""
    if value == b"null":
        return None
    if value[:1] != b'"':
        return value.decode().translate({9: " ", 10: " ", 13: " "})
    text = str(msgspec.json.decode(value))
    if "\0" in text:
        msg = "no text has a zero character there"
        raise ValueError(msg)
    return text


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")


def an_object(draw: Any, fields: list[tuple[str, str]]) -> bytes:
    """The text of an object, with white space or without."""
    gap, escapes = pick(draw, ["", "", " ", "\n\t"]), pick(draw, [False, False, True])
    parts = [f"{json.dumps(name, ensure_ascii=escapes)}{gap}:{gap}{value}" for name, value in fields]
    return (f"{gap}{{" + f"{gap},{gap}".join(parts) + f"}}{gap}").encode("utf-8", "surrogatepass")


@st.composite
def records(draw: Any) -> tuple[list[str], list[str], list[tuple[bytes, bytes | None]]]:
    """Columns, those of the key first, and records."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True))
    key, made = names[: pick(draw, [1, 1, 2])], []
    for _ in range(draw(st.integers(0, 5))):
        fields = [(name, draw(st.one_of(a_value, an_end, st.just("null")))) for name in names]
        odd = pick(draw, [None, None, None, "missing", "twice", "order", "more", "delete", "cut"])
        if odd == "missing":
            fields.pop(draw(st.integers(0, len(fields) - 1)))
        elif odd == "twice":
            fields.insert(0, (pick(draw, names), draw(a_scalar)))
        elif odd == "order":
            fields = shuffle(draw, fields)
        elif odd == "more":
            fields.append(("other", draw(a_nested)))
        row = an_object(draw, fields)
        if odd == "cut":
            row = row[: draw(st.integers(0, len(row)))]
        of_key = an_object(draw, [(name, draw(a_value)) for name in key])
        made.append((of_key, None if odd == "delete" else row))
    return names, key, made


@settings(max_examples=examples(1500))
@given(records())
@example((["id", "a"], ["id"], [(b'{"id":"\\\\."}', b'{"a":"\\\\N"}'), (b'{"id":1}', None)]))
def test_native_code_makes_the_lines_of_the_reference(given_records: Any) -> None:
    names, key, made = given_records
    maker = lines_maker(key, names[len(key) :])
    assert maker is not None
    every = []
    for number, (key_text, row_text) in enumerate(made):
        expected = line(names, key, number, key_text, row_text)
        found = maker.lines([(key_text, row_text)], number)
        event("left" if found is None else "made")
        assert found is None or found == expected
        if found is not None:
            every.append((number, key_text, row_text))
    together = maker.lines([record[1:] for record in every], 7)
    expected_lines = [line(names, key, 7 + at, *record[1:]) for at, record in enumerate(every)]
    assert together == b"".join(one or b"" for one in expected_lines)


@settings(max_examples=examples(300))
@given(st.lists(typed_rows, max_size=5), st.booleans())
def test_usual_rows_are_not_left(rows: list[dict[str, Any]], ascii_only: bool) -> None:
    names = ["id", *(name for name in TYPED if name != "id")]
    maker = lines_maker(["id"], names[1:])
    assert maker is not None
    made: list[tuple[bytes, bytes | None]] = [
        (json.dumps({"id": row["id"]}).encode(), json.dumps(row, ensure_ascii=ascii_only).encode())
        for row in rows
        if not any(isinstance(value, str) and "\0" in value for value in row.values())
    ]
    lines = maker.lines(made, 1)
    assert lines is not None
    assert lines.splitlines(keepends=True) == [line(names, ["id"], at + 1, *one) for at, one in enumerate(made)]
