"""The differences between servers that speak PostgreSQL's protocol: types, locks, staging, and changes of tables.

All else in this package asks a dialect, and knows no server by its name. Rules: docs/spec/postgres.md#hologres.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, Literal

import psycopg
from psycopg import sql

from ingest.errors import ConfigError
from ingest.model.types import INTEGERS, CharType, DataType, DoubleType, FloatType, VarcharType, is_text
from ingest.sinks.postgres import types

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping

    from ingest.component.options import AnyOptions
    from ingest.sinks.postgres.connection import Connection

    Options = Iterable[tuple[str, str]]
    Strategy = Literal["STANDARD", "BROADEN", "ONLY_BIGINT_OR_TEXT"]

_FLAG: Final = "boolean NOT NULL DEFAULT false"
_SETTINGS: Final = (
    "SET TIME ZONE 'UTC'; SET DateStyle TO 'ISO, YMD'; SET extra_float_digits TO 1;"
    " SET idle_in_transaction_session_timeout TO '300s'; SET tcp_keepalives_idle TO 30"
)
"""Form of values, and the time that a session may keep others waiting when its machine is gone."""
LOCK_WAIT_S: Final = 60
"""Time that a session waits for a lock that others hold, in seconds."""
QUEUE_WAIT_S: Final = 600
"""The same where tasks of a run commit one after another, and each waits for those before it."""
_WAIT: Final = "SELECT set_config(name, %s, true) FROM pg_settings WHERE name = 'lock_timeout'"
_EQUAL: Final = (
    "SELECT set_config('search_path', current_setting('search_path') || ', ' || quote_ident(n.nspname), false)"
    " FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace"
    " WHERE e.extname = 'citext' AND NOT n.nspname = ANY (current_schemas(true))"
)
"""Lets `=` find the equality of citext wherever its extension is: it would else compare two of these as texts."""
_GUARDS: Final = (
    "SELECT set_config(s.name, g.value, false) FROM pg_settings AS s"
    " JOIN (VALUES ('lock_timeout', %s), ('row_security', 'off')) AS g (name, value) ON g.name = s.name"
)
"""Settings of all servers that have them: how long a lock is waited for, and that rows which row-level security hides
are an error, where a statement would else pass over them."""
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtext('ingest'))"
_LOCK_ROWS: Final = "SELECT pg_advisory_xact_lock(hashtext('ingest'), hashtext(%s))"
_SIZED: Final = re.compile(r"character( varying)?\((\d+)\)")
_TEXTS: Final = re.compile(r"text|character varying")
_MAX_CHARACTERS: Final = 10_485_760
"""Length of texts that a `character varying` may have."""


@dataclass(frozen=True)
class SqlDialect:
    """PostgreSQL itself. Other servers override what they do otherwise."""

    product: ClassVar[str] = "PostgreSQL"
    stages: ClassVar[bool] = True
    """True if there are temporary tables, and statements that write to several places."""
    locks_rows: ClassVar[bool] = True
    """True if a transaction can hold rows that it only reads."""
    has_savepoints: ClassVar[bool] = True
    """True if a part of a transaction can be rolled back."""
    names_keys: ClassVar[bool] = True
    """True if the index of a table's key can be given a name."""
    flag: ClassVar[str] = _FLAG
    """Type of the column that says of a row that it is deleted, in a table that is made."""
    added_flag: ClassVar[str] = _FLAG
    """Type of that column where it is added to a table."""
    unit: ClassVar[str] = "microseconds"
    """The smallest unit of time that it keeps."""
    make_schema: ClassVar[str] = "CREATE SCHEMA {}"
    make_table: ClassVar[str] = "CREATE TABLE {} ({})"

    @property
    def refused(self) -> str:
        """Advice for a change of a table that cannot be made."""
        return "change it there, or route the rows to another table"

    def settle(self, connection: Connection) -> None:
        """Set how a session reads, shows and waits. Raise psycopg.Error, ConfigError."""
        connection.execute(_SETTINGS)
        connection.execute(_EQUAL)
        _guard(connection)

    def lock(self, connection: Connection) -> None:
        """Let one run at a time make and change tables, until the transaction ends. Raise psycopg.Error."""
        connection.execute(_LOCK)

    def lock_rows(self, connection: Connection, table: str) -> None:
        """Let one transaction at a time write rows of a table by those that it reads. Raise psycopg.Error."""
        connection.execute(_LOCK_ROWS, (table,))

    @contextmanager
    def queueing(self, connection: Connection) -> Generator[None]:
        """Wait in the block, at the begin of a transaction, until other tasks have committed. Raise psycopg.Error."""
        yield

    def types_of(self, data_type: DataType, *, of_key: bool) -> tuple[str, str] | None:
        """Return the types of a column that is made and of its rows' values; None for one that had only nulls."""
        kind = types.type_of(data_type)
        return None if kind is None else (kind, kind)

    def holds(self, known: str, values: str, *, of_key: bool = False) -> bool:
        """Return whether a column of a type takes all values of another one, or a column of the key may refuse some."""
        return types.holds(known, values) or (of_key and types.stays_key(known, values))

    def keeps_digits(self, known: str, *, of_key: bool) -> bool:
        """Return whether a column of a type keeps all digits of the numbers that rows have."""
        return known == "numeric" or _TEXTS.match(known) is not None

    def changed(self, known: str, values: str) -> str | None:
        """Return the type that a column becomes so that it holds the values, too; None where there is none."""
        return types.joined(known, values)

    def clause_of(self, options: Options) -> sql.Composable:
        """Return the end of the statement that makes a table with options: those of PostgreSQL are its storage's."""
        entry = sql.SQL("{} = {}")
        entries = [entry.format(sql.Identifier(*name.split(".")), sql.Literal(value)) for name, value in options]
        return sql.SQL(" WITH ({})").format(sql.SQL(", ").join(entries)) if entries else sql.SQL("")

    def properties_of(self, place: sql.Identifier, options: Options) -> Iterator[sql.Composed]:
        """Yield the statements that follow the one which makes a table, in the same transaction."""
        return iter(())


@dataclass(frozen=True)
class HologresDialect(SqlDialect):
    """Hologres of Alibaba Cloud, from its version 2.0 on.

    Its transactions lock each table that they read or write, as a whole, and have either changes of tables in them or
    changes of rows. It has neither advisory locks nor `FOR UPDATE`, and a type never changes.
    """

    product = "Hologres"
    stages = False
    locks_rows = False
    has_savepoints = False
    names_keys = False
    added_flag = "boolean DEFAULT false"
    unit = "milliseconds"
    make_schema = "CREATE SCHEMA IF NOT EXISTS {}"
    make_table = "CREATE TABLE IF NOT EXISTS {} ({})"
    strategy: Strategy = "STANDARD"
    """The types that columns get: as they are, wide ones, or only these two."""
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Properties of tables that are made, such as `distribution_key`."""

    @property
    def refused(self) -> str:
        """Advice for a change of a table that cannot be made."""
        advice = "route the rows to another table, or change the type there (Hologres has REBUILD TABLE)"
        wider = {"STANDARD": "BROADEN or ONLY_BIGINT_OR_TEXT", "BROADEN": "ONLY_BIGINT_OR_TEXT"}.get(self.strategy)
        return (
            advice
            if wider is None
            else f"{advice}; sink.type-normalize-strategy: {wider} makes tables with wider types"
        )

    def settle(self, connection: Connection) -> None:
        """Set how a session reads and shows values, and let its transactions write several times."""
        connection.execute("SET TIME ZONE 'UTC'; SET idle_in_transaction_session_timeout TO '300s'")
        _guard(connection)
        real = connection.execute("SELECT 1 FROM pg_proc WHERE proname = 'hg_version'").fetchone()
        if real is None:
            return  # a PostgreSQL, as in tests: all of its transactions do
        try:
            connection.execute("SET hg_experimental_enable_transaction = on")
        except psycopg.Error as exc:
            msg = "this Hologres has no transactions that write more than once"
            raise ConfigError(msg, "Hologres 2.0 or newer is needed") from exc

    def lock(self, connection: Connection) -> None:
        """Do nothing: each statement that makes something may find it there."""

    def lock_rows(self, connection: Connection, table: str) -> None:
        """Do nothing: a transaction locks the tables that it touches."""

    @contextmanager
    def queueing(self, connection: Connection) -> Generator[None]:
        """Wait in the block until other tasks have committed: the tables of the progress are locked as a whole."""
        connection.execute(_WAIT, (f"{QUEUE_WAIT_S}s",))
        yield
        connection.execute(_WAIT, (f"{LOCK_WAIT_S}s",))

    def types_of(self, data_type: DataType, *, of_key: bool) -> tuple[str, str] | None:
        """Return the types of a column that is made and of its rows' values; None for one that had only nulls."""
        kind = types.type_of(data_type)
        if kind is None:
            return None
        if kind.startswith("time("):
            kind = "time without time zone"
        elif isinstance(data_type, CharType):
            kind = f"character({data_type.length})"
        elif isinstance(data_type, VarcharType) and data_type.length <= _MAX_CHARACTERS:
            kind = f"character varying({data_type.length})"
        return self._widened(data_type, kind, of_key=of_key), kind

    def _widened(self, data_type: DataType, kind: str, *, of_key: bool) -> str:
        """Return the type of a column for values of a type."""
        if of_key and (kind.startswith(("numeric", "json")) or isinstance(data_type, (FloatType, DoubleType))):
            return "text"  # of these there are no keys
        if self.strategy == "STANDARD":
            return kind
        if isinstance(data_type, INTEGERS):
            return "bigint"
        if self.strategy == "ONLY_BIGINT_OR_TEXT" or is_text(data_type):
            return "text"
        return "double precision" if isinstance(data_type, FloatType) else kind

    def holds(self, known: str, values: str, *, of_key: bool = False) -> bool:
        """Return whether a column of a type takes all values of another one: a text does, as the server shows them."""
        if _TEXTS.fullmatch(known) is not None:
            return True
        column, value = _SIZED.fullmatch(known), _SIZED.fullmatch(values)
        if column is not None and value is not None:
            return known == values or (column[1] is not None and int(column[2]) >= int(value[2]))
        return types.holds(known, values)

    def keeps_digits(self, known: str, *, of_key: bool) -> bool:
        """Return whether a column of a type keeps all digits: a text has those of its rows' type, but for a key."""
        return known == "numeric" or (of_key and _TEXTS.match(known) is not None)

    def changed(self, known: str, values: str) -> str | None:
        """Return None: no type changes."""
        return None

    def clause_of(self, _options: Options) -> sql.Composable:
        """Return nothing: options are set by statements."""
        return sql.SQL("")

    def properties_of(self, place: sql.Identifier, options: Options) -> Iterator[sql.Composed]:
        """Yield the statements that set the properties of a table, in the transaction that makes it."""
        name = sql.Literal(place.as_string(None))
        properties = {**self.properties, **dict(options)}
        for key, value in sorted(properties.items(), key=lambda option: (option[0] == "binlog.ttl", option[0])):
            yield sql.SQL("CALL set_table_property({}, {}, {})").format(name, sql.Literal(key), sql.Literal(value))


def _guard(connection: Connection) -> None:
    """Set what keeps a session from waiting without end, and from passing over hidden rows. Raise psycopg.Error."""
    connection.execute(_GUARDS, (f"{LOCK_WAIT_S}s",))


POSTGRES: Final = SqlDialect()
"""The dialect of PostgreSQL."""


def dialect_of(options: AnyOptions) -> SqlDialect:
    """Return the dialect of the server of a sink."""
    return POSTGRES if options.type == "postgres" else HologresDialect(options.strategy, options.table_properties)
