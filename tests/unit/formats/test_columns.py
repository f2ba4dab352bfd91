"""Columns from the key beside those of the value: what is said where both have one name."""

from __future__ import annotations

import msgspec
import pytest

from ingest.formats.metadata_columns import ExtraColumns, MetadataColumns
from ingest.model.change import Change, Kind, Reject
from ingest.testing.in_memory import MemoryRecord


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (b'{"id":1}', b'{"id":2}', "column 'id' is 1 in the key and 2 in the value"),
        (b'{"id":1}', b'{"id":"1"}', "column 'id' is 1 in the key and \"1\" in the value"),
        (b'{"topic":1}', b"{}", "column 'topic' is in the message and in metadata.list"),
    ],
)
def test_a_clash_names_both_values(key: bytes, value: bytes, why: str) -> None:
    columns = MetadataColumns(ExtraColumns(key=True, key_is_primary=True, metadata=("topic",)))
    change = Change(("t",), Kind.INSERT, None, msgspec.Raw(value), None, None)
    (bad,) = columns.add([change], [MemoryRecord(0, "t", key, value)])
    assert isinstance(bad, Reject)
    assert bad.message == f"{why}; set key.fields-prefix or value.fields-prefix to have both"
