"""Columns of keys in rows that are compact: the same as in any other rows."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from ingest.formats.metadata_columns import ExtraColumns, MetadataColumns
from ingest.model import types
from ingest.model.change import InlineSchema, Kind, Reject

VALUES = st.none() | st.booleans() | st.integers(0, 12) | st.sampled_from(["", "1", 'a"', "é"])
ROWS = st.dictionaries(st.sampled_from(["id", "n", 'q"', "m"]), VALUES, max_size=4)
DECLARED = InlineSchema({"id": types.BIGINT, "n": types.INT})


class Message:
    """A record with a key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def key(self) -> bytes:
        return self._key


def extended(key: dict[str, Any], row: dict[str, Any], *, compact: bool) -> list[Any]:
    extra = ExtraColumns(key=True, key_is_primary=True, compact=compact)
    change = (("t",), Kind.INSERT, None, msgspec.Raw(msgspec.json.encode(row)), None, DECLARED)
    messages: Any = [Message(msgspec.json.encode(key))] * 2
    out = MetadataColumns(extra).add([change, change], messages)
    return [
        one
        if not isinstance(one, tuple)
        else (*one[:3], bytes(one[3] or b""), one[4], one[5].types, one[5].primary_key)  # type: ignore[union-attr]
        for one in out
    ]


@given(ROWS, ROWS)
def test_compact_rows_get_the_columns_that_others_get(key: dict[str, Any], row: dict[str, Any]) -> None:
    assert extended(key, row, compact=True) == extended(key, row, compact=False)
    begins = {**key, **{name: value for name, value in row.items() if name not in key}}
    assert extended(key, begins, compact=True) == extended(key, begins, compact=False)


def test_a_row_that_begins_with_the_key_stays() -> None:
    (found, _) = extended({"id": 1}, {"id": 1, "n": 2}, compact=True)
    assert found[3] == b'{"id":1,"n":2}'
    assert found[6] == ("id",)
    (other, _) = extended({"id": 1}, {"id": 12, "n": 2}, compact=True)
    assert isinstance(other, Reject)
    (other, _) = extended({"id": 1}, {"n": 2}, compact=True)
    assert other[3] == b'{"id":1,"n":2}'
