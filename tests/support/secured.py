"""Pipelines on a secured cluster, and the OAuth server whose tokens it takes."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, ClassVar

from harness import Kafka, Result, message

if TYPE_CHECKING:
    from collections.abc import Mapping

OAUTH = """\
listener.name.sasl_ssl.sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
listener.name.sasl_ssl.oauthbearer.sasl.jaas.config=\
org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;
"""
"""What the broker's configuration has for OAUTHBEARER."""
Run = Callable[..., Result]
"""A function that runs a pipeline from the topic `in` once, with these properties for source and sink."""


def lines(properties: Mapping[str, str], begin: str = "") -> str:
    """Properties as lines of a section of a pipeline's file."""
    return "".join(f"  {begin}properties.{name}: '{value}'\n" for name, value in properties.items())


def feed(kafka: Kafka) -> None:
    """Send five changes to the topic `in`."""
    kafka.create(f"{kafka.name}.in", 1)
    kafka.send(f"{kafka.name}.in", *[message("c", None, {"id": i, "v": i}) for i in range(5)])


def unsigned(seconds: int) -> str:
    """A token that is not signed, which the test's broker accepts."""
    now = int(time.time())

    def part(value: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'none', 'typ': 'JWT'})}.{part({'sub': 'ingest', 'iat': now, 'exp': now + seconds})}."


class Tokens(BaseHTTPRequestHandler):
    """An OAuth server's token endpoint; its tokens are not signed, which the test's broker accepts."""

    asked: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        Tokens.asked.append(base64.b64decode(self.headers["Authorization"].split()[1]).decode() + " " + body)
        text = json.dumps({"access_token": unsigned(300), "token_type": "bearer", "expires_in": 300}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass
