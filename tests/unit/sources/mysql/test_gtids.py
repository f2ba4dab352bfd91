"""Sets of GTIDs: texts as both products write them, gaps, and the algebra of sets."""

from __future__ import annotations

from itertools import pairwise
from struct import pack
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.sources.mysql.gtids import LAST, GtidSet, canonical

if TYPE_CHECKING:
    from mysql_servers import MySql

A, B = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4350f323-7565-4e59-8763-4b1b83a0ce0e"


@st.composite
def sets(draw: st.DrawFn, sources: tuple[str, ...] = (A, B, f"{A}:tag", "0-1", "1-4294967295")) -> GtidSet:
    intervals = st.lists(st.tuples(st.integers(1, 39), st.integers(0, 12)), max_size=5)
    return GtidSet({source: [(first, first + more) for first, more in draw(intervals)] for source in sources})


def members(gtids: GtidSet) -> set[tuple[str, int]]:
    return {(source, number) for source, own in gtids for first, last in own for number in range(first, last + 1)}


@given(sets(), sets())
def test_sets_are_sets(one: GtidSet, other: GtidSet) -> None:
    assert members(one | other) == members(one) | members(other)
    assert members(one - other) == members(one) - members(other)
    assert members(one & other) == members(one) & members(other)
    assert one.contains(other) == (members(other) <= members(one))
    assert one.count() == len(members(one))
    assert bool(one) == bool(members(one))
    assert all(one.has(*gtid) for gtid in members(one))
    assert not any(one.has(*gtid) for gtid in members(other - one))
    assert one | other == other | one
    assert hash(one | other) == hash(other | one)
    for _, own in one | other:
        assert all(last + 1 < first for (_, last), (first, _) in pairwise(own))


@given(sets())
def test_a_text_is_read_as_it_was_written(gtids: GtidSet) -> None:
    assert GtidSet.parse(str(gtids)) == gtids
    assert GtidSet.parse(str(gtids).upper().replace(",", " ,\n")) == gtids


@given(sets((A, B)))
def test_the_servers_form_is_read_as_it_was_written(gtids: GtidSet) -> None:
    assert GtidSet.decode(gtids.encode()) == gtids


@given(st.binary(max_size=200), st.booleans())
def test_damaged_events_are_refused(data: bytes, of_mariadb: bool) -> None:
    try:
        found = GtidSet.decode_list(data) if of_mariadb else GtidSet.decode(data)
    except ValueError:
        return
    assert GtidSet.parse(str(found)).count() >= 0


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("", ""),
        (f"{A}:1-5:7:9-9", f"{A}:1-5:7:9"),
        (f"{A}:5:1-3:4", f"{A}:1-5"),
        (f"{A.upper()}:1-3,\n{B}:2", f"{A}:1-3,{B}:2"),
        (A.replace("-", "") + ":1", f"{A}:1"),
        (f"{A}:1-3:domain_1:1-2:9:other:4", f"{A}:1-3,{A}:domain_1:1-2:9,{A}:other:4"),
        ("0-1-100,0-2-150,7-3-0", "0-1:1-100,0-2:1-150"),
        ("0-1:3-5", "0-1:3-5"),
        (f"{A}:{LAST}", f"{A}:{LAST}"),
    ],
)
def test_texts(text: str, same: str) -> None:
    assert str(GtidSet.parse(text)) == same


@pytest.mark.parametrize(
    "text",
    ["x", A, f"{A}:", f"{A}:0", f"{A}:5-3", f"{A}:1-", f"{A}:-1", f"{A}:1:2x", "0-1", "0-1-x", "1:2", f"{A}:1;{B}:2",
     f"{A}:{LAST + 1}", "0-1:tag:1", f"{A}:٣", "0-1-99999999999999999999"],
)  # fmt: skip
def test_what_is_no_set_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no set of GTIDs"):
        GtidSet.parse(text)


def test_sources_are_left_out_with_their_tags() -> None:
    gtids = GtidSet.parse(f"{A}:1-5,{A}:tag:3,{B}:2")
    assert str(gtids.without(lambda source: source == A)) == f"{B}:2"
    assert canonical(A.upper()) == A


def test_mariadbs_position_has_one_transaction_of_each_domain() -> None:
    assert GtidSet.parse("0-1-100,0-2-150,7-3-4,7-1-2").position() == "0-2-150,7-3-4"


def test_mariadbs_list_of_transactions() -> None:
    body = pack("<I", 2 | 1 << 28) + pack("<IIQ", 0, 1, 100) + pack("<IIQ", 7, 4_000_000_000, 1 << 40)
    assert str(GtidSet.decode_list(body)) == f"0-1:1-100,7-4000000000:1-{1 << 40}"


def test_long_sets_are_cut_for_messages() -> None:
    gtids = GtidSet({A: [(number, number) for number in range(1, 999, 2)]})
    assert gtids.shown(60) == f"{A}:1:3:5:7:9:11:13:15:17:1… (499 transactions)"
    assert GtidSet.parse(f"{A}:1").shown() == f"{A}:1"


def test_tagged_sets_of_newer_servers() -> None:
    raw = bytes.fromhex(A.replace("-", ""))
    count = (1 << 56) | (2 << 8) | 1
    plain = raw + bytes([0]) + pack("<Q", 1) + pack("<QQ", 1, 6)
    tagged = raw + bytes([3 << 1]) + b"tag" + pack("<Q", 1) + pack("<QQ", 2, 3)
    assert str(GtidSet.decode(pack("<Q", count) + plain + tagged)) == f"{A}:1-5,{A}:tag:2"


def test_a_server_agrees(mysql5: MySql) -> None:
    one, other = GtidSet.parse(f"{A}:1-9:20,{B}:3-5"), GtidSet.parse(f"{A}:5-7:19-30")
    asked = mysql5.execute(f"SELECT GTID_SUBTRACT('{one}', '{other}'), GTID_SUBSET('{one & other}', '{other}')")
    assert GtidSet.parse(asked[0][0]) == one - other
    assert asked[0][1] == 1
