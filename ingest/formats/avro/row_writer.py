"""Rows into Avro: for one schema, the function that writes a row; and the changes of rows in Debezium's envelope.

In: the tree of a record's schema, and rows as the JSON texts of their columns. Out: the bytes of a message without what
stands in front of it. Rules: docs/spec/avro.md#writing.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ingest.formats.avro.defaults import number_bytes
from ingest.formats.avro.rows import row_of
from ingest.formats.avro.schema import SchemaError, parse
from ingest.formats.avro.writing import FieldError, FieldWriter, WriterCompiler, write_fields
from ingest.model.numbers import either
from ingest.model.reject import RowError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ingest.model.numbers import Rounds


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
            msg = f"its Avro schema cannot be used: {exc}"
            raise RowError("unwritable-table", msg) from None
        if node.kind != "record":
            msg = f"its Avro schema is of the type {node.kind!r}, and a row is a record"
            raise RowError("unwritable-table", msg)
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
                msg = f"{what} {why}, and no column has its name"
                raise RowError("unwritable-table", msg)

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
            msg = "a row is nested too deep for Avro"
            raise RowError("type-mismatch", msg) from None
