"""Rows into tables of PostgreSQL: made and widened by the driver, written exactly once.

Rules: docs/spec/postgres.md.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from ingest.sinks.postgres.options import SqlSinkOptions

if TYPE_CHECKING:
    from ingest.model.layout import TableLayout

_PARAMETER: Final = re.compile(r"(?:toast\.)?[a-z][a-z0-9_]{0,62}")


class PostgresSink(SqlSinkOptions):
    """Options of `sink:` with `type: postgres`."""

    infinite_times: ClassVar[bool] = True

    type: Literal["postgres"]
    """`postgres`."""

    @property
    def writes_parts(self) -> bool:
        """True if of a row it writes the columns that came: of tables with one row per key, in the order of changes."""
        return self.write_mode == "upsert" and self.sequence_by is None

    def check_layout(self, layout: TableLayout) -> list[tuple[str, str]]:
        """Return what of a layout no table can have: names that no storage parameter has."""
        odd = [name for name, _ in layout.options if not _PARAMETER.fullmatch(name)]
        why = "is no storage parameter of PostgreSQL, like fillfactor or autovacuum_enabled"
        return [("table-options", f"{name[:100]!r} {why}") for name in odd]
