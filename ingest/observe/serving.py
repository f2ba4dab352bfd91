"""Metrics and health leave the process: the text of metrics, a port, a text file, a push gateway."""

from __future__ import annotations

import socket
import sys
import threading
import time
from contextlib import suppress
from hmac import compare_digest
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit, urlunsplit

from prometheus_client import CollectorRegistry, ProcessCollector, push_to_gateway
from prometheus_client.core import Metric
from prometheus_client.exposition import basic_auth_handler, default_handler
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

from ingest.errors import ConfigError
from ingest.model.text import reason_of
from ingest.observe.events import BatchDone, Event, Observer, RunEnded, SideAnswers, Warned
from ingest.observe.observers import AtomicFile, Health
from ingest.observe.scrape import basic_login

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from ingest.observe.metrics import Metrics

FILE_S: Final = 5.0
"""The time between two writings of the text file, in seconds."""
PUSH_S: Final = 10.0
"""The time that a push may take, in seconds."""
PUSH_EVERY_S: Final = 60.0
"""The time between two pushes while the run goes on, in seconds."""
REQUEST_S: Final = 10.0
"""The time that a client has to send its request, in seconds."""
USER: Final = "ingest"
"""The user of the port for metrics, where it has a password."""
_TEXT: Final = "text/plain; charset=utf-8"


def registry_of(metrics: Metrics) -> CollectorRegistry:
    """Return a registry with the metrics of a run and those of the driver's process."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(metrics)
    ProcessCollector(registry=registry)
    return registry


class _Server(ThreadingHTTPServer):
    """Requests in threads of their own. An address of IPv6 is one of the host's, too."""

    daemon_threads = True

    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that have gone: load balancers look whether a port is open in this way."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class MetricsServer:
    """A server for `/metrics`, `/livez` and `/readyz`, in threads of its own."""

    def __init__(self, host: str, port: int, text: Exposition, health: Health, password: str | None = None) -> None:
        """Listen. Raise ConfigError where the port cannot be had. Port 0 takes any. `password`: see `answer`."""
        wanted = None if password is None else basic_login(USER, password).encode()

        class Handler(BaseHTTPRequestHandler):
            timeout = REQUEST_S

            def do_GET(self) -> None:
                authorized = wanted is None or compare_digest(self.headers.get("Authorization", "").encode(), wanted)
                answer(self, text, health, authorized=authorized)

            def log_message(self, *_: object) -> None:
                """Say nothing: probes come every few seconds."""

        try:
            self._server = _Server(host, port, Handler)
        except (OSError, OverflowError) as exc:
            why = reason_of(exc)
            msg = f"port {port} of {host} cannot be had for metrics: {why}"
            raise ConfigError(msg, "take another with --metrics or pipeline.metrics.port") from exc
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True).start()

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()


def answer(request: BaseHTTPRequestHandler, text: Exposition, health: Health, *, authorized: bool) -> None:
    """Answer one request. A client without the password gets neither metrics nor the reason of a bad health.

    Probes get the status also so: those of Kubernetes have no passwords.
    """
    path = request.path.split("?", 1)[0]
    kind, status = _TEXT, HTTPStatus.OK
    if path == "/metrics" and not authorized:
        status, body = HTTPStatus.UNAUTHORIZED, b"metrics.password is asked for\n"
    elif path == "/metrics":
        kind, body = CONTENT_TYPE, text()
    elif path in {"/livez", "/readyz"}:
        why = health.dead() if path == "/livez" else health.unready()
        status = HTTPStatus.SERVICE_UNAVAILABLE if why else HTTPStatus.OK
        body = f"{(why if authorized else 'no') if why else 'ok'}\n".encode()
    else:
        status, body = HTTPStatus.NOT_FOUND, b"there are /metrics, /livez and /readyz\n"
    with suppress(OSError):  # whoever asked has gone
        request.send_response(status)
        request.send_header("Content-Type", kind)
        if status is HTTPStatus.UNAUTHORIZED:
            request.send_header("WWW-Authenticate", 'Basic realm="ingest"')
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)


class MetricsFile:
    """An observer that writes metrics to a file for the text-file collector of a node exporter."""

    def __init__(self, path: Path, text: Exposition, tell: Observer) -> None:
        """`tell` gets the first failure as a warning."""
        self._file = AtomicFile(path, "metrics", tell)
        self._text = text
        self._written = 0.0

    def __call__(self, event: Event) -> None:
        """Rewrite the file when it is out of date, also while the run waits, and at the end."""
        now = time.monotonic()
        often = isinstance(event, BatchDone | SideAnswers) and now - self._written > FILE_S
        if isinstance(event, RunEnded) or often:
            self._written = now
            self._file.write(self._text())


class MetricsPush:
    """An observer that pushes metrics to a push gateway of Prometheus': at the start, every minute, at the end.

    A run that dies thereby leaves numbers that get old and have no exit code.
    """

    def __init__(self, url: str, pipeline: str, registry: CollectorRegistry, tell: Observer) -> None:
        """`url` may have a user and a password. `tell` gets a failure of the last push as a warning."""
        whole = urlsplit(url)
        name = whole.hostname or ""
        host = f"[{name}]" if ":" in name else name
        self._url = urlunsplit((whole.scheme, f"{host}:{whole.port}" if whole.port else host, whole.path, "", ""))
        self._user, self._password = unquote(whole.username or ""), unquote(whole.password or "")
        self._pipeline = pipeline
        self._registry = registry
        self._tell = tell
        self._ended = threading.Event()
        self._often = threading.Thread(target=self._push_often, name="push", daemon=True)
        self._often.start()

    def __call__(self, event: Event) -> None:
        """Push at the end of the run."""
        if not isinstance(event, RunEnded):
            return
        self._ended.set()
        self._often.join(PUSH_S)  # so that older numbers do not come after the last ones
        try:
            self._push()
        except (OSError, ValueError) as exc:
            why = reason_of(exc)
            self._tell(Warned(f"metrics were not pushed to {self._url}: {why}"))

    def _push_often(self) -> None:
        while not self._ended.is_set():
            with suppress(OSError, ValueError):  # the last push says what is wrong
                self._push()
            self._ended.wait(PUSH_EVERY_S)

    def _push(self) -> None:
        push_to_gateway(
            self._url,
            job="ingest",
            registry=self._registry,
            grouping_key={"pipeline": self._pipeline},
            timeout=PUSH_S,
            handler=self._send,
        )

    def _send(
        self, url: str, method: str, timeout: float | None, headers: list[tuple[str, str]], data: bytes
    ) -> Callable[[], None]:
        if not self._user:
            return default_handler(url, method, timeout, headers, data)
        return basic_auth_handler(url, method, timeout, headers, data, self._user, self._password)


CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""The content type of the text."""
MAX_HEADS: Final = 50_000
"""Samples of one name whose beginnings are kept."""


class Family(Metric):
    """Gauges or counters of one name, as the values of their labels and numbers: no object for each is kept."""

    def __init__(self, kind: str, name: str, text: str, labels: Sequence[str]) -> None:
        """`kind`: `gauge` or `counter`; `labels`: the names of labels."""
        self.name, self.documentation, self.type, self.unit = name, text, kind, ""
        self.sample_name = f"{name}_total" if kind == "counter" else name
        self.numbers: list[tuple[tuple[str, ...], float]] = []
        self.labels = labels

    @property
    def samples(self) -> list[Sample]:  # type: ignore[override]
        """The samples as objects of prometheus_client."""
        return [Sample(self.sample_name, self.labels_of(values), number) for values, number in self.numbers]

    def labels_of(self, values: Sequence[str]) -> dict[str, str]:
        """Return labels by their names."""
        return dict(zip(self.labels, values, strict=True))


class Exposition:
    """The metrics of a registry as text. It may be asked in any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Keep the registry, whose samples have no timestamps, and no exemplars."""
        self._registry = registry
        self._heads: dict[str, dict[tuple[str, ...], str]] = {}

    def __call__(self) -> bytes:
        """Return all metrics with their current values, as text."""
        parts: list[str] = []
        for family in self._registry.collect():
            self._add(family, parts)
        return "".join(parts).encode()

    def _add(self, family: Metric, parts: list[str]) -> None:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        text = family.documentation.replace("\\", "\\\\").replace("\n", "\\n")
        parts.append(f"# HELP {name} {text}\n# TYPE {name} {family.type}\n")
        if isinstance(family, Family):
            heads = self._heads.setdefault(name, {})
            for values, number in family.numbers:
                head = heads.get(values)
                if head is None:
                    head = _head(name, family.labels_of(values))
                    if len(heads) < MAX_HEADS:
                        heads[values] = head
                parts.append(f"{head} {_shown(number)}\n")
        else:
            parts += [f"{_head(s.name, s.labels)} {_shown(s.value)}\n" for s in family.samples]


def _shown(value: float) -> str:
    # a whole number has its own text below a million, from where on Go's has an exponent
    if type(value) is int and -1_000_000 < value < 1_000_000:
        return f"{value}.0"
    text: str = floatToGoString(value)  # type: ignore[no-untyped-call]
    return text


def _head(name: str, labels: Mapping[str, str]) -> str:
    """Return the head of a sample's line: the metric's name with its labels."""
    if not labels:
        return name
    texts = ",".join(f'{label}="{_escaped(text)}"' for label, text in sorted(labels.items()))
    return f"{name}{{{texts}}}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
