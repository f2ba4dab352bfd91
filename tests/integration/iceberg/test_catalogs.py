"""Catalogs other than a file in the warehouse: a real PostgreSQL."""

from __future__ import annotations

import errno
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING

import pytest
from lake import duck
from lake_sink import LakeSink, lake_schema
from postgres import running
from sqlalchemy.exc import OperationalError

from ingest.errors import AccessError, IngestError, Unavailable
from ingest.sinks.iceberg.warehouse import IcebergWarehouse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from postgres import Database

TABLE = ("shop", "t")
SCHEMA = lake_schema("id BIGINT", "n INT")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Database]:
    with running() as database:
        yield database


def properties(postgres: Database, password: str = "of-the-tests") -> dict[str, str]:  # noqa: S107
    return {
        "catalog.properties.type": "sql",
        "catalog.properties.uri": f"postgresql://ingest:{password}@127.0.0.1:{postgres.port}/postgres",
    }


def test_a_catalog_in_postgresql(postgres: Database, tmp_path: Path) -> None:
    sink = LakeSink(tmp_path / "lake", **properties(postgres))
    sink.side.declare({TABLE: SCHEMA})
    sink.write(TABLE, SCHEMA, ('{"id":1}', '{"id":1,"n":1}'), ('{"id":2}', '{"id":2,"n":1}'))
    sink.write(TABLE, SCHEMA, ('{"id":1}', None), ('{"id":2}', '{"id":2,"n":2}'))
    table = sink.side._warehouse.load(TABLE)
    found = duck().execute(f"SELECT * FROM iceberg_scan('{table.metadata_location}')").fetchall()
    assert found == [(2, 2)]
    assert not [*(tmp_path / "lake").rglob("version-hint.text")], "others are asked by whoever reads"
    sink.side.close()


def test_clients_create_a_catalog_at_the_same_moment(tmp_path: Path) -> None:
    """The thread that asks whether a sink answers is one of them: a run ended with 75 for it."""
    together = Barrier(4)

    def asked(number: int) -> list[tuple[str, ...]]:
        with IcebergWarehouse({"warehouse": str(tmp_path / str(number // 4))}).asking("look") as catalog:
            return catalog.list_namespaces()

    def first(number: int) -> list[tuple[str, ...]]:
        together.wait()
        return asked(number)

    with ThreadPoolExecutor(4) as clients:
        assert list(clients.map(first, range(40))) == [[]] * 40


def test_names_stay_below_the_warehouse(postgres: Database, tmp_path: Path) -> None:
    sink = LakeSink(tmp_path / "in" / "lake", **properties(postgres))
    name = ("shop", "../../../up")
    sink.side.declare({name: SCHEMA})
    sink.write(name, SCHEMA, ('{"id":1}', '{"id":1,"n":1}'))
    files = [*tmp_path.rglob("*.parquet")]
    assert files
    assert all(tmp_path / "in" / "lake" in path.parents for path in files)
    sink.side.close()


def test_a_catalog_that_refuses_the_user(postgres: Database, tmp_path: Path) -> None:
    with pytest.raises(IngestError) as refused:
        LakeSink(tmp_path / "lake", **properties(postgres, "wrong-password"))
    assert isinstance(refused.value, AccessError), refused.value
    assert "wrong-password" not in str(refused.value)


def test_a_catalog_that_is_away(tmp_path: Path) -> None:
    more = {"catalog.properties.type": "sql", "catalog.properties.uri": "postgresql://a:b-secret@127.0.0.1:1/x"}
    with pytest.raises(IngestError) as away:
        LakeSink(tmp_path / "lake", **more)
    assert away.value.exit_code == 75
    assert "b-secret" not in str(away.value)


@pytest.mark.parametrize(("raised", "kind"), [
    (OSError(errno.EROFS, "Read-only file system"), AccessError), (PermissionError("no"), AccessError),
    (OSError(errno.ENOSPC, "No space left on device"), Unavailable),
    (OperationalError("INSERT", {}, Exception("attempt to write a readonly database")), AccessError),
    (OperationalError("SELECT", {}, Exception("unable to open database file")), AccessError),
    (OperationalError("INSERT", {}, Exception("cannot execute INSERT in a read-only transaction")), AccessError),
])  # fmt: skip
def test_a_warehouse_that_only_reads_needs_somebody(tmp_path: Path, raised: Exception, kind: type[IngestError]) -> None:
    with pytest.raises(kind) as refused, IcebergWarehouse({"warehouse": str(tmp_path)}).asking("commit rows"):
        raise raised
    assert type(refused.value) is kind
