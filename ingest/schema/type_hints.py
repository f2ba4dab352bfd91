"""The rules of a format for values whose types no message declares. Inference and conformance follow them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ingest.model import temporal, types
from ingest.model.types import DataType


@dataclass(frozen=True, slots=True)
class TypeHints:
    """Rules for undeclared values, made from a format's options."""

    as_string: bool = False
    """True if every column is a STRING (`*.infer-schema.primitive-as-string`)."""
    standard: str = temporal.SQL
    """The standard in which timestamps are written, one of those in `model/temporal.py`."""
    timestamps: bool = False
    """True if texts that look like timestamps become timestamps."""
    fixed: Mapping[str, DataType] = field(default_factory=dict)
    """Types of columns, in every table, that no value changes."""
    settled: bool = False
    """True if the rows were already checked, so that a text that looks like a time certainly is one."""

    def infer(self, raw: bytes) -> DataType:
        """Return the type of a value that nothing else declares."""
        if self.as_string:
            return types.STRING
        if self.settled and temporal.is_date(raw):
            return types.DATE
        return types.infer(raw, self.standard if self.timestamps or self.settled else None)
