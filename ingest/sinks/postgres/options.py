"""Options of the sinks `postgres` and `hologres`, which speak PostgreSQL's protocol.

Rules: docs/spec/postgres.md.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from ingest.component.options import OptionErrors
from ingest.encode.upsert_encoder import Coarse, UpsertEncoder
from ingest.model.numbers import Numbers
from ingest.model.reject import RowError
from ingest.model.table import TableId, TableLayout, show
from ingest.sinks.postgres.types import MAX_NAME, SYSTEM_COLUMNS
from ingest.sinks.sink import RowOptions, SinkCapabilities, SinkOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ingest.model.schema import TableSchema
    from ingest.schema.evolve import SourceTable
    from ingest.schema.infer import Inference
    from ingest.sinks.postgres.coordinator import PostgresCoordinator
    from ingest.sinks.postgres.tables import SqlTable
    from ingest.sinks.postgres.writer import PostgresWriter

_ENDPOINT: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:/@?,\[\]]+)(?::(?P<port>\d{1,5}))?")
_NAMES: Final = {"valid_from": "sink.valid-from-column", "valid_to": "sink.valid-to-column"}
_PREFIX: Final = r"^[A-Za-z0-9._-]{1,150}$"
_PARAMETER: Final = re.compile(r"(?:toast\.)?[a-z][a-z0-9_]{0,62}")
_PROPERTY: Final = "table_property."
"""Prefix of the options that are properties of Hologres' tables."""
_PROPERTY_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_DELETES: Final[Mapping[object, str]] = {"DELETE_ROW_ON_PK": "hard", "IGNORE_DELETE": "ignore"}
"""Words of Alibaba's connector for what becomes of deleted rows."""


class SqlSinkOptions(RowOptions):
    """Options of a sink on such a server."""

    codes: ClassVar[Mapping[str, str]] = {"bad-name": "a name that the table, its namespace or a column cannot have"}

    port: ClassVar[int] = 5432
    """The port of an endpoint that has none."""

    write_mode: Literal["upsert", "history"] = Field("upsert", alias="sink.write-mode")
    """What becomes of a row. `upsert`: a table has the last state of each key. `history`: it has all states, as rows
    with the time in which each was the current one. The time is that of `sink.sequence-by`, or else the server's clock;
    a delete ends the current row."""

    valid_from: str = Field("valid_from", alias="sink.valid-from-column", min_length=1)
    """With `history`: the column that says since when a row is the current one. It is part of the primary key."""

    valid_to: str = Field("valid_to", alias="sink.valid-to-column", min_length=1)
    """With `history`: the column that says until when a row was the current one. It is null in the current row."""

    type: str
    """The name of the sink."""

    endpoint: str
    """The address of the server: `host` or `host:port`."""

    dbname: str = Field(min_length=1)
    """The database."""

    username: str = Field(min_length=1)
    """The user, who may make and change tables there."""

    password: str | None = None
    """The user's password."""

    default_schema: str = Field("public", alias="sink.default-schema", min_length=1)
    """The schema of tables whose id has one part, and of the tables that hold the progress. Of an id with more parts,
    the last one is the table and the one before it the schema: `shop.orders` is the table `orders` in `shop`."""

    id_prefix: str | None = Field(None, alias="sink.transactional-id-prefix", pattern=_PREFIX)
    """The name under which progress is kept. Default: `ingest-` and the pipeline's name. Of two runs with one prefix,
    the newer one stops the older."""

    sslmode: Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] = "prefer"
    """How TLS is used, in the words of libpq."""

    sslrootcert: str | None = None
    """A file with the certificates of authorities that are trusted, for `verify-ca` and `verify-full`."""

    sslcert: str | None = None
    """A file with the client's certificate."""

    sslkey: str | None = None
    """A file with the client's key."""

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

    @field_validator("endpoint")
    @classmethod
    def _check_endpoint(cls, value: str) -> str:
        address = _ENDPOINT.fullmatch(value)
        if address is None or int(address["port"] or cls.port) > 65_535:
            raise ValueError("write host or host:port")
        return value

    @field_validator("default_schema")
    @classmethod
    def _check_schema(cls, value: str) -> str:
        if not 0 < len(value.encode("utf-8", "surrogatepass")) <= MAX_NAME or "\0" in value or value.startswith("pg_"):
            raise ValueError(f"write the name of a schema: up to {MAX_NAME} bytes, and not one of PostgreSQL's own")
        return value

    @field_validator("delete_column", "valid_from", "valid_to")
    @classmethod
    def _check_column(cls, value: str) -> str:
        size = len(value.encode("utf-8", "surrogatepass"))
        if size > MAX_NAME or value in SYSTEM_COLUMNS or any(c == "\0" or "\ud800" <= c <= "\udfff" for c in value):
            raise ValueError(f"write the name of a column: up to {MAX_NAME} bytes, and not one of PostgreSQL's own")
        return value

    @property
    def removes_rows(self) -> bool:
        """True if nothing is left of a row that is deleted: a history has it, with its end."""
        return super().removes_rows and self.write_mode == "upsert"

    @property
    def capabilities(self) -> SinkCapabilities:
        """Rows and progress are in one transaction."""
        return SinkCapabilities(
            supersedes=self.write_mode == "upsert",
            keeps_states=self.write_mode == "history",
            sequence_by=self.sequence_by,
            guarantee="exactly-once",
            numbers=Numbers.STORED,
            lays_out=("table-options",),
            packages=("postgres",),
        )

    @property
    def address(self) -> tuple[str, int]:
        """The host and the port of the server."""
        found = _ENDPOINT.fullmatch(self.endpoint)
        assert found is not None, "it was checked"
        return found["host"].strip("[]"), int(found["port"] or self.port)

    def prefix(self, pipeline: str) -> str:
        """Return the name under which progress is kept."""
        return self.id_prefix or f"ingest-{pipeline}"

    def place_of(self, table: TableId) -> str:
        """Return the schema and the name of the table that rows of a sink table are in."""
        return show((table[-2] if len(table) > 1 else self.default_schema, table[-1]))

    def table_for(self, table: TableId, schema: TableSchema) -> SqlTable:
        """Return the table that rows of a target go to. Raise RowError for names that it cannot have."""
        from ingest.sinks.postgres.tables import table_by

        return table_by(self, table, schema)

    def encoder(
        self, table: TableId, source: SourceTable, target: TableId, sink: TableSchema, inference: Inference
    ) -> UpsertEncoder:
        """Return how rows of a table become JSON under their keys; raises RowError for names that cannot be."""
        to: Any = self.table_for(target, sink)
        if not to.has_key:
            raise RowError("null-key", "a column of its primary key had only nulls so far")
        return UpsertEncoder(
            table,
            source,
            sink,
            to,
            inference,
            coarse=Coarse.ROWS,
            parts=self.capabilities.writes_parts,
            sequence=to.sequence,
        )

    def coordinator(self, pipeline: str, warn: Callable[[str], None]) -> PostgresCoordinator:
        """Return the coordinator that the driver asks about the sink."""
        from ingest.sinks.postgres.coordinator import PostgresCoordinator

        return PostgresCoordinator(self, pipeline, warn)

    def writer(self, pipeline: str, _run: int) -> PostgresWriter:
        """Return the writer that a task writes to the sink with."""
        from ingest.sinks.postgres.writer import postgres_writer

        return postgres_writer(self, pipeline)


class PostgresSink(SqlSinkOptions, SinkOptions):
    """Options of `sink:` with `type: postgres`."""

    type: Literal["postgres"]
    """`postgres`."""

    @property
    def capabilities(self) -> SinkCapabilities:
        """The columns that came are written alone where a table has one row per key, in the order of changes."""
        parts = self.write_mode == "upsert" and self.sequence_by is None
        return replace(super().capabilities, infinite_times=True, writes_parts=parts)

    def check_layout(self, layout: TableLayout) -> list[tuple[str, str]]:
        """Return what of a layout no table can have: names that no storage parameter has."""
        odd = [name for name, _ in layout.options if not _PARAMETER.fullmatch(name)]
        why = "is no storage parameter of PostgreSQL, like fillfactor or autovacuum_enabled"
        return [("table-options", f"{name[:100]!r} {why}") for name in odd]


class HologresSink(SqlSinkOptions, SinkOptions):
    """Options of `sink:` with `type: hologres`."""

    port: ClassVar[int] = 80

    type: Literal["hologres"]
    """`hologres`."""

    strategy: Literal["STANDARD", "BROADEN", "ONLY_BIGINT_OR_TEXT"] = Field(
        "STANDARD", alias="sink.type-normalize-strategy"
    )
    """The types of columns that are made. `STANDARD`: those of the rows. `BROADEN`: `bigint` for integers, `text` for
    CHAR, VARCHAR and STRING, `double precision` for FLOAT and DOUBLE. `ONLY_BIGINT_OR_TEXT`: `bigint` for integers,
    `text` for all else. Hologres changes no types, so a wide column takes changes that would stop the run."""

    table_properties: dict[str, str] = Field(default_factory=dict, alias="table_property.*")
    """Properties of the tables that are made, in Hologres' words: `table_property.distribution_key`,
    `table_property.orientation`, `table_property.binlog.level` and more. Without `distribution_key`, rows are
    distributed by the primary key."""

    @model_validator(mode="before")
    @classmethod
    def _collect(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        properties = {key.removeprefix(_PROPERTY): str(value) for key, value in data.items() if _is_property(key)}
        rest = {key: value for key, value in data.items() if not _is_property(key)}
        return {**rest, f"{_PROPERTY}*": {**rest.get(f"{_PROPERTY}*", {}), **properties}}

    @field_validator("delete_strategy", mode="before")
    @classmethod
    def _translate(cls, value: object) -> object:
        return _DELETES.get(value, value) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check_properties(self) -> HologresSink:
        odd = [name for name in self.table_properties if _PROPERTY_NAME.fullmatch(name) is None]
        if odd:
            raise OptionErrors(*((_PROPERTY + name, f"{_PROPERTY}{name} is no name of a property") for name in odd))
        return self

    def check_layout(self, layout: TableLayout) -> list[tuple[str, str]]:
        """Return what of a layout no table can have: names that no property has."""
        odd = [name for name, _ in layout.options if _PROPERTY_NAME.fullmatch(name) is None]
        return [("table-options", f"{name[:100]!r} is no name of a property") for name in odd]


def _is_property(key: str) -> bool:
    return key.startswith(_PROPERTY) and not key.endswith(".*")
