from typing import Any, Protocol

from ingest.native.contract import RowEncoderSpec

class Counters(Protocol):
    """A `TableEncoder` of the reference, to whose counters is added what was encoded."""

    inserted: int
    updated: int
    deleted: int

class RowEncoder:
    """The native encoder of one table: checks and writes its rows."""

    def __init__(self, spec: RowEncoderSpec, encoder: Counters, destination: Any, /) -> None:
        """Make all of it; raises ValueError or TypeError for a document that names what there is not.

        `destination`: the sink's own.
        """

    @property
    def destination(self) -> Any:
        """The sink's own."""
