"""A column that says which of two changes is the newer one, and that others rename."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from lake_sink import LakeSink
from ordered_rows import TABLE, Ordered

from ingest.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


def test_a_column_that_was_renamed_says_nothing_any_more(tmp_path: Path) -> None:
    table = Ordered("iceberg", tmp_path, "soft")
    assert isinstance(table.sink, LakeSink)
    table.write([table.row(1, 5, 1), table.row(2, 5, 1)])
    with table.sink.lake.table(*TABLE).update_schema() as update:
        update.rename_column("v", "was_v")
    with pytest.raises(ConfigError, match="somebody has removed or renamed its column 'v': run again"):
        table.write([table.gone(1)])
    table.sink.side.declare({TABLE: table.schema})
    table.rows = {1: (-1, 1, True), 2: (-1, 1, False)}
    table.sink.batch -= 1
    table.write([table.gone(1), table.row(2, 3, 2)])
    table.check()
