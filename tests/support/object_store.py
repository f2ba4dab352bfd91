"""A real object store with S3's interface and a REST catalog of Iceberg: SeaweedFS, which is a program out of PyPI."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Final

import duckdb_extension_delta
import duckdb_extension_httpfs
from lake import duck
from pyarrow.fs import FileType, S3FileSystem
from pyiceberg.catalog import load_catalog

from ingest.errors import Unavailable
from ingest.sandbox.process import HOST, any_ports, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

KEY: Final = "key-of-the-tests"
SECRET: Final = "secret-of-the-tests"  # noqa: S105
BUCKET: Final = "lake"
TABLES: Final = "tables"
"""The bucket that is a warehouse of the REST catalog."""
_PORTS: Final = (
    "s3.port", "s3.port.iceberg", "s3.port.grpc", "master.port", "master.port.grpc", "volume.port", "volume.port.grpc",
    "filer.port", "filer.port.grpc",
)  # fmt: skip


class ObjectStore:
    """The server, in a directory; what is in it outlives a stop."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = dict(zip(_PORTS, any_ports(len(_PORTS), set()), strict=True))
        self.s3 = f"http://{HOST}:{self._ports['s3.port']}"
        self.catalog = f"http://{HOST}:{self._ports['s3.port.iceberg']}"
        user = {"name": "ingest", "credentials": [{"accessKey": KEY, "secretKey": SECRET}], "actions": ["Admin"]}
        (folder / "users.json").write_text(json.dumps({"identities": [user]}))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        log = self._folder / "weed.log"
        command = [
            str(Path(sys.executable).with_name("weed")), "mini", f"-dir={self._folder}", f"-ip={HOST}",
            f"-ip.bind={HOST}", *(f"-{name}={port}" for name, port in self._ports.items()), "-s3.port.lance=0",
            "-s3.autoCreateBucket=false", f"-s3.config={self._folder / 'users.json'}", "-webdav=false",
            "-admin.ui=false", f"-bucket={BUCKET}", f"-tableBucket={TABLES}",
        ]  # fmt: skip
        with log.open("ab") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, cwd=self._folder, start_new_session=True)
        wait_for(process, self._answers, "object store", str(log))
        process.returncode = None  # it ends with the tests
        self._process = process

    def _answers(self) -> bool:
        """Return whether it answers, and has made its buckets, which take files."""
        try:
            for port, path, status in (
                ("s3.port", "/", 403),
                ("s3.port.iceberg", f"/v1/config?warehouse={TABLES}", 200),
            ):
                with closing(HTTPConnection(HOST, self._ports[port], timeout=5)) as connection:
                    connection.request("GET", path)
                    if connection.getresponse().status != status:
                        return False
            if self.files().get_file_info(BUCKET).type != FileType.Directory:
                return False
            with self.files().open_output_stream(f"{BUCKET}/probe") as file:
                file.write(b"bytes are kept by a part that is ready last")
            with self.files().open_input_stream(f"{BUCKET}/probe") as file:
                return bool(file.read())
        except (OSError, HTTPException):
            return False

    def stop(self) -> None:
        """End it, once it has written what it holds."""
        assert self._process is not None
        self._process.terminate()
        self.end(60)

    def end(self, seconds: float = 0) -> None:
        """End it at once, where it does not end by itself in this time."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def files(self) -> S3FileSystem:
        """The files in it."""
        return S3FileSystem(
            access_key=KEY, secret_key=SECRET, endpoint_override=self.s3, region="us-east-1",
            allow_bucket_creation=True, allow_bucket_deletion=True,
        )  # fmt: skip

    def iceberg(self, secret: str = SECRET, **more: str) -> dict[str, str]:
        """Options of the sink `iceberg` for tables here; `more`: properties of the catalog."""
        properties = {
            "s3.endpoint": self.s3, "s3.access-key-id": KEY, "s3.secret-access-key": secret, "s3.region": "us-east-1",
            **more,
        }  # fmt: skip
        return {"type": "iceberg", **{f"catalog.properties.{name}": value for name, value in properties.items()}}

    def rest(self, secret: str = SECRET, warehouse: str = TABLES) -> dict[str, str]:
        """Options of the sink `iceberg` for tables of the REST catalog."""
        properties = {
            "type": "rest", "uri": self.catalog, "oauth2-server-uri": f"{self.catalog}/v1/oauth/tokens",
            "warehouse": warehouse, "credential": f"{KEY}:{secret}",
        }  # fmt: skip
        return self.iceberg(**properties)

    def delta(self, bucket: str = BUCKET, secret: str = SECRET) -> dict[str, str]:
        """Options of the sink `delta` for tables here."""
        options = {
            "aws_endpoint": self.s3, "aws_access_key_id": KEY, "aws_secret_access_key": secret,
            "aws_region": "us-east-1", "aws_allow_http": "true",
        }  # fmt: skip
        more = {f"storage.properties.{name}": value for name, value in options.items()}
        return {"type": "delta", "warehouse": f"s3://{bucket}/delta", **more}


class StoredLake:
    """A warehouse in an object store, as DuckDB reads it."""

    def __init__(self, store: ObjectStore, options: dict[str, str]) -> None:
        """`options`: of the sink."""
        self._store, self._options = store, options
        self._duck = duck()
        for module in (duckdb_extension_httpfs, duckdb_extension_delta):
            (extension,) = Path(str(module.__file__)).parent.rglob("*.duckdb_extension")
            self._duck.execute(f"LOAD '{extension}'")
        self._duck.execute(
            f"CREATE SECRET (TYPE s3, KEY_ID '{KEY}', SECRET '{SECRET}', ENDPOINT '{store.s3.removeprefix('http://')}',"
            " USE_SSL false, URL_STYLE 'path', REGION 'us-east-1')"
        )

    def rows(self, *name: str, columns: str = "*") -> list[tuple[Any, ...]]:
        """The rows in the order of their keys."""
        if self._options["type"] == "delta":
            table = f"delta_scan('{self._options['warehouse']}/{'/'.join(name)}')"
        else:
            prefix = "catalog.properties."
            given = {key.removeprefix(prefix): value for key, value in self._options.items() if key.startswith(prefix)}
            with closing(load_catalog("default", **given)) as catalog:
                table = f"iceberg_scan('{catalog.load_table(name).metadata_location}')"
        return self._duck.execute(f"SELECT {columns} FROM {table} ORDER BY 1").fetchall()


def running(folder: Path) -> Iterator[ObjectStore]:
    """Yield the server, and end it then."""
    for left in (2, 1, 0):
        store = ObjectStore(folder)
        try:
            store.start()
            break
        except Unavailable:  # another process has taken one of the ports in the meantime
            if not left:
                raise
    yield store
    store.end()
