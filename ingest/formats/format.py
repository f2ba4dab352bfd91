"""What formats have in common: the class of their options, and what a format can do, as data."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Protocol, Self

from pydantic import PrivateAttr

from ingest.component.options import Options, holding
from ingest.model.types import DataType
from ingest.schema.type_hints import TypeHints

if TYPE_CHECKING:
    from ingest.formats.form import Form
    from ingest.formats.typed import TypedColumn
    from ingest.model.change import Decoded
    from ingest.model.table import TableId

NOTHING_GIVEN: Final[Mapping[str, DataType]] = MappingProxyType({})
"""The types that a pipeline declares which declares none."""


class Decoder(Protocol):
    """Object that turns the records of one chunk into changes. It keeps only what it learned about the topic."""

    def decode(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> list[Decoded]:
        """Return one result for each record, in order. Raise nothing for the content of a record."""


@dataclass(frozen=True)
class FormatCapabilities:
    """What a format can do. Where it takes a method of the format's options, the method is named.

    A format that says it can, and lacks the method, is refused when it is loaded.
    """

    rows: bool = False
    """Values are rows of their topic's table, not changes: for `upsert-kafka`, and where the fields of keys are the
    primary key."""
    reads_keys: bool = False
    """Keys of a source's records can be of the format: `reader_of`."""
    writes_values: bool = False
    """Values of a sink's records can be of the format: `value_of`."""
    writes_keys: bool = False
    """Keys of a sink's records can be of the format: `key_of`, or `row_writer` where each table has a schema."""
    table_schemas: Literal["rows", "changes"] | None = None
    """A sink writes the format with a schema for each table (`formats/written.py`): `row_writer` makes rows,
    `change_writer` makes values that say what happened to a row."""
    key_options: type[Options] | None = None
    """The options of keys that a source reads, where they are others than those of values."""
    sink_options: frozenset[str] | None = None
    """The options that a sink takes. None: all of them, where it writes keys or schemas, else none."""
    says_types: bool = False
    """Messages say the types of columns."""
    compact: bool = False
    """Rows are JSON texts that the decoder makes: without white space, and with each column once."""
    asks_key_format: bool = False
    """Keys may be of the format without `key.format`, so that it is told that: `beside_keys`."""
    splits_keys: bool = False
    """An update that changes the key is written as a delete and an insert, as Debezium does."""
    repeats_deletes: bool = False
    """A delete is a message of its own, which a tombstone follows."""
    binary_numbers: bool = False
    """Numbers may be written as binary ones, so that those of too many digits are rounded."""
    json: bool = True
    """Values that are written without a schema are JSON; others stand within JSON as texts."""

    @property
    def takes_sink_options(self) -> bool:
        """True if a sink that writes the format takes options of it."""
        return self.writes_keys or self.table_schemas is not None

    def methods(self) -> Iterator[tuple[str, str]]:
        """Yield the abilities that take a method of the options, each with the method."""
        needed = {"rows": "row_writer", "changes": "change_writer"}
        if self.reads_keys:
            yield "reads_keys", "reader_of"
        if self.writes_values:
            yield "writes_values", "value_of"
        if self.table_schemas is not None:
            yield "table_schemas", needed[self.table_schemas]
        if self.writes_keys:
            yield "writes_keys", "key_of" if self.table_schemas is None else "row_writer"
        if self.asks_key_format:
            yield "asks_key_format", "beside_keys"


class FormatOptions(Options):
    """Options of a format, and types of columns that the pipeline itself declares."""

    name: ClassVar[str]
    """The name of the format, as in the option `value.format`."""

    capabilities: ClassVar[FormatCapabilities] = FormatCapabilities()

    _declared: Mapping[tuple[str, ...], Mapping[str, DataType]] = PrivateAttr(default_factory=dict)

    @property
    def reading(self) -> TypeHints:
        """The rules for values whose types no message declares."""
        return TypeHints()

    @property
    def form(self) -> Form | None:
        """The form that most messages of this format have, if native code knows it, or None."""
        return None

    @property
    def inline_types(self) -> tuple[str, Callable[[bytes], Mapping[str, TypedColumn]]] | None:
        """The member in which messages of this form declare their columns' types, and the function that reads it.

        None means that they declare none. The function raises one of MALFORMED.
        """
        return None

    @property
    def own_names(self) -> tuple[str, ...]:
        """The names that these options themselves give the fields of rows; empty for none."""
        return ()

    def beside(self, declared: Mapping[TableId, Mapping[str, DataType]]) -> Self:
        """Return a copy of these options for a pipeline that declares types of columns itself, by their tables."""
        return holding(self, _declared=declared)

    @property
    def all_declared(self) -> Collection[Mapping[str, DataType]]:
        """The columns of each table whose types the pipeline declares, with these types."""
        return self._declared.values()

    def declared(self, table: TableId) -> Mapping[str, DataType]:
        """Return the columns of a table whose types the pipeline declares, with these types.

        What messages say about these types does not count.
        """
        return self._declared.get(table, NOTHING_GIVEN)
