"""Metrics of a running pipeline, read back: what `ingest top` shows.

In: where the metrics are: a URL, or a file that a run writes. Out: `Scrape`s, and from two of them a `Look` with rates.
"""

from __future__ import annotations

import time
from base64 import b64encode
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import Request, urlopen

from prometheus_client.parser import text_string_to_metric_families

from ingest.errors import AccessError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from urllib.parse import SplitResult

TIMEOUT_S: Final = 5.0
"""The time that an endpoint has to answer, in seconds."""
MAX_BYTES: Final = 64 << 20
"""The most that an endpoint may answer."""
CHANGES: Final = ("insert", "update", "delete", "reject")
"""Values of the label `change`."""


@dataclass(frozen=True, slots=True)
class TableLook:
    """A table since the run began, and its changes a second."""

    table: str
    counts: Mapping[str, int]
    """Numbers by `CHANGES`."""
    rate: float | None
    """Changes and rejects a second between two looks; None after the first one."""
    bytes_in: int = 0
    """Bytes of the messages that have its rows."""
    bytes_out: int = 0
    """Bytes of the records that came of its rows."""


@dataclass(frozen=True, slots=True)
class Look:
    """A pipeline at a moment."""

    pipeline: str
    numbers: Mapping[str, float]
    """Samples without labels, by names without `ingest_`."""
    pending: float
    """Records that wait, in all partitions."""
    rejects: float
    commits: Mapping[str, float]
    """Batches by outcome: `succeeded` and `failed`."""
    tables: tuple[TableLook, ...]
    """The busiest ones first."""


@dataclass(slots=True)
class Scrape:
    """All samples of one pipeline at a moment."""

    at: float
    """When it was read, in seconds of a monotonic clock."""
    numbers: dict[str, float] = field(default_factory=dict)
    pending: float = 0.0
    rejects: float = 0.0
    commits: dict[str, float] = field(default_factory=dict)
    tables: dict[str, dict[str, int]] = field(default_factory=dict)
    table_bytes: dict[str, dict[str, int]] = field(default_factory=dict)
    """By table: bytes `in` and `out`."""

    def look(self, pipeline: str, before: Scrape | None) -> Look:
        """Return what people see of it; `before`: an older one, for rates."""
        same = before is not None and before.numbers.get("start_time_seconds") == self.numbers.get("start_time_seconds")
        older = before if same else None
        tables = [
            TableLook(table, counts, None if older is None else self._rate(table, older), *self._bytes(table))
            for table, counts in self.tables.items()
        ]
        tables.sort(key=lambda one: (-(one.rate or 0.0), -sum(one.counts.values()), one.table))
        return Look(pipeline, self.numbers, self.pending, self.rejects, self.commits, tuple(tables))

    def _bytes(self, table: str) -> tuple[int, int]:
        sizes = self.table_bytes.get(table, {})
        return sizes.get("in", 0), sizes.get("out", 0)

    def _rate(self, table: str, before: Scrape) -> float:
        grown = sum(self.tables[table].values()) - sum(before.tables.get(table, {}).values())
        return grown / max(self.at - before.at, 0.001)


def read(where: str) -> dict[str, Scrape]:
    """Return a scrape of each pipeline at a URL, or in a file.

    Raises Unavailable where nothing answers, or what answers has no metrics of this tool.
    """
    if where.startswith(("http://", "https://")):
        parts = urlsplit(where)
        shown = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        return scrapes(_fetched(shown, parts), shown)
    return scrapes(_content(Path(where)), where)


def scrapes(text: str, where: str) -> dict[str, Scrape]:
    """Return a scrape of each pipeline whose metrics are in a text of Prometheus' form.

    Raises Unavailable where the text has none; `where` says whose text it is.
    """
    found: dict[str, Scrape] = {}
    now = time.monotonic()
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name.startswith("ingest_"):
                    scrape = found.setdefault(sample.labels.get("pipeline", ""), Scrape(now))
                    _take(scrape, sample.name.removeprefix("ingest_"), sample.labels, sample.value)
    except (ValueError, KeyError, IndexError) as exc:
        msg = f"what {where} answers is not in Prometheus' form"
        raise Unavailable(msg, "give the port of pipeline.metrics.port, or of --metrics") from exc
    if not found:
        msg = f"{where} has no metrics of a pipeline"
        raise Unavailable(msg, "give the port of pipeline.metrics.port, or of --metrics")
    return found


def _take(scrape: Scrape, name: str, labels: Mapping[str, str], value: float) -> None:
    match name:
        case "pending_records":
            scrape.pending += value
        case "rejects_total":
            scrape.rejects += value
        case "commits_total":
            scrape.commits[labels["outcome"]] = value
        case "table_changes_total":
            scrape.tables.setdefault(labels["table"], {})[labels["change"]] = int(value)
        case "table_bytes_total":
            scrape.table_bytes.setdefault(labels["table"], {})[labels["direction"]] = int(value)
        case _ if len(labels) == 1:
            scrape.numbers[name] = value


def basic_login(user: str, password: str) -> str:
    """Return the header `Authorization` for a user and a password."""
    return f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


def _fetched(url: str, parts: SplitResult) -> str:
    """Return what a URL answers. `parts` may have a user and a password, which are sent and not shown."""
    headers = {"Accept": "text/plain"}
    if parts.username is not None:
        headers["Authorization"] = basic_login(unquote(parts.username), unquote(parts.password or ""))
    try:
        with urlopen(Request(url, headers=headers), timeout=TIMEOUT_S) as answer:  # noqa: S310  (http)
            data: bytes = answer.read(MAX_BYTES)
    except HTTPError as exc:
        if exc.code == HTTPStatus.UNAUTHORIZED:
            hint = "give http://ingest:PASSWORD@host:port, or the pipeline file, with its secrets"
            raise AccessError(f"{url} asks for a password", hint) from exc
        raise Unavailable(f"{url} answers {exc.code} {exc.reason}", "give the port of pipeline.metrics.port") from exc
    except (URLError, OSError, HTTPException) as exc:
        why = exc.reason if isinstance(exc, URLError) else exc
        msg = f"{url} does not answer: {why}"
        raise Unavailable(msg, "the run is over, or has no --metrics PORT and no pipeline.metrics.port") from exc
    return data.decode("utf-8", "replace")


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as exc:
        raise Unavailable(f"{path} cannot be read: {exc.strerror}", "give a URL, or a file of --metrics-file") from exc
