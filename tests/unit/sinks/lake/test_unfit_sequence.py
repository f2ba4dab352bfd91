"""Values that `try_evolve` cannot fit into the column of `sink.sequence-by`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from lake_sink import lake_schema

from ingest.encode.upsert_encoder import UpsertEncoder
from ingest.model.change import Change, Kind
from ingest.model.reject import RowError
from ingest.schema.evolve import SourceTable
from ingest.schema.infer import Inference
from ingest.sinks.delta.options import DeltaSink
from ingest.sinks.postgres.options import PostgresSink

if TYPE_CHECKING:
    from ingest.sinks.lake.options import LakeOptions

TABLE = ("shop", "t")
SERVER = {"endpoint": "h:5432", "dbname": "d", "username": "u", "password": "p"}
ORDER = {"sink.sequence-by": "v", "sink.delete-strategy": "soft"}


@pytest.mark.parametrize("options", [
    DeltaSink.model_validate({"type": "delta", "warehouse": "w", **ORDER}),
    PostgresSink.model_validate({"type": "postgres", **SERVER, **ORDER}),
])  # fmt: skip
def test_they_are_rejects_as_a_null_would_be_older_than_all_others(options: LakeOptions | PostgresSink) -> None:
    source, sink = lake_schema("id BIGINT", "v DOUBLE", "n DOUBLE"), lake_schema("id BIGINT", "v BIGINT", "n BIGINT")
    table: Any = options.table_for(TABLE, sink)
    inference = Inference(unfit_is_null=True)
    encoder = UpsertEncoder(
        TABLE, SourceTable(source, (TABLE,), False), sink, table, inference, sequence=table.sequence
    )
    rows: list[Any] = []
    for row in (b'{"id":1,"v":1,"n":1.5}', b'{"id":1,"v":9.5,"n":2}'):
        try:
            encoder.upsert(Change(TABLE, Kind.INSERT, None, msgspec.Raw(row)), rows.append)
        except RowError as exc:
            assert exc.code == "withheld-change"  # noqa: PT017
    assert [row[2] for row in rows] == [b'{"id":1,"v":1,"n":null}']
