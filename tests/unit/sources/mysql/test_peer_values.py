"""Values of all types beside Debezium's and Canal's: their recorded messages, read by our own formats."""

from __future__ import annotations

from peer_values import KINDS, differing, of_canal, of_debezium, recorded, told


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
