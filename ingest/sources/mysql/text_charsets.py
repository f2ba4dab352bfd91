"""Character sets of MySQL: bytes of a text to its characters, as the server converts them."""

from __future__ import annotations

from typing import Final

from ingest.errors import ConfigError

_CODECS: Final = {
    "utf8mb4": "utf-8", "utf8mb3": "utf-8", "utf8": "utf-8", "ascii": "ascii", "latin1": "cp1252",
    "latin2": "iso8859-2",
    "latin5": "iso8859-9", "latin7": "iso8859-13", "greek": "iso8859-7", "hebrew": "iso8859-8", "cp1250": "cp1250",
    "cp1251": "cp1251", "cp1256": "cp1256", "cp1257": "cp1257", "cp850": "cp850", "cp852": "cp852", "cp866": "cp866",
    "koi8r": "koi8-r", "koi8u": "koi8-u", "macroman": "mac-roman", "macce": "mac-latin2", "tis620": "tis-620",
    "ucs2": "utf-16-be", "utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be", "gbk": "gbk",
    "gb2312": "gb2312", "gb18030": "gb18030", "big5": "big5", "sjis": "shift_jis", "cp932": "cp932", "ujis": "euc_jp",
    "eucjpms": "euc_jp", "euckr": "euc_kr", "hp8": "hp-roman8", "armscii8": "", "dec8": "", "geostd8": "",
    "keybcs2": "", "swe7": "",
}  # fmt: skip
"""Python's codec of each character set; an empty text where it has none."""


def check(charset: str, column: str) -> None:
    """Raise ConfigError where texts of a character set cannot be decoded. `column` names what has it."""
    if not _CODECS.get(charset):
        msg = f"{column} has the character set {charset}, which cannot be decoded"
        hint = "convert the column to utf8mb4 (ALTER TABLE … MODIFY … CHARACTER SET utf8mb4), or leave the table out"
        raise ConfigError(msg, hint)


def decode(charset: str, data: bytes) -> tuple[str, bool]:
    """Return the characters of a text, and whether all of its bytes are such; U+FFFD stands for those that are not."""
    codec = _CODECS.get(charset) or "utf-8"
    try:
        return data.decode(codec), True
    except UnicodeDecodeError:
        pass
    if charset == "latin1":  # the server's latin1 is cp1252, with these five as the controls that they are in Unicode
        return "".join(bytes((one,)).decode("cp1252") if one not in _HOLES else chr(one) for one in data), True
    return data.decode(codec, "replace"), False


_HOLES: Final = frozenset(b"\x81\x8d\x8f\x90\x9d")
