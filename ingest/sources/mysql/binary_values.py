"""Values as the server stores them in bytes, to texts: decimals and times, geometries, texts of a character set.

The reference. The layouts of numbers and times are those of the server's `decimal.c` and `my_time.c`, and for MariaDB's
older times of its `field.cc`. Geometries become JSON as Flink CDC has it: type, coordinates, reference system (`srid`).
Texts are converted as the server converts them to utf8mb4: where Python's codecs differ from MariaDB 10.11 was found by
converting every character of one and two bytes, and those of three bytes of EUC, in both.
"""

from __future__ import annotations

import codecs
import struct
from typing import Final

import msgspec

from ingest.sources.mysql.events import BadEvent

_DIGIT_BYTES: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""Bytes of so many digits that are left beside groups of nine."""


def decimal_size(precision: int, scale: int) -> int:
    """Return the bytes of a packed DECIMAL. Raise BadEvent."""
    if not 0 <= scale <= precision <= 65 or scale > 38 or precision == 0:
        raise BadEvent(f"DECIMAL({precision},{scale})")
    whole = precision - scale
    return whole // 9 * 4 + _DIGIT_BYTES[whole % 9] + scale // 9 * 4 + _DIGIT_BYTES[scale % 9]


def decimal(data: bytes, precision: int, scale: int) -> str:
    """Return the text of a DECIMAL with all digits of its scale. Raise BadEvent."""
    size = decimal_size(precision, scale)
    if len(data) < size:
        raise BadEvent(f"DECIMAL({precision},{scale}) of {len(data)} bytes")
    positive = bool(data[0] & 0x80)
    flipped = bytes(byte ^ (0 if positive else 0xFF) for byte in bytes((data[0] ^ 0x80,)) + data[1:size])
    whole = precision - scale
    groups = [whole % 9] * bool(whole % 9) + [9] * (whole // 9) + [9] * (scale // 9) + [scale % 9] * bool(scale % 9)
    digits, at = "", 0
    for group in groups:
        end = at + _DIGIT_BYTES[group]
        number = int.from_bytes(flipped[at:end], "big")
        if number >= 10**group:
            raise BadEvent(f"DECIMAL({precision},{scale}) with {number} in place of {group} digits")
        digits += str(number).zfill(group)
        at = end
    before, after = digits[:whole].lstrip("0") or "0", digits[whole:]
    negative = not positive and digits.strip("0")
    return f"{'-' if negative else ''}{before}{'.' if after else ''}{after}"


def fraction(micros: int) -> str:
    """Return the fraction of a second, with its point, without zeros at its end."""
    return f".{micros:06d}".rstrip("0") if micros else ""


def read_fraction(data: bytes) -> int:
    """Return the microseconds of a fraction of up to three bytes."""
    return int.from_bytes(data, "big") * (1, 10_000, 100, 1)[len(data)]


def datetime2(data: bytes) -> str:
    """Return the text of a DATETIME of five bytes and its fraction."""
    number = int.from_bytes(data[:5], "big") - (1 << 39)
    if number < 0:
        raise BadEvent("a DATETIME below zero")
    return date_parts(number >> 17) + " " + _clock(number & 0x1FFFF) + fraction(read_fraction(data[5:]))


def date_parts(number: int) -> str:
    """Return the text of a date of a packed moment: years times 13 and months, above five bits of days."""
    months, day = number >> 5, number & 31
    return f"{months // 13:04d}-{months % 13:02d}-{day:02d}"


def _clock(number: int) -> str:
    return f"{number >> 12:02d}:{number >> 6 & 63:02d}:{number & 63:02d}"


def time2(data: bytes) -> str:
    """Return the text of a TIME, which is stored as one number of three bytes and its fraction."""
    places = len(data) - 3
    number = int.from_bytes(data, "big") - (1 << (23 + 8 * places))
    sign, number = ("-", -number) if number < 0 else ("", number)
    rest = (number & ((1 << 8 * places) - 1)).to_bytes(places, "big")
    return f"{sign}{_clock(number >> 8 * places)}{fraction(read_fraction(rest))}"


def moment(number: int, field: int) -> str:
    """Return the text of a date or time inside of binary JSON; a time has six fraction digits."""
    sign, number = ("-", -number) if number < 0 else ("", number)
    micros, number = number & 0xFFFFFF, number >> 24
    if field == 10:
        return date_parts(number >> 17)
    if field in {11, 19}:
        return f"{sign}{_clock(number)}.{micros:06d}"
    return f"{date_parts(number >> 17)} {_clock(number & 0x1FFFF)}.{micros:06d}"


_TIME_BYTES: Final = (3, 4, 4, 5, 5, 5, 6)
_DATETIME_BYTES: Final = (8, 6, 6, 7, 7, 7, 8)
_TIMESTAMP_BYTES: Final = (4, 5, 5, 6, 6, 7, 7)
OLD_SIZES: Final = {11: _TIME_BYTES, 12: _DATETIME_BYTES, 7: _TIMESTAMP_BYTES}
"""Bytes of TIME, DATETIME and TIMESTAMP before MySQL 5.6, and of MariaDB's with so many digits of a fraction."""
_TIME_ZERO: Final = 3_020_400 * 1_000_000


def old_time(data: bytes, fsp: int) -> str:
    """Return the text of a TIME in the format before MySQL 5.6, or in MariaDB's of that time."""
    if not fsp:
        number = int.from_bytes(data, "little", signed=True)
        sign, number = ("-", -number) if number < 0 else ("", number)
        return f"{sign}{number // 10_000:02d}:{number // 100 % 100:02d}:{number % 100:02d}"
    unit = 10 ** (6 - fsp)
    micros = (int.from_bytes(data, "big") - _TIME_ZERO // unit) * unit
    sign, micros = ("-", -micros) if micros < 0 else ("", micros)
    seconds = micros // 1_000_000
    return f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction(micros % 1_000_000)}"


def old_datetime(data: bytes, fsp: int) -> str:
    """Return the text of a DATETIME in the format before MySQL 5.6, or in MariaDB's of that time."""
    if not fsp:
        text = f"{int.from_bytes(data, 'little'):014d}"
        return f"{text[:-10]}-{text[-10:-8]}-{text[-8:-6]} {text[-6:-4]}:{text[-4:-2]}:{text[-2:]}"
    number = int.from_bytes(data, "big") * 10 ** (6 - fsp)
    number, micros = divmod(number, 1_000_000)
    number, second = divmod(number, 60)
    number, minute = divmod(number, 60)
    number, hour = divmod(number, 24)
    number, day = divmod(number, 32)
    year, month = divmod(number, 13)
    return f"{year:04d}-{month:02d}-{day:02d} {hour:02d}:{minute:02d}:{second:02d}{fraction(micros)}"


_NAMES: Final = {
    1: "Point",
    2: "LineString",
    3: "Polygon",
    4: "MultiPoint",
    5: "MultiLineString",
    6: "MultiPolygon",
    7: "GeometryCollection",
}
_POINT: Final = 1
_COLLECTION: Final = 7
_DEEPEST: Final = 30
"""How deep collections may nest here; servers allow more, and nobody writes it."""


class _Bytes:
    """Bytes of a geometry, read from the front."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def take(self, form: str) -> tuple[float | int, ...]:
        """Return numbers by a form of `struct`. Raise BadEvent where the bytes end before."""
        try:
            found = struct.unpack_from(form, self._data, self.at)
        except struct.error as exc:
            raise BadEvent("a geometry that ends too early") from exc
        self.at += struct.calcsize(form)
        return found

    def count(self, order: str, least: int) -> int:
        """Return the number of parts that follow, each of which has `least` bytes at least. Raise BadEvent."""
        (parts,) = self.take(order + "I")
        if int(parts) * least > len(self._data) - self.at:
            raise BadEvent("a geometry that ends too early")
        return int(parts)


def geometry(value: bytes) -> bytes:
    """Return the JSON text of a value: a string that holds the JSON of the geometry. Raise BadEvent for other bytes.

    Coordinates are in the order x, y in which servers store them; a number without a fraction has no point.
    """
    data = _Bytes(value)
    (srid,) = data.take("<I")
    found = _geometry(data, 0)
    if data.at != len(value):
        raise BadEvent("bytes behind a geometry")
    return msgspec.json.encode(msgspec.json.encode({**found, "srid": srid}).decode())


def _geometry(data: _Bytes, depth: int) -> dict[str, object]:
    """Return one geometry in WKB as the members of its JSON."""
    (order,) = data.take("B")
    if order > 1 or depth > _DEEPEST:
        raise BadEvent("no geometry")
    endian = "<" if order else ">"
    kind = int(data.take(endian + "I")[0])
    name = _NAMES.get(kind)
    if name is None:
        raise BadEvent(f"a geometry of the kind {kind}")
    if kind == _POINT:
        return {"coordinates": _point(data, endian), "type": name}
    if kind == 2:
        return {"coordinates": _line(data, endian), "type": name}
    if kind == 3:
        return {"coordinates": [_line(data, endian) for _ in range(data.count(endian, 4))], "type": name}
    parts = [_geometry(data, depth + 1) for _ in range(data.count(endian, 9))]
    if kind == _COLLECTION:
        return {"geometries": parts, "type": name}
    if any(part["type"] != _NAMES[kind - 3] for part in parts):
        raise BadEvent(f"a {name} with other parts")
    return {"coordinates": [part["coordinates"] for part in parts], "type": name}


def _line(data: _Bytes, endian: str) -> list[list[float | int]]:
    return [_point(data, endian) for _ in range(data.count(endian, 16))]


def _point(data: _Bytes, endian: str) -> list[float | int]:
    return [int(number) if number.is_integer() and abs(number) < 1e15 else number for number in _two(data, endian)]


def _two(data: _Bytes, endian: str) -> list[float]:
    found = [float(number) for number in data.take(endian + "dd")]
    if any(number - number != 0 for number in found):  # NaN or infinite
        raise BadEvent("a coordinate that is no number")
    return found


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
    """Return a character missing in Python's codec, as the server decodes it, and the offset after it."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data, at = error.object, error.start
    two, three = data[at : at + 2], data[at : at + 3]
    character = None
    if error.encoding == "big5" and b"\xf9\xd6" <= two <= b"\xf9\xdc" and len(two) == 2:
        character = two.decode("cp950")
    elif error.encoding == "euc_jp" and two[:1] == b"\xad" and len(two) == 2 and 0xA1 <= two[1] <= 0xFC:
        # NEC's row 13 is in Windows' code page 932 at the place of its row and cell
        character = bytes((0x87, two[1] - 0x61 + (two[1] >= 0xE0))).decode("cp932", "ignore")
    elif three[:2] == b"\x8f\xf3" and len(three) == 3 and 0xF3 <= three[2] <= 0xFE:
        return _IBM[three[2] - 0xF3], at + 3
    elif three[:2] == b"\x8f\xf4" and len(three) == 3 and 0xA1 <= three[2] <= 0xFE:
        return _IBM[three[2] - 0xA1 + 12], at + 3
    if not character:
        raise error
    return character, at + 2


def _control(error: UnicodeError) -> tuple[str, int]:
    """Return the control that the server's latin1 has where Windows' code page 1252 has nothing."""
    if not isinstance(error, UnicodeDecodeError) or error.object[error.start] not in _HOLES:
        raise error
    return chr(error.object[error.start]), error.start + 1


codecs.register_error("ingest-mysql", _beyond)
codecs.register_error("ingest-latin1", _control)


def decode_text(charset: str, data: bytes) -> tuple[str, bool]:
    """Return a decoded text and whether all of its bytes were valid; U+FFFD replaces invalid ones."""
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
