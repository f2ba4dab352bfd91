"""The catalog of an Iceberg warehouse, and what its errors mean for a run.

In: properties as pyiceberg has them. Nothing in them names code: that is refused where the pipeline file is read.
"""

from __future__ import annotations

import re
import time
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    BadRequestError,
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchPropertyException,
    NoSuchTableError,
    NotInstalledError,
    OAuthError,
    ResolveError,
    RESTError,
    UnauthorizedError,
    ValidationError,
    ValidationException,
)
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from ingest.errors import AccessError, ConfigError, IngestError, Unavailable, is_denied
from ingest.model.text import one_line, reason_and_file

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from pyiceberg.table import Table

    from ingest.sinks.lake.table import TableName


CATALOG: Final = "catalog.db"
"""Name of the file that is the catalog of a directory."""
_NAME: Final = "default"
_AWAY: Final = "see whether the catalog and its storage answer, and whether there is room; nothing is lost"
_REFUSED: Final = (
    "authentication failed",
    "permission denied",
    "no pg_hba.conf entry",
    "readonly database",
    "read-only transaction",
    "unable to open database file",
)
"""Texts of databases that do not let a user in, or do not let it write."""
_UNEXPECTED: Final = (
    ValidationError,
    ValidationException,
    ResolveError,
    NoSuchPropertyException,
    NotInstalledError,
    pa.ArrowException,
    ValueError,
    EOFError,
)
"""Errors of the library about tables, properties and files that are not as it expects them."""
_DENIED: Final = (UnauthorizedError, ForbiddenError, AuthorizationExpiredError, OAuthError)
_KEYS: Final = re.compile(r"ACCESS_DENIED|INVALID_ACCESS_KEY|SIGNATURE_DOES_NOT_MATCH|InvalidAccessKey|AccessDenied")
"""Texts of object stores that do not know a user, or do not let it write."""
_CREATED: Final = re.compile(r"already exists|duplicate key")
"""Texts of databases in which another client creates the catalog's tables at the same moment: the library looks for
them, and creates them afterwards. The thread that asks whether the sink answers is such a client."""
_ATTEMPTS: Final = 5
_NOWHERE: Final = re.compile(r"NO_SUCH_BUCKET|NoSuchBucket|ContainerNotFound")


class IcebergWarehouse:
    """A catalog, and what is in it. It is opened when it is asked first."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = dict(properties)
        self._catalog: Catalog | None = None

    @property
    def name(self) -> str:
        """The name of the catalog for people, without what may be a secret."""
        return self._properties.get("warehouse") or self._properties.get("type", "sql")

    @property
    def own(self) -> Path | None:
        """The directory whose catalog is a file in it; None for a catalog of others."""
        return None if self._properties.keys() & {"type", "uri"} else _folder(self._properties)

    @property
    def is_new(self) -> bool:
        """True if nothing is there: the directory and its catalog are made with the first table."""
        return self.own is not None and not (self.own / CATALOG).is_file()

    @property
    def catalog(self) -> Catalog:
        """The catalog. Raises what the library raises."""
        attempts = 0
        while self._catalog is None:
            try:
                self._catalog = load_catalog(_NAME, **with_defaults(self._properties))
            except DBAPIError as exc:
                attempts += 1
                if attempts == _ATTEMPTS or not _CREATED.search(str(exc.orig)):
                    raise
                time.sleep(0.1)
        return self._catalog

    def find(self, name: TableName) -> Table | None:
        """Return a table as it is now; None where it is not there. Raise what the library raises."""
        try:
            return self.load(name)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None

    def load(self, name: TableName) -> Table:
        """Return a table that is there, as it is now. Raise what the library raises."""
        return self.catalog.load_table(name)

    @contextmanager
    def asking(self, what: str) -> Generator[Catalog]:
        """Yield the catalog; errors in the block are those of a run. `what`: what is done, for their messages."""
        try:
            yield self.catalog
        except _DENIED as exc:
            msg = f"cannot {what}: the catalog {self.name} refuses this user: {_text(exc)}"
            raise AccessError(msg, "see catalog.properties.credential and catalog.properties.token") from exc
        except (NoSuchTableError, NoSuchNamespaceError) as exc:
            msg = f"cannot {what}: it is not in the catalog {self.name} any more: {_text(exc)}"
            raise ConfigError(
                msg, "restore it; or start over with another --checkpoint, and the table is made again"
            ) from exc
        except BadRequestError as exc:
            msg = f"cannot {what}: the catalog {self.name} refuses the request: {_text(exc)}"
            raise ConfigError(msg, "see what the catalog's log says of it") from exc
        except DBAPIError as exc:
            raise self._of_database(exc, what) from exc
        except (CommitFailedException, CommitStateUnknownException, RESTError, SQLAlchemyError) as exc:
            raise Unavailable(f"cannot {what} in the catalog {self.name}: {_text(exc)}", _AWAY) from exc
        except (FileNotFoundError, *_UNEXPECTED) as exc:
            msg = f"cannot {what} in the catalog {self.name}: {type(exc).__name__}: {_text(exc)}"
            raise ConfigError(
                msg, "see what was changed in the table, its properties or its files; nothing of the batch is lost"
            ) from exc
        except OSError as exc:
            raise self._of_storage(exc, what) from exc

    def _of_storage(self, exc: OSError, what: str) -> IngestError:
        """Return the error of a run for one of the storage that holds the files."""
        msg = f"cannot {what} in the catalog {self.name}: {_text(exc)}"
        if is_denied(exc):
            return AccessError(msg, "let this user write to the warehouse, or name another one")
        if _KEYS.search(str(exc)):
            return AccessError(msg, "see the keys of the storage in catalog.properties.*, and the user's rights there")
        if _NOWHERE.search(str(exc)):
            return ConfigError(msg, "see catalog.properties.warehouse: make the bucket that it names, or name another")
        return Unavailable(msg, _AWAY)

    def _of_database(self, exc: DBAPIError, what: str) -> IngestError:
        """Return the error of a run for one of the database that holds the catalog."""
        msg = f"cannot {what} in the catalog {self.name}: {_text(exc)}"
        if any(refused in str(exc) for refused in _REFUSED):
            return AccessError(msg, "see the user and the password in catalog.properties.uri, and the user's rights")
        return Unavailable(msg, _AWAY)

    def hint(self, table: Table) -> None:
        """Note a table's newest metadata in a file beside it, for engines that read a table by its folder.

        Only where the catalog is a file in the warehouse: others are asked by whoever reads. Raise OSError.
        """
        if self.own is not None:
            place = Path(table.metadata_location.removeprefix("file://"))
            made = place.with_name(f"{uuid.uuid4()}.hint")
            made.write_text(place.name.removesuffix(".metadata.json"), encoding="utf-8")
            made.replace(place.with_name("version-hint.text"))

    def close(self) -> None:
        """Release the catalog."""
        catalog, self._catalog = self._catalog, None
        if catalog is not None:
            catalog.close()


def with_defaults(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a catalog. Where they name none, it is a file in the warehouse, which is a directory."""
    if properties.keys() & {"type", "uri"}:
        uri = properties.get("uri", "")
        # The library's default is a driver that this package does not have
        driver = {"uri": uri.replace("://", "+psycopg://", 1)} if uri.startswith("postgresql://") else {}
        return {**properties, **driver}
    folder = _folder(properties)
    folder.mkdir(parents=True, exist_ok=True)
    return {**properties, "type": "sql", "uri": f"sqlite:///{folder / CATALOG}", "warehouse": f"file://{folder}"}


def _folder(properties: Mapping[str, str]) -> Path:
    return Path(properties["warehouse"].removeprefix("file://")).absolute()


def _text(exc: Exception) -> str:
    return one_line(reason_and_file(exc).split("\n", 1)[0])[:500]
