"""Rows out of Avro: for a record's schema, the types of its columns and the functions that read rows and envelopes.

Rules: docs/spec/avro.md#types.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ingest.formats.avro import primitives
from ingest.formats.avro.logical import is_number, logical, small_integer
from ingest.formats.avro.primitives import AvroError, MemberBudget, has_long_symbol, weight
from ingest.formats.avro.schema import Node, SchemaError, takes_bytes
from ingest.formats.format import NOTHING_GIVEN
from ingest.model import floats, types
from ingest.model.floats import NotANumber
from ingest.model.reject import Contradiction, RowError
from ingest.model.types import ArrayType, DataType, DecimalType, MapType, NullType, StructType, TimeType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ingest.formats.avro.primitives import Read

_PLAIN: dict[str, tuple[DataType, Read]] = {
    "null": (types.NULL, primitives.read_null),
    "boolean": (types.BOOLEAN, primitives.read_boolean),
    "int": (types.INT, primitives.read_int),
    "long": (types.BIGINT, primitives.read_long),
    "float": (types.FLOAT, floats.read_float),
    "double": (types.DOUBLE, floats.read_double),
    "bytes": (types.BYTES, primitives.read_bytes),
    "string": (types.STRING, primitives.read_string),
}
_NUMBERED = frozenset({"int", "long", "enum"})
"""Types that are an integer in a message."""
_NUMBERS = (*types.INTEGERS, DecimalType, type(types.FLOAT), type(types.DOUBLE))


class Compiler:
    """Compiler of readers. Each record is compiled once, also one that holds itself."""

    def __init__(self) -> None:
        """Know no record yet."""
        self.budget = MemberBudget()
        """The members and long texts that a message may have inside of its row; a reader of messages begins it."""
        self._records: dict[tuple[int, bool], list[Read]] = {}
        self._takes_bytes: dict[int, bool] = {}

    def compile(self, node: Node) -> tuple[DataType, Read]:
        """Return the column type of a node's values, and the function that reads one. Raise SchemaError."""
        small = small_integer(node)
        if small is not None:
            return small
        data_type, read = self._plain(node)
        known = logical(node, read)
        if known is None:
            return data_type, read
        # A decimal of two bytes may have a thousand zeros
        return (known[0], self.budget.counted_text(known[1])) if _is_exact(node, known[0]) else known

    def counted(self, node: Node, given: DataType) -> Read | None:
        """Return the function that reads a value whose times are to be the numbers that the message has.

        `given`: the type that the pipeline declares for the value. None where it asks for no time as a number.
        """
        kind = node.kind
        if kind == "union":
            found = [primitives.read_null if one.kind == "null" else self.counted(one, given) for one in node.branches]
            reads = [read for read in found if read is not None]
            some = any(read is not primitives.read_null for read in reads)
            return primitives.read_union(reads) if some and len(reads) == len(found) else None
        if kind == "record" and isinstance(given, (StructType, MapType)):
            return self._counted_record(node, given)
        if kind == "array" and isinstance(given, ArrayType):
            item = self.counted(node.branches[0], given.element)
            return None if item is None else self._array(node, item)
        if kind == "map" and isinstance(given, MapType):
            item = self.counted(node.branches[0], given.value)
            return None if item is None else primitives.read_map(item)
        if kind not in {"int", "long"} or not isinstance(given, types.NUMBERS):
            return None
        plain = _PLAIN[kind][1]
        known = logical(node, plain)
        return plain if known is not None and isinstance(known[0], (*types.TIMES, TimeType)) else None

    def _counted_record(self, node: Node, given: StructType | MapType) -> Read | None:
        of = {} if isinstance(given, MapType) else {field.name: field.type for field in given.fields}
        other = given.value if isinstance(given, MapType) else types.NULL
        found = {one.name: self.counted(one.node, of.get(one.name, other)) for one in node.fields}
        if all(read is None for read in found.values()):
            return None
        reads = [(one.name, found[one.name] or self.compile(one.node)[1]) for one in node.fields]
        return self.budget.counted(primitives.read_record(reads), weight(node, self._takes_bytes))

    def passed(self, node: Node) -> Read:
        """Return a function that passes over a node's value. Raise SchemaError."""
        kind = node.kind
        if kind == "record":
            return self._once(node, self._passed_record, passed=True)
        if kind == "union":
            read_null = primitives.read_null
            return primitives.read_union([read_null if b.kind == "null" else self.passed(b) for b in node.branches])
        if kind == "map":
            return primitives.read_map(self.passed(node.branches[0]))
        if kind == "array":
            return self._array(node, self.passed(node.branches[0]))
        if kind in {"bytes", "string"}:
            return primitives.pass_bytes
        if kind in _NUMBERED:
            return primitives.pass_number
        return primitives.read_fixed({"boolean": 1, "float": 4, "double": 8}.get(kind, node.size))

    def _plain(self, node: Node) -> tuple[DataType, Read]:
        kind = node.kind
        found = _PLAIN.get(kind)
        if found is not None:
            return found
        if kind == "union":
            return self._union(node)
        if kind == "enum":
            read = primitives.read_enum(node.symbols)
            return types.STRING, self.budget.counted_text(read) if has_long_symbol(node) else read
        if kind == "fixed":
            return types.BYTES, primitives.read_fixed(node.size)
        if kind == "record":
            return types.STRING, self._once(node, self._record, passed=False)
        (item,) = node.branches
        if kind == "map":
            return types.STRING, primitives.read_map(self.compile(item)[1])
        return types.STRING, self._array(node, self.compile(item)[1])

    def _array(self, node: Node, read: Read) -> Read:
        if not takes_bytes(node.branches[0], self._takes_bytes):
            raise SchemaError("an array has items that take no bytes, so a short message could hold any number of them")
        return primitives.read_array(read)

    def _once(self, node: Node, compiled: Callable[[Node], Read], *, passed: bool) -> Read:
        """Return the reader of a record, which is compiled once, or the one that passes over it."""
        known = self._records.get((id(node), passed))
        if known is not None:  # maybe a record within itself: it is complete by the time that a message comes
            return known[0] if known else _later(known)
        made = self._records[id(node), passed] = []
        made.append(compiled(node))
        return made[0]

    def _record(self, node: Node) -> Read:
        read = primitives.read_record([(one.name, self.compile(one.node)[1]) for one in node.fields])
        if logical(node, read) is not None:  # its few members are one number
            return read
        return self.budget.counted(read, weight(node, self._takes_bytes))

    def _passed_record(self, node: Node) -> Read:
        taking = [one.node for one in node.fields if takes_bytes(one.node, self._takes_bytes)]
        read = primitives.read_some([(None, self.passed(one)) for one in taking])
        return self.budget.counted(read, weight(node, self._takes_bytes))

    def _union(self, node: Node) -> tuple[DataType, Read]:
        branches = [self.compile(branch) for branch in node.branches]
        return _common([data_type for data_type, _ in branches]), primitives.read_union([read for _, read in branches])


def _is_exact(node: Node, data_type: DataType) -> bool:
    """Return whether a logical type's bytes become a text: a number with all its digits, or another short one."""
    return node.kind in {"bytes", "fixed"} and data_type == types.STRING


def _is_number(node: Node) -> bool:
    """Return whether each value of a node that is not null is a text that holds a number."""
    branches = [branch for branch in (node.branches if node.kind == "union" else [node]) if branch.kind != "null"]
    return bool(branches) and all(is_number(branch) for branch in branches)


def _later(known: list[Read]) -> Read:
    """Return a reader of a record that contains itself. `known` will hold the record's compiled reader."""

    def read(data: bytes, at: int) -> tuple[Any, int]:
        return known[0](data, at)

    return read


def _common(branches: list[DataType]) -> DataType:
    """Return the type of a union's column: the type of its branches, the type that holds all numbers, or STRING."""
    found: DataType = types.NULL
    for data_type in branches:
        alike = isinstance(found, NullType) or isinstance(data_type, NullType) or found == data_type
        if not alike and not (isinstance(found, _NUMBERS) and isinstance(data_type, _NUMBERS)):
            return types.STRING
        found = types.merge(found, data_type)
    return found


Counts: TypeAlias = "frozenset[tuple[str, DataType]]"
"""The columns with times that are read as the numbers that a message has, each with its declared type."""
NO_COUNTS: Final[Counts] = frozenset()


def row_of(node: Node) -> Node:
    """Return the record of a row that may be null; the node itself where it is no union of one record and null."""
    branches = [branch for branch in (node.branches if node.kind == "union" else ()) if branch.kind != "null"]
    return branches[0] if len(branches) == 1 and branches[0].kind == "record" else node


class RowReader:
    """Reader of the rows of one record schema."""

    def __init__(self, node: Node, compiler: Compiler) -> None:
        """Compile the record's fields. Raise SchemaError where the schema is no record, or cannot be read."""
        if node.kind != "record":
            raise SchemaError(f"it is of the type {node.kind!r}, and a row is a record")
        compiled = [(one.name, *compiler.compile(one.node)) for one in node.fields]
        self.types = {name: data_type for name, data_type, _ in compiled if not isinstance(data_type, NullType)}
        """Types of the columns. A column that is null in each row has none."""
        self._budget = compiler.budget
        self.numbers = frozenset(
            one.name for one in node.fields if self.types.get(one.name) == types.STRING and _is_number(one.node)
        )
        """Those whose values are texts that each hold a number."""
        self._fields = [(name, read) for name, _, read in compiled]
        self._passed = [compiler.passed(one.node) for one in node.fields]
        self._compiler = compiler
        self._nodes = {one.name: one.node for one in node.fields}
        self._by_counts: dict[Counts, list[tuple[str, Read]]] = {NO_COUNTS: self._fields}
        self._counts: tuple[Mapping[str, DataType], Counts] = (NOTHING_GIVEN, NO_COUNTS)
        """Argument and result of the last call of `counts`: those of the next one are mostly the same."""
        self.size = 1000 + sum(1000 + 12 * len(name) for name, _ in self._fields)
        """Bytes that it takes, about."""

    def counts(self, given: Mapping[str, DataType]) -> Counts:
        """Return the columns with times that are to be numbers; `given`: the types that the pipeline declares."""
        if self._counts[0] is not given:
            asked = [(name, given[name]) for name in self._nodes if name in given]
            found = frozenset(one for one in asked if self._compiler.counted(self._nodes[one[0]], one[1]) is not None)
            self._counts = (given, found)
        return self._counts[1]

    def _reads(self, counts: Counts) -> list[tuple[str, Read]]:
        """Return the columns with the functions that read them."""
        found = self._by_counts.get(counts)
        if found is None:
            of = dict(counts)
            reads = {name: self._compiler.counted(self._nodes[name], of[name]) for name in of if name in self._nodes}
            found = self._by_counts[counts] = [(name, reads.get(name) or read) for name, read in self._fields]
        return found

    def read(self, data: bytes, at: int, counts: Counts = NO_COUNTS) -> tuple[dict[str, Any], int]:
        """Return the row of a message as `image` does."""
        self._budget.begin(len(data))
        return self.image(data, at, counts)

    def image(self, data: bytes, at: int, counts: Counts = NO_COUNTS) -> tuple[dict[str, Any], int]:
        """Return a row's values by its columns, as msgspec writes them, and the place after the row.

        `counts`: a result of `counts`. Raise AvroError, IndexError, UnicodeDecodeError, RecursionError, Contradiction
        or RowError.
        """
        row: dict[str, Any] = {}
        name = ""
        try:
            for name, field in self._reads(counts):
                row[name], at = field(data, at)
        except UnicodeDecodeError:
            raise
        except NotANumber as exc:
            raise RowError("not-a-number", self._why(name, exc)) from None
        except ValueError as exc:
            raise Contradiction(self._why(name, exc)) from None
        return row, at

    def before(
        self, data: bytes, at: int, counts: Counts = NO_COUNTS
    ) -> tuple[tuple[dict[str, Any], dict[str, str]], int]:
        """Return what `image` returns of a row before a change, and why its other columns cannot be read.

        Raise AvroError, IndexError, UnicodeDecodeError or RecursionError.
        """
        row: dict[str, Any] = {}
        unread: dict[str, str] = {}
        for (name, field), passed in zip(self._reads(counts), self._passed, strict=True):
            try:
                row[name], end = field(data, at)
            except UnicodeDecodeError:
                raise
            except ValueError as exc:
                unread[name] = self._why(name, exc)
                _, end = passed(data, at)
            at = end
        return (row, unread), at

    def _why(self, name: str, exc: ValueError) -> str:
        """Return why a value cannot be read as its column's declared type."""
        if isinstance(exc, NotANumber):
            return f"column {name!r} holds {exc}"
        return f"column {name!r} is declared {types.name(self.types.get(name, types.NULL))} and holds {exc}"


def ended(data: bytes, at: int) -> None:
    """Raise AvroError unless a message ends at a place."""
    if at != len(data):
        raise AvroError(f"it is {len(data) - at} bytes longer than its schema says")


def why_malformed(exc: Exception) -> str:
    """Return why a message does not follow its schema. `exc` is one of MALFORMED."""
    if isinstance(exc, IndexError):
        return "it ends before its schema does"
    if isinstance(exc, UnicodeDecodeError):
        return "a text is not UTF-8"
    return "it is nested too deep" if isinstance(exc, RecursionError) else str(exc)


MALFORMED = (AvroError, IndexError, UnicodeDecodeError, RecursionError)
"""The exceptions of readers for a message that does not follow its schema."""


IMAGES: Final = ("before", "after")
TABLE: Final = ("db", "schema", "table")
"""The members of `source` that say which table a row is of."""


class EnvelopeReader:
    """Reader of one envelope's schema; or of a message of Debezium's that is no envelope, which has no `op`."""

    def __init__(self, node: Node) -> None:
        """Compile the envelope. Raise SchemaError where the schema is no record, or cannot be read."""
        if node.kind != "record":
            raise SchemaError(f"it is of the type {node.kind!r}, and an envelope is a record")
        self.names = frozenset(one.name for one in node.fields)
        """Names of the envelope's members."""
        self.node = node
        """Schema of the envelope."""
        source = next((one.node for one in node.fields if one.name == "source"), node)
        self.of_documents = any(one.name == "collection" for one in source.fields)
        """True if `source` names a collection, as in messages of Debezium's connector for MongoDB."""
        compiler = Compiler()
        rows: dict[int, RowReader] = {}
        fields: list[tuple[str | None, Read]] = []
        self._images: dict[str, tuple[Node, RowReader]] = {}
        for one in node.fields:
            row = _row_of(one.node) if one.name in IMAGES and "op" in self.names else None
            if row is not None:
                reader = rows.setdefault(id(row), RowReader(row, compiler))
                self._images[one.name] = (one.node, reader)
                fields.append((one.name, _image(one.node, _reads(one.name, reader, NO_COUNTS))))
            elif one.name == "source" and one.node.kind == "record":
                fields.append((one.name, _some(one.node, TABLE, compiler)))
            elif one.name == "op":
                fields.append((one.name, compiler.compile(one.node)[1]))
            else:
                fields.append((None, compiler.passed(one.node)))
        self._fields = fields
        self._reads = {NO_COUNTS: primitives.read_some(fields)}
        """By the columns with times that are read as numbers, the function that reads the envelope."""
        self._budget = compiler.budget
        self.wanted = tuple(name for name, _ in fields if name is not None)
        """Names of the members that are asked for, in their order."""
        self.types: Mapping[str, DataType] = next(iter(rows.values())).types if rows else {}
        """Types of the rows' columns."""
        self.numbers = next(iter(rows.values())).numbers if rows else frozenset()
        """Those whose values are texts that each hold a number."""

    def counts(self, given: Mapping[str, DataType]) -> Counts:
        """Return what `RowReader.counts` does, of the rows."""
        return NO_COUNTS.union(*(reader.counts(given) for _, reader in self._images.values()))

    def read(self, data: bytes, at: int, counts: Counts = NO_COUNTS) -> tuple[dict[str, Any], dict[str, str], int]:
        """Return the rows, `op` and the table's names in `source`, and the place after the envelope.

        In between: the columns of the row before that cannot be read, each with the reason.
        `counts`: a result of `counts`. Raise what `RowReader.read` does.
        """
        found: dict[str, Any]
        read = self._reads.get(counts) or self._reads.setdefault(counts, self._with_counts(counts))
        self._budget.begin(len(data))
        try:
            found, at = read(data, at)
        except (UnicodeDecodeError, Contradiction):
            raise
        except ValueError as exc:  # of `op`, or of a name of the table, whatever their schema says
            raise AvroError(f"the envelope holds {exc}") from None
        unread: dict[str, str] = {}
        if found.get("before") is not None:
            found["before"], unread = found["before"]
        return found, unread, at

    def _with_counts(self, counts: Counts) -> Read:
        images = {name: _image(node, _reads(name, reader, counts)) for name, (node, reader) in self._images.items()}
        return primitives.read_some([(name, images.get(name or "", read)) for name, read in self._fields])


def _row_of(node: Node) -> Node | None:
    """Return the record that a nullable image is; None where it is something else."""
    branches = [branch for branch in (node.branches if node.kind == "union" else [node]) if branch.kind != "null"]
    return branches[0] if len(branches) == 1 and branches[0].kind == "record" else None


def _some(node: Node, names: tuple[str, ...], compiler: Compiler) -> Read:
    """Return a function that reads these fields of a record, and passes over the others."""
    return primitives.read_some(
        [
            (one.name, compiler.compile(one.node)[1]) if one.name in names else (None, compiler.passed(one.node))
            for one in node.fields
        ]
    )


def _reads(name: str, reader: RowReader, counts: Counts) -> Read:
    """Return the function that reads one of the images; `counts` as in `EnvelopeReader.read`."""
    return partial(reader.before, counts=counts) if name == "before" else partial(reader.image, counts=counts)


def _image(node: Node, read: Read) -> Read:
    if node.kind == "record":
        return read
    return primitives.read_union([primitives.read_null if branch.kind == "null" else read for branch in node.branches])
