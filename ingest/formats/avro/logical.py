"""Logical types: those of Avro, and those that Kafka Connect and Debezium write into Avro schemas.

In: a node of a schema, and the function that reads its plain value. Out: the column type, and the function that reads
the value as that type's JSON text has it. No digit is lost. Rules: docs/spec/avro.md#types.
"""

from __future__ import annotations

from functools import lru_cache, partial
from math import log10
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import UUID

import msgspec

from ingest.formats.avro.primitives import AvroError, converted, read_bytes, read_int, read_long, read_null
from ingest.formats.avro.schema import LOGICAL, Node
from ingest.model import temporal, types
from ingest.model.types import DataType, DecimalType, TimeType
from ingest.model.values import decimal_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.formats.avro.primitives import Read
    from ingest.model.jsontext import Json

    Logical: TypeAlias = Callable[[Node, Read], tuple[DataType, Read] | None]
    """Function that returns a logical type's column type and reader; None where the schema is none of that type."""

_DAY_MICROS: Final = 86_400_000_000
_DIGITS_PER_BIT: Final = log10(2)
_FIRST_DAY: Final = -719_162
_LAST_DAY: Final = 2_932_896
"""The first day of the year 1 and the last one of the year 9999."""

_DATES = lru_cache(maxsize=10_000)(temporal.any_date_text)
_MINUTES = lru_cache(maxsize=1440)(lambda minute: temporal.time_text(minute * 60_000_000)[1:7])
"""Dates and minutes that came lately: a table's rows have few days, and a day has 1,440 minutes."""


def _date(days: int) -> msgspec.Raw:
    return msgspec.Raw(_DATES(days))


def _time(count: int, micros: int) -> msgspec.Raw:
    return msgspec.Raw(temporal.time_text(count * micros))


def _debezium_date(days: int) -> msgspec.Raw:
    return msgspec.Raw(temporal.any_date_text(days, temporal.INFINITE_DAYS))


def _debezium_moment(count: int, micros: int) -> msgspec.Raw:
    return msgspec.Raw(temporal.INFINITE_COUNTS.get(count * micros) or _moment(count, micros, _LOCAL))


def _moment(count: int, micros: int, end: bytes) -> msgspec.Raw:
    days, rest = divmod(count * micros, _DAY_MICROS)
    if not _FIRST_DAY <= days <= _LAST_DAY:
        return msgspec.Raw(temporal.any_timestamp_text(count * micros, zoned=end == _INSTANT))
    minute, rest = divmod(rest, 60_000_000)
    second, fraction = divmod(rest, 1_000_000)
    text = b"%b %b%02d" % (_DATES(days)[:-1], _MINUTES(minute), second)
    return msgspec.Raw(text + (b".%06d" % fraction).rstrip(b"0") + end if fraction else text + end)


def _zoned(text: str) -> msgspec.Raw:
    return msgspec.Raw(temporal.zoned_text(text))


def _exact(unscaled: bytes, scale: int) -> bytes:
    """Return a plain number with all its digits; raises ValueError."""
    if not unscaled:
        raise ValueError("no number: it has no bytes")
    return decimal_text(int.from_bytes(unscaled, "big", signed=True), scale)


def _number_reader(precision: int, scale: int) -> Callable[[bytes], msgspec.Raw]:
    """Return a function that makes a number's text of its unscaled bytes; it raises ValueError."""
    bound, unit = 10**precision, 10**scale

    def convert(unscaled: bytes) -> msgspec.Raw:
        number = int.from_bytes(unscaled, "big", signed=True)
        if not unscaled or not -bound < number < bound:
            raise ValueError(f"a number of more than {precision} digits" if unscaled else "no number: it has no bytes")
        if not scale:
            return msgspec.Raw(b"%d" % number)
        whole, fraction = divmod(abs(number), unit)
        return msgspec.Raw(b"%b%d.%0*d" % (b"-" if number < 0 else b"", whole, scale, fraction))

    return convert


def _number_text(unscaled: bytes, scale: int) -> str:
    return _exact(unscaled, scale).decode()


def _decimal(node: Node, read: Read, precision: Json, scale: Json) -> tuple[DataType, Read] | None:
    if node.kind not in {"bytes", "fixed"} or type(scale) is not int or type(precision) is not int or scale < 0:
        return None
    if not max(scale, 1) <= precision <= types.MAX_PRECISION:
        return types.STRING, converted(read, partial(_number_text, scale=scale))
    return DecimalType(precision, scale), converted(read, _number_reader(precision, scale))


def _avro_decimal(node: Node, read: Read) -> tuple[DataType, Read] | None:
    """Avro's own decimal. One that its specification calls invalid is none: its bytes stay bytes."""
    precision, scale = node.properties.get("precision"), node.properties.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or precision < 1:
        return None
    if node.kind == "fixed" and precision > (8 * node.size - 1) * _DIGITS_PER_BIT:
        return None
    return _decimal(node, read, precision, scale)


def _connect_decimal(node: Node, read: Read) -> tuple[DataType, Read] | None:
    """Connect has its parameters as texts, and knows no precision unless somebody said it."""
    parameters = node.properties.get("connect.parameters")
    parameters = parameters if isinstance(parameters, dict) else {}
    try:
        scale = int(parameters.get("scale", node.properties.get("scale", 0)))
        precision = int(parameters.get("connect.decimal.precision", types.MAX_PRECISION))
    except (TypeError, ValueError):
        return None
    return _decimal(node, read, precision, scale)


def _big_decimal(node: Node, _: Read) -> tuple[DataType, Read] | None:
    """Bytes that hold a number and its scale, each as Avro writes it."""
    if node.kind != "bytes":
        return None

    def read(data: bytes, at: int) -> tuple[str, int]:
        inside, at = read_bytes(data, at)
        try:
            unscaled, place = read_bytes(inside, 0)
            scale, place = read_int(inside, place)
        except IndexError:
            raise AvroError("a big-decimal ends before its scale") from None
        return _number_text(unscaled, scale), at

    return types.STRING, read


def _variable_decimal(node: Node, read: Read) -> tuple[DataType, Read] | None:
    """Debezium's record of a scale and a number."""
    if [(one.name, one.node.kind) for one in node.fields] != [("scale", "int"), ("value", "bytes")]:
        return None

    def convert(found: dict[str, Any]) -> str:
        return _number_text(found["value"], found["scale"])

    return types.STRING, converted(read, convert)


def _uuid(node: Node, read: Read) -> tuple[DataType, Read] | None:
    if node.kind == "fixed" and node.size == 16:
        return types.STRING, converted(read, lambda raw: str(UUID(bytes=raw)))
    return (types.STRING, read) if node.kind == "string" else None


def _duration(node: Node, read: Read) -> tuple[DataType, Read] | None:
    if node.kind != "fixed" or node.size != 12:
        return None

    def convert(raw: bytes) -> dict[str, int]:
        parts = (int.from_bytes(raw[i : i + 4], "little") for i in (0, 4, 8))
        return dict(zip(("months", "days", "milliseconds"), parts, strict=True))

    return types.STRING, converted(read, convert)


def _counted(kind: str, data_type: DataType, convert: Callable[[int], msgspec.Raw]) -> Logical:
    """Return a logical type of whole numbers; `kind` is Avro's type of them."""
    made = (data_type, converted(read_int if kind == "int" else read_long, convert))
    return lambda node, _: made if node.kind == kind else None


def _text(data_type: DataType, convert: Callable[[str], msgspec.Raw]) -> Logical:
    return lambda node, read: (data_type, converted(read, convert)) if node.kind == "string" else None


_LOCAL: Final = b'"'
_INSTANT: Final = b'Z"'
_DATE: Final = _counted("int", types.DATE, _date)
_DEBEZIUM_DATE: Final = _counted("int", types.DATE, _debezium_date)
_TIME_MILLIS: Final = _counted("int", TimeType(3), partial(_time, micros=1000))
_TIME_MICROS: Final = _counted("long", TimeType(6), partial(_time, micros=1))
_MILLIS: Final = _counted("long", types.TIMESTAMP, partial(_debezium_moment, micros=1000))
_MICROS: Final = _counted("long", types.TIMESTAMP, partial(_debezium_moment, micros=1))

_AVRO: Final[dict[str, Logical]] = {
    "date": _DATE,
    "time-millis": _TIME_MILLIS,
    "time-micros": _TIME_MICROS,
    "timestamp-millis": _counted("long", types.TIMESTAMP_LTZ, partial(_moment, micros=1000, end=_INSTANT)),
    "timestamp-micros": _counted("long", types.TIMESTAMP_LTZ, partial(_moment, micros=1, end=_INSTANT)),
    "local-timestamp-millis": _counted("long", types.TIMESTAMP, partial(_moment, micros=1000, end=_LOCAL)),
    "local-timestamp-micros": _counted("long", types.TIMESTAMP, partial(_moment, micros=1, end=_LOCAL)),
    "decimal": _avro_decimal,
    "big-decimal": _big_decimal,
    "uuid": _uuid,
    "duration": _duration,
}
_CONNECT: Final[dict[str, Logical]] = {
    "io.debezium.time.Date": _DEBEZIUM_DATE,
    "org.apache.kafka.connect.data.Date": _DEBEZIUM_DATE,
    "io.debezium.time.Time": _TIME_MILLIS,
    "io.debezium.time.MicroTime": _TIME_MICROS,
    "org.apache.kafka.connect.data.Time": _TIME_MILLIS,
    "io.debezium.time.Timestamp": _MILLIS,
    "io.debezium.time.MicroTimestamp": _MICROS,
    "org.apache.kafka.connect.data.Timestamp": _MILLIS,
    "io.debezium.time.ZonedTimestamp": _text(types.TIMESTAMP_LTZ, _zoned),
    "org.apache.kafka.connect.data.Decimal": _connect_decimal,
    "io.debezium.data.VariableScaleDecimal": _variable_decimal,
}


_IN_MILLIS: Final = frozenset(
    {
        "time-millis",
        "timestamp-millis",
        "local-timestamp-millis",
        "io.debezium.time.Time",
        "io.debezium.time.Timestamp",
        "org.apache.kafka.connect.data.Time",
        "org.apache.kafka.connect.data.Timestamp",
    }
)


def counts_millis(node: Node) -> bool:
    """Return whether a time or a time stamp is counted in milliseconds; others are in microseconds."""
    found = _known(node, read_null)
    return found is not None and found[0] in _IN_MILLIS


_NUMBERS: Final = frozenset(
    {"decimal", "big-decimal", "org.apache.kafka.connect.data.Decimal", "io.debezium.data.VariableScaleDecimal"}
)


def is_number(node: Node) -> bool:
    """Return whether a node's values are exact numbers, which may be written as texts."""
    found = _known(node, read_null)
    return found is not None and found[0] in _NUMBERS


def logical(node: Node, read: Read) -> tuple[DataType, Read] | None:
    """Return the column type and the reader of a node with a logical type that is known; else None."""
    found = _known(node, read)
    return None if found is None else found[1]


def logical_name(node: Node) -> object:
    """Return the name of a node's logical type; None where it has none, or one that does not fit its schema.

    A name that is not known here counts: it may say what a number means.
    """
    found = _known(node, read_null)
    if found is not None:
        return found[0]
    connect, own = node.properties.get("connect.name"), node.properties.get(LOGICAL)
    names = ((connect, _CONNECT), (own, _AVRO))
    return next((name for name, known in names if name and not (isinstance(name, str) and name in known)), None)


def _known(node: Node, read: Read) -> tuple[str, tuple[DataType, Read]] | None:
    """Return the logical type of a node by its name, with its column type and reader; None where none is known.

    What Connect says (`connect.name`) comes first: it is what the source meant, and the same as in Debezium's JSON.
    """
    for names, key in ((_CONNECT, "connect.name"), (_AVRO, LOGICAL)):
        name = node.properties.get(key)
        found = names.get(name) if isinstance(name, str) else None
        made = None if found is None else found(node, read)
        if made is not None:
            return str(name), made
    return None


def small_integer(node: Node) -> tuple[DataType, Read] | None:
    """Return the column type and the reader of one of Connect's integers of 8 or 16 bits; None for another."""
    bits = {"int8": 8, "int16": 16}.get(str(node.properties.get("connect.type")))
    if bits is None or node.kind != "int":
        return None
    bound = 1 << (bits - 1)

    def check(value: int) -> int:
        if not -bound <= value < bound:
            raise ValueError(str(value))
        return value

    return (types.TINYINT if bits == 8 else types.SMALLINT), converted(read_int, check)
