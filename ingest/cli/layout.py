"""Lines that fit a terminal: tables that leave columns out, and parts that go to further lines. Nothing is cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

GAP: Final = "  "
"""What is between two columns, and between two parts of a line."""
_NAME: Final = 44
"""Characters that the first column gets before others are left out for it, where its texts are as long."""


def table_lines(rows: Sequence[Sequence[str]], width: int | None, first_out: Sequence[str] = ()) -> Iterator[Text]:
    """Yield a heading and rows of a name and numbers, as lines of at most `width` characters; None: of any width.

    Where there is no room, columns are left out in the order of `first_out`, by their headings. A name that is longer
    than the room that is left has a line of its own.
    """
    heading = rows[0]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    shown = list(range(len(heading)))

    def room() -> int:
        return widths[0] if width is None else width - sum(widths[i] + len(GAP) for i in shown[1:])

    for name in first_out:
        if room() >= min(widths[0], _NAME):
            break
        shown.remove(heading.index(name))
    names = max(0, min(widths[0], room()))
    for row in rows:
        numbers = "".join(f"{GAP}{row[i]:>{widths[i]}}" for i in shown[1:])
        if len(row[0]) > names:
            yield Text(row[0], overflow="fold")
            if numbers.strip():
                yield Text(f"{' ' * names}{numbers}")
        else:
            yield Text(f"{row[0]:<{names}}{numbers}".rstrip())


def flowed(parts: Sequence[tuple[str, str]], width: int | None) -> Iterator[Text]:
    """Yield texts with their styles side by side, in as many lines as they need."""
    line = Text(overflow="fold")
    for text, style in parts:
        if line and width is not None and len(line) + len(GAP) + len(text) > width:
            yield line
            line = Text(overflow="fold")
        if line:
            line.append(GAP)
        line.append(text, style=style)
    yield line
