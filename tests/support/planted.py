"""Faults that are planted into a sink's table, one in each row, and the rows of all types that they are planted in."""

from __future__ import annotations

import json
import unicodedata
from datetime import timedelta
from math import inf, nextafter
from typing import TYPE_CHECKING, Any, Final

from verified import FilePipeline

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Rows = dict[str, list[dict[str, Any]]]

TYPES: Final = (
    "code STRING, name STRING, small SMALLINT, n BIGINT, price DECIMAL(38,10), f FLOAT, x DOUBLE, ok BOOLEAN,"
    " raw BYTES, d DATE, t TIME(6), ts TIMESTAMP(6), tsz TIMESTAMP_LTZ(6)"
)
DDL: Final = f"CREATE TABLE shop ({TYPES}, PRIMARY KEY (code) NOT ENFORCED)"


def row(code: str, **other: Any) -> dict[str, Any]:
    """A row of all types, most of them at their bounds."""
    return {
        "code": code, "name": "Zoë", "small": -32768, "n": 9223372036854775807, "f": 3.4028235e38,
        "price": "1234567890123456789012345678.0123456789", "x": 0.1, "ok": True, "raw": "AP8=", "d": "0001-01-01",
        "t": "23:59:59.999999", "ts": "9999-12-31 23:59:59.999999", "tsz": "2026-03-29 01:30:00.000001Z", **other,
    }  # fmt: skip


def text_of(made: dict[str, Any]) -> str:
    """A row as JSON, with all digits of its DECIMAL."""
    text = json.dumps({**made, "price": "@"}, ensure_ascii=False)
    return text.replace('"@"', "null" if made["price"] is None else made["price"])


def _set(column: str, change: Callable[[Any], Any]) -> Callable[[Rows, str], None]:
    def plant(rows: Rows, code: str) -> None:
        rows[code][0][column] = change(rows[code][0][column])

    return plant


def _to(value: Any) -> Callable[[Any], Any]:
    return lambda _: value


def _missing(rows: Rows, code: str) -> None:
    del rows[code]


def _again(rows: Rows, code: str) -> None:
    rows[code] = rows[code] * 2


def _twice(rows: Rows, code: str) -> None:
    rows[code] = [rows[code][0], {**rows[code][0], "n": 7}]


def _other_case(rows: Rows, code: str) -> None:
    (one,) = rows.pop(code)
    rows[code.upper()] = [{**one, "code": code.upper()}]


def _extra(rows: Rows, code: str) -> None:
    rows[f"{code}-more"] = [{**rows[code][0], "code": f"{code}-more"}]


def _back(rows: Rows, _code: str) -> None:
    rows["gone"] = [{**next(iter(rows.values()))[0], "code": "gone"}]


FAULTS: Final[dict[str, tuple[Callable[[Rows, str], None], set[tuple[str, str]]]]] = {
    "cell": (_set("name", _to("Zoe")), {("other", "name")}),
    "cell-null": (_set("name", _to(None)), {("other", "name")}),
    "cell-empty": (_set("name", _to("")), {("other", "name")}),
    "null-filled": (_set("name", _to("")), {("other", "name")}),
    "blank-at-end": (_set("name", lambda one: one + " "), {("other", "name")}),
    "other-composition": (_set("name", lambda one: unicodedata.normalize("NFD", one)), {("other", "name")}),
    "integer-by-one": (_set("n", lambda one: one - 1), {("other", "n")}),
    "smallint-sign": (_set("small", _to(32767)), {("other", "small")}),
    "decimal-last-digit": (_set("price", lambda one: one + type(one)("1E-10")), {("other", "price")}),
    "double-last-bit": (_set("x", lambda one: nextafter(one, inf)), {("other", "x")}),
    "float-smaller": (_set("f", _to(3.402823e38)), {("other", "f")}),
    "boolean": (_set("ok", _to(False)), {("other", "ok")}),
    "byte": (_set("raw", _to(b"\x00\xfe")), {("other", "raw")}),
    "day": (_set("d", lambda one: one + timedelta(days=1)), {("other", "d")}),
    "time-cut": (_set("t", lambda one: one.replace(microsecond=999990)), {("other", "t")}),
    "timestamp-cut": (_set("ts", lambda one: one.replace(microsecond=0)), {("other", "ts")}),
    "zone-shift": (_set("tsz", lambda one: one + timedelta(hours=1)), {("other", "tsz")}),
    "two-cells": (lambda rows, code: rows[code][0].update(n=1, name="x"), {("other", "n"), ("other", "name")}),
    "missing": (_missing, {("missing", "")}),
    "extra": (_extra, {("extra", "")}),
    "gone-is-back": (_back, {("extra", "")}),
    "same-twice": (_again, {("duplicate", "")}),
    "twice": (_twice, {("duplicate", "n")}),
    "other-case": (_other_case, {("missing", ""), ("extra", "")}),
}
"""By name: what plants a fault into rows by their keys, and kinds and columns of the differences that it makes."""
EMPTY_NAMES: Final = frozenset({"null-filled"})
"""Faults whose rows have no name at the source."""


def planted(rows: Rows, faults: dict[str, Any]) -> list[dict[str, Any]]:
    """Plant each fault into the row of its name; return all rows."""
    for name in faults:
        FAULTS[name][0](rows, name)
    return [one for some in rows.values() for one in some]


def differences(report: Any) -> dict[str, set[tuple[str, str]]]:
    """By the name of the fault: kinds and columns of the differences that a comparison has found."""
    out: dict[str, set[tuple[str, str]]] = {}
    for table in report.tables:
        for one in table.differences:
            code = one.key["code"]
            name = {"gone": "gone-is-back"}.get(code, code.removesuffix("-more").lower())
            columns = [column for column, *_ in one.cells] if one.kind in {"other", "duplicate"} else [""]
            out.setdefault(name, set()).update((one.kind, column) for column in columns or [""])
    return out


VALUES: Final[dict[str, dict[str, Any]]] = {
    "cell": {"name": "Zoe"},
    "null": {"name": None},
    "empty": {"name": ""},
    "blank": {"name": "Zoë "},
    "bigint": {"n": 9223372036854775806},
    "decimal": {"price": "1234567890123456789012345678.0123456788"},
    "double": {"x": 0.10000000000000002},
    "float": {"f": 3.402823e38},
    "boolean": {"ok": False},
    "bytes": {"raw": "AP4="},
    "date": {"d": "0001-01-02"},
    "time": {"t": "23:59:59.99999"},
    "timestamp": {"ts": "9999-12-31 23:59:59.99999"},
    "zone": {"tsz": "2026-03-29 02:30:00.000001Z"},
}
"""By name: columns of a row, as JSON, which are other ones in the sink."""


def _lines(folder: Path, rows: list[dict[str, Any]], deleted: list[str]) -> None:
    with (folder / "shop.in").open("a") as file:
        file.writelines(f'{{"key":{{"code":"{one["code"]}"}},"value":{text_of(one)}}}\n' for one in rows)
        file.writelines(f'{{"key":{{"code":"{code}"}},"value":null}}\n' for code in deleted)


def planted_into_records(folder: Path, sink: dict[str, Any], *, says_deletes: bool, **sections: Any) -> None:
    """Write rows into a sink of records, then wrong ones behind them: each is found, and before that none.

    `says_deletes`: whether the sink's records can say that a row is gone.
    """
    source = {"value.format": "json", "key.format": "json", "scan.value.initial-schemas.ddls": DDL}
    pipeline = FilePipeline(folder, sink, source, **sections)
    nulls = {name: None for name in row("") if name != "code"}
    names = (*VALUES, "right", "missing", "gone")
    _lines(folder, [row(name) for name in names] + [row("nulls", **nulls)], ["gone"])
    pipeline.run()
    report = pipeline.verify()
    assert report.equal, report
    assert report.tables[0].counts.compared >= len(VALUES) + 3

    other = folder / "other"
    other.mkdir()
    wrong = FilePipeline(other, sink, source, **sections)
    wrong_rows = [row(name, **what) for name, what in VALUES.items()]
    _lines(other, [*wrong_rows, row("missing"), row("RIGHT")], ["missing"])
    wrong.run()
    (table,) = pipeline.verify(limit=100).tables
    seen = {one.key["code"]: [name for name, *_ in one.cells] for one in table.differences if one.kind == "other"}
    assert seen == {name: [*what] for name, what in VALUES.items()}
    rest = {(one.kind, one.key["code"]) for one in table.differences if one.kind != "other"}
    assert rest == ({("missing", "missing"), ("extra", "RIGHT")} if says_deletes else set())
    assert table.counts.unjudged == (0 if says_deletes else 1)
