"""Debezium's envelope in Avro: the rows before and after a change, inside of a record that says what happened.

In: the tree of an envelope's schema. Out: a function from a message's bytes to the envelope's values, whose rows are
read as `rows.py` reads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ingest.avro import primitives
from ingest.avro.rows import Compiler, RowReader
from ingest.avro.schema import SchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.avro.primitives import Read
    from ingest.avro.schema import Node
    from ingest.model.data_type import DataType

_IMAGES: Final = ("before", "after")


class EnvelopeReader:
    """Reader of one envelope's schema; or of a message of Debezium's that is no envelope, which has no `op`."""

    def __init__(self, node: Node) -> None:
        """Compile the envelope. Raise SchemaError where the schema is no record, or cannot be read."""
        if node.kind != "record":
            msg = f"it is of the type {node.kind!r}, and an envelope is a record"
            raise SchemaError(msg)
        self.names = frozenset(one.name for one in node.fields)
        """Names of the envelope's members."""
        compiler = Compiler()
        rows: dict[int, RowReader] = {}
        fields: list[tuple[str, Read]] = []
        for one in node.fields:
            row = _row_of(one.node) if one.name in _IMAGES and "op" in self.names else None
            if row is None:
                fields.append((one.name, compiler.compile(one.node)[1]))
                continue
            reader = rows.setdefault(id(row), RowReader(row, compiler))
            fields.append((one.name, _image(one.node, reader)))
        self._read = primitives.read_record(fields)
        self.types: Mapping[str, DataType] = next(iter(rows.values())).types if rows else {}
        """Types of the rows' columns."""

    def read(self, data: bytes, at: int) -> tuple[dict[str, Any], int]:
        """Return the envelope's members, and the place after it. Raise what `RowReader.read` does."""
        found: dict[str, Any]
        found, at = self._read(data, at)
        return found, at


def _row_of(node: Node) -> Node | None:
    """Return the record that a nullable image is; None where it is something else."""
    branches = [branch for branch in (node.branches if node.kind == "union" else [node]) if branch.kind != "null"]
    return branches[0] if len(branches) == 1 and branches[0].kind == "record" else None


def _image(node: Node, reader: RowReader) -> Read:
    if node.kind == "record":
        return reader.read
    return primitives.read_union(
        [primitives.read_null if branch.kind == "null" else reader.read for branch in node.branches]
    )
