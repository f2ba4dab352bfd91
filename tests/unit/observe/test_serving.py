"""The port of a run: metrics and health, asked for by a real client; pushes, to a real server."""

from __future__ import annotations

import base64
import socket
import struct
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from harness import time_with
from prometheus_client.parser import text_string_to_metric_families

from ingest.errors import AccessError, ConfigError
from ingest.observe import observers
from ingest.observe.events import Alive, Event, RunEnded, RunStarted, Serving, SideAnswers
from ingest.observe.metrics import Metrics
from ingest.observe.metrics_outputs import MetricsOutputs, watched
from ingest.observe.observers import STALE_S, Health
from ingest.observe.scrape import read
from ingest.observe.serving import Exposition, MetricsPush, MetricsServer, registry_of

if TYPE_CHECKING:
    from collections.abc import Iterator

STARTED = RunStarted("p", 1, "c", 1, False, 5, True)


class Port:
    """A server with its health."""

    def __init__(self) -> None:
        self.health = Health(300)
        self.server = MetricsServer("127.0.0.1", 0, Exposition(registry_of(Metrics("p", 10, self.health))), self.health)

    def ask(self, path: str, **headers: str) -> tuple[int, str, str]:
        url = f"http://127.0.0.1:{self.server.port}{path}"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
                return answer.status, answer.headers["Content-Type"], answer.read().decode()
        except urllib.error.HTTPError as exc:
            return exc.code, exc.headers["Content-Type"], exc.read().decode()


@pytest.fixture
def port() -> Iterator[Port]:
    made = Port()
    yield made
    made.server.close()


@pytest.mark.parametrize(
    "accept", ["*/*", "application/openmetrics-text; version=1.0.0,text/plain;version=0.0.4;q=0.5"]
)
def test_metrics_are_in_the_form_that_all_take(port: Port, accept: str) -> None:
    status, kind, text = port.ask("/metrics?name[]=x", Accept=accept)
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert "ingest_records_in" in {family.name for family in text_string_to_metric_families(text)}
    assert "process_resident_memory_bytes" in text


@pytest.mark.parametrize("sent", [b"", b"GET /metr"])
def test_a_client_that_goes_leaves_no_traceback(port: Port, sent: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", port.server.port)) as client:
            client.sendall(sent)
            time.sleep(0.05)  # it is read now
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # the end is a reset
    time.sleep(0.2)
    assert port.ask("/livez")[0] == 200
    assert capfd.readouterr().err == ""


def test_a_host_may_be_an_address_of_ipv6() -> None:
    health = Health(300)
    server = MetricsServer("::1", 0, Exposition(registry_of(Metrics("p", 10, health))), health)
    with urllib.request.urlopen(f"http://[::1]:{server.port}/livez", timeout=60) as answer:
        assert answer.status == 200
    server.close()


def test_probes_say_what_is_wrong(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    assert port.ask("/livez")[::2] == (200, "ok\n")
    assert port.ask("/readyz")[::2] == (503, "source and sink have not answered yet\n")
    port.health(STARTED)
    assert port.ask("/readyz")[::2] == (200, "ok\n")
    port.health(SideAnswers("source", answers=False, why="no route"))
    assert port.ask("/readyz")[::2] == (503, "the source does not answer: no route\n")
    port.health(SideAnswers("source", answers=True))
    assert port.ask("/readyz")[::2] == (200, "ok\n")
    later = time.monotonic() + 301
    monkeypatch.setattr(observers, "time", time_with(monotonic=lambda: later))
    status, _, text = port.ask("/livez")
    assert status == 503
    assert text.startswith("no batch completed for 301 s")
    port.health(Alive())
    assert port.ask("/livez")[0] == 200
    port.health(RunEnded("p"))
    assert port.ask("/readyz")[::2] == (503, "the run has ended\n")


def test_a_run_that_waits_for_a_side_is_not_ready_and_not_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    health, now = Health(300), time.monotonic()
    monkeypatch.setattr(observers, "time", time_with(monotonic=lambda: now))
    health(STARTED)
    for side in ("source", "sink"):
        health(SideAnswers(side, answers=True))
    health(SideAnswers("sink", answers=False, why="refused"))
    now += 1000
    assert health.dead() == "", "a restart would not bring the sink back"
    health(SideAnswers("source", answers=True))
    assert health.unready() == "the sink does not answer: refused"
    health(SideAnswers("sink", answers=True))
    assert (health.unready(), health.dead()) == ("", "")
    now += STALE_S
    assert health.unready() == ""
    now += 1
    assert health.unready() == "the source has not answered for 11 s; the sink has not answered for 11 s"
    now += 300
    assert health.dead().startswith("no batch completed for 311 s"), "since it was back"


def test_a_port_with_a_password_tells_nobody_else_anything() -> None:
    health = Health(300)
    metrics = Metrics("p", 10, health)
    server = MetricsServer("127.0.0.1", 0, Exposition(registry_of(metrics)), health, "pa:ss wörd")
    try:
        for url in (f"http://127.0.0.1:{server.port}/metrics", f"http://ingest:wrong@127.0.0.1:{server.port}/metrics"):
            with pytest.raises(AccessError, match=f"http://127.0.0.1:{server.port}/metrics asks for a password"):
                read(url)
        assert list(read(f"http://ingest:{quote('pa:ss wörd')}@127.0.0.1:{server.port}/metrics")) == ["p"]
        health(STARTED)
        health(SideAnswers("sink", answers=False, why="db.internal refuses"))
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}/readyz", timeout=60)
        assert (refused.value.code, refused.value.read()) == (503, b"no\n"), "a probe needs no more"
        refused.value.close()
    finally:
        server.close()


def test_nothing_else_is_there(port: Port) -> None:
    for path in ("/", "/metrics/..%2f..%2fetc/passwd", "/debug"):
        status, _, text = port.ask(path)
        assert status == 404
        assert "/livez" in text


def test_a_port_that_is_taken_is_said(port: Port) -> None:
    health = Health(300)
    with pytest.raises(ConfigError, match=f"port {port.server.port} of 127.0.0.1 cannot be had"):
        MetricsServer("127.0.0.1", port.server.port, Exposition(registry_of(Metrics("p", 10, health))), health)


class Gateway:
    """A server that notes what is pushed to it."""

    def __init__(self, status: int) -> None:
        self.pushed: list[tuple[str, str, str | None, bytes]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.pushed.append((self.command, self.path, self.headers["Authorization"], body))
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])


@pytest.mark.parametrize(
    ("user", "header"), [("", None), ("u:p%40ss@", "Basic " + base64.b64encode(b"u:p@ss").decode())]
)
def test_metrics_are_pushed_when_the_run_begins_now_and_then_and_when_it_ends(
    user: str, header: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.observe.serving.PUSH_EVERY_S", 0.001)
    gateway, told = Gateway(200), list[Any]()
    metrics = Metrics("p", 10, Health(300))
    push = MetricsPush(f"http://{user}127.0.0.1:{gateway.port}", "a/b", registry_of(metrics), told.append)
    deadline = time.monotonic() + 20
    while len(gateway.pushed) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    metrics(RunEnded("p", exit_code=65))
    push(RunEnded("p", exit_code=65))
    assert {(method, authorization) for method, _, authorization, _ in gateway.pushed} == {("PUT", header)}
    assert {path for _, path, *_ in gateway.pushed} == {"/metrics/job/ingest/pipeline@base64/YS9i"}
    bodies = [body for *_, body in gateway.pushed]
    assert all(b"ingest_records_in_total" in body for body in bodies)
    assert b"ingest_exit_code{" not in bodies[0], "a run that is killed leaves none"
    assert b'ingest_exit_code{pipeline="p"} 65' in bodies[-1]
    count = len(bodies)
    time.sleep(0.05)
    assert len(gateway.pushed) == count, "nothing comes after the last numbers"
    assert not told


def test_a_push_that_fails_is_told_without_the_password() -> None:
    told: list[Any] = []
    registry = registry_of(Metrics("p", 10, Health(300)))
    refusing = Gateway(500)
    for port in (refusing.port, 1):
        MetricsPush(f"http://u:secret@127.0.0.1:{port}", "p", registry, told.append)(RunEnded("p"))
    assert len(told) == 2
    assert all("metrics were not pushed to http://127.0.0.1" in event.text for event in told)
    assert "secret" not in str(told)


def test_nobody_watches_unless_that_is_asked_for() -> None:
    shown: list[Event] = []
    with watched(shown.append, "p", MetricsOutputs("127.0.0.1", None, None, None, 10, 300), str) as observer:
        assert observer == shown.append
    with watched(shown.append, "p", MetricsOutputs("127.0.0.1", 0, None, None, 10, 300), str) as observer:
        (serving,) = shown
        assert isinstance(serving, Serving)
        observer(STARTED)
        assert shown == [serving, STARTED]
        with urllib.request.urlopen(f"http://127.0.0.1:{serving.port}/readyz", timeout=60) as answer:
            assert answer.status == 200
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{serving.port}/readyz", timeout=60)
