"""Options of metrics and health, and their mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.config.loader import Loaded, load_text
from ingest.config.pipeline import is_gateway

FILE = """\
source: {type: kafka, properties.bootstrap.servers: b:9092, topic: t}
sink: {type: print}
pipeline:
"""


def loaded(lines: str) -> Loaded:
    return load_text("p.yaml", FILE + lines, "p", {}, Path())


def test_options_of_metrics_may_be_nested() -> None:
    pipeline = loaded(
        "  metrics: {port: 9464, host: 127.0.0.1, file: m.prom, max-tables: 5}\n  liveness.deadline: 2 min\n"
    ).pipeline
    assert pipeline is not None
    options = pipeline.pipeline
    assert (options.metrics_port, options.metrics_host, options.metrics_file) == (9464, "127.0.0.1", "m.prom")
    assert (options.metrics_tables, options.liveness_deadline) == (5, 120.0)


def test_nothing_is_told_where_nothing_is_said() -> None:
    pipeline = loaded("  name: p\n").pipeline
    assert pipeline is not None
    options = pipeline.pipeline
    assert (options.metrics_port, options.metrics_file, options.metrics_push) == (None, None, None)
    assert (options.metrics_host, options.metrics_tables, options.liveness_deadline) == ("0.0.0.0", 1000, 300.0)  # noqa: S104


@pytest.mark.parametrize("line", [
    "metrics.port: 65536", "metrics.port: -1", "metrics.port: x", "metrics.host: ''", "metrics.file: ''",
    "metrics.max-tables: -1", "liveness.deadline: 0 s", "metrics.push-url: gateway:9091", "metrics.push-url: file:///etc",
    "metrics.push-url: 'http://h:99999'", "metrics.push-url: 'http://:9091'", "metrics.prot: 1",
])  # fmt: skip
def test_mistakes_are_said_at_their_place(line: str) -> None:
    found = loaded(f"  {line}\n")
    assert found.pipeline is None
    (diagnostic,) = found.diagnostics
    assert diagnostic.line == 4
    assert line.split(":", maxsplit=1)[0] in diagnostic.message


def test_the_password_of_a_gateway_is_a_secret() -> None:
    pipeline = loaded("  metrics.push-url: http://user:pa55word@gateway:9091\n").pipeline
    assert pipeline is not None
    assert "pa55word" in pipeline.secrets
    assert pipeline.describe()["pipeline.metrics.push-url"] == "http://user:********@gateway:9091"


def test_the_password_of_the_port_is_a_secret() -> None:
    pipeline = loaded("  metrics.password: pa55word\n").pipeline
    assert pipeline is not None
    assert pipeline.pipeline.metrics_password == "pa55word"  # noqa: S105  (of the test)
    assert "pa55word" in pipeline.secrets
    assert pipeline.describe()["pipeline.metrics.password"] == "********"


@pytest.mark.parametrize(("text", "fits"), [
    ("http://gateway:9091", True), ("https://user:p@gateway/path", True), ("http://[::1]:9091", True),
    ("http://", False),
    ("gopher://gateway", False), ("", False), ("http://[::1", False),
])  # fmt: skip
def test_a_gateway_has_a_url(text: str, *, fits: bool) -> None:
    assert is_gateway(text) == fits
