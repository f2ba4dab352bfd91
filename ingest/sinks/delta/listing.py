"""Files of a table as its newest version lists them: those that may have rows of a batch's keys.

In: what the library says of a table. Out: paths by which files are opened, removed and added, and the values that rows
of a file have in columns which it lacks.
"""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.sinks.lake.changes import LakeChangeError
from ingest.sinks.lake.key_groups import ends_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deltalake import DeltaTable

_PATH: Final = re.compile(r"(?!.*(?:^|/)\.\.?(?:/|$))(?:[A-Za-z0-9_-]|%25)(?:[A-Za-z0-9._/=-]|%2[05])*")
"""Paths in a log that the library writes with the same escapes: another spelling would remove no file."""


class ListedFile(NamedTuple):
    """A file of a table."""

    path: str
    """Its path in the table, without the escapes that the log has."""
    size: int
    """In bytes."""
    known: dict[str, pa.Scalar]
    """By column: the value that all of its rows have. The file itself lacks these columns."""


def listed_files(table: DeltaTable) -> list[ListedFile]:
    """Return the files of a table. Raise LakeChangeError for one that this tool does not rewrite."""
    return _listed(pa.table(table.get_add_actions()))


def candidates(table: DeltaTable, keys: pa.Table, key: Sequence[str]) -> list[ListedFile]:
    """Return the files that may have one of the keys, by what the table says of them. Raise LakeChangeError."""
    actions = pa.table(table.get_add_actions())
    may = np.ones(actions.num_rows, bool)
    for name, column in zip(key, keys.columns, strict=True):
        of_partition = _values(actions, "partition", name)
        if of_partition is not None:
            if not pa.types.is_floating(column.type):  # of which 0.0 and -0.0 are equal, and two texts
                found = pc.is_in(of_partition.cast(column.type), value_set=column.combine_chunks())
                may &= found.to_numpy(zero_copy_only=False)
            continue
        ends = ends_of(column)
        least, most = _values(actions, "min", name), _values(actions, "max", name)
        if ends is None or least is None or most is None or not isinstance(ends[0], (int, str, date)):
            continue
        outside = pc.or_(pc.greater(least, ends[1]), pc.less(most, ends[0]))
        may &= ~pc.fill_null(outside, False).to_numpy(zero_copy_only=False)
    return _listed(actions.filter(pa.array(may)))


def _listed(actions: pa.Table) -> list[ListedFile]:
    if not actions.num_rows:
        return []
    known: list[dict[str, pa.Scalar]] = [{}] * actions.num_rows
    if "partition" in actions.column_names:
        found = actions.column("partition").combine_chunks()
        names = [field.name for field in found.type]
        known = [dict(zip(names, values, strict=True)) for values in zip(*found.flatten(), strict=True)]
    paths, sizes = (actions.column(name).to_pylist() for name in ("path", "size_bytes"))
    return [ListedFile(*one) for one in zip(map(_checked, paths), sizes, known, strict=True)]


def _checked(path: str) -> str:
    """Return the path by which a file is opened. Raise LakeChangeError where the library has other escapes for it."""
    if not _PATH.fullmatch(path):
        msg = f"it has a file with the name {path[:200]!r}, which this tool does not rewrite"
        raise LakeChangeError(msg)
    return unquote(path)


def _values(actions: pa.Table, which: str, name: str) -> pa.Array | None:
    """Return what a table says of a column in each of its files; None where it says nothing."""
    if which not in actions.column_names:
        return None
    found = actions.column(which).combine_chunks()
    names = [field.name for field in found.type]
    return pc.struct_field(found, names.index(name)) if name in names else None
