"""A transform that changes nothing changes nothing; and what is in C does what the rule book does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inmemory import run
from shapes import a_message

from ingest.engine import worker
from ingest.flow import native

FORMS = ["debezium-json", "canal-json", "json"]
FEW = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""Each example is several jobs of Spark's."""


def sections(form: str, most: int, **rule: str) -> dict[str, Any]:
    keys = {"primary-keys": "id"} if form == "json" else {}
    return {
        "source": {"value.format": form, "ingestion.error-tolerance.max-count": most},
        "transform": [{"source-table": r"\.*", **keys, **rule}] if keys or rule else [],
    }


def read(value: bytes | None) -> Any:
    """A row without regard to white space; digits count."""
    return None if value is None else json.loads(value, parse_float=str, parse_int=str)


@pytest.mark.parametrize("form", FORMS)
def test_all_columns_and_a_filter_that_all_rows_pass_are_no_transform(form: str) -> None:
    @FEW
    @given(st.lists(a_message(form), min_size=1, max_size=25), st.sampled_from([1, 1000]), st.sampled_from([-1, 2]))
    def same(messages: list[tuple[bytes | None, bytes | None]], look_ahead: int, most: int) -> None:
        plain = run(messages, look_ahead, **sections(form, most))
        changed = run(messages, look_ahead, **sections(form, most, projection="\\*", filter="TRUE"))
        assert [(t, k, read(v)) for t, k, v in changed.records] == [(t, k, read(v)) for t, k, v in plain.records]
        assert changed.rejects == plain.rejects
        assert (changed.skipped, changed.withheld) == (plain.skipped, plain.withheld)
        assert changed.changes == plain.changes
        # A table without its key is an error of either, in other words
        assert (changed.error and changed.error.exit_code) == (plain.error and plain.error.exit_code)

    same()


@pytest.mark.skipif(not native.BUILT, reason="installed without a compiler")
@pytest.mark.parametrize("form", FORMS)
def test_what_is_in_c_does_what_the_book_says(form: str) -> None:
    rule = {
        "projection": r"\*, id % 2 AS odd, __data_event_type__ AS what, __table_name__ AS id2, 10 / (id - 2) AS part",
        "filter": "id <> 3 OR __data_event_type__ <> '-U'",
    }

    @FEW
    @given(st.lists(a_message(form), min_size=1, max_size=25), st.sampled_from([1, 1000]), st.sampled_from([-1, 2]))
    def same(messages: list[tuple[bytes | None, bytes | None]], look_ahead: int, most: int) -> None:
        with pytest.MonkeyPatch.context() as patch:
            with_it = run(messages, look_ahead, **sections(form, most, **rule))
            patch.setattr(worker, "BUILT", False)
            patch.setattr(native, "BUILT", False)
            without = run(messages, look_ahead, **sections(form, most, **rule))
        assert [(t, k, read(v)) for t, k, v in with_it.records] == [(t, k, read(v)) for t, k, v in without.records]
        assert with_it.rejects == without.rejects
        assert (with_it.skipped, with_it.withheld) == (without.skipped, without.withheld)
        assert with_it.changes == without.changes
        assert str(with_it.error) == str(without.error)

    same()
