"""Tables of Delta that somebody rewrites."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import write_deltalake

from ingest.sinks.delta.warehouse import DeltaWarehouse

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def overwrite(
    folder: Path, name: tuple[str, ...], change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
) -> None:
    """Rewrite a table of a warehouse, with what becomes of its rows."""
    table = DeltaWarehouse(str(folder), {}).load(name)
    data = table.to_pyarrow_table()
    write_deltalake(table, pa.Table.from_pylist(change(data.to_pylist()), schema=data.schema), mode="overwrite")
