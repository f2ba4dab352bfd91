"""Where metrics and health of a run go, as the pipeline and the command line ask for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ingest.observe.events import Observer, Serving
from ingest.observe.observers import Health, Observers


@dataclass(frozen=True, slots=True)
class MetricsOutputs:
    """The places to which metrics and health go."""

    host: str
    """The address on which `port` listens."""
    port: int | None
    """A port that answers; 0 takes any."""
    file: Path | None
    """A file that gets the metrics now and then."""
    push_url: str | None
    """A push gateway that gets them when the run ends."""
    max_tables: int
    """Tables that have metrics of their own."""
    deadline_s: float
    """The time after which a run without progress is dead, in seconds."""
    otlp_url: str | None = None
    """A collector of OpenTelemetry that gets them every so often."""
    password: str | None = None
    """What `port` asks for before it answers; None if it answers to everybody."""

    @property
    def any(self) -> bool:
        """True if metrics go anywhere."""
        return any(output is not None for output in (self.port, self.file, self.push_url, self.otlp_url))


@contextmanager
def watched(shown: Observer, name: str, outputs: MetricsOutputs, clean: Callable[[str], str]) -> Iterator[Observer]:
    """Yield an observer that tells `shown`, and metrics where anybody watches. Raise ConfigError.

    `name` is the pipeline's. `clean` removes secrets from a text.
    """
    if not outputs.any:
        yield shown
        return
    from ingest.observe.metrics import Metrics  # noqa: PLC0415  (most runs have none, and each start is timed)
    from ingest.observe.serving import Exposition, MetricsFile, MetricsPush, MetricsServer, registry_of  # noqa: PLC0415

    health = Health(outputs.deadline_s)
    metrics = Metrics(name, outputs.max_tables, health, clean)
    registry = registry_of(metrics)
    text = Exposition(registry)
    others: list[Observer] = [health, metrics]
    if outputs.file is not None:
        others.append(MetricsFile(outputs.file, text, shown))
    if outputs.push_url is not None:
        others.append(MetricsPush(outputs.push_url, name, registry, shown))
    if outputs.otlp_url is not None:
        from ingest.observe.otlp import MetricsExport  # noqa: PLC0415  (its package may be missing)

        others.append(MetricsExport(outputs.otlp_url, name, metrics, shown))
    server = None
    if outputs.port is not None:
        server = MetricsServer(outputs.host, outputs.port, text, health, outputs.password)
        shown(Serving(outputs.host, server.port))
    try:
        yield Observers(shown, others)
    finally:
        if server is not None:
            server.close()
