"""The client of a schema registry: schemas by their ids, and ids of schemas that are registered.

In: the client's configuration, and an id, or a subject and a schema. Out: the schema's text and the texts that it
refers to, or None where the registry has none; or the id. Confluent's own client talks to the registry; what it raises
becomes an error of ours.
Rules: docs/spec/avro.md#the-registry.
"""

from __future__ import annotations

import ssl
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import httpx2
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from ingest.errors import AccessError, ConfigError, Unavailable
from ingest.model.cache import Cache
from ingest.model.text import one_line, reason_of

MISSING_S: Final = 10.0
"""Seconds for which an id that the registry does not have is not asked for again. It may be registered meanwhile."""
_NO_SCHEMA: Final = 404
_NOT_THERE: Final = range(40400, 40500)
"""Error codes of a registry about something that it does not have."""
_REFUSED: Final = frozenset({409, 422})
"""Statuses of a registry that does not take a schema: it does not fit the subject's others, or is none."""
_REMEDY: Final = (
    "change the compatibility that the registry demands of the subject, keep the change from the sink "
    "(exclude.schema.changes), or write to another topic or subject"
)
_LATER: Final = frozenset({408, 425, 429})
_PEM: Final = frozenset({"ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem"})
_MAX_REFERENCES: Final = 1000


class Found(NamedTuple):
    """A schema of a registry."""

    kind: str
    """`AVRO`, `PROTOBUF` or `JSON`."""
    text: str
    references: tuple[str, ...]
    """Texts of the schemas that it refers to, each after those that it refers to itself."""
    names: tuple[str, ...] = ()
    """Names by which these are referred to, in the same order."""


class RegistryClient:
    """The client of one registry."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        """Raise ConfigError where the client refuses its configuration."""
        self._where = _shown(str(conf["url"]))
        try:
            with tempfile.TemporaryDirectory() as folder:  # its mode is 0700
                self._client = SchemaRegistryClient(_with_files(conf, Path(folder)))
        except (ValueError, TypeError, OSError) as exc:
            msg = f"the client of the schema registry {self._where} cannot be made: {one_line(reason_of(exc))[:200]}"
            raise ConfigError(msg, "see the format's options: url, basic-auth, ssl, properties") from exc
        self._missing: Cache[int, float] = Cache(10_000, 1 << 20)

    def schema(self, number: int) -> Found | None:
        """Return the schema with this id; None where the registry has none.

        Raise Unavailable, AccessError or ConfigError.
        """
        until = self._missing.get(number)
        if until is not None and time.monotonic() < until:
            return None
        try:
            return self._found(self._client.get_schema(number))
        except SchemaRegistryError as exc:
            if exc.http_status_code != _NO_SCHEMA or exc.error_code not in _NOT_THERE:
                self._refuse(exc)
            self._missing.put(number, time.monotonic() + MISSING_S, 100)
            return None
        except httpx2.HTTPError as exc:
            self._unreachable(exc)

    def register(self, subject: str, kind: str, text: str, *, normalize: bool = False) -> int:
        """Register a schema under a subject, unless it is there; return its id. `kind` is `AVRO`, `PROTOBUF` or `JSON`.

        Raise Unavailable, AccessError or ConfigError. A ConfigError is also the registry's refusal, as when the schema
        does not fit those that the subject has.
        """
        try:
            return self._client.register_schema(subject, Schema(text, kind), normalize_schemas=normalize)
        except SchemaRegistryError as exc:
            if exc.http_status_code not in _REFUSED:
                self._refuse(exc)
            said = one_line(str(exc.error_message))[:600]
            msg = f"the schema registry {self._where} refuses the schema for subject {subject!r}: {said}"
            raise ConfigError(msg, _REMEDY) from exc
        except httpx2.HTTPError as exc:
            self._unreachable(exc)

    def check(self, subject: str, kind: str, text: str) -> None:
        """Raise ConfigError where the newest schema of a subject keeps this one from being registered.

        Raise also as `schema` does.
        """
        try:
            fits = self._client.test_compatibility(subject, Schema(text, kind))
        except SchemaRegistryError as exc:
            if exc.http_status_code != _NO_SCHEMA or exc.error_code not in _NOT_THERE:
                self._refuse(exc)
            return  # the subject has no schema yet
        except httpx2.HTTPError as exc:
            self._unreachable(exc)
        if not fits:
            msg = f"the schema registry {self._where} would refuse the schema for subject {subject!r}: its newest one"
            raise ConfigError(f"{msg} and the compatibility that it demands do not allow it", _REMEDY)

    def latest(self, subject: str) -> tuple[int, Found] | None:
        """Return the id of the newest schema of a subject, and the schema; None where the subject has none.

        Raise Unavailable, AccessError or ConfigError.
        """
        newest: Any = "latest"  # its type hint says numbers only
        try:
            registered = self._client.get_version(subject, newest)
            return int(registered.schema_id), self._found(registered.schema)
        except SchemaRegistryError as exc:
            if exc.http_status_code != _NO_SCHEMA or exc.error_code not in _NOT_THERE:
                self._refuse(exc)
            return None
        except httpx2.HTTPError as exc:
            self._unreachable(exc)

    def _found(self, schema: Schema) -> Found:
        referenced: dict[tuple[str, int], tuple[str, str]] = {}
        self._collect(schema, referenced)
        names, texts = [name for name, _ in referenced.values()], [text for _, text in referenced.values()]
        return Found(schema.schema_type or "AVRO", schema.schema_str or "", tuple(texts), tuple(names))

    def number_of(self, subject: str, kind: str, text: str, *, normalize: bool = False) -> int | None:
        """Return the id of a schema that a subject has; None where it has no such schema. Raise as `schema` does."""
        try:
            registered = self._client.lookup_schema(subject, Schema(text, kind), normalize_schemas=normalize)
        except SchemaRegistryError as exc:
            if exc.http_status_code != _NO_SCHEMA or exc.error_code not in _NOT_THERE:
                self._refuse(exc)
            return None
        except httpx2.HTTPError as exc:
            self._unreachable(exc)
        return registered.schema_id

    def _collect(self, schema: Schema, referenced: dict[tuple[str, int], tuple[str, str]]) -> None:
        """Add the names and texts of the schemas that a schema refers to, those that they refer to first."""
        for reference in schema.references or ():
            place = (str(reference.subject), int(reference.version or 0))
            if place in referenced:
                continue
            if len(referenced) >= _MAX_REFERENCES:
                msg = f"a schema of the registry {self._where} refers to more than {_MAX_REFERENCES} others"
                raise ConfigError(msg, "see the references of its subject")
            other = self._client.get_version(*place).schema
            self._collect(other, referenced)
            referenced[place] = (str(reference.name), other.schema_str or "")

    def _refuse(self, exc: SchemaRegistryError) -> NoReturn:
        status = exc.http_status_code
        said = one_line(str(exc.error_message))[:200]
        if status in {401, 403}:
            msg = f"the schema registry {self._where} refuses access (HTTP {status}): {said}"
            raise AccessError(msg, "see the format's options basic-auth and bearer-auth") from exc
        if status >= 500 or status in _LATER:
            msg = f"the schema registry {self._where} cannot answer (HTTP {status}): {said}"
            raise Unavailable(msg, "see whether it is well; the run can be started again") from exc
        msg = f"there is no schema registry at {self._where} (HTTP {status}): {said}"
        raise ConfigError(msg, "see the format's option url; its path belongs to it") from exc

    def _unreachable(self, exc: httpx2.HTTPError) -> NoReturn:
        cause: BaseException | None = exc
        while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
            cause = cause.__cause__ or cause.__context__
        if cause is not None:
            msg = f"the certificate of the schema registry {self._where} is not trusted: {cause.verify_message}"
            raise ConfigError(msg, "give the authority's certificate in the format's option ssl.truststore.location")
        msg = (
            f"no answer from the schema registry {self._where}: {type(exc).__name__}: {one_line(reason_of(exc))[:200]}"
        )
        raise Unavailable(msg, "see whether it runs and can be reached; the run can be started again") from exc


def _with_files(conf: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return a configuration with files in place of PEM texts: the client reads files, but only when it is made."""
    out = {}
    for name, value in conf.items():
        if name in _PEM:
            (folder / name).write_text(value, encoding="utf-8")
            out[name.replace(".pem", ".location")] = str(folder / name)
        else:
            out[name] = value
    return out


def _shown(urls: str) -> str:
    """Return addresses without the passwords in them."""
    return ",".join(_without_password(url.strip()) for url in urls.split(","))


def _without_password(url: str) -> str:
    scheme, between, rest = url.partition("://")
    return scheme + between + rest.rpartition("@")[2]


_CLIENTS: dict[tuple[tuple[str, Any], ...], RegistryClient] = {}
"""The clients of this process: one for each configuration, for all splits of a worker."""


def client_of(conf: Mapping[str, Any]) -> RegistryClient:
    """Return this process's client for a configuration; raises ConfigError."""
    place = tuple(sorted(conf.items()))
    client = _CLIENTS.get(place)
    if client is None:
        client = _CLIENTS[place] = RegistryClient(conf)
    return client
