"""Rows into Avro: for one schema, the functions that write a row, and all that it holds, in the binary encoding.

A value that a schema does not have, or not exactly, raises ValueError. Rules: docs/spec/avro.md#writing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Final

from ingest.formats.avro.rows import Compiler, row_of
from ingest.formats.avro.scalars import NULL, Write, characters, scalar, unwritable, write_enum, wrong
from ingest.formats.avro.schema import Field, Node, SchemaError, default_bytes, number_bytes, parse
from ingest.model import types
from ingest.model.jsontext import MALFORMED, fields_of
from ingest.model.numbers import Rounds, either, in_elements, in_fields, in_values, rounding_of
from ingest.model.reject import RowError
from ingest.model.types import DataType
from ingest.model.values import elements_of

_FLOATS: Final = {"float": types.FLOAT, "double": types.DOUBLE}


class FieldError(ValueError):
    """Error about the value of a record's field. `name` is the field, with the names of those that it is inside of."""

    def __init__(self, name: str, reason: ValueError) -> None:
        """Keep the field and the reason."""
        self.name = name
        if isinstance(reason, FieldError):
            self.name = f"{name}.{reason.name}"
        super().__init__(str(reason))


def _inside(raw: bytes) -> bytes:
    """Return the JSON of a nested value, also where a text holds it, as a STRING column does."""
    return characters(raw) if raw[:1] == b'"' else raw


class WriterCompiler:
    """Compiler of functions that write. Each record is compiled once, also one that holds itself."""

    def __init__(self) -> None:
        """Know no record yet."""
        self._records: dict[int, list[Write]] = {}
        self._rounds: dict[int, list[Rounds | None]] = {}
        self._types = Compiler()

    def compile(self, node: Node) -> Write:
        """Return the function that writes a node's values; it raises ValueError. Raise SchemaError."""
        kind = node.kind
        if kind == "union":
            return self._union([self.compile(branch) for branch in node.branches], node)
        if kind in {"array", "map"}:
            (item,) = node.branches
            return partial(_write_array if kind == "array" else _write_map, item=self.compile(item))
        data_type, _ = self._types.compile(node)
        if kind == "record":
            if "connect.name" in node.properties and not types.is_text(data_type):
                raise unwritable(node)
            return self._record(node)
        if kind == "enum":
            symbols = {symbol.encode(): number_bytes(at) for at, symbol in enumerate(node.symbols)}
            return partial(write_enum, symbols=symbols)
        return scalar(node, data_type)

    def _record(self, node: Node) -> Write:
        known = self._records.get(id(node))
        if known is None:
            known = self._records[id(node)] = []
            fields = [FieldWriter(one, self.compile(one.node)) for one in node.fields]
            known.append(partial(_write_record, fields=fields))
        return partial(_write_later, known=known)

    def rounding(self, node: Node) -> Rounds | None:
        """Return what says of a node's values whether they become other numbers; None where none does.

        Raise SchemaError.
        """
        kind = node.kind
        if kind in _FLOATS:
            return rounding_of(_FLOATS[kind])
        if kind == "union":
            branches = [branch for branch in node.branches if branch.kind != "null"]
            found = [(self.compile(branch), self.rounding(branch)) for branch in branches]
            if len(found) == 1 or all(rounds is None for _, rounds in found):
                return found[0][1] if found else None
            return partial(_rounds_in_union, branches=found)
        if kind in {"array", "map"}:
            return (in_elements if kind == "array" else in_values)(self.rounding(node.branches[0]))
        return self._rounding_of_record(node) if kind == "record" else None

    def _rounding_of_record(self, node: Node) -> Rounds | None:
        known = self._rounds.get(id(node))
        if known is not None:  # maybe a record within itself
            return known[0] if known else partial(_rounds_later, known=known)
        known = self._rounds[id(node)] = []
        found = in_fields({one.name: self.rounding(one.node) for one in node.fields})
        known.append(found)
        return found

    @staticmethod
    def _union(branches: Sequence[Write], node: Node) -> Write:
        nulls = [number_bytes(at) for at, branch in enumerate(node.branches) if branch.kind == "null"]
        others = [
            (number_bytes(at), write)
            for at, (branch, write) in enumerate(zip(node.branches, branches, strict=True))
            if branch.kind != "null"
        ]
        return partial(_write_union, null=nulls[0] if nulls else None, others=others)


def _write_union(raw: bytes, null: bytes | None, others: Sequence[tuple[bytes, Write]]) -> bytes:
    """Write null, or a value as the first branch that has it."""
    if raw == NULL:
        if null is None:
            raise wrong("null")
        return null
    failed: ValueError | None = None
    for number, write in others:
        try:
            return number + write(raw)
        except ValueError as exc:
            failed = exc
    raise failed or wrong("not null")


def _rounds_in_union(raw: bytes, said: DataType | None, branches: Sequence[tuple[Write, Rounds | None]]) -> bool:
    """Return what the branch says as which a value is written."""
    for write, rounds in branches:
        try:
            write(raw)
        except ValueError:
            continue
        return rounds is not None and rounds(raw, said)
    return False


def _rounds_later(raw: bytes, said: DataType | None, known: Sequence[Rounds | None]) -> bool:
    """Ask the one function that the list holds by the time that a value comes."""
    return known[0] is not None and known[0](raw, said)


def _write_array(raw: bytes, item: Write) -> bytes:
    try:
        items = elements_of(_inside(raw))
    except MALFORMED:
        raise wrong("no array") from None
    return number_bytes(len(items)) + b"".join([item(bytes(one)) for one in items]) + b"\0" if items else b"\0"


def _members(raw: bytes) -> dict[str, bytes]:
    try:
        return {name: bytes(value) for name, value in fields_of(_inside(raw)).items()}
    except MALFORMED:
        raise wrong("no object") from None


def _write_map(raw: bytes, item: Write) -> bytes:
    members = _members(raw)
    if not members:
        return b"\0"
    out = [number_bytes(len(members))]
    for name, value in members.items():
        key = name.encode()
        out += (number_bytes(len(key)), key, item(value))
    return b"".join([*out, b"\0"])


class FieldWriter:
    """One field of a record: its name, the function that writes its values, and the bytes where there is no value."""

    __slots__ = ("absent", "name", "why", "write")

    def __init__(self, field: Field, write: Write) -> None:
        """Make the bytes of a value that a row does not have: null, or else the field's default, if it is a value."""
        self.name, self.write = field.name, write
        self.absent: bytes | None = None
        self.why = "has no default"
        try:
            self.absent = write(NULL)
        except ValueError:
            if field.has_default:
                try:
                    self.absent = default_bytes(field.default, field.node)
                except SchemaError as exc:  # which matters to a row without the field only
                    self.why = str(exc)


def write_fields(row: Mapping[str, bytes], fields: Sequence[FieldWriter]) -> bytes:
    """Return the bytes of a record. A value that is missing is null, or else the default of its field.

    Raise FieldError.
    """
    out = []
    for field in fields:
        raw = row.get(field.name, NULL)
        try:
            if raw == NULL:
                if field.absent is None:
                    raise wrong("null")
                out.append(field.absent)
            else:
                out.append(field.write(raw))
        except ValueError as exc:
            raise FieldError(field.name, exc) from None
    return b"".join(out)


def _write_record(raw: bytes, fields: Sequence[FieldWriter]) -> bytes:
    members = _members(raw)
    if len(members) > len(fields) or not members.keys() <= {field.name for field in fields}:
        raise wrong("a member that its record does not have")
    return write_fields(members, fields)


def _write_later(raw: bytes, known: Sequence[Write]) -> bytes:
    """Write by the one function that the list holds by the time that a value comes."""
    return known[0](raw)


class RowWriter:
    """Writer of rows by one schema."""

    def __init__(self, text: str, columns: Iterable[str]) -> None:
        """Compile a schema's text for rows with these columns. Raise RowError where it cannot take them."""
        names = list(columns)
        try:
            whole = parse(text)
            node = row_of(whole)
            compiler = WriterCompiler()
            self._node, self._compiler = node, compiler
            self._fields = [FieldWriter(one, compiler.compile(one.node)) for one in node.fields]
        except (SchemaError, RecursionError) as exc:
            raise RowError("unwritable-table", f"its Avro schema cannot be used: {exc}") from None
        if node.kind != "record":
            raise RowError("unwritable-table", f"its Avro schema is of the type {node.kind!r}, and a row is a record")
        self._head = b"" if node is whole else number_bytes([one is node for one in whole.branches].index(True))
        """The number of the row's branch where the schema is a union of it and null."""
        known = {field.name for field in self._fields}
        for name in names:
            if name not in known:
                msg = (
                    f"the Avro schema {node.name!r} has no field {name[:100]!r}; add it there, or leave the column out"
                )
                raise RowError("unwritable-table", msg)
        for field in self._fields:
            if field.name not in names and field.absent is None:
                what = f"field {field.name!r} of the Avro schema {node.name!r}"
                why = field.why if field.why.startswith("has ") else f"cannot be left out ({field.why})"
                raise RowError("unwritable-table", f"{what} {why}, and no column has its name")

    @cached_property
    def rounds(self) -> Mapping[str, Rounds]:
        """What says of values of fields, as they were written, whether they became other numbers."""
        found = {one.name: self._compiler.rounding(one.node) for one in self._node.fields}
        return {name: rounds for name, rounds in found.items() if rounds is not None}

    def rounds_inside(self, names: Iterable[str]) -> Mapping[str, Rounds]:
        """Return the same of the members of these fields, which are records."""
        out: dict[str, Rounds] = {}
        nodes = [one.node for one in self._node.fields if one.name in names]
        for record in (branch for node in nodes for branch in (node, *node.branches) if branch.kind == "record"):
            for one in record.fields:
                rounds = either(out.get(one.name), self._compiler.rounding(one.node))
                if rounds is not None:
                    out[one.name] = rounds
        return out

    def write(self, row: Mapping[str, bytes]) -> bytes:
        """Return the bytes of a row. Raise RowError where a value is none that its field can have."""
        try:
            return self._head + write_fields(row, self._fields)
        except FieldError as exc:
            raw = row.get(exc.name.partition(".")[0], b"null")
            shown = raw[:60].decode("utf-8", "backslashreplace")
            msg = f"column {exc.name!r} holds {shown}, which its field in the Avro schema cannot say: {exc}"
            raise RowError("type-mismatch", msg) from None
        except RecursionError:
            raise RowError("type-mismatch", "a row is nested too deep for Avro") from None
