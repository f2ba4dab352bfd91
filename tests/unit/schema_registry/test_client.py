"""The client of a registry against a server that speaks the registry's API: tokens, refusals, and ids."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from ingest.errors import AccessError, ConfigError, Unavailable
from ingest.formats.avro.options import AvroConfluent
from ingest.model.change import Reject
from ingest.schema_registry.client import RegistryClient
from ingest.schema_registry.subjects import SchemaNumber

if TYPE_CHECKING:
    from collections.abc import Iterator

SHOWN = "what-nobody-else-may-see"
"""The token."""
ROW = '{"type":"record","name":"r","fields":[{"name":"id","type":"int"}]}'


class Registry(BaseHTTPRequestHandler):
    """A registry of one schema, which asks for a token."""

    asked: ClassVar[list[str]] = []
    refuses: ClassVar[tuple[int, int, str] | None] = None
    fits: ClassVar[bool] = True

    def answer(self) -> None:
        self.asked.append(f"{self.command} {self.path}")
        size = int(self.headers.get("Content-Length") or 0)
        given = json.loads(self.rfile.read(size)) if size else {}
        if self.headers.get("Authorization") != f"Bearer {SHOWN}":
            self.say(401, {"error_code": 40101, "message": "Unauthorized"})
        elif self.refuses is not None:
            status, code, text = self.refuses
            self.say(status, {"error_code": code, "message": text})
        elif self.path.startswith("/compatibility/"):
            self.say(200, {"is_compatible": self.fits})
        elif self.command == "GET":
            self.say(200, {"schema": ROW})
        elif self.path.startswith("/subjects/empty?"):
            self.say(404, {"error_code": 40401, "message": "Subject 'empty' not found."})
        else:
            self.say(200, {"id": 7, "version": 1, "subject": "s", "schema": given["schema"]})

    def __getattr__(self, name: str) -> Any:
        """The method for any verb."""
        if name in {"do_GET", "do_POST"}:
            return self.answer
        raise AttributeError(name)

    def say(self, status: int, body: object) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(Registry, "asked", [])
    monkeypatch.setattr(Registry, "refuses", None)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def options(url: str, token: str | None = SHOWN, **more: str) -> AvroConfluent:
    given = {"avro-confluent.url": url, "avro-confluent.properties.max.retries": "0"}
    if token is not None:
        given["avro-confluent.bearer-auth.credentials-source"] = "STATIC_TOKEN"
        given["avro-confluent.bearer-auth.token"] = token
    return AvroConfluent.model_validate({**given, **{f"avro-confluent.{name}": text for name, text in more.items()}})


def number(chosen: AvroConfluent, subject: str = "s") -> int:
    return SchemaNumber(chosen, subject, "AVRO", ROW, asks=True).get()


def test_a_static_token_is_shown_to_the_registry_and_to_nobody_else(url: str) -> None:
    chosen = options(url)
    assert number(chosen) == 7
    (found,) = chosen.decoder("t").decode([None], [b"\0\0\0\0\7\2"])
    assert not isinstance(found, Reject)
    assert bytes(found[3]) == b'{"id":1}'  # type: ignore[index,arg-type]  # an insert
    for wrong in ("another-token-of-somebody", None):
        with pytest.raises(AccessError, match="refuses access") as raised:
            number(options(url, wrong))
        assert "another-token" not in str(raised.value)


def test_a_schema_is_registered_once_for_all_that_have_it(url: str) -> None:
    chosen = options(url)
    assert [number(chosen), number(chosen), number(chosen)] == [7, 7, 7]
    assert len([text for text in Registry.asked if "/versions" in text]) == 1
    one = SchemaNumber(chosen, "s", "AVRO", ROW, asks=True)
    asked = len(Registry.asked)
    assert [one.get(), one.get()] == [7, 7]
    assert len(Registry.asked) == asked


def test_rows_that_are_written_nowhere_ask_nobody() -> None:
    assert SchemaNumber(options("http://127.0.0.1:1"), "s", "AVRO", ROW, asks=False).get() == 0


@pytest.mark.parametrize(("status", "code"), [(409, 409), (422, 42201)])
def test_a_refusal_says_the_subject_the_reason_and_what_to_do(
    url: str, monkeypatch: pytest.MonkeyPatch, status: int, code: int
) -> None:
    monkeypatch.setattr(Registry, "refuses", (status, code, "READER_FIELD_MISSING_DEFAULT_VALUE: n"))
    with pytest.raises(ConfigError, match="refuses the schema for subject 'orders-value': READER_FIELD_MISS") as raised:
        number(options(url), "orders-value")
    assert "exclude.schema.changes" in raised.value.hint
    assert SHOWN not in str(raised.value)


def test_a_plan_asks_whether_a_schema_would_be_registered_and_registers_nothing(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unregistered(subject: str, **more: str) -> str | None:
        return SchemaNumber(options(url, **more), subject, "AVRO", ROW, asks=True).unregistered()

    assert (unregistered("s"), unregistered("empty")) == (None, "empty")
    with pytest.raises(ConfigError, match="subject 'empty' of the schema registry lacks this schema"):
        unregistered("empty", **{"properties.auto.register.schemas": "false"})
    monkeypatch.setattr(Registry, "fits", False)
    with pytest.raises(ConfigError, match="would refuse the schema for subject 'empty'") as raised:
        unregistered("empty")
    assert "change the compatibility" in raised.value.hint
    monkeypatch.setattr(Registry, "refuses", (404, 40401, "Subject not found."))
    assert unregistered("new") == "new"
    assert not [asked for asked in Registry.asked if asked.startswith("POST /subjects/") and "/versions" in asked]


def test_a_registry_that_is_of_no_use_is_found_without_a_message(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options(url).reach()
    with pytest.raises(AccessError, match=f"the schema registry {url} refuses access") as refused:
        options(url, "another").reach()
    assert "basic-auth" in refused.value.hint
    monkeypatch.setattr(Registry, "refuses", (404, 40403, "Schema not found"))
    options(url).reach()
    monkeypatch.setattr(Registry, "refuses", (404, 404, "HTTP 404 Not Found"))
    with pytest.raises(ConfigError, match=f"there is no schema registry at {url}"):
        options(url, **{"properties.max.retries": "1"}).reach()


def test_a_registry_that_is_not_well_is_tried_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Registry, "refuses", (500, 50001, "no store"))
    with pytest.raises(Unavailable, match="no store"):
        number(options(url))


def test_a_schema_that_is_only_looked_for(url: str) -> None:
    chosen = options(url, **{"properties.auto.register.schemas": "false"})
    assert number(chosen) == 7
    assert not [text for text in Registry.asked if "/versions" in text]
    with pytest.raises(ConfigError, match="subject 'empty' of the schema registry lacks this schema") as raised:
        number(chosen, "empty")
    assert ROW in raised.value.message
    client = RegistryClient(chosen.client())
    assert client.number_of("empty", "AVRO", ROW) is None
