"""Rejects: records that could not be processed, as values with the place, the reason and the record itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ingest.model.table import TableId, show

CODES: Final[Mapping[str, str]] = {
    "malformed": "the value is not what its format says",
    "malformed-key": "the key is not what `key.format` says",
    "unknown-schema": "the schema registry does not have the schema of a message",
    "bad-schema": "the schema registry has a schema of a message that cannot be used",
    "no-table": "a message names no table, or a JSON row lacks a field that shall name its table",
    "no-after": "an insert or an update lacks the row after it",
    "type-mismatch": "a value is not of the type that its message declares, or of its fixed or static column",
    "column-clash": "two columns of one name",
    "no-key": "a delete without its key",
    "null-key": "a primary-key column that is null or missing",
    "withheld-change": "a value does not fit the sink's column, whose wider type was withheld",
    "too-many-tables": "past the pipeline's cap of tables",
    "too-many-columns": "past the pipeline's cap of columns",
    "expression-failed": "an expression of a transform has no result for this row (a cast, an overflow)",
    "not-a-number": "a value, or the result of an expression, is NaN or infinite, which JSON cannot say",
    "unwritable-table": "the sink's format has no such name or type of a column, or its given schema does not fit",
    "refused": "the sink does not take the row: a constraint of its table, a value or record that it has no room for",
    "gone": "a dead letter that its topic did not take whole, and whose record is not in the source any more",
    "name-too-long": "the name of a table or a column has more than 1,024 characters",
}
"""All codes of rejects that belong to no component, with their meanings.

A format or sink lists its own codes in its class variable `codes`, in the same form. `make docs` makes a table of all.
"""

HEAD = 200
"""Number of characters of a record that an error shows."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An expression that could not be computed for a row. Only Spark knows the reason; the driver asks it later."""

    table: TableId
    slot: str
    """Slot of the expression's result."""
    values: dict[str, Any]
    """Values that the expression is computed from, by their slots."""


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """One rejected record. `stage` is the step that refused it, and `code` is a stable name of the reason."""

    topic: str
    partition: int
    offset: int
    stage: str
    code: str
    message: str
    table: TableId | None
    key: bytes | None
    value: bytes | None
    where: str = ""
    """Its place as people know it, where that is no offset of a topic: one in a database's log."""
    passed: bool = True
    """True if the run continued after this reject. If not, the record will be read again."""
    failure: Failure | None = field(default=None, compare=False, repr=False)
    """Facts that the driver needs to ask Spark why an expression failed. None for other rejects."""

    def __str__(self) -> str:
        """Return the place, the reason and the head of the record, on one line."""
        return f"{self.without_record}; record: {head(self.value)}"

    @property
    def without_record(self) -> str:
        """The place and the reason, on one line."""
        table = f" (table {show(self.table)})" if self.table else ""
        return f"{self.place}: {self.stage}/{self.code}: {self.message}{table}"

    @property
    def place(self) -> str:
        """The place, for people."""
        at = f"{self.topic}[{self.partition}] at offset {self.offset}"
        return f"{at} ({self.where})" if self.where else at


class IgnoredErrors(NamedTuple):
    """Errors of parsing that do not count against the limit of rejects: `<format>.ignore-parse-errors`."""

    keys: bool = False
    values: bool = False

    def covers(self, stage: str, *, of_key: bool) -> bool:
        """Return whether a reject of this stage does not count; `of_key`: it is about the record's key."""
        return stage == "decode" and (self.keys if of_key else self.values)


class Contradiction(ValueError):
    """Error about a value that is not of the type that its message declares."""


class RowError(Exception):
    """Error about a row that cannot be written under any schema. Its code and text make a reject."""

    def __init__(self, code: str, message: str) -> None:
        """Keep the reject's code and text."""
        super().__init__(message)
        self.code = code


class LeftForLater(Exception):
    """Signal that a message, and what is behind it in its split, is left to a later batch."""


def head(value: bytes | None) -> str:
    """Return the first characters of a record's value, at most HEAD. The result is printable and on one line."""
    if value is None:
        return "null"
    text = value[: HEAD * 4].decode("utf-8", "backslashreplace")
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[:HEAD])
    return text + ("…" if len(value) > len(text.encode()) else "")
