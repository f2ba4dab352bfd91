"""Files of a batch as checkpoints have them."""

from __future__ import annotations

import json

from ingest.sinks.lake.files import AddedFile, PartitionValue

FILE = AddedFile(
    ("shop", "t"), ("id",), "a.parquet", 3, False, (("at", 2),), "_deleted", "v",
    (PartitionValue("region", "string", None), PartitionValue("n", "integer", "7")), (("region", 1),),
)  # fmt: skip


def test_a_file_comes_back_without_what_was_said() -> None:
    assert AddedFile.from_json(json.loads(json.dumps(list(FILE)))) == FILE._replace(cut=(), emptied=())
