"""Progress in a real PostgreSQL: attempts, runs, and failures of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import psycopg
import pytest
from postgres_sink import SPLIT, driver_of, made, options, owned, schema, scope, task, warnings, write
from pydantic import ValidationError

from ingest.encode.upsert_encoder import Record
from ingest.errors import AccessError, CommitOutcomeUnknown, ConfigError, Fenced, IngestError, Unavailable
from ingest.model.commit import ResumePoint
from ingest.sinks.postgres import dialect
from ingest.sinks.postgres.connection import ServerProbe, server_of
from ingest.sinks.postgres.writer import PostgresWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    from postgres import Database

    from ingest.sinks.postgres.options import SqlSinkOptions


@pytest.fixture(params=["postgres", "hologres"])
def sink(postgres: Database, request: pytest.FixtureRequest) -> SqlSinkOptions:
    """A sink of each dialect."""
    return options(postgres, type=request.param)


def test_an_attempt_goes_on_where_the_one_before_ended(postgres: Database, sink: SqlSinkOptions, name: str) -> None:
    table = made(sink, name, schema("id INT", "n INT"))
    first = task(sink, 1)
    assert first.begin(scope()) is None
    first.write([Record(table, b'{"id":1}', b'{"id":1,"n":1}')])
    first.commit({SPLIT: 5, ("u", 3): 7}, b'{"read":5}', final=False)
    first.write([Record(table, b'{"id":2}', b'{"id":2,"n":1}')])
    second = task(sink, 1)
    assert second.begin(scope()) == ResumePoint({SPLIT: 5, ("u", 3): 7}, b'{"read":5}', final=False)
    with pytest.raises(CommitOutcomeUnknown, match="another attempt"):
        first.commit({SPLIT: 6}, b"", final=True)
    assert postgres.rows(f"{name}.t", "id") == [(1,)]
    second.commit({SPLIT: 9}, b"", final=True)
    assert second.begin(scope(batch=2)) is None, "another batch"
    coordinator = owned(sink, run=2)
    assert coordinator.recover_in_doubt("checkpoint", 1, 1, {0: {SPLIT: 0}}, 0) == {
        0: ResumePoint({SPLIT: 9}, b"", final=True)
    }
    assert coordinator.recover_in_doubt("checkpoint", 1, 2, {0: {SPLIT: 0}}, 0) == {}


def test_a_newer_run_stops_the_older_one(postgres: Database, sink: SqlSinkOptions, name: str) -> None:
    table = made(sink, name, schema("id INT"))
    driver, writer = owned(sink), task(sink, 1)
    writer.begin(scope())
    writer.write([Record(table, b'{"id":1}', b'{"id":1}')])
    driver.begin_batch(1, 1)
    newer = owned(sink, run=2)
    with pytest.raises(Fenced, match="taken over"):
        writer.commit({SPLIT: 1}, b"", final=True)
    with pytest.raises(Fenced, match="taken over"):
        task(sink, 1).begin(scope())
    with pytest.raises(Fenced, match="taken over"):
        driver.begin_batch(2, 1)
    with pytest.raises(Fenced, match="has begun already"):
        driver.acquire("checkpoint", 1)
    assert postgres.rows(f"{name}.t", "id") == []
    newer.begin_batch(1, 1)


def test_a_user_needs_rights_only_for_what_is_made(postgres: Database, name: str) -> None:
    postgres.ask(
        f"CREATE ROLE {name} LOGIN PASSWORD 'own'; CREATE SCHEMA {name}; GRANT USAGE, CREATE ON SCHEMA {name} TO {name}"
    )
    sink = options(postgres, username=name, password="own", **{"sink.default-schema": name})  # noqa: S106
    table = made(sink, name, schema("id INT"))
    write(sink, table, ('{"id":1}', '{"id":1}'))
    assert postgres.rows(f"{name}.t", "id") == [(1,)]
    with pytest.raises(ConfigError, match="needs CREATE on the database"):
        made(sink, f"{name}_other", schema("id INT"))


def test_names_of_the_progress_may_hold_anything(postgres: Database) -> None:
    sink = options(postgres, **{"sink.default-schema": '50% "x"'})
    owned(sink).begin_batch(1, 1)
    with pytest.raises(ValidationError, match="name of a schema"):
        options(postgres, **{"sink.default-schema": "x" * 64})


def test_a_database_that_is_not_utf_8_gets_texts_as_they_are(postgres: Database, name: str) -> None:
    with postgres.connection() as connection:
        connection.autocommit = True
        for encoding in ("LATIN1", "SQL_ASCII"):
            connection.execute(f"CREATE DATABASE {name}_{encoding} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
    sink = options(postgres, dbname=f"{name}_latin1")
    table = made(sink, name, schema("id INT", "s STRING"))
    write(sink, table, ('{"id":1}', '{"id":1,"s":"é ü"}'))
    with postgres.connection(f"{name}_latin1") as connection:
        assert connection.execute(f"SELECT s FROM {name}.t").fetchall() == [("é ü",)]
    with pytest.raises(ConfigError, match="SQL_ASCII"):
        driver_of(options(postgres, dbname=f"{name}_sql_ascii")).connect()


def test_progress_of_another_checkpoint_is_told(sink: SqlSinkOptions) -> None:
    owned(sink)
    other = driver_of(sink, "q")
    other.acquire("another", 1)
    assert len(warnings) == 1
    assert "older progress of pipeline p" in warnings[0]


# -- failures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("change", "error", "why"), [
    ({"password": "wrong-secret"}, ConfigError, "authentication failed"),
    ({"username": "nobody"}, ConfigError, "authentication failed"),
    ({"dbname": "nowhere"}, ConfigError, "does not exist"),
    ({"endpoint": "127.0.0.1:1"}, Unavailable, "refused"),
    ({"endpoint": "no-such-host.invalid"}, Unavailable, "no-such-host"),
    ({"sslmode": "require"}, ConfigError, "SSL"),
])  # fmt: skip
def test_what_keeps_a_run_from_connecting(
    postgres: Database, change: dict[str, str], error: type[Exception], why: str
) -> None:
    with pytest.raises(error) as raised:
        driver_of(options(postgres, **change)).connect()
    assert why in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_value_that_the_table_refuses_stops_the_run_with_nothing_written(
    postgres: Database, sink: SqlSinkOptions, name: str
) -> None:
    table = made(sink, name, schema("id INT", "n INT"))
    postgres.ask(f"ALTER TABLE {name}.t ADD CHECK (n < 10)")
    with pytest.raises(ConfigError, match=f"write rows of the table {name}.t at .*check constraint"):
        write(sink, table, ('{"id":1}', '{"id":1,"n":1}'), ('{"id":2}', '{"id":2,"n":10}'))
    assert postgres.rows(f"{name}.t", "id") == []


def test_a_connection_that_ended_is_made_anew(postgres: Database, sink: SqlSinkOptions, name: str) -> None:
    table = made(sink, name, schema("id INT"))
    writer = task(sink, 1)
    writer.begin(scope())
    writer.write([Record(table, b'{"id":1}', b'{"id":1}')])
    _end_sessions(postgres)
    with pytest.raises(CommitOutcomeUnknown):
        writer.commit({SPLIT: 1}, b"", final=True)
    writer.abort()
    assert writer.begin(scope()) is None
    writer.write([Record(table, b'{"id":2}', b'{"id":2}')])
    writer.commit({SPLIT: 1}, b"", final=True)
    assert postgres.rows(f"{name}.t", "id") == [(2,)]


def test_a_server_that_was_restarted_between_two_batches_fails_none(
    postgres: Database, sink: SqlSinkOptions, name: str
) -> None:
    table = made(sink, name, schema("id INT"))
    writer, probe = task(sink, 1), sink.coordinator(name, warnings.append).probe
    assert probe is not None
    writer.begin(scope())
    writer.commit({SPLIT: 1}, b"", final=True)
    probe.ask({})
    _end_sessions(postgres)
    with pytest.raises(Unavailable, match="terminating connection"):
        probe.ask({})
    probe.ask({})
    probe.close()
    assert writer.begin(scope(batch=2)) is None
    writer.write([Record(table, b'{"id":1}', b'{"id":1}')])
    writer.commit({SPLIT: 2}, b"", final=True)
    assert postgres.rows(f"{name}.t", "id") == [(1,)]
    with pytest.raises(Unavailable, match="Connection refused"):
        ServerProbe(msgspec.structs.replace(server_of(sink), port=1), "p").ask({})


def _end_sessions(postgres: Database) -> None:
    postgres.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'ingest%'")


def test_a_deadlock_is_tried_again(
    postgres: Database, sink: SqlSinkOptions, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(sink, name, schema("id INT"))
    writer = task(sink, 1)
    writer.begin(scope())
    writer.write([Record(table, b'{"id":1}', b'{"id":1}')])
    commit: Callable[..., None] = PostgresWriter._commit
    failed = iter([psycopg.errors.DeadlockDetected("deadlock"), psycopg.errors.SerializationFailure("conflict")])

    def failing(self: PostgresWriter, *arguments: Any, **more: Any) -> None:
        error = next(failed, None)
        if error is not None:
            raise error
        commit(self, *arguments, **more)

    monkeypatch.setattr(PostgresWriter, "_commit", failing)
    writer.commit({SPLIT: 1}, b"", final=True)
    assert postgres.rows(f"{name}.t", "id") == [(1,)]


@pytest.mark.parametrize("kind", ["postgres", "hologres"])
def test_a_lock_is_waited_for_once_and_then_told(
    postgres: Database, name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its outcome is known: nothing is committed. So no other attempt waits as long once more."""
    assert dialect.LOCK_WAIT_S == 60
    monkeypatch.setattr(dialect, "LOCK_WAIT_S", 1)
    sink = options(postgres, type=kind)
    table = made(sink, name, schema("id INT"))
    with postgres.connection() as other:
        other.execute(f"LOCK TABLE {name}.t")
        with pytest.raises(Unavailable, match="lock timeout") as waited:
            write(sink, table, ('{"id":1}', '{"id":1}'))
        assert type(waited.value) is Unavailable
        assert "pg_locks" in waited.value.hint
        with pytest.raises(Unavailable, match="lock timeout"):
            made(sink, name, schema("id INT", "n INT"))


TRIGGER = """
  CREATE FUNCTION {}.failing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN %s; RETURN NULL; END $$;
  CREATE TRIGGER failing AFTER INSERT ON {}.t EXECUTE FUNCTION {}.failing()
"""
FULL = "RAISE 'could not extend file: No space left on device' USING ERRCODE = '53100'"
FAULTS: dict[str, tuple[str, type[IngestError], str, str]] = {
    "timeout": ("ALTER ROLE {} SET statement_timeout = 300;" + TRIGGER % "PERFORM pg_sleep(20)", Unavailable,
                "statement timeout", "ALTER ROLE … SET statement_timeout"),
    "disk": (TRIGGER % FULL, CommitOutcomeUnknown, "No space left on device", "has room"),
    "rights": ("REVOKE ALL ON {}.t FROM {}", AccessError, "permission denied for table t", "the user needs"),
    "table": ("DROP TABLE {}.t", ConfigError, "does not exist", "correct the table"),
}  # fmt: skip
"""What happens to a table or a user, and the error of a task then: its class, its words, and its hint."""


@pytest.mark.parametrize("kind", ["postgres", "hologres"])
@pytest.mark.parametrize("fault", FAULTS)
def test_what_fails_in_a_task_has_the_words_of_the_server(postgres: Database, name: str, kind: str, fault: str) -> None:
    postgres.ask(
        f"CREATE ROLE {name} LOGIN PASSWORD 'of-the-tests'; CREATE SCHEMA {name} AUTHORIZATION {name};"
        f"GRANT CREATE, TEMPORARY ON DATABASE postgres TO {name}"
    )
    sink = options(postgres, type=kind, username=name, **{"sink.default-schema": name})
    table = made(sink, name, schema("id INT"))
    act, error, why, hint = FAULTS[fault]
    postgres.ask(act.replace("{}", name))
    with pytest.raises(IngestError) as raised:
        write(sink, table, ('{"id":1}', '{"id":1}'))
    assert type(raised.value) is error, raised.value
    assert why in raised.value.message
    assert hint in raised.value.hint


def test_tasks_that_commit_one_after_another_wait_longer_for_their_turn(postgres: Database, name: str) -> None:
    sink = options(postgres, type="hologres", **{"sink.default-schema": name})
    table = made(sink, name, schema("id INT"))
    note = """
      CREATE TABLE {}.waits (at text, lock_timeout text);
      CREATE FUNCTION {}.note() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO {}.waits VALUES (TG_TABLE_NAME, current_setting('lock_timeout')); RETURN NULL; END $$;
      CREATE TRIGGER note AFTER UPDATE ON {}.ingest_run EXECUTE FUNCTION {}.note();
      CREATE TRIGGER note AFTER INSERT ON {}.t EXECUTE FUNCTION {}.note()
    """
    postgres.ask(note.replace("{}", name))
    write(sink, table, ('{"id":1}', '{"id":1}'))
    found = postgres.ask(f"SELECT DISTINCT at, lock_timeout FROM {name}.waits ORDER BY 1")
    assert found == [("ingest_run", "10min"), ("t", "1min")]


@pytest.mark.parametrize("kind", ["postgres", "hologres"])
def test_a_server_that_only_reads_needs_somebody(postgres: Database, name: str, kind: str) -> None:
    sink = options(postgres, type=kind, username=name)
    postgres.ask(
        f"CREATE ROLE {name} LOGIN SUPERUSER PASSWORD 'of-the-tests'; CREATE SCHEMA {name};"
        f"CREATE TABLE {name}.t (id int PRIMARY KEY)"
    )
    table = made(sink, name, schema("id INT"))
    reads = f"ALTER ROLE {name} SET default_transaction_read_only"
    postgres.ask(f"{reads} = on")
    for asked in (
        lambda: write(sink, table, ('{"id":1}', '{"id":1}')), lambda: owned(sink, 2),
        lambda: driver_of(sink).declare({(name, "u"): schema("id INT")}),
    ):  # fmt: skip
        with pytest.raises(AccessError, match="read-only transaction") as refused:
            asked()
        assert "default_transaction_read_only" in refused.value.hint
    postgres.ask(f"{reads} = off")
    write(sink, table, ('{"id":1}', '{"id":1}'))
    assert postgres.rows(f"{name}.t") == [(1,)]
