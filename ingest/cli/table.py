"""Layout of rows of text in columns, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def rows_as_text(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield one line of text for each row. All columns are as wide as their longest text. `rows` must not be empty."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
