"""Options of sinks of tables: what becomes of deleted rows, and of changes that do not come in their order.

Rules: docs/spec/sinks.md#deleted-rows-of-tables, #changes-that-come-out-of-order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from ingest.component.options import OptionErrors, Options
from ingest.model.table import show

if TYPE_CHECKING:
    from ingest.model.table import TableId


class RowOptions(Options):
    """Options of a sink whose tables can lose rows, and that can compare a change with the row that is there."""

    delete_strategy: Literal["hard", "soft", "ignore"] = Field("hard", alias="sink.delete-strategy")
    """The fate of a row that is deleted at the source. `hard`: it is removed. `soft`: it stays, and its column
    `sink.delete-column` becomes true, until a row of that key comes again. `ignore`: nothing, it stays as it was."""

    delete_column: str = Field("_deleted", alias="sink.delete-column", min_length=1)
    """With `soft`: the column that says whether a row is deleted. It is added to the tables."""

    sequence_by: str | None = Field(None, alias="sink.sequence-by", min_length=1)
    """The column that says which of two changes of a row is the newer one, such as a version or a time. A change whose
    value is smaller than the one of the row is left out, and counted. Needs `sink.delete-strategy: soft` or `ignore`.
    Default: changes count in the order in which they come."""

    @model_validator(mode="after")
    def _check_deletes(self) -> Self:
        if "delete_column" in self.model_fields_set and self.deleted is None:
            raise OptionErrors(("sink.delete-column", "sink.delete-column needs sink.delete-strategy: soft"))
        return self

    @property
    def removes_rows(self) -> bool:
        """True if nothing is left of a row that is deleted."""
        return self.delete_strategy == "hard"

    @property
    def deleted(self) -> str | None:
        """The column that says of a row that it is deleted; None where no row stays for that."""
        return self.delete_column if self.delete_strategy == "soft" else None

    @model_validator(mode="after")
    def _check_sequence(self) -> Self:
        if self.sequence_by is not None and self.removes_rows:
            text = (
                "sink.sequence-by needs sink.delete-strategy: soft, or ignore: with hard, an older change would bring a"
                " row back that is gone"
            )
            raise OptionErrors(("sink.sequence-by", text))
        return self


def no_sequence(table: TableId, by: str) -> str:
    """Return what is said of a table that lacks the column."""
    return (
        f"the table {show(table)} has no column {by!r} (sink.sequence-by): its changes count in the order in which they"
        " come"
    )
