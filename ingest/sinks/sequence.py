"""Options of sinks of tables for changes that do not come in the order in which they were made.

Rules: docs/spec/sinks.md#changes-that-come-out-of-order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from pydantic import Field, model_validator

from ingest.component.options import OptionErrors
from ingest.model.table import show
from ingest.sinks.deletes import DeletingSinkOptions

if TYPE_CHECKING:
    from ingest.model.table import TableId


def no_sequence(table: TableId, by: str) -> str:
    """Return what is said of a table that lacks the column."""
    return (
        f"the table {show(table)} has no column {by!r} (sink.sequence-by): its changes count in the order in which they"
        " come"
    )


class SequencedSinkOptions(DeletingSinkOptions):
    """Options of a sink that can compare a change with the row that is there."""

    sequence_by: str | None = Field(None, alias="sink.sequence-by", min_length=1)
    """The column that says which of two changes of a row is the newer one, such as a version or a time. A change whose
    value is smaller than the one of the row is left out, and counted. Needs `sink.delete-strategy: soft` or `ignore`.
    Default: changes count in the order in which they come."""

    @model_validator(mode="after")
    def _check_sequence(self) -> Self:
        if self.sequence_by is not None and self.removes_rows:
            text = (
                "sink.sequence-by needs sink.delete-strategy: soft, or ignore: with hard, an older change would bring a"
                " row back that is gone"
            )
            raise OptionErrors(("sink.sequence-by", text))
        return self
