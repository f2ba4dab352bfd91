"""Table selectors, routes and primary-key rules."""

from __future__ import annotations

import pytest
from scale import growth

from ingest.model.table import Selector, SelectorError, similar
from ingest.schema.routes import KeyRule, RouteRule, Rules

ORDERS = ("shop", "orders")


@pytest.mark.parametrize(
    ("selector", "matches", "others"),
    [
        ("shop.orders", [ORDERS], [("shopxorders",), ("shop", "orders2"), ("xshop", "orders")]),
        (r"shop\.*.order_\.*", [("shop", "order_1"), ("shop7", "order_")], [ORDERS]),
        (r"\.*.\.*", [ORDERS, ("a", "b", "c")], [("orders",)]),
        (r"\.*\.\.*", [ORDERS, ("orders",)], []),
        ("a.b, c.d", [("a", "b"), ("c", "d")], [("a", "d")]),
        ("[a,b].x{1,2}", [("a", "x"), ("b", "xx")], [("c", "x"), (",", "xxx")]),
        ("(a,b).c", [("a", "c"), ("b", "c")], [("ab", "c")]),
        (r"a\d+", [("a12",)], [("ad",)]),
        ("[.]", [(".",)], [("x",)]),
    ],
)
def test_selectors(selector: str, matches: list[tuple[str, ...]], others: list[tuple[str, ...]]) -> None:
    compiled = Selector(selector)
    assert all(compiled.match(table) for table in matches)
    assert not any(compiled.match(table) for table in others)


@pytest.mark.parametrize("selector", ["a(", "[", "*", r"(?=x)", r"(a)\1", "a{99999}"])
def test_what_is_no_selector_is_refused(selector: str) -> None:
    with pytest.raises(SelectorError):
        Selector(selector)


def test_a_hostile_name_costs_time_by_its_length() -> None:
    selector = Selector(r"(a\.*)*b(\.*)*c")
    assert growth(lambda size: selector.match(("a" * size,)), 16, 30) < 30, "what tries every way would take years"
    assert selector.match(("a" * 1000,)) is None
    assert Selector(r"\.*").match(("a" * 100_000,)) is None, "past the limit nothing matches"


def test_routes_expand_groups_and_symbols_once() -> None:
    rules = Rules((RouteRule(r"(\w+).(\w+)", "x.$2_$1_<>", "<>"),))
    assert rules.targets(ORDERS) == (("x", "orders_shop_orders"),)
    # What comes from a message is not read again
    assert rules.targets(("$2", "y")) == (("$2", "y"),), "no word, so no match"
    assert Rules((RouteRule(r"\.*", "t.<>", "<>"),)).targets(("s", "$1<>")) == (("t", "$1<>"),)


def test_no_match_keeps_the_id_and_each_target_comes_once() -> None:
    rules = Rules((RouteRule("shop.orders", "a"), RouteRule(r"\.*rders", "a"), RouteRule("shop.orders", "b")))
    assert rules.targets(ORDERS) == (("a",), ("b",))
    assert rules.targets(("shop", "x")) == (("shop", "x"),)


def test_the_first_transform_that_matches_counts() -> None:
    rules = Rules(keys=(KeyRule("shop.orders", ()), KeyRule(r"\.*", ("id",))))
    assert rules.primary_key(ORDERS) == ()
    assert rules.primary_key(("x",)) == ("id",)


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("shop.ordrs", "shop.orders"), ("SHOP.USERS", "shop.Users"), ("orders", "shop.orders"),
        ("db.shop.orders", "shop.orders"), ("shop.public.orders", "shop.orders"), (r"shpo.\.*", r"shop.\.*"),
        (r"shpo.ord\.*", r"shop.ord\.*"), (r"shop\..*", r"shop.\.*"), ("shop.*", r"shop.\.*"), (".*", r"\.*"),
        ("shop.ord.*", r"shop.ord\.*"), ("shop.ord*", r"shop.ord\.*"), ("shop.%", r"shop.\.*"), ("*", r"\.*"),
        (r"\.*.shop.\.*", r"shop.\.*"), ("crm.leads", ""), ("[", ""), ("", ""), ("a" * 10_000, ""),
    ],
)  # fmt: skip
def test_a_selector_that_matches_nothing_has_a_similar_one_that_does(text: str, near: str) -> None:
    tables = [("shop", "orders"), ("shop", "order_items"), ("shop", "Users")]
    assert similar(text, tables) == near
    assert similar(text, []) == ""
    if near:
        assert any(Selector(near).match(table) for table in tables)
