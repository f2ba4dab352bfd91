"""One file per wire format, both directions in it. A format is its options model, registered here by name.

Third parties add theirs under the entry point `ingest.formats`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol

from pydantic import AfterValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from ingest.component.registry import Registry
from ingest.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ingest.component.options import Options
    from ingest.formats.typed import Column
    from ingest.formats.writing import Value
    from ingest.model.change import Decoded
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.schema.reading import Reading


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

    @property
    def said(self) -> tuple[str, Callable[[bytes], Mapping[str, Column]]] | None:
        """The member in which messages of that form say what columns' types are, and what reads it; None: they do not.

        It raises one of MALFORMED.
        """

    def decoder(self, topic: str, *, keyed: bool = False) -> Decoder:
        """A decoder for one split's records; `keyed`: their keys are columns, too."""


FORMATS: Registry[Options] = Registry(
    "ingest.formats",
    "ingest.component.options:Options",
    ("name", "reading", "form", "decoder"),
    {
        "debezium-json": "ingest.formats.debezium_json:DebeziumJson",
        "canal-json": "ingest.formats.canal_json:CanalJson",
        "json": "ingest.formats.json:Json",
    },
)
"""The formats that come with the package."""


def _name(value: str) -> str:
    if FORMATS.find(value) is None:
        *most, last = (repr(name) for name in FORMATS.names())
        raise PydanticCustomError("literal_error", "no such format", {"expected": f"{', '.join(most)} or {last}"})
    return value


def _written(value: str) -> str:
    if not hasattr(FORMATS.find(_name(value)), "value_of"):
        msg = f"{value!r} can be read, not written"
        raise ValueError(msg)
    return value


_SCHEMA: Final = WithJsonSchema({"enum": list(FORMATS), "type": "string"})
FormatName = Annotated[str, AfterValidator(_name), _SCHEMA]
"""The name of a format, here or in another package."""
WrittenFormatName = Annotated[str, AfterValidator(_written), _SCHEMA]
"""The name of a format that has the other direction, too."""


def value_of(name: str, table: TableId, schema: TableSchema, *, include_schema: bool = False) -> Value:
    """What makes the values of a table's records in a format."""
    made: Any = FORMATS.find(name)
    if made is None:
        msg = f"the format {name!r} is not installed on the machine of this worker"
        raise ConfigError(msg, "install its package where the workers run")
    value: Value = made.value_of(table, schema, include_schema=include_schema)
    return value
