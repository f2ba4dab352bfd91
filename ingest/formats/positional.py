"""Options of formats whose values have no names: the columns come from the pipeline's DDL, or from the options.

In: the columns that a pipeline declares of each table. Out: options that know them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

from pydantic import PrivateAttr

from ingest.component.options import Options, holding

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import msgspec

    from ingest.model.change import InlineSchema, Reject
    from ingest.model.table import TableId
    from ingest.model.types import DataType


class PositionalOptions(Options, ABC):
    """Options that such formats share."""

    _tables: Any = PrivateAttr(default_factory=dict)
    _named: tuple[str, ...] = PrivateAttr(())

    def with_tables(self, tables: Mapping[TableId, Mapping[str, DataType]]) -> Self:
        """Return a copy that knows the columns of tables, in the order of the fields."""
        return holding(self, _tables=tables)

    def with_names(self, names: tuple[str, ...]) -> Self:
        """Return a copy for keys whose fields have these names (`key.fields`), in tables that declare none."""
        return holding(self, _named=names)

    def for_keys(self) -> Self:
        """Return a copy for keys that have no options of their own: the names of columns are the values'."""
        named: dict[str, None] = {name: None for name in ("columns", "column") if name in type(self).model_fields}
        return self.model_copy(update=named)

    def columns_of(self, table: TableId) -> Mapping[str, DataType] | None:
        """Return the columns that the pipeline declares of a table, in the order of the fields; None for none."""
        found: Mapping[str, DataType] | None = self._tables.get(table)
        return found

    def unreadable(self, table: TableId, columns: Mapping[str, DataType]) -> str | None:
        """Return why values cannot have these columns of a table; None where they can."""
        return None

    @abstractmethod
    def reader_of(self, table: TableId) -> Callable[[bytes], tuple[msgspec.Raw, InlineSchema] | Reject]:
        """Return a function that reads the keys of a table: a row as JSON text with what it declares, or a reject."""
