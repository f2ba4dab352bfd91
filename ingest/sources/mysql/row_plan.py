"""How native code decodes the rows of a table: a step for each column of its table map.

In: a table of the log as the reference has it. Out: native code's plan. Types that have no step of their own are read
by the reference, value by value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import orjson

from ingest import compiled
from ingest.sources.mysql.binary_values import OLD_SIZES, decimal_size
from ingest.sources.mysql.events import Cursor
from ingest.sources.mysql.log_decoder import LogDecoder
from ingest.sources.mysql.row_decoder import UNKNOWN
from ingest.sources.mysql.row_values import real_type
from ingest.sources.mysql.types import BINARIES, FIXED, GEOMETRIES, is_tinyint1

if compiled.BUILT:
    from ingest.sources.mysql.native import log_decoder, row_image

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.sources.mysql.native.row_image import RowPlan, RowShape
    from ingest.sources.mysql.row_decoder import KnownTable
    from ingest.sources.mysql.row_values import ValueReader
    from ingest.sources.mysql.types import Column

NATIVE: Final = compiled.USED
"""True if native code is there, and wanted."""
(
    BY_PYTHON, SIGNED, UNSIGNED, TRUTH, DATE, TIME, DATETIME, TIMESTAMP, YEAR, BITS, LABEL, LABELS, UTF8, ASCII,
    WINDOWS, BYTES, PADDED, FLOAT, DOUBLE, DECIMAL, NOTHING,
) = range(21)  # fmt: skip
"""The numbers of `Step` in native/row_image.pxd."""
_INTEGERS: Final = {1: 1, 2: 2, 9: 3, 3: 4, 8: 8}
_TEXTS: Final = {"utf8mb4": UTF8, "utf8mb3": UTF8, "utf8": UTF8, "ascii": ASCII, "latin1": WINDOWS}
_MOMENTS: Final = {17: (TIMESTAMP, 4), 18: (DATETIME, 5), 19: (TIME, 3)}
MAX_PADDED: Final = 256


def make_decoder(most: tuple[int, int, int], *, native: bool, metadata: bool) -> LogDecoder:
    """Return what decodes the log: natively, or the reference.

    `most`: bytes of records that are enough: of transactions that ended, of an open one, of one that is held.
    """
    return cast("LogDecoder", log_decoder.LogDecoder(*most, metadata)) if native else LogDecoder()


def plan_of(known: KnownTable, raw: bytes, values: ValueReader) -> RowPlan | None:
    """Return the plan for a table map, of which `raw` is the body; None where only the reference may read its rows."""
    if known.table.row_end is not None:  # some of its rows are history
        return None
    try:
        return _plan_of(known, raw, values)
    except (ValueError, IndexError):  # lengths or digits that no server writes: the reference says so
        return None


def sizes_of(known: KnownTable, values: ValueReader) -> list[tuple[int, int]]:
    """Return for each column the bytes of a value's length, and the bytes of a value where it has none of its own.

    Nothing for lengths or digits that no server writes.
    """
    out = []
    try:
        for at, column in enumerate(known.columns):
            _, length, size, *_ = _step(
                UNKNOWN if column.hidden else column, known.map.types[at], known.map.metadata[at], values
            )
            out.append((length, size))
    except (ValueError, IndexError):
        return []
    return out


def row_shape(sizes: Sequence[tuple[int, int]], places: Sequence[int]) -> RowShape | None:
    """Return what native code compares some columns of rows by; None where native code is not there."""
    return row_image.RowShape(sizes, places) if NATIVE else None


def _plan_of(known: KnownTable, raw: bytes, values: ValueReader) -> RowPlan:
    columns = known.columns
    steps = []
    for at, column in enumerate(columns):
        code, metadata = known.map.types[at], known.map.metadata[at]
        step = _step(UNKNOWN if column.hidden else column, code, metadata, values)
        name = b"," + orjson.dumps(column.name) + b":"
        steps.append(((NOTHING if column.hidden else step[0]), *step[1:5], name, step[5]))
    table = known.table
    source = b',"source":{"db":' + _json(table.database) + b',"table":' + _json(table.name) + b'},"op":"'
    tails = [source + op + b'"}' for op in (b"c", b"u", b"d")]
    head = b"\0" + known.id.to_bytes(4, "big") + b'{"before":'

    def read(at: int, data: bytes) -> bytes:
        values.table = f"{table.database}.{table.name}"
        return values.read(Cursor(data), columns[at], known.map.types[at], known.map.metadata[at])

    return row_image.RowPlan(known, raw, head, tails, steps, read)


def _json(name: str) -> bytes:
    return orjson.dumps(name.encode("utf-8", "replace").decode())


def _step(
    column: Column, code: int, metadata: bytes, values: ValueReader
) -> tuple[int, int, int, int, int, tuple[bytes, ...]]:
    """Return step, bytes of a length, bytes of a value, digits or full length, digits behind the point, labels."""
    real, most = real_type(code, metadata)
    step, size, first, second = BY_PYTHON, 0, 0, 0
    labels: tuple[bytes, ...] = ()
    if real in _INTEGERS:
        size = _INTEGERS[real]
        if not (values.tinyint1_as_boolean and is_tinyint1(column)):
            step = UNSIGNED if column.unsigned else SIGNED
    elif real in {4, 5}:
        step, size = (FLOAT, 4) if real == 4 else (DOUBLE, 8)
    elif real == 246:
        step, size, first, second = DECIMAL, decimal_size(*metadata), *metadata
    elif real in {10, 13, 14}:
        step, size = (YEAR, 1) if real == 13 else (DATE, 3)
    elif real in _MOMENTS:
        step, size = _MOMENTS[real]
        second = (metadata[0] + 1) // 2
        size += second
    elif real in OLD_SIZES:
        size = OLD_SIZES[real][column.fsp]
    elif real == 16:
        bits = metadata[1] * 8 + metadata[0]
        step, size = (TRUTH, 1) if bits == 1 else (BITS, (bits + 7) // 8)
    elif real == 247:
        step, size = LABEL, most
        labels = (b'""', *map(orjson.dumps, column.labels))
    elif real == 248:
        step, size = LABELS, most
        labels = tuple(orjson.dumps(label)[1:-1] for label in column.labels)
    else:
        step, length, first = _long(column, real, most)
        return step, length, 0, first, 0, ()
    return step, 0, size, first, second, labels


def _long(column: Column, real: int, most: int) -> tuple[int, int, int]:
    """Return the step of a value that has a length, the bytes of that, and the bytes to which it is filled up."""
    length = (2 if most > 255 else 1) if real in {15, 253, 254, 141} else most
    kind = column.type
    if real in {140, 141, 245} or kind in GEOMETRIES or kind in FIXED:
        return BY_PYTHON, length, 0
    if kind == "binary":
        full = column.length or 1
        return (PADDED if full <= MAX_PADDED else BY_PYTHON), length, min(full, MAX_PADDED)
    if kind in BINARIES or column.charset in {None, "binary"}:
        return BYTES, length, 0
    return _TEXTS.get(column.charset or "", BY_PYTHON), length, 0
