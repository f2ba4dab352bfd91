"""Messages of one schema as messages of another, by Avro's rules for schemas that differ.

In: the nodes of the writer's and the reader's schema. Out: a function that returns what a message's bytes are by the
reader's schema. Rules: docs/spec/avro.md#schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Final, TypeAlias

from ingest.formats.avro import primitives
from ingest.formats.avro.logical import logical_name
from ingest.formats.avro.primitives import AvroError, read_long, read_string
from ingest.formats.avro.rows import Compiler
from ingest.formats.avro.schema import DEFAULT, Field, Node, SchemaError, default_bytes, number_bytes, takes_bytes

if TYPE_CHECKING:
    from ingest.formats.avro.primitives import MemberBudget, Read

Resolve: TypeAlias = Callable[[bytes, int], tuple[bytes, int]]
"""Function that returns a value's bytes by the reader's schema, and the place after it in the message.

It raises AvroError, IndexError or UnicodeDecodeError for bytes that are no such value.
"""

_PROMOTED: Final[dict[str, frozenset[str]]] = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}
"""For a type of the writer the types that a reader may have instead."""
_FLOATS: Final = {"float": Struct("<f"), "double": Struct("<d")}
_SIZES: Final = {"boolean": 1, "float": 4, "double": 8}
_NUMBERS: Final = frozenset({"int", "long", "enum"})


class Resolver:
    """Maker of such functions. Each pair of records is resolved once, also where they hold themselves."""

    def __init__(self) -> None:
        """Know no pair yet."""
        self._records: dict[tuple[int, int], list[Resolve]] = {}
        self._unlike: dict[tuple[int, int], SchemaError] = {}
        self._takes_bytes: dict[int, bool] = {}
        self._compiler = Compiler()

    def resolve_message(self, writer: Node, reader: Node) -> Resolve:
        """Return the function for whole messages. Raise SchemaError where none can be read."""
        return partial(_message, resolve=self.resolve(writer, reader), budget=self._compiler.budget)

    def resolve(self, writer: Node, reader: Node) -> Resolve:
        """Return the function for values of a writer's node. Raise SchemaError where no value of it can be read."""
        if writer.kind == "union":
            return self._writers_union(writer, reader)
        if reader.kind == "union":
            return self._readers_union(writer, reader)
        if not _match(writer, reader):
            raise _unlike(writer, reader)
        kind = writer.kind
        if kind == "record":
            return self._record(writer, reader)
        if kind == "enum":
            return _enum(writer, reader)
        if kind in {"array", "map"}:
            if kind == "array" and not takes_bytes(writer.branches[0], self._takes_bytes):
                msg = "an array has items that take no bytes, so a short message could hold any number of them"
                raise SchemaError(msg)
            item = self.resolve(writer.branches[0], reader.branches[0])
            return partial(_items, item=item, named=kind == "map")
        if kind != reader.kind and reader.kind in _FLOATS:
            return partial(_to_float, form=_FLOATS[reader.kind], read=_NUMBER_READERS[kind])
        return partial(_copied, passed=self._compiler.passed(writer))

    def _writers_union(self, writer: Node, reader: Node) -> Resolve:
        branches: list[Resolve] = []
        failed: SchemaError | None = None
        for branch in writer.branches:
            try:
                branches.append(self.resolve(branch, reader))
            except SchemaError as exc:
                failed = exc
                branches.append(partial(_refused, why=str(exc)))
        if failed is not None and all(isinstance(b, partial) and b.func is _refused for b in branches):
            raise failed
        return partial(_branch, branches=branches)

    def _readers_union(self, writer: Node, reader: Node) -> Resolve:
        """Resolve by the branch of the same type and name, else by the first one that fits."""
        order = sorted(enumerate(reader.branches), key=lambda pair: not _same(writer, pair[1]))
        for number, branch in order:
            try:
                return partial(_prefixed, head=number_bytes(number), value=self.resolve(writer, branch))
            except SchemaError:
                continue
        raise _unlike(writer, reader)

    def _record(self, writer: Node, reader: Node) -> Resolve:
        pair = id(writer), id(reader)
        if pair in self._unlike:
            raise self._unlike[pair]
        known = self._records.get(pair)
        if known is None:
            known = self._records[pair] = []
            try:
                known.append(self._compiler.budget.counted(self._fields(writer, reader), 1 + len(writer.fields)))
            except SchemaError as exc:
                self._unlike[pair] = exc
                while self._records.popitem()[0] != pair:  # those made within it, which may hold it
                    pass
                raise
        return partial(_later, known=known)

    def _fields(self, writer: Node, reader: Node) -> Resolve:
        """Resolve fields by their names, or else by the reader's aliases; what the writer lacks is the default."""
        places = {one.name: at for at, one in enumerate(writer.fields)}
        taken: dict[int, int] = {}
        out: list[bytes | None] = []
        for at, one in enumerate(reader.fields):
            place = next((places[name] for name in (one.name, *_aliases(one)) if name in places), None)
            if place is not None and place not in taken:
                taken[place] = at
                out.append(None)
            elif one.has_default:
                out.append(default_bytes(one.default, one.node))
            else:
                msg = f"field {one.name!r} of the reader's schema is not in the writer's, and has no default"
                raise SchemaError(msg)
        steps: list[tuple[int, Resolve | None, Read | None]] = []
        for place, field in enumerate(writer.fields):
            if place in taken:
                steps.append((taken[place], self.resolve(field.node, reader.fields[taken[place]].node), None))
            else:
                steps.append((-1, None, self._compiler.passed(field.node)))
        return partial(_record, steps=steps, out=out)


def _aliases(one: Field) -> Iterable[str]:
    found = one.properties.get("aliases")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else ()


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _same(writer: Node, reader: Node) -> bool:
    """Return whether two nodes have the same type and, where they have names, the same name."""
    return writer.kind == reader.kind and (not writer.name or _named_alike(writer, reader))


def _named_alike(writer: Node, reader: Node) -> bool:
    aliases = reader.properties.get("aliases")
    names = {_short(reader.name), *map(_short, (a for a in aliases or () if isinstance(a, str)))}
    return _short(writer.name) in names


def _match(writer: Node, reader: Node) -> bool:
    """Return whether a reader's node can have values of a writer's, as far as these two nodes say."""
    if writer.kind != reader.kind:
        return reader.kind in _PROMOTED.get(writer.kind, ()) and not _differ(writer, reader)
    if writer.kind == "fixed":
        return writer.size == reader.size and _named_alike(writer, reader) and not _differ(writer, reader)
    if writer.kind == "enum":
        return _named_alike(writer, reader)
    return not _differ(writer, reader)


def _differ(writer: Node, reader: Node) -> bool:
    """Return whether one number would mean two values: as milliseconds and microseconds, or by two scales."""
    pairs = []
    for node in (writer, reader):
        logical = logical_name(node)
        pairs.append((logical, node.properties.get("scale", 0) if logical == "decimal" else 0))
    (one, scale), (other, other_scale) = pairs
    return one is not None and other is not None and (one, scale) != (other, other_scale)


def _unlike(writer: Node, reader: Node) -> SchemaError:
    names = [f"{node.kind} {node.name}".strip() for node in (writer, reader)]
    return SchemaError(f"the writer's {names[0]!r} cannot be read as the reader's {names[1]!r}")


def _enum(writer: Node, reader: Node) -> Resolve:
    places = {symbol: at for at, symbol in enumerate(reader.symbols)}
    default = places.get(str(reader.properties.get(DEFAULT)))
    found = [places.get(symbol, default) for symbol in writer.symbols]
    return partial(_symbol, places=found, symbols=writer.symbols)


def _symbol(data: bytes, at: int, places: Sequence[int | None], symbols: Sequence[str]) -> tuple[bytes, int]:
    number, at = read_long(data, at)
    if not 0 <= number < len(places):
        raise AvroError(f"an enum has no symbol {number}")
    place = places[number]
    if place is None:
        raise AvroError(f"the reader's enum has no symbol {symbols[number][:60]!r}, and no default")
    return number_bytes(place), at


def _copied(data: bytes, at: int, passed: Read) -> tuple[bytes, int]:
    end = passed(data, at)[1]
    if end > len(data):
        raise IndexError
    return data[at:end], end


def _to_float(data: bytes, at: int, form: Struct, read: Read) -> tuple[bytes, int]:
    value, at = read(data, at)
    return form.pack(value), at


def _plain_float(data: bytes, at: int) -> tuple[float, int]:
    end = at + 4
    if end > len(data):
        raise IndexError
    return _FLOATS["float"].unpack(data[at:end])[0], end


_NUMBER_READERS: Final[dict[str, Read]] = {
    "int": primitives.read_int,
    "long": primitives.read_long,
    "float": _plain_float,
}


def _message(data: bytes, at: int, resolve: Resolve, budget: MemberBudget) -> tuple[bytes, int]:
    budget.begin(len(data))
    return resolve(data, at)


def _refused(_: bytes, __: int, why: str) -> tuple[bytes, int]:
    raise AvroError(why)


def _branch(data: bytes, at: int, branches: Sequence[Resolve]) -> tuple[bytes, int]:
    number, at = read_long(data, at)
    if not 0 <= number < len(branches):
        raise AvroError(f"a union has no branch {number}")
    return branches[number](data, at)


def _prefixed(data: bytes, at: int, head: bytes, value: Resolve) -> tuple[bytes, int]:
    piece, at = value(data, at)
    return head + piece, at


def _items(data: bytes, at: int, item: Resolve, *, named: bool) -> tuple[bytes, int]:
    out: list[bytes] = []
    seen = 0
    while True:
        count, at = primitives.read_count(data, at, seen)
        if not count:
            break
        seen += count
        for _ in range(count):
            if named:
                begin = at
                _, at = read_string(data, at)
                out.append(data[begin:at])
            piece, at = item(data, at)
            out.append(piece)
    return (number_bytes(seen) + b"".join(out) + b"\0" if seen else b"\0"), at


def _record(
    data: bytes, at: int, steps: Sequence[tuple[int, Resolve | None, Read | None]], out: Sequence[bytes | None]
) -> tuple[bytes, int]:
    pieces = list(out)
    for place, resolve, passed in steps:
        if resolve is not None:
            pieces[place], at = resolve(data, at)
        elif passed is not None:
            at = passed(data, at)[1]
    return b"".join(pieces), at  # type: ignore[arg-type]  # each has its bytes by now


def _later(data: bytes, at: int, known: Sequence[Resolve]) -> tuple[bytes, int]:
    """Resolve by the one function that the list holds by the time that a message comes."""
    return known[0](data, at)
