"""Metrics to a collector: what the library sends over HTTP, as a collector reads it."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest
from counted import counting, done, measured, started
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from ingest.config.pipeline import MetricsOptions
from ingest.observe.events import RunEnded, Warned
from ingest.observe.otlp import MetricsExport

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingest.observe.events import Event


class Collector:
    """A server that takes what is sent, or refuses it."""

    def __init__(self) -> None:
        self.requests: list[ExportMetricsServiceRequest] = []
        self.status = 200
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
                collector.requests.append(ExportMetricsServiceRequest.FromString(body))
                self.send_response(collector.status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1/metrics"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def numbers(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        """The numbers of the last request, by name and labels beside the pipeline's."""
        out = {}
        (resource,) = self.requests[-1].resource_metrics
        attributes = {one.key: one.value.string_value for one in resource.resource.attributes}
        assert (attributes["service.name"], attributes["service.instance.id"]) == ("ingest", "p")
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                assert kind == ("sum" if metric.name.endswith(("_total", "_sum", "_count")) else "gauge"), metric.name
                for point in getattr(metric, kind).data_points:
                    labels = {one.key: one.value.string_value for one in point.attributes}
                    assert labels.pop("pipeline") == "p"
                    out[metric.name, frozenset(labels.items())] = float(getattr(point, point.WhichOneof("value")))
        return out


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_a_collector_has_the_numbers_of_prometheus(collector: Collector) -> None:
    metrics = counting()
    told: list[Event] = []
    export = MetricsExport(collector.url, "p", metrics, told.append)
    for event in (started(t=13), measured(), done(), RunEnded("p")):
        metrics(event)
        export(event)
    found = collector.numbers()
    nothing: frozenset[tuple[str, str]] = frozenset()
    assert found["ingest_records_in_total", nothing] == 10
    assert found["ingest_table_changes_total", frozenset({("table", "shop.orders"), ("change", "insert")})] == 5
    assert found["ingest_pending_records", frozenset({("topic", "t"), ("partition", "0")})] == 3
    assert (found["ingest_batch_seconds_sum", nothing], found["ingest_batch_seconds_count", nothing]) == (0.4, 1)
    assert told == []


def test_a_collector_that_refuses_is_said_once_and_ends_nothing(collector: Collector) -> None:
    collector.status = 400
    metrics = counting()
    told: list[Event] = []
    export = MetricsExport(collector.url, "p", metrics, told.append)
    for event in (measured(), RunEnded("p"), RunEnded("p")):
        export(event)
    assert collector.requests
    assert told == [Warned(f"metrics were not sent to {collector.url}")]


@pytest.mark.parametrize("url", ["collector:4318", "ftp://c/v1", "http://", "http://user:hunter2@c/v1/metrics"])
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="a collector is at a URL like") as refused:
        MetricsOptions(**{"metrics.otlp-url": url})
    assert "OTEL_EXPORTER_OTLP_HEADERS" in str(refused.value)
    assert MetricsOptions(**{"metrics.otlp-url": "https://c:4318/v1/metrics"}).metrics_otlp is not None
