"""Character sets of MySQL and MariaDB, as far as statements and types of columns depend on them."""

from __future__ import annotations

from typing import Final

_SAME: Final = {"utf8": "utf8mb3"}
_WIDTHS: Final = {
    "utf8mb4": 4, "utf8mb3": 3, "ucs2": 2, "utf16": 4, "utf16le": 4, "utf32": 4, "big5": 2, "gbk": 2, "gb2312": 2,
    "gb18030": 4, "sjis": 2, "cp932": 2, "euckr": 2, "ujis": 3, "eucjpms": 3,
}  # fmt: skip
UNICODE: Final = frozenset({"utf8mb4", "utf16", "utf16le", "utf32"})
"""Character sets that have every character."""


def charset(name: str) -> str:
    """Return the one name of a character set: `utf8mb3` for `utf8`, whichever of the two a server prints."""
    found = name.lower()
    return _SAME.get(found, found)


def of_collation(collation: str, default: str | None = None) -> str | None:
    """Return the character set of a collation; `default` for MariaDB's names that go with each (`uca1400_ai_ci`)."""
    found = collation.lower()
    return default if found.startswith("uca") else charset(found.partition("_")[0])


def collation(name: str) -> str:
    """Return the one name of a collation: with `utf8mb3` for `utf8`."""
    found = name.lower()
    return "utf8mb3" + found[4:] if found.startswith("utf8_") else found


def width(name: str | None) -> int:
    """Return how many bytes a character has at most."""
    return _WIDTHS.get(name or "", 1)
