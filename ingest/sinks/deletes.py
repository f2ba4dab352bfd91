"""Options of sinks of tables for rows that are deleted at the source.

Rules: docs/spec/sinks.md#deleted-rows-of-tables.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from ingest.component.options import OptionErrors
from ingest.sinks.sink import SinkOptions


class DeletingSinkOptions(SinkOptions):
    """Options of a sink whose tables can lose rows."""

    delete_strategy: Literal["hard", "soft", "ignore"] = Field("hard", alias="sink.delete-strategy")
    """The fate of a row that is deleted at the source. `hard`: it is removed. `soft`: it stays, and its column
    `sink.delete-column` becomes true, until a row of that key comes again. `ignore`: nothing, it stays as it was."""

    delete_column: str = Field("_deleted", alias="sink.delete-column", min_length=1)
    """With `soft`: the column that says whether a row is deleted. It is added to the tables."""

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
