"""Tables of Arrow that come one after the other, put together by what becomes one file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

_FILE_BYTES: Final = 256 << 20
"""Bytes of Arrow's columns that become one file."""


def packed(rows: Iterable[pa.Table]) -> Iterator[list[pa.Table]]:
    """Yield as many tables at once as become one file."""
    held: list[pa.Table] = []
    size = 0
    for one in rows:
        held.append(one)
        size += one.nbytes
        if size >= _FILE_BYTES:
            yield held
            held, size = [], 0
    if held:
        yield held
