"""How the values of a format are to be understood where no message says it: what inference and conformance go by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ingest.model import temporal, types

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.model.data_type import DataType


@dataclass(frozen=True, slots=True)
class Reading:
    """Made from a format's options."""

    as_string: bool = False
    """Every column is a STRING (`*.infer-schema.primitive-as-string`)."""
    standard: str = temporal.SQL
    """How timestamps are written."""
    timestamps: bool = False
    """Whether texts that look like timestamps are taken for such."""
    fixed: Mapping[str, DataType] = field(default_factory=dict)
    """Types of columns of every table that no value changes."""
    settled: bool = False
    """Whether rows were checked before, so that a text that looks like a time is one."""

    def infer(self, raw: bytes) -> DataType:
        """The type of a value that nothing else describes."""
        if self.as_string:
            return types.STRING
        if self.settled and temporal.is_date(raw):
            return types.DATE
        return types.infer(raw, self.standard if self.timestamps or self.settled else None)
