"""Files of a batch as checkpoints have them: also those that an earlier version stored."""

from __future__ import annotations

import json

import pytest

from ingest.sinks.lake.table import AddedFile, PartitionValue

FILE = AddedFile(
    ("shop", "t"), ("id",), "a.parquet", 3, False, (("at", 2),), "_deleted", "v",
    (PartitionValue("region", "string", None), PartitionValue("n", "integer", "7")), (("region", 1),),
)  # fmt: skip


def test_a_file_comes_back_without_what_was_said() -> None:
    assert AddedFile.from_json(json.loads(json.dumps(list(FILE)))) == FILE._replace(cut=(), emptied=())


@pytest.mark.parametrize("count", [6, 7, 8, 9])
def test_a_file_of_an_earlier_version_has_less(count: int) -> None:
    stored = json.loads(json.dumps(list(FILE)))[:count]
    found = AddedFile.from_json(stored)
    assert found[:5] == FILE[:5]
    assert found.deleted == (FILE.deleted if count > 6 else None)
    assert found.sequence == (FILE.sequence if count > 7 else None)
    assert found.partition == (FILE.partition if count > 8 else ())
