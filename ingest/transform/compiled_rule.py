"""Values that a rule bound to a table consists of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from ingest.encode.compiled_transform import CompiledTransform
    from ingest.expressions.clauses import Call
    from ingest.model.data_type import DataType
    from ingest.model.schema import TableSchema


@dataclass(frozen=True, slots=True)
class Name:
    """Place in an expression that has a name, which may be that of a column."""

    start: int
    stop: int
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """Place in an expression that has a column instead of a literal."""

    start: int
    stop: int
    value: str | int


Place: TypeAlias = "Name | Literal | Call"
"""Place in an expression that is replaced."""


@dataclass(frozen=True, slots=True)
class UdfCall:
    """One call of a user-defined function in a rule. Its results form a column of their own."""

    column: str
    function: str
    takes: tuple[DataType, ...]
    arguments: tuple[str, ...]
    """SQL of the arguments, over slots and over the columns of calls in lower layers."""
    layer: int


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """Result of binding a rule to a table."""

    transform: CompiledTransform
    schema: TableSchema
    results: dict[str, str]
    """SQL of each result, by its slot."""
    called: tuple[UdfCall, ...]
    literals: tuple[tuple[str, str | int], ...]
    """The columns that stand for literals in the expressions, each with its literal."""
