"""Values of all types beside Debezium's and Canal's: their recorded messages, read by our own formats."""

from __future__ import annotations

import re
from pathlib import Path

from peer_values import KINDS, differing, of_canal, of_debezium, recorded

PAGE = Path(__file__).parents[4] / "docs" / "spec" / "mysql.md"


def told() -> dict[str, tuple[str, str]]:
    """What the page says of types whose values differ: of Debezium's and of Canal's."""
    part = PAGE.read_text(encoding="utf-8").partition("### Values of others\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([^`|]+)` \| ([^|]*) \| ([^|]*) \|$", part, re.MULTILINE)
    return {kind: (debezium.strip(), canal.strip()) for kind, debezium, canal in rows}


def test_the_page_names_the_types_whose_values_differ() -> None:
    """`peer_values` says whose messages these are. Debezium's log has nothing of rows with a day that is none."""
    found = recorded()
    assert list(found) == list(KINDS)
    ours = {kind: one["ours"] for kind, one in found.items()}
    debezium = set()
    for way in ("snapshot", "log"):
        there = {kind: one for kind, one in found.items() if one["debezium"][way]}
        debezium |= {*differing(ours, of_debezium(there, way)), *(found.keys() - there.keys())}
    said = told()
    assert {kind for kind, (of_debeziums, _) in said.items() if of_debeziums != "same"} == debezium
    assert {kind for kind, (_, of_canals) in said.items() if of_canals != "same"} == {*differing(ours, of_canal(found))}
