"""One file per wire format, both directions in it. A format is its options model, registered here by name.

Third parties add theirs under the entry point `ingest.formats`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

from ingest.formats.debezium_json import DebeziumJson

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.model.event import Bad, Change, Skip


class Decoder(Protocol):
    """Turns the records of one chunk into changes; holds what it learned of the topic so far, nothing else."""

    def decode(self, values: Sequence[bytes | None]) -> list[Change | Skip | Bad]:
        """One result per value, in order. Never raises for what a value holds."""


class Format(Protocol):
    """What a format's options model offers."""

    name: ClassVar[str]

    def decoder(self) -> Decoder:
        """A decoder for one split's records."""


FORMATS: dict[str, type[DebeziumJson]] = {DebeziumJson.name: DebeziumJson}
"""The formats that come with the package."""
