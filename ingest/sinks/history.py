"""Options of sinks of tables that keep each state of a key as a row, with the time in which it was the current one.

Rules: docs/spec/sinks.md#history-of-rows.
"""

from __future__ import annotations

from typing import Final, Literal, Self

from pydantic import Field, model_validator

from ingest.component.options import OptionErrors
from ingest.sinks.sequence import SequencedSinkOptions

_NAMES: Final = {"valid_from": "sink.valid-from-column", "valid_to": "sink.valid-to-column"}


class HistorySinkOptions(SequencedSinkOptions):
    """Options of a sink whose tables can keep each state of a key as a row."""

    write_mode: Literal["upsert", "history"] = Field("upsert", alias="sink.write-mode")
    """What becomes of a row. `upsert`: a table has the last state of each key. `history`: it has all states, as rows
    with the time in which each was the current one. The time is that of `sink.sequence-by`, or else the server's clock;
    a delete ends the current row."""

    valid_from: str = Field("valid_from", alias="sink.valid-from-column", min_length=1)
    """With `history`: the column that says since when a row is the current one. It is part of the primary key."""

    valid_to: str = Field("valid_to", alias="sink.valid-to-column", min_length=1)
    """With `history`: the column that says until when a row was the current one. It is null in the current row."""

    @model_validator(mode="after")
    def _check_history(self) -> Self:
        if self.write_mode == "upsert":
            given = [alias for name, alias in _NAMES.items() if name in self.model_fields_set]
            if given:
                raise OptionErrors(*((alias, f"{alias} needs sink.write-mode: history") for alias in given))
        elif self.delete_strategy == "soft":
            text = "sink.delete-strategy: history removes no rows, and a delete ends the last one: write hard or ignore"
            raise OptionErrors(("sink.delete-strategy", text))
        elif self.valid_from == self.valid_to:
            alias = _NAMES["valid_to"]
            raise OptionErrors((alias, f"{alias} is the name of {_NAMES['valid_from']}, too"))
        return self

    @property
    def supersedes(self) -> bool:
        """True if a row that comes again takes the place of the one that is there."""
        return self.write_mode == "upsert"

    @property
    def keeps_states(self) -> bool:
        """True if its tables keep each state of a row."""
        return self.write_mode == "history"

    @property
    def removes_rows(self) -> bool:
        """True if nothing is left of a row that is deleted: a history has it, with its end."""
        return super().removes_rows and self.write_mode == "upsert"
