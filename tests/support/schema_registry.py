"""A schema registry for tests, as producers use it: schemas are registered, and messages carry their ids."""

from __future__ import annotations

import base64
import io
import json
import ssl
from contextlib import closing
from http.client import HTTPConnection, HTTPSConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import fastavro

from ingest.formats.avro.options import AvroConfluent

if TYPE_CHECKING:
    from pathlib import Path


def ask(url: str, body: object = None, user: str | None = None, ca: Path | None = None, method: str = "POST") -> Any:
    """The answer of a registry: its JSON, or the status where it refuses."""
    headers = {"Content-Type": "application/json"}
    if user is not None:
        headers["Authorization"] = "Basic " + base64.b64encode(user.encode()).decode()
    parts = urlsplit(url)
    context = ssl.create_default_context(cafile=ca)
    secured = parts.scheme == "https"
    connection = HTTPSConnection(parts.netloc, context=context) if secured else HTTPConnection(parts.netloc)
    with closing(connection):
        data = None if body is None else json.dumps(body)
        connection.request("GET" if data is None else method, parts.path, data, headers)
        answer = connection.getresponse()
        return json.load(answer) if answer.status == 200 else answer.status


class Registry:
    """The registry at an address."""

    def __init__(self, url: str, user: str | None = None, ca: Path | None = None) -> None:
        self.url = url
        self._access = (user, ca)

    def register(self, subject: str, schema: Any, kind: str = "AVRO", references: list[Any] | None = None) -> int:
        """Register a schema under a subject; returns its id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        body = {"schema": text, "schemaType": kind, "references": references or []}
        return int(ask(f"{self.url}/subjects/{subject}/versions", body, *self._access)["id"])

    def message(self, subject: str, schema: Any, value: Any) -> bytes:
        """A message in the wire format, by a schema that is registered for it."""
        return framed(self.register(subject, schema), written(schema, value))


def written(schema: Any, value: Any) -> bytes:
    """A value in Avro's binary encoding, as fastavro writes it."""
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(schema), value)
    return file.getvalue()


def framed(number: int, value: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + value


def record(name: str, /, **fields: Any) -> dict[str, Any]:
    """A record's schema, from the types of its fields."""
    return {"type": "record", "name": name, "fields": [{"name": key, "type": kind} for key, kind in fields.items()]}


def envelope(name: str, row: dict[str, Any]) -> dict[str, Any]:
    """The schema of Debezium's envelope around a row, as Connect's converter registers it."""
    source = record("Source", connector="string", db="string", schema=["null", "string"], table="string")
    source["namespace"] = "io.debezium.connector"
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": name,
        "connect.name": f"{name}.Envelope",
        "fields": [
            {"name": "before", "type": ["null", row], "default": None},
            {"name": "after", "type": ["null", f"{name}.{row['name']}"], "default": None},
            {"name": "source", "type": source},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"], "default": None},
        ],
    }


def options(url: str, **more: str) -> AvroConfluent:
    """Options of avro-confluent with a registry at this address, and more of the format's own."""
    return AvroConfluent.model_validate(
        {
            "avro-confluent.url": url,
            "avro-confluent.properties.max.retries": "0",
            **{f"avro-confluent.{name}": value for name, value in more.items()},
        }
    )


def decoded(chosen: AvroConfluent, value: bytes) -> Any:
    """The change, or the reject, that the value of a record becomes."""
    (found,) = chosen.decoder("t").decode([None], [value])
    return found
