"""Character sets of MySQL: bytes of a text to its characters, as the server converts them to utf8mb4.

What Python's codecs have otherwise than MariaDB 10.11 was found by converting every character of one and two bytes, and
those of three bytes of EUC, in both.
"""

from __future__ import annotations

import codecs
from typing import Final

_CODECS: Final = {
    "utf8mb4": "utf-8", "utf8mb3": "utf-8", "utf8": "utf-8", "ascii": "ascii", "latin1": "cp1252",
    "latin2": "iso8859-2", "latin5": "iso8859-9", "latin7": "iso8859-13", "greek": "iso8859-7", "hebrew": "iso8859-8",
    "cp1250": "cp1250", "cp1251": "cp1251", "cp1256": "cp1256", "cp1257": "cp1257", "cp850": "cp850", "cp852": "cp852",
    "cp866": "cp866", "koi8r": "koi8-r", "koi8u": "koi8-u", "macroman": "mac-roman", "macce": "mac-latin2",
    "tis620": "tis-620", "ucs2": "utf-16-be", "utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be",
    "gbk": "gbk", "gb2312": "gb2312", "gb18030": "gb18030", "big5": "big5", "sjis": "shift_jis", "cp932": "cp932",
    "ujis": "euc_jp", "eucjpms": "euc_jp", "euckr": "cp949", "hp8": "hp-roman8", "swe7": "ascii",
}  # fmt: skip
"""Python's codec of each character set."""
_UPPER: Final = {
    "dec8": (
        "\u0080\u0081\u0082\u0083\u0084\u0085\u0086\u0087\u0088\u0089\u008a\u008b\u008c\u008d\u008e\u008f\u0090\u0091\u0092\u0093\u0094\u0095\u0096\u0097\u0098\u0099\u009a\u009b\u009c\u009d\u009e\u009f"
        "\u00a0¡¢£\ufffd¥\ufffd§¤©ª«\ufffd\ufffd\ufffd\ufffd°±²³\ufffdµ¶·\ufffd¹º»¼½\ufffd¿"
        "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏ\ufffdÑÒÓÔÕÖŒØÙÚÛÜŸ\ufffdß"
        "àáâãäåæçèéêëìíîï\ufffdñòóôõöœøùúûüÿ\ufffd\ufffd"
    ),
    "armscii8": (
        "\u0080\u0081\u0082\u0083\u0084\u0085\u0086\u0087\u0088\u0089\u008a\u008b\u008c\u008d\u008e\u008f\u0090\u0091\u0092\u0093\u0094\u0095\u0096\u0097\u0098\u0099\u009a\u009b\u009c\u009d\u009e\u009f"
        "\u00a0❁§։)(»«—.՝,-՟…՜՛՞ԱաԲբԳգԴդԵեԶզԷէ"
        "ԸըԹթԺժԻիԼլԽխԾծԿկՀհՁձՂղՃճՄմՅյՆնՇշ"
        "ՈոՉչՊպՋջՌռՍսՎվՏտՐրՑցՒւՓփՔքՕօՖֆ’'"
    ),
    "keybcs2": (
        "ČüéďäĎŤčěĚĹÍľĺÄÁÉžŽôöÓůÚýÖÜŠĽÝŘť"
        "áíóúňŇŮÔšřŕŔ¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐"
        "└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀"
        "αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u00a0"
    ),
    "geostd8": (
        "€\ufffd‚\ufffd„…†‡\ufffd‰\ufffd‹\ufffd\ufffd\ufffd\ufffd\ufffd‘’“”•–—\ufffd\ufffd\ufffd›\ufffd\ufffd\ufffd\ufffd"
        "\u00a0¡¢£¤¥¦§¨©ª«¬\u00ad®¯°±²³´µ¶·¸¹º»¼½¾¿"
        "აბგდევზჱთიკლმნჲოპჟრსტჳუფქღყშჩცძწ"
        "ჭხჴჯჰჵ\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd№\ufffd\ufffd"
    ),
}
"""Characters from 0x80 on of sets of one byte that Python does not know; U+FFFD where there is none."""
_OTHERWISE: Final = {
    "sjis": {"＼": "\\"},
    "ujis": {"＼": "\\"},
    "hebrew": {"¯": "‾"},
    "koi8u": {"∙": "•"},
    "greek": {"‘": "ʽ", "’": "ʼ"},
    "cp866": {"№": "ⁿ", "¤": "²"},
    "eucjpms": {"〜": "～", "‖": "∥", "−": "－", "¢": "￠", "£": "￡", "¬": "￢", "¦": "￤"},
    "swe7": dict(zip("@[\\]^`{|}~", "ÉÄÖÅÜéäöåü", strict=True)),
}
"""Characters that Python's codec has in place of the server's."""
_TABLES: Final = {name: str.maketrans(found) for name, found in _OTHERWISE.items()}
_IBM: Final = (
    "ⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩ＇＂㈱№℡炻仼僴凬匇匤﨎咊坙﨏塚"
    "增寬峵嵓﨑德悅愠敎昻晥晴朗栁﨓﨔橫櫢淸淲瀨凞猪甁皂皞益礰礼神祥福竧靖精綠"
    "緖羽荢﨟薰蘒﨡蠇諸譿賴赶﨣﨤逸郞都鄕﨧﨨閒隆﨩霻靍靑飯飼館馞髙魲鶴黑"
)
"""IBM's extensions in eucjpms, from 8FF3F3 on."""
_HOLES: Final = frozenset(b"\x81\x8d\x8f\x90\x9d")
"""Bytes of Windows' code page 1252 that are no characters there, and in the server's latin1 the controls of Unicode."""


def _beyond(error: UnicodeError) -> tuple[str, int]:
    """Return a character that the server has and Python's codec has not, and where the next one begins."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data, at = error.object, error.start
    two, three = data[at : at + 2], data[at : at + 3]
    found = None
    if error.encoding == "big5" and b"\xf9\xd6" <= two <= b"\xf9\xdc" and len(two) == 2:
        found = two.decode("cp950")
    elif error.encoding == "euc_jp" and two[:1] == b"\xad" and len(two) == 2 and 0xA1 <= two[1] <= 0xFC:
        # NEC's row 13 is in Windows' code page 932 at the place of its row and cell
        found = bytes((0x87, two[1] - 0x61 + (two[1] >= 0xE0))).decode("cp932", "ignore")
    elif three[:2] == b"\x8f\xf3" and len(three) == 3 and 0xF3 <= three[2] <= 0xFE:
        return _IBM[three[2] - 0xF3], at + 3
    elif three[:2] == b"\x8f\xf4" and len(three) == 3 and 0xA1 <= three[2] <= 0xFE:
        return _IBM[three[2] - 0xA1 + 12], at + 3
    if not found:
        raise error
    return found, at + 2


def _control(error: UnicodeError) -> tuple[str, int]:
    """Return the control that the server's latin1 has where Windows' code page 1252 has nothing."""
    if not isinstance(error, UnicodeDecodeError) or error.object[error.start] not in _HOLES:
        raise error
    return chr(error.object[error.start]), error.start + 1


codecs.register_error("ingest-mysql", _beyond)
codecs.register_error("ingest-latin1", _control)


def decode(charset: str, data: bytes) -> tuple[str, bool]:
    """Return the characters of a text, and whether all of its bytes are such; U+FFFD stands for those that are not."""
    upper = _UPPER.get(charset)
    if upper is not None:
        text = "".join(chr(byte) if byte < 0x80 else upper[byte - 0x80] for byte in data)
        return text, "\ufffd" not in text
    codec = _CODECS.get(charset, "utf-8")
    try:
        text, valid = data.decode(codec, "ingest-latin1" if charset == "latin1" else "ingest-mysql"), True
    except UnicodeDecodeError:
        text, valid = data.decode(codec, "replace"), False
    table = _TABLES.get(charset)
    return text if table is None else text.translate(table), valid
