"""Options of what a run tells those who watch over it: metrics and health. They are entries of `pipeline:`."""

from __future__ import annotations

from urllib.parse import urlsplit

from pydantic import Field, field_validator

from ingest.component.options import Duration, Options


class MetricsOptions(Options):
    """Options of where metrics and health go."""

    metrics_port: int | None = Field(None, alias="metrics.port", ge=0, le=65_535)
    """A port that answers to `/metrics` (Prometheus), `/livez` and `/readyz`. 0 takes any, and says which.
    Default: none. `--metrics` wins."""

    metrics_host: str = Field("0.0.0.0", alias="metrics.host", min_length=1)  # noqa: S104  (it is asked from elsewhere)
    """The address on which that port listens."""

    metrics_password: str | None = Field(None, alias="metrics.password", min_length=1)
    """A password without which that port does not answer to `/metrics`, and says no reasons: HTTP Basic, with the user
    `ingest`. Take a secret: `${secret_values.…}`."""

    metrics_file: str | None = Field(None, alias="metrics.file", min_length=1)
    """A file that gets the metrics every few seconds and at the end, for the text-file collector of a node exporter."""

    metrics_push: str | None = Field(None, alias="metrics.push-url")
    """A push gateway of Prometheus' that gets the metrics when the run begins, every minute, and when it ends:
    `http://gateway:9091`, also with `user:password@`. For runs that are over before anyone asks."""

    metrics_otlp: str | None = Field(None, alias="metrics.otlp-url")
    """A collector of OpenTelemetry that gets the metrics every minute and at the end, by OTLP over HTTP:
    `http://collector:4318/v1/metrics`. Interval, headers and certificates are those of OpenTelemetry's own
    variables, as `OTEL_METRIC_EXPORT_INTERVAL`. It needs the package opentelemetry-sdk:
    `pip install 'ingest[opentelemetry]'`."""

    metrics_tables: int = Field(1_000, alias="metrics.max-tables", ge=0)
    """Tables that have metrics of their own; those of all others are added up as `(others)`."""

    liveness_deadline: Duration = Field(300.0, alias="liveness.deadline", gt=0)
    """`/livez` fails when for so long no batch has ended and the run has not waited for anything either."""

    def packages(self) -> list[tuple[str, str]]:
        """Return the options that need packages which may be missing: for each its key, and the name of the extra."""
        return [*super().packages(), *([] if self.metrics_otlp is None else [("metrics.otlp-url", "opentelemetry")])]

    @field_validator("metrics_push")
    @classmethod
    def _check_url(cls, value: str | None) -> str | None:
        if value is not None and not is_gateway(value):
            msg = "a push gateway is at a URL like http://gateway:9091"
            raise ValueError(msg)
        return value

    @field_validator("metrics_otlp")
    @classmethod
    def _check_collector(cls, value: str | None) -> str | None:
        if value is not None and (not is_gateway(value) or "@" in urlsplit(value).netloc):
            msg = "a collector is at a URL like http://c:4318/v1/metrics; passwords are in OTEL_EXPORTER_OTLP_HEADERS"
            raise ValueError(msg)
        return value


def is_gateway(text: str) -> bool:
    """Return whether a text is the URL of a server."""
    try:
        url = urlsplit(text)
        return url.scheme in {"http", "https"} and bool(url.hostname) and url.port != 0
    except ValueError:
        return False
