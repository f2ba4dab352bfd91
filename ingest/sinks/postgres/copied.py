"""The contract with native code that makes lines of COPY: columns as it has them.

In: the columns of a table. Out: the native maker of lines; None where there is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ingest import compiled

if compiled.BUILT:
    from ingest.sinks.postgres.native.copy_rows import CopyRows

if TYPE_CHECKING:
    from collections.abc import Sequence

BUILT: Final = compiled.USED
"""True if native code is there, and wanted."""


class CopyColumnSpec(msgspec.Struct, frozen=True):
    """A column of rows that become lines of PostgreSQL's COPY."""

    name: bytes
    of_key: bool = False
    """True if the value is the one that the record's key has."""


def lines_maker(key: Sequence[str], others: Sequence[str]) -> CopyRows | None:
    """Return the native maker of lines, whose columns are those of the key and then the others; None without it."""
    if not BUILT:
        return None
    columns = [*((name, True) for name in key), *((name, False) for name in others)]
    try:
        return CopyRows(tuple(CopyColumnSpec(name.encode(), of_key) for name, of_key in columns))
    except UnicodeEncodeError:
        return None
