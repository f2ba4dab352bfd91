"""A MySQL or MariaDB server as a source: the options of `source:` with `type: mysql`. Rules: docs/spec/mysql.md."""

from __future__ import annotations

import re
from random import choice
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal
from zlib import crc32

from pydantic import Field, field_validator, model_validator

from ingest.component.options import Duration, Labelled, OptionErrors, Options, metadata_names
from ingest.formats.metadata_columns import ExtraColumns
from ingest.model.reject import IgnoredErrors
from ingest.model.table import MAX_ID, TableId, selector
from ingest.schema.infer import Inference
from ingest.sources.mysql.chunks import chunk_columns
from ingest.sources.mysql.format import MySqlRows
from ingest.sources.mysql.server import READ_S, MySqlServer, Tls
from ingest.sources.records import DeclaringOptions, SourceCapabilities

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.formats import Decoder
    from ingest.model.record import Split
    from ingest.sources.mysql.coordinator import MySqlCoordinator
    from ingest.sources.mysql.letters import LetterRows
    from ingest.sources.mysql.reader import MySqlReader

PREFIX: Final = "jdbc.properties."
MAX_SERVER_ID: Final = (1 << 32) - 1
_FIRST_ID, _IDS = 1_000_000_000, 3_000_000_000
"""Server ids that a pipeline without the option has are from this one on, and so many."""
METADATA: Final = ("op_ts",)
"""What of a change may become a column (`metadata.list`)."""
_NUMBERS: Final = re.compile(r"(\d{1,10})(?:\s*-\s*(\d{1,10}))?")
_FILE: Final = re.compile(r"[^/\\\0]{1,255}\.\d{6,19}")
_ZONE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*|[+-]\d{1,2}:\d\d|SYSTEM|UTC")
TLS_MODES: Final = ("disabled", "preferred", "required", "verify-ca", "verify-identity")
_NO_EFFECT: Final = {
    "server_time_zone": "a TIMESTAMP is an instant in the log, and each session here is in UTC",
    "skip_backfill": "changes that come while a chunk is read are written once",
    "assign_ending_first": "chunks are read in the order of their keys",
    "close_idle_readers": "readers are tasks, which end by themselves",
    "even_upper": "chunks are even in size whatever the keys are",
    "even_lower": "chunks are even in size whatever the keys are",
    "meta_group": "the checkpoint keeps chunks whole",
    "pool_size": "each task has a connection of its own",
    "fetch_size": "rows of a chunk are read as the server sends them",
    "online_changes": "the tables of gh-ost and pt-online-schema-change are always followed",
    "captured_only": "changes of other tables are never decoded",
}
"""Options of Flink CDC that do nothing here, by attribute: why."""


class MySqlSource(Labelled, DeclaringOptions, Options):
    """Options of `source:` with `type: mysql`."""

    capabilities: ClassVar[SourceCapabilities] = SourceCapabilities(left_out="not-selected", native_records=True)
    formats: ClassVar[None] = None
    sample_size: ClassVar[int] = 0
    """No row is looked at before the first batch: the server says what its tables are."""
    chosen_formats: ClassVar[tuple[Any, ...]] = ()

    type: Literal["mysql"]
    """`mysql`."""

    hostname: str = Field(min_length=1, max_length=255)
    """The server, by its name or address. It may change between runs, as after a failover."""

    port: int = Field(3306, ge=1, le=65_535)
    """The server's port."""

    username: str = Field(min_length=1)
    """The user, with the rights that [the guide](../docs/mysql.md) lists."""

    password: str | None = None
    """The user's password."""

    tables: str = Field(min_length=1)
    """The tables to read: a selector as in routes, `shop.orders,shop.items_[0-9]+`. Tables that are made while the
    pipeline runs are read, too."""

    tables_exclude: str | None = Field(None, alias="tables.exclude")
    """A selector of tables that are not read although `tables` has them."""

    server_id: str | None = Field(None, alias="server-id")
    """The number under which the log is read, or a range of numbers, `5400-5408`, of which the first is taken that
    nobody else has. No replica and no other reader of the server may have it. Default: one that is made of the
    pipeline's name."""

    server_time_zone: str | None = Field(None, alias="server-time-zone")
    """Accepted for pasted pipelines: a TIMESTAMP is an instant in the log, whatever the server's time zone is."""

    startup_mode: Literal["initial", "earliest-offset", "latest-offset", "snapshot", "timestamp", "specific-offset"] = (
        Field("initial", alias="scan.startup.mode")
    )
    """Where to start where the checkpoint does not say. `initial`: with the rows that are there, and the log from that
    moment on. `snapshot`: with the rows alone; the run ends when they are read. The others read no rows but the log's:
    from the oldest log file, the end, the first transaction of a time, or a place."""

    startup_file: str | None = Field(None, alias="scan.startup.specific-offset.file")
    """With `specific-offset`: the log file, `binlog.000042`."""

    startup_position: int | None = Field(None, alias="scan.startup.specific-offset.pos", ge=4, lt=1 << 62)
    """With `specific-offset`: the position in that file, at which a transaction begins. Default: the file's first."""

    startup_gtids: str | None = Field(None, alias="scan.startup.specific-offset.gtid-set", min_length=1)
    """With `specific-offset`: transactions that are not read, as they are done already: the GTID set of a server."""

    startup_timestamp: int | None = Field(None, alias="scan.startup.timestamp-millis", ge=0, lt=1 << 62)
    """With `timestamp`: start at the first transaction that is not older, in milliseconds since 1970. The time finds a
    place in the log, once; it leaves out nothing after that."""

    chunk_size: int = Field(32_768, alias="scan.incremental.snapshot.chunk.size", ge=2, le=100_000_000)
    """Rows of a chunk, about; fewer where rows are large, or where `scan.snapshot.rows-per-second` is less."""

    chunk_columns: str | None = Field(None, alias="scan.incremental.snapshot.chunk.key-column")
    """Columns by which tables are cut into chunks, `shop.orders:id;shop.items_.*:item_id`: a selector and a column of
    the primary or a unique key. Default: the primary key."""

    rows_per_second: float | None = Field(None, alias="scan.snapshot.rows-per-second", gt=0, le=1e9)
    """Read at most this many rows a second in the snapshot, over all tables. Default: as many as there are."""

    keyless: Literal["stop", "lock"] = Field("stop", alias="scan.snapshot.keyless")
    """What to do with a table without a key whose state cannot be read at a known position: stop, or read it while a
    lock keeps others from writing to it."""

    new_tables: bool = Field(True, alias="scan.newly-added-table.enabled")
    """Tables that `tables` has and that were not read before are read with the rows that they have. `false`: such
    tables, those that are made while the pipeline runs apart, are read from the log only."""

    new_tables_log_only: bool = Field(False, alias="scan.binlog.newly-added-table.enabled")
    """Tables that were not read before are read from the log only."""

    schema_changes: bool = Field(True, alias="schema-change.enabled")
    """Whether columns that appear in the database appear in the sink. `false`: they are left out and counted."""

    truncate: Literal["delete", "ignore"] = Field("delete", alias="schema-change.truncate")
    """What TRUNCATE TABLE does to the sink's rows: `delete` removes them, in order with the rows' changes, where the
    sink keeps one row per key. `ignore` leaves them, which `status` shows."""

    resnapshot: Literal["auto", "always", "never"] = Field("auto", alias="schema-change.resnapshot")
    """What to do when a statement has changed stored rows without telling which: `auto` reads the table once more
    beside the log, if it is not too large and the sink keeps one row per key; `never` leaves it marked, which `status`
    shows."""

    resnapshot_rows: int = Field(1_000_000, alias="schema-change.resnapshot.max-rows", ge=0)
    """With `auto`: the most rows that a table may have, by the server's estimate."""

    heartbeat: Duration = Field(30.0, alias="heartbeat.interval")
    """How often an idle server is to say that it is there. After four silent intervals it is opened again."""

    connect_timeout: Duration = Field(30.0, alias="connect.timeout")
    """How long each try of connecting may take."""

    connect_retries: int = Field(3, alias="connect.max-retries", ge=0, le=1000)
    """How often connecting is tried before it has failed, three tenths of a second apart, where what is wrong may pass;
    0 is once. Then a task is tried again, and a run that has begun waits for a server that is away."""

    gtid_excludes: str | None = Field(None, alias="gtid.source.excludes")
    """Servers whose transactions do not count when the place on another server is looked for, separated by commas:
    UUIDs of MySQL, `domain-server` of MariaDB."""

    tls_mode: Literal["disabled", "preferred", "required", "verify-ca", "verify-identity"] | None = Field(
        None, alias="ssl.mode"
    )
    """How TLS is used, in the words of MySQL's clients: `verify-identity` verifies the certificate and its name, and is
    the default where `ssl.ca` is given. Else, by default, TLS is used where the server can, and verified in the same
    way, but on this machine's loopback device. `preferred` and `required` verify nothing."""

    tls_ca: str | None = Field(None, alias="ssl.ca")
    """A PEM file with the certificates of authorities that are trusted. Default: those of the system."""

    tls_cert: str | None = Field(None, alias="ssl.cert")
    """A PEM file with the client's certificate."""

    tls_key: str | None = Field(None, alias="ssl.key")
    """A PEM file with the client's key."""

    tls_password: str | None = Field(None, alias="ssl.key.password")
    """The password of that key."""

    tinyint1_as_boolean: bool = Field(False, alias="treat-tinyint1-as-boolean.enabled")
    """Whether TINYINT(1) is a BOOLEAN. It may hold numbers from -128 to 127, which a BOOLEAN would lose: rows with
    others than 0 and 1 are rejects then."""

    comments: bool = Field(False, alias="include-comments.enabled")
    """Whether comments of tables and columns go to the sink, and follow statements that change them, where it keeps
    any: Iceberg, Delta, PostgreSQL, Hologres."""

    metadata: str | None = Field(None, alias="metadata.list")
    """Columns about the change itself, separated by commas: `op_ts`, the time of the change in the database as
    TIMESTAMP_LTZ. They come last."""

    skip_backfill: bool = Field(False, alias="scan.incremental.snapshot.backfill.skip")
    """Accepted for pasted pipelines: changes that come while a chunk is read are written once in any case."""

    assign_ending_first: bool = Field(False, alias="scan.incremental.snapshot.unbounded-chunk-first.enabled")
    """Accepted for pasted pipelines: the order of chunks."""

    close_idle_readers: bool = Field(False, alias="scan.incremental.close-idle-reader.enabled")
    """Accepted for pasted pipelines: readers are tasks, which end by themselves."""

    even_upper: float | None = Field(None, alias="chunk-key.even-distribution.factor.upper-bound", gt=0)
    """Accepted for pasted pipelines: chunks are even in size whatever the keys are."""

    even_lower: float | None = Field(None, alias="chunk-key.even-distribution.factor.lower-bound", gt=0)
    """Accepted for pasted pipelines: chunks are even in size whatever the keys are."""

    meta_group: int | None = Field(None, alias="chunk-meta.group.size", ge=1)
    """Accepted for pasted pipelines: the checkpoint keeps chunks whole."""

    pool_size: int | None = Field(None, alias="connection.pool.size", ge=1)
    """Accepted for pasted pipelines: each task has a connection of its own."""

    fetch_size: int | None = Field(None, alias="scan.snapshot.fetch.size", ge=1)
    """Accepted for pasted pipelines: rows of a chunk are read as the server sends them."""

    online_changes: bool | None = Field(None, alias="scan.parse.online.schema.changes.enabled")
    """Accepted for pasted pipelines: the tables of gh-ost and pt-online-schema-change are always followed."""

    captured_only: bool | None = Field(None, alias="scan.only.deserialize.captured.tables.changelog.enabled")
    """Accepted for pasted pipelines: changes of other tables are never decoded."""

    jdbc: dict[str, str] = Field(alias="jdbc.properties.*", default_factory=dict)
    """Properties of Connector/J that mean something here: `useSSL` (with `true`, certificates are verified unless
    `verifyServerCertificate` is `false`), `sslMode`, `zeroDateTimeBehavior` (`EXCEPTION`: a row with a zero date is a
    reject, `CONVERT_TO_NULL`: the value becomes null, which is counted), `tinyInt1isBit`, `connectTimeout`,
    `socketTimeout`. Others have no effect, which `ingest check` says."""

    format: Any = Field(default_factory=MySqlRows, alias="*format", exclude=True)
    """The form of its records."""

    @model_validator(mode="before")
    @classmethod
    def _collect(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        names = [key for key in data if key.startswith(PREFIX) and not key.endswith(".*")]
        found = {key.removeprefix(PREFIX): str(data[key]) for key in names}
        rest = {key: value for key, value in data.items() if key not in names}
        return {**rest, f"{PREFIX}*": {**rest.get(f"{PREFIX}*", {}), **found}} if found else rest

    @field_validator("tables", "tables_exclude")
    @classmethod
    def _check_selector(cls, value: str | None) -> str | None:
        if value is not None:
            selector(value)
        return value

    @field_validator("server_id")
    @classmethod
    def _check_server_id(cls, value: str | None) -> str | None:
        if value is not None:
            server_ids(value)
        return value

    @field_validator("server_time_zone")
    @classmethod
    def _check_zone(cls, value: str | None) -> str | None:
        if value is not None and not _ZONE.fullmatch(value):
            raise ValueError("write a time zone like Europe/Berlin, or an offset like +02:00")
        return value

    @field_validator("startup_file")
    @classmethod
    def _check_file(cls, value: str | None) -> str | None:
        if value is not None and not _FILE.fullmatch(value):
            raise ValueError("write the name of a log file, as SHOW BINARY LOGS has it: binlog.000042")
        return value

    @field_validator("chunk_columns")
    @classmethod
    def _check_columns(cls, value: str | None) -> str | None:
        if value is not None:
            chunk_columns(value)
        return value

    @field_validator("heartbeat", "connect_timeout")
    @classmethod
    def _check_seconds(cls, value: float) -> float:
        if not 0.25 <= value <= 86_400:
            raise ValueError("must be from 250 ms to 1 day")
        return value

    @field_validator("metadata")
    @classmethod
    def _check_metadata(cls, value: str | None) -> str | None:
        metadata_names(value or "", METADATA, {})
        return value

    @model_validator(mode="after")
    def _check_whole(self) -> MySqlSource:
        problems = []
        mode = self.startup_mode
        if mode == "timestamp" and self.startup_timestamp is None:
            problems.append(("scan.startup.mode", "scan.startup.mode: timestamp needs scan.startup.timestamp-millis"))
        if mode == "specific-offset" and (self.startup_file is None) == (self.startup_gtids is None):
            what = "scan.startup.specific-offset.file or scan.startup.specific-offset.gtid-set"
            text = f"scan.startup.mode: specific-offset needs {what}" + (
                "" if self.startup_file is None else ", not both"
            )
            problems.append(("scan.startup.mode", text))
        if self.tls_key is not None and self.tls_cert is None:
            problems.append(("ssl.key", "ssl.key needs ssl.cert"))
        zero = self.jdbc.get("zeroDateTimeBehavior", "CONVERT_TO_NULL").replace("_", "").upper()
        if zero not in {"CONVERTTONULL", "EXCEPTION"} and "${" not in zero:
            key = f"{PREFIX}zeroDateTimeBehavior"
            problems.append((key, f"{key}: write CONVERT_TO_NULL or EXCEPTION: another date would be a wrong value"))
        ssl_mode = self.jdbc.get("sslMode", "PREFERRED").lower().replace("_", "-")
        if ssl_mode not in TLS_MODES and "${" not in ssl_mode:
            problems.append((f"{PREFIX}sslMode", f"{PREFIX}sslMode: is none of {', '.join(TLS_MODES)}"))
        for name in ("connectTimeout", "socketTimeout"):
            value = self.jdbc.get(name, "0")
            if not value.isascii() or not value.isdigit():
                problems.append((PREFIX + name, f"{PREFIX}{name}: write milliseconds"))
        if problems:
            raise OptionErrors(*problems)
        return self

    def warnings(self) -> list[tuple[str, str]]:
        """Return options that the file sets and that do nothing, each with the reason."""
        found = []
        for attribute, why in _NO_EFFECT.items():
            if attribute in self.model_fields_set:
                key = type(self).model_fields[attribute].alias or attribute
                found.append((key, f"{key} has no effect: {why}"))
        modes = (
            ("startup_file", "specific-offset"),
            ("startup_position", "specific-offset"),
            ("startup_gtids", "specific-offset"),
            ("startup_timestamp", "timestamp"),
        )
        for attribute, mode in modes:
            if attribute in self.model_fields_set and self.startup_mode != mode:
                key = type(self).model_fields[attribute].alias or attribute
                text = f"{key} has no effect without scan.startup.mode: {mode} (it is {self.startup_mode})"
                found.append((key, text))
        for name in sorted(set(self.jdbc) - _JDBC):
            why = _INSTEAD.get(name, "the server is reached without JDBC")
            found.append((PREFIX + name, f"{PREFIX}{name} has no effect: {why}"))
        return found

    def packages(self) -> list[tuple[str, str]]:
        """Return the option that needs packages which may be missing, with the name of the extra."""
        return [("type", "mysql")]

    @property
    def wanted(self) -> None:
        """None: every record is read."""
        return None

    @property
    def rate_limit(self) -> None:
        """None: the log has no limit, and that of the snapshot is its own."""
        return None

    @property
    def extra(self) -> ExtraColumns:
        """The columns that come from elsewhere than the row."""
        return ExtraColumns(metadata=metadata_names(self.metadata or "", METADATA, {}))

    @property
    def ignored_errors(self) -> IgnoredErrors:
        """Nothing: a record of the source that cannot be parsed would be a bug."""
        return IgnoredErrors(False, False)

    def inference(self, max_columns: int) -> Inference:
        """Return how schemas are found: the server declares them."""
        return Inference(self.format.reading, not self.schema_changes, self._initial, max_columns)

    def reads(self, table: TableId) -> bool:
        """Return whether the options choose a table."""
        if len(".".join(table)) > MAX_ID or selector(self.tables).match(table) is None:
            return False
        return self.tables_exclude is None or selector(self.tables_exclude).match(table) is None

    def server_ids(self, pipeline: str) -> range:
        """Return the numbers under which the log may be read."""
        if self.server_id is not None:
            return server_ids(self.server_id)
        first = _FIRST_ID + crc32(pipeline.encode()) % _IDS
        return range(first, first + 1)

    def lane_id(self) -> int:
        """Return a number under which a task reads the log beside a chunk: each has one of its own, by chance."""
        given = () if self.server_id is None else server_ids(self.server_id)[1:]
        return choice(given or range(_FIRST_ID + _IDS, MAX_SERVER_ID))  # noqa: S311  (nothing secret)

    @property
    def zero_dates_are_errors(self) -> bool:
        """True if a row with a zero or invalid date is a reject; else the value becomes null, which is counted."""
        return self.jdbc.get("zeroDateTimeBehavior", "").upper() == "EXCEPTION"

    @property
    def booleans(self) -> bool:
        """True if TINYINT(1) is a BOOLEAN."""
        given = "tinyint1_as_boolean" in self.model_fields_set
        return self.tinyint1_as_boolean if given else self.jdbc.get("tinyInt1isBit", "").lower() == "true"

    @property
    def _tls_mode(self) -> Any:
        """The way in which TLS is used. Where it is asked for, certificates are verified, unless switched off."""
        if self.tls_mode is not None:
            return self.tls_mode
        if "sslMode" in self.jdbc:
            return self.jdbc["sslMode"].lower().replace("_", "-")
        use = self.jdbc.get("useSSL", "").lower()
        if use not in {"true", ""}:
            return "disabled"
        unverified = self.jdbc.get("verifyServerCertificate", "").lower() == "false"
        if not use and self.tls_ca is None:
            return "preferred" if unverified else "by-host"
        return "required" if unverified else "verify-identity"

    @property
    def server(self) -> MySqlServer:
        """The server, and how to log in to it."""
        tls = Tls(self._tls_mode, self.tls_ca, self.tls_cert, self.tls_key, self.tls_password)
        connect_s = self.connect_timeout
        if "connect_timeout" not in self.model_fields_set and int(self.jdbc.get("connectTimeout", "0")):
            connect_s = int(self.jdbc["connectTimeout"]) / 1000
        silent = int(self.jdbc.get("socketTimeout", "0")) / 1000
        return MySqlServer(
            self.hostname,
            self.port,
            self.username,
            self.password,
            tls,
            connect_s,
            tries=max(1, self.connect_retries),
            read_s=silent or READ_S,
        )

    def decoder(self, _split: Split, topic: str) -> Decoder:
        """Return a decoder for the records of a split."""
        decoder: Decoder = self.format.decoder(topic, days_only=self.zero_dates_are_errors)
        return decoder

    def coordinator(self, pipeline: str, warn: Callable[[str], None]) -> MySqlCoordinator:
        """Return the driver's side."""
        from ingest.sources.mysql.coordinator import MySqlCoordinator

        return MySqlCoordinator(self, pipeline, warn)

    @property
    def row_letters(self) -> LetterRows:
        """What makes dead letters of rows, and rows of these again."""
        from ingest.sources.mysql.letters import LetterRows

        return LetterRows(self.format.schemas, booleans=self.booleans)

    def reader(self, pipeline: str) -> MySqlReader:
        """Return the reader that a task reads the source with."""
        from ingest.sources.mysql.reader import MySqlReader

        return MySqlReader(self, pipeline)


_JDBC: Final = frozenset(
    {
        "useSSL",
        "sslMode",
        "zeroDateTimeBehavior",
        "tinyInt1isBit",
        "connectTimeout",
        "socketTimeout",
        "verifyServerCertificate",
    }
)
"""Properties of Connector/J that mean something here."""
_STORE: Final = "certificates are read of PEM files: "
_INSTEAD: Final = {
    **dict.fromkeys(
        ("trustCertificateKeyStoreUrl", "trustCertificateKeyStorePassword", "trustCertificateKeyStoreType"),
        _STORE + "name one in ssl.ca",
    ),
    **dict.fromkeys(
        ("clientCertificateKeyStoreUrl", "clientCertificateKeyStorePassword", "clientCertificateKeyStoreType"),
        _STORE + "name them in ssl.cert and ssl.key",
    ),
    "requireSSL": "write ssl.mode: verify-identity",
    "serverTimezone": "each session here is in UTC",
    "connectionTimeZone": "each session here is in UTC",
    "characterEncoding": "texts are asked for in utf8mb4, and those of the log have their column's character set",
    "allowPublicKeyRetrieval": "the server's key is asked for where it is needed",
}
"""What stands for properties of Connector/J that do nothing here."""


def server_ids(text: str) -> range:
    """Return the numbers of `server-id`. Raise ValueError."""
    found = _NUMBERS.fullmatch(text.strip())
    first, last = (0, 0) if found is None else (int(found[1]), int(found[2] or found[1]))
    if not 0 < first <= last <= MAX_SERVER_ID:
        raise ValueError(f"write a number from 1 to {MAX_SERVER_ID}, or a range of them like 5400-5408")
    return range(first, last + 1)
