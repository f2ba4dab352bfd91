"""One file per wire format, both directions in it. A format is its options model, registered here by name.

Third parties add theirs under the entry point `ingest.formats`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ingest.formats.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.formats.options import Options
    from ingest.formats.reading import Reading
    from ingest.formats.writing import Value
    from ingest.model.event import Decoded
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId


class Decoder(Protocol):
    """Turns the records of one chunk into changes; holds what it learned of the topic so far, nothing else."""

    def decode(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> list[Decoded]:
        """One result per record, in order. Never raises for what a record holds."""


class Format(Protocol):
    """What a format's options model offers."""

    @property
    def name(self) -> str:
        """As `value.format` has it."""

    @property
    def ignore_parse_errors(self) -> bool:
        """Whether records that cannot be parsed are skipped and counted."""

    @property
    def reading(self) -> Reading:
        """How values are understood where no message says it."""

    @staticmethod
    def value_of(table: TableId, schema: TableSchema, *, include_schema: bool = False) -> Value:
        """What makes the values of a table's records, where the format is written."""

    @property
    def form(self) -> str | None:
        """Which of the forms that `flow/native.py` reads the messages mostly have; None: none of them."""

    def decoder(self, topic: str, *, keyed: bool = False) -> Decoder:
        """A decoder for one split's records; `keyed`: their keys are columns, too."""


FORMATS: Registry[Options] = Registry(
    {
        "debezium-json": "ingest.formats.debezium_json:DebeziumJson",
        "canal-json": "ingest.formats.canal_json:CanalJson",
        "json": "ingest.formats.json:Json",
    }
)
"""The formats that come with the package."""


def value_of(name: str, table: TableId, schema: TableSchema, *, include_schema: bool = False) -> Value:
    """What makes the values of a table's records in a format."""
    made: Any = FORMATS[name]
    value: Value = made.value_of(table, schema, include_schema=include_schema)
    return value
