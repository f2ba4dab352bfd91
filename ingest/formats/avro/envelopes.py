"""Debezium's envelope in Avro: the rows before and after a change, inside of a record that says what happened.

In: the tree of an envelope's schema. Out: a function from a message's bytes to those of the envelope's values that are
asked for. Rows are read as `rows.py` reads them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ingest.formats.avro import primitives
from ingest.formats.avro.primitives import AvroError
from ingest.formats.avro.rows import NO_COUNTS, Compiler, RowReader
from ingest.formats.avro.schema import SchemaError
from ingest.model.reject import Contradiction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.formats.avro.primitives import Read
    from ingest.formats.avro.rows import Counts
    from ingest.formats.avro.schema import Node
    from ingest.model.data_type import DataType

IMAGES: Final = ("before", "after")
TABLE: Final = ("db", "schema", "table")
"""The members of `source` that say which table a row is of."""


class EnvelopeReader:
    """Reader of one envelope's schema; or of a message of Debezium's that is no envelope, which has no `op`."""

    def __init__(self, node: Node) -> None:
        """Compile the envelope. Raise SchemaError where the schema is no record, or cannot be read."""
        if node.kind != "record":
            msg = f"it is of the type {node.kind!r}, and an envelope is a record"
            raise SchemaError(msg)
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
            msg = f"the envelope holds {exc}"
            raise AvroError(msg) from None
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
