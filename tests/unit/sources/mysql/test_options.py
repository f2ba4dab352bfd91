"""The options of `type: mysql`: what they take, what they refuse, and which of them do nothing here."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.config.loader import Loaded, load_text
from ingest.sources.mysql.chunks import chunk_columns
from ingest.sources.mysql.options import MySqlSource, server_ids

PLAIN = {"hostname": "db", "username": "u", "password": "s3cret-word", "tables": "shop.orders"}


def loaded(**options: Any) -> Loaded:
    lines = "".join(f"  {key}: {value}\n" for key, value in {**PLAIN, **options}.items())
    return load_text("f", f"source:\n  type: mysql\n{lines}sink:\n  type: print\n", "f")


def source(**options: Any) -> MySqlSource:
    found = loaded(**options)
    assert found.pipeline is not None, found.diagnostics
    made: MySqlSource = found.pipeline.source
    return made


def said(severity: str, **options: Any) -> list[str]:
    return [one.message for one in loaded(**options).diagnostics if one.severity == severity]


def test_the_example_of_the_references_is_taken_as_it_is() -> None:
    tables = "mydb.mytable1,mydb.mytable2"
    made = source(**{"name": "MySQL Source", "port": "3307", "tables": tables, "server-id": "8601-8604"})
    assert (made.port, made.server_ids("p")) == (3307, range(8601, 8605))
    assert made.reads(("mydb", "mytable2"))
    assert not made.reads(("mydb", "mytable3"))
    assert made.server.name == "db:3307"
    assert "s3cret-word" not in repr(made.server)


def test_tables_are_selected_and_left_out_as_routes_select_them() -> None:
    made = source(**{"tables": r"shop.\.*", "tables.exclude": "shop.audit_[0-9]+"})
    assert [made.reads(("shop", name)) for name in ("orders", "audit_1", "audit_x")] == [True, False, True]
    assert not made.reads(("other", "orders"))


@pytest.mark.parametrize(("text", "ids"), [("5400", range(5400, 5401)), ("1 - 3", range(1, 4))])
def test_server_ids_are_a_number_or_a_range(text: str, ids: range) -> None:
    assert server_ids(text) == ids


def test_a_pipeline_without_a_server_id_always_has_the_same_one() -> None:
    assert source().server_ids("a") == source().server_ids("a") != source().server_ids("b")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"server-id": "0"}, "server-id: write a number from 1 to 4294967295"),
        ({"server-id": "9-8"}, "server-id: write a number from 1"),
        ({"server-id": "4294967296"}, "server-id: write a number from 1"),
        ({"port": "65536"}, "port"),
        ({"tables": "'['"}, "tables"),
        ({"server-time-zone": "'; DROP'"}, "server-time-zone: write a time zone like Europe/Berlin"),
        ({"scan.startup.mode": "timestamp"}, "needs scan.startup.timestamp-millis"),
        ({"scan.startup.mode": "specific-offset"}, "needs scan.startup.specific-offset.file or"),
        ({"scan.startup.mode": "committed"}, "scan.startup.mode"),
        ({"scan.startup.specific-offset.file": "../x"}, "write the name of a log file"),
        ({"scan.incremental.snapshot.chunk.size": "1"}, "scan.incremental.snapshot.chunk.size"),
        ({"scan.incremental.snapshot.chunk.key-column": "'id'"}, "'id' is not TABLE:COLUMN"),
        ({"heartbeat.interval": "0"}, "heartbeat.interval: must be from 250 ms to 1 day"),
        ({"ssl.key": "k.pem"}, "ssl.key needs ssl.cert"),
        ({"jdbc.properties.zeroDateTimeBehavior": "ROUND"}, "write CONVERT_TO_NULL or EXCEPTION"),
        ({"jdbc.properties.sslMode": "yes"}, "is none of disabled"),
        ({"jdbc.properties.connectTimeout": "5 s"}, "connectTimeout: write milliseconds"),
        ({"metadata.list": "op_tz"}, "'op_tz' is none of op_ts"),
        ({"value.format": "json"}, "value.format"),
        ({"debezium.snapshot.mode": "initial"}, "debezium.snapshot.mode"),
    ],
)
def test_options_that_cannot_be_meant_are_errors(options: dict[str, str], text: str) -> None:
    (message,) = said("error", **options)
    assert text in message


NOTHING: dict[str, str] = {
    "server-time-zone": "Asia/Shanghai",
    "scan.incremental.snapshot.backfill.skip": "true",
    "scan.incremental.snapshot.unbounded-chunk-first.enabled": "true",
    "scan.incremental.close-idle-reader.enabled": "true",
    "chunk-key.even-distribution.factor.upper-bound": "1000",
    "chunk-key.even-distribution.factor.lower-bound": "0.05",
    "chunk-meta.group.size": "1000",
    "connection.pool.size": "20",
    "scan.snapshot.fetch.size": "1024",
    "scan.parse.online.schema.changes.enabled": "true",
    "scan.only.deserialize.captured.tables.changelog.enabled": "true",
    "scan.startup.timestamp-millis": "1",
    "scan.startup.specific-offset.file": "mysql-bin.000003",
    "scan.startup.specific-offset.pos": "4",
    "scan.startup.specific-offset.gtid-set": "0-1-7",
    "jdbc.properties.serverTimezone": "UTC",
    "jdbc.properties.useUnicode": "true",
}


@pytest.mark.parametrize("option", NOTHING)
def test_options_of_flink_that_nothing_here_needs_are_warned_of(option: str) -> None:
    (message,) = said("warning", **{option: NOTHING[option]})
    assert message.startswith(f"{option} has no effect")


def test_options_that_mean_something_are_not_warned_of() -> None:
    options = {
        "scan.startup.mode": "snapshot", "scan.incremental.snapshot.chunk.size": "100",
        "scan.incremental.snapshot.chunk.key-column": "'shop.orders:id;shop.x_.*:y'",
        "scan.snapshot.rows-per-second": "1000", "scan.snapshot.keyless": "lock",
        "scan.newly-added-table.enabled": "true", "scan.binlog.newly-added-table.enabled": "false",
        "schema-change.enabled": "true", "schema-change.truncate": "ignore", "schema-change.resnapshot": "never",
        "schema-change.resnapshot.max-rows": "10", "heartbeat.interval": "5 s", "connect.timeout": "10 s",
        "connect.max-retries": "5", "include-comments.enabled": "true",
        "gtid.source.excludes": "0-9", "ssl.mode": "required", "ssl.ca": "ca.pem",
        "ssl.cert": "c.pem", "ssl.key": "k.pem", "ssl.key.password": "another-secret",
        "treat-tinyint1-as-boolean.enabled": "true", "metadata.list": "op_ts",
        "jdbc.properties.zeroDateTimeBehavior": "EXCEPTION",
    }  # fmt: skip
    assert said("warning", **options) == []
    made = source(**options)
    assert made.booleans
    assert made.zero_dates_are_errors
    assert made.server.tls.mode == "required"
    assert (made.server.connect_s, made.server.tries) == (10, 5)
    assert (source(**{"connect.max-retries": "0"}).server.tries, source().server.tries) == (1, 3)
    assert made.extra.metadata == ("op_ts",)


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ({}, "by-host"), ({"jdbc.properties.useSSL": "false"}, "disabled"),
        ({"jdbc.properties.verifyServerCertificate": "false"}, "preferred"),
        ({"jdbc.properties.useSSL": "true"}, "verify-identity"), ({"ssl.ca": "ca.pem"}, "verify-identity"),
        ({"jdbc.properties.useSSL": "true", "jdbc.properties.verifyServerCertificate": "false"}, "required"),
        ({"ssl.ca": "ca.pem", "ssl.mode": "preferred"}, "preferred"),
        ({"jdbc.properties.useSSL": "true", "jdbc.properties.sslMode": "VERIFY_IDENTITY"}, "verify-identity"),
        ({"jdbc.properties.useSSL": "false", "ssl.mode": "verify-ca"}, "verify-ca"),
    ],
)  # fmt: skip
def test_properties_of_jdbc_say_how_tls_is_used_where_no_option_does(options: dict[str, str], mode: str) -> None:
    assert source(**options).server.tls.mode == mode


def test_other_properties_of_jdbc_that_mean_something() -> None:
    made = source(
        **{"jdbc.properties.tinyInt1isBit": "true", "jdbc.properties.connectTimeout": "1500",
           "jdbc.properties.socketTimeout": "60000"}
    )  # fmt: skip
    assert made.booleans
    assert (made.server.connect_s, made.server.read_s) == (1.5, 60)
    assert not source(
        **{"jdbc.properties.tinyInt1isBit": "true", "treat-tinyint1-as-boolean.enabled": "false"}
    ).booleans


def test_columns_by_which_tables_are_split() -> None:
    assert chunk_columns(" shop.orders : id ; a.b:c;") == (("shop.orders", "id"), ("a.b", "c"))
