"""Records of the source: dates that are no days (docs/spec/mysql.md#types, H3)."""

from __future__ import annotations

import pytest

from ingest.model.change import Reject
from ingest.sources.mysql.columns import Column, Table
from ingest.sources.mysql.format import MySqlDecoder, MySqlRows, head_of
from ingest.sources.mysql.history import History, SchemaEntry

TABLE = Table(
    "d", "t", (Column("id", "date"), Column("d", "date"), Column("m", "datetime"), Column("z", "timestamp")),
    primary_key=("id",),
)  # fmt: skip
ROW = '{"id":"2020-01-31","d":%s,"m":%s,"z":%s}'
DAYS = ('"2020-02-29"', '"2020-01-31 12:13:14.5"', '"2020-01-31 12:13:14Z"')
ZEROS = ('"0000-00-00"', '"2020-00-15 00:00:00"', '"0000-00-00 00:00:00Z"')


def decoded(after: str, *, days_only: bool = False, before: str = "null") -> object:
    options = MySqlRows()
    options.schemas.history = History((SchemaEntry(1, 0, ("d", "t"), TABLE, read=True, booleans=False),))
    decoder = MySqlDecoder(options, days_only=days_only)
    record = f'{{"before":{before},"after":{after},"source":{{"db":"d","table":"t"}},"op":"u"}}'
    (found,) = decoder.decode([None], [head_of(1) + record.encode()])
    return found


def test_a_date_that_is_no_day_is_null_and_counted() -> None:
    found = decoded(ROW % ZEROS, before=ROW % ("null", ZEROS[1], "null"))
    assert isinstance(found, tuple)
    assert bytes(found[3]) == (ROW % ("null", "null", "null")).encode()
    assert bytes(found[2]) == (ROW % ("null", "null", "null")).encode()
    assert sorted(found[5].left_out) == ["d", "m", "z"]


def test_days_stay_as_they_are() -> None:
    found = decoded(ROW % DAYS)
    assert isinstance(found, tuple)
    assert bytes(found[3]) == (ROW % DAYS).encode()
    assert found[5].left_out == ()


@pytest.mark.parametrize(
    ("after", "days_only"),
    [(ROW % (ZEROS[0], DAYS[1], DAYS[2]), True), ((ROW % DAYS).replace("2020-01-31", "0000-00-00", 1), False)],
)
def test_in_a_key_and_by_option_it_is_a_reject(after: str, *, days_only: bool) -> None:
    found = decoded(after, days_only=days_only)
    assert isinstance(found, Reject)
    assert (found.code, found.table) == ("type-mismatch", ("d", "t"))
    assert "0000-00-00" in found.message
