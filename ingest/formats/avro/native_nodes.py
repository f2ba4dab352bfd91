"""The contract with the native reader: an Avro schema as a list of nodes, each with the way to read its values.

In: the tree of a schema that the reference has compiled. Out: the native reader of its messages. Which logical types
there are, and what a value becomes, is in `logical.py` and `rows.py`; what is not said here is read by the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import msgspec

from ingest import compiled
from ingest.formats.avro.logical import counts_millis, logical, small_integer
from ingest.formats.avro.primitives import BASE, PER_BYTE, has_long_symbol, read_null, weight
from ingest.formats.avro.rows import IMAGES, TABLE
from ingest.formats.avro.schema import Field, Node, takes_bytes
from ingest.model import types
from ingest.model.types import DataType, DecimalType, TimeType

if compiled.BUILT:
    from ingest.formats.avro.native.reader import AvroCodec, AvroReader

BUILT: Final = compiled.USED
"""True if the native reader is there, and wanted."""

_BITS: Final = {types.TINYINT: 8, types.SMALLINT: 16}
_SIZES: Final = {"boolean": 1, "float": 4, "double": 8}


class AvroNodeSpec(msgspec.Struct, frozen=True):
    """A schema within a schema. Places are indexes into the list of nodes."""

    codec: AvroCodec
    first: int = 0
    """Bits of an integer, microseconds of a unit, digits of a decimal, or what a record takes from the budget."""
    second: int = 0
    """Digits behind a decimal's point; 1 for a moment with a zone."""
    size: int = -1
    """Number of bytes of a value; -1 where each message says it."""
    nodes: tuple[int, ...] = ()
    """Places of a record's fields, of a union's branches, or of the items of an array or a map."""
    texts: tuple[bytes, ...] = ()
    """Of a record's fields, the names as JSON has them with a colon; an empty one is passed over. Of an enum, its
    symbols with quotes."""


def row_reader(node: Node) -> AvroReader | None:
    """Return the native reader of a schema's rows, or None.

    `node` is a record that the reference has compiled, or a union of one and null. A message that is null is left.
    """
    if not BUILT:
        return None
    nodes = _Nodes()
    nodes.message(node)
    return _reader(nodes)


def members_reader(node: Node, wanted: Collection[str]) -> AvroReader | None:
    """Return the native reader of these members of a Debezium envelope, or None.

    Of `source` it reads the table's names only.
    """
    if not BUILT:
        return None
    nodes = _Nodes()
    nodes.envelope(node, wanted)
    return _reader(nodes)


def _reader(nodes: _Nodes) -> AvroReader | None:
    """Return the native reader; None for nodes with numbers that it does not take, which are for the reference."""
    try:
        return AvroReader(nodes.made(), BASE, PER_BYTE)
    except (ValueError, OverflowError):
        return None


class _Nodes:
    """Maker of the list of nodes."""

    def __init__(self) -> None:
        self._made: list[AvroNodeSpec | None] = []
        self._places: dict[tuple[int, bool], int] = {}
        self._takes_bytes: dict[int, bool] = {}

    def made(self) -> list[AvroNodeSpec]:
        return [spec for spec in self._made if spec is not None]

    def message(self, node: Node) -> None:
        """Make the nodes of whole messages that are rows."""
        if node.kind != "union":
            self.row(node)
            return
        place = self._reserve()
        branches = [self.row(branch) if branch.kind == "record" else self._left() for branch in node.branches]
        self._made[place] = AvroNodeSpec(AvroCodec.AVRO_UNION, nodes=tuple(branches))

    def _left(self) -> int:
        """Return the place of a node whose values are for the reference."""
        place = self._reserve()
        self._made[place] = AvroNodeSpec(AvroCodec.AVRO_OTHER)
        return place

    def row(self, node: Node) -> int:
        """Return the place of the node of a row, or of an image that may be null: a record of no logical type."""
        if node.kind == "null":
            return self._at(node, passed=False)
        place = self._reserve()
        if node.kind == "record":
            self._made[place] = self._record(node.fields, passed=False)
        else:
            branches = tuple(self.row(branch) for branch in node.branches)
            self._made[place] = AvroNodeSpec(AvroCodec.AVRO_UNION, nodes=branches)
        return place

    def envelope(self, node: Node, wanted: Collection[str]) -> int:
        """Return the place of the node by which members of an envelope are read."""
        return self._some(node, {one.name: self._member for one in node.fields if one.name in wanted})

    def _member(self, name: str, node: Node) -> int:
        if name in IMAGES:
            return self.row(node)
        if name == "source":
            return self._some(node, dict.fromkeys(TABLE, lambda _, one: self._at(one, passed=False)))
        return self._at(node, passed=False)

    def _some(self, node: Node, wanted: Mapping[str, Callable[[str, Node], int]]) -> int:
        """Return the place of the node by which some fields of a record are read, and the others passed over."""
        place = self._reserve()
        nodes, texts = [], []
        for one in node.fields:
            read = wanted.get(one.name)
            nodes.append(self._at(one.node, passed=True) if read is None else read(one.name, one.node))
            texts.append(b"" if read is None else _named(one.name))
        self._made[place] = AvroNodeSpec(AvroCodec.AVRO_RECORD, nodes=tuple(nodes), texts=tuple(texts))
        return place

    def _at(self, node: Node, *, passed: bool) -> int:
        known = self._places.get((id(node), passed))
        if known is not None:
            return known
        place = self._places[id(node), passed] = self._reserve()
        self._made[place] = self._passed(node) if passed else self._read(node)
        return place

    def _reserve(self) -> int:
        self._made.append(None)
        return len(self._made) - 1

    def _read(self, node: Node) -> AvroNodeSpec:
        known = small_integer(node) or logical(node, read_null)
        if known is not None:
            return _logical(node, known[0])
        if node.kind in _WITHIN:
            return self._within(node, passed=False)
        if node.kind == "record":
            return self._record(node.fields, passed=False, first=weight(node, self._takes_bytes))
        if node.kind == "enum" and has_long_symbol(node):  # which the reference counts
            return AvroNodeSpec(AvroCodec.AVRO_OTHER)
        if node.kind == "enum":
            texts = tuple(msgspec.json.encode(symbol) for symbol in node.symbols)
            return AvroNodeSpec(AvroCodec.AVRO_ENUM, texts=texts)
        if node.kind == "fixed":
            return AvroNodeSpec(AvroCodec.AVRO_BYTES, size=node.size)
        return _PLAIN[node.kind]

    def _passed(self, node: Node) -> AvroNodeSpec:
        if node.kind in _WITHIN:
            return self._within(node, passed=True)
        if node.kind == "record":
            taking = [one for one in node.fields if takes_bytes(one.node, self._takes_bytes)]
            return self._record(taking, passed=True, first=weight(node, self._takes_bytes))
        if node.kind in {"null", "int", "long", "bytes", "string"}:
            return _PASSED.get(node.kind, _PLAIN[node.kind])
        if node.kind == "enum":
            return _PLAIN["long"]
        return AvroNodeSpec(AvroCodec.AVRO_PASSED, size=_SIZES.get(node.kind, node.size))

    def _record(self, fields: Sequence[Field], *, passed: bool, first: int = 0) -> AvroNodeSpec:
        """Return the node of a record of these fields, which takes so much from the budget: a row takes nothing."""
        nodes = tuple(self._at(one.node, passed=passed) for one in fields)
        texts = tuple(_named(one.name) for one in fields)
        return AvroNodeSpec(AvroCodec.AVRO_RECORD, first, nodes=nodes, texts=texts)

    def _within(self, node: Node, *, passed: bool) -> AvroNodeSpec:
        branches = tuple(self._at(branch, passed=passed) for branch in node.branches)
        return AvroNodeSpec(_WITHIN[node.kind], nodes=branches)


def _named(name: str) -> bytes:
    return msgspec.json.encode(name) + b":"


def _logical(node: Node, data_type: DataType) -> AvroNodeSpec:
    """Return the node of a logical type's values."""
    kind = node.kind
    unit = 1000 if counts_millis(node) else 1
    if data_type in _BITS:
        return AvroNodeSpec(AvroCodec.AVRO_INTEGER, _BITS[data_type])
    if isinstance(data_type, DecimalType):
        size = node.size if kind == "fixed" else -1
        return AvroNodeSpec(AvroCodec.AVRO_DECIMAL, data_type.precision, data_type.scale, size)
    if data_type == types.DATE:
        return AvroNodeSpec(AvroCodec.AVRO_DATE)
    if isinstance(data_type, TimeType):
        return AvroNodeSpec(AvroCodec.AVRO_TIME, unit)
    if data_type in {types.TIMESTAMP, types.TIMESTAMP_LTZ}:
        if kind == "string":
            return AvroNodeSpec(AvroCodec.AVRO_ZONED)
        return AvroNodeSpec(AvroCodec.AVRO_MOMENT, unit, int(data_type == types.TIMESTAMP_LTZ))
    if kind == "record":
        return AvroNodeSpec(AvroCodec.AVRO_VARIABLE)
    return AvroNodeSpec(AvroCodec.AVRO_STRING if kind == "string" else AvroCodec.AVRO_OTHER)


if compiled.BUILT:
    _PLAIN: Final = {
        "null": AvroNodeSpec(AvroCodec.AVRO_NULL),
        "boolean": AvroNodeSpec(AvroCodec.AVRO_BOOLEAN),
        "int": AvroNodeSpec(AvroCodec.AVRO_INTEGER, 32),
        "long": AvroNodeSpec(AvroCodec.AVRO_INTEGER, 64),
        "float": AvroNodeSpec(AvroCodec.AVRO_FLOAT),
        "double": AvroNodeSpec(AvroCodec.AVRO_DOUBLE),
        "bytes": AvroNodeSpec(AvroCodec.AVRO_BYTES),
        "string": AvroNodeSpec(AvroCodec.AVRO_STRING),
    }
    _PASSED: Final = dict.fromkeys(("bytes", "string"), AvroNodeSpec(AvroCodec.AVRO_PASSED))
    _WITHIN: Final = {"array": AvroCodec.AVRO_ARRAY, "map": AvroCodec.AVRO_MAP, "union": AvroCodec.AVRO_UNION}
