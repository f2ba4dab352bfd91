"""A record that could not go on, as a value: where, why, and the record itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ingest.model.table import show

if TYPE_CHECKING:
    from ingest.model.table import TableId

CODES: Final = frozenset({
    "bad-topic-name", "column-clash", "expression-failed", "malformed", "malformed-key", "name-too-long", "no-after",
    "no-data", "no-key", "no-table", "no-types", "not-a-number", "null-key", "too-many-columns", "too-many-tables",
    "type-mismatch", "unavailable-value", "unknown-op", "unknown-type", "withheld-change",
})  # fmt: skip
"""Every code that a reject of this package has; formats and sinks of other packages name theirs in `codes`."""

HEAD = 200
"""How much of a record an error shows, in characters."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An expression that could not be computed for a row. Why that is, only Spark knows: it is asked on the driver."""

    table: TableId
    slot: str
    """That of its result."""
    values: dict[str, Any]
    """By slot: what it would be computed from."""


@dataclass(frozen=True, slots=True)
class Reject:
    """One rejected record. `stage` is where it was refused, `code` a stable name for why."""

    topic: str
    partition: int
    offset: int
    stage: str
    code: str
    message: str
    table: TableId | None
    key: bytes | None
    value: bytes | None
    passed: bool = True
    """Whether the run went on after it; if not, the record will be read again."""
    failure: Failure | None = field(default=None, compare=False, repr=False)
    """What the driver needs to ask Spark why an expression failed."""

    def __str__(self) -> str:
        """Where and why, and the head of the record, on one line."""
        table = f" (table {show(self.table)})" if self.table else ""
        return (
            f"{self.topic}[{self.partition}] at offset {self.offset}: "
            f"{self.stage}/{self.code}: {self.message}{table}; record: {head(self.value)}"
        )


class Contradiction(ValueError):
    """A value that is not of the type that its message declares."""


class RowError(Exception):
    """The row cannot be written whatever the schema; `code` and text make a reject."""

    def __init__(self, code: str, message: str) -> None:
        """Keep the reject's code and text."""
        super().__init__(message)
        self.code = code


def head(value: bytes | None) -> str:
    """The start of a record's value, printable on one line whatever it holds."""
    if value is None:
        return "null"
    text = value[: HEAD * 4].decode("utf-8", "backslashreplace")
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[:HEAD])
    return text + ("…" if len(value) > len(text.encode()) else "")
