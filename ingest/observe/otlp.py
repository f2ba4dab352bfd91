"""Metrics to a collector of OpenTelemetry, by OTLP over HTTP. The package opentelemetry-sdk sends them.

Interval, headers and certificates are those of OpenTelemetry's own variables: `OTEL_METRIC_EXPORT_INTERVAL`,
`OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_EXPORTER_OTLP_CERTIFICATE` and the like.
"""

from __future__ import annotations

import logging
import time
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from ingest import __version__
from ingest.observe.events import Event, Observer, RunEnded, Warned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client.samples import Sample

    from ingest.observe.metrics import Metrics

SEND_S: Final = 10.0
"""The time that sending may take, also at the end of a run, in seconds."""
SNAPSHOT_S: Final = 1.0
"""For so long all instruments answer out of one look at the metrics, in seconds."""


class _Exporter(OTLPMetricExporter):
    """The library's exporter, extended to record that it failed."""

    failed = False

    def export(self, metrics_data: MetricsData, timeout_millis: float | None = None, **more: Any) -> MetricExportResult:
        """Send metrics."""
        result = super().export(metrics_data, timeout_millis, **more)
        self.failed = self.failed or result is not MetricExportResult.SUCCESS
        return result


class MetricsExport:
    """An observer that sends metrics to a collector every so often, and when the run ends.

    Names and labels are those of Prometheus. A histogram is the sum and the number of its times.
    """

    def __init__(self, url: str, pipeline: str, metrics: Metrics, tell: Observer) -> None:
        """`url` is the collector's, with its path. `tell` gets the first failure as a warning."""
        logging.getLogger("opentelemetry").addHandler(logging.NullHandler())  # a failure is told by `tell`
        logging.getLogger("opentelemetry").propagate = False
        self._url, self._metrics, self._tell = url, metrics, tell
        self._told = False
        self._lock = Lock()
        self._looked = 0.0
        self._samples: dict[str, list[Sample]] = {}
        self._exporter = _Exporter(endpoint=url, timeout=SEND_S)
        reader = PeriodicExportingMetricReader(self._exporter, export_timeout_millis=SEND_S * 1000)
        resource = Resource.create({"service.name": "ingest", "service.instance.id": pipeline})
        self._provider = MeterProvider([reader], resource, shutdown_on_exit=False)
        meter = self._provider.get_meter("ingest", __version__)
        for family in metrics.collect():
            if family.type == "gauge":
                meter.create_observable_gauge(family.name, [self._answer(family.name)], "", family.documentation)
                continue
            ends = ("_total",) if family.type == "counter" else ("_sum", "_count")
            for end in ends:
                name = family.name + end
                meter.create_observable_counter(name, [self._answer(name)], "", family.documentation)

    def __call__(self, event: Event) -> None:
        """Export a last time at the end of the run. Warn once if the collector refuses metrics."""
        if isinstance(event, RunEnded):
            self._looked = 0.0
            self._provider.shutdown(SEND_S * 1000)
        if self._exporter.failed and not self._told:
            self._told = True
            self._tell(Warned(f"metrics were not sent to {self._url}"))

    def _answer(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observed(_: CallbackOptions) -> Iterable[Observation]:
            return [Observation(sample.value, dict(sample.labels)) for sample in self._now().get(name, ())]

        return observed

    def _now(self) -> dict[str, list[Sample]]:
        """Return the samples by their names, of a moment ago at most."""
        with self._lock:
            if time.monotonic() - self._looked > SNAPSHOT_S:
                self._samples = {}
                for family in self._metrics.collect():
                    for sample in family.samples:
                        self._samples.setdefault(sample.name, []).append(sample)
                self._looked = time.monotonic()
            return self._samples
