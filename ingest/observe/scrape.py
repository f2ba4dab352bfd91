"""Metrics of a running pipeline, read back: what `ingest top` shows.

In: where the metrics are: a URL, or a file that a run writes. Out: `Scrape`s, and from two of them a `Look` with rates.
"""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit
from urllib.request import Request, urlopen

from prometheus_client.parser import text_string_to_metric_families

from ingest.errors import AccessError, Unavailable
from ingest.model.text import reason_of
from ingest.observe.pace import RATE_S, Pace, is_backlog, window_s

TIMEOUT_S: Final = 5.0
"""The time that an endpoint has to answer, in seconds."""
MAX_BYTES: Final = 64 << 20
"""The most that an endpoint may answer."""
SILENT_S: Final = 60.0
"""The time after which a file that is written every few seconds is of a run that is no more, in seconds."""
FLOWS: Final = ("records_in", "bytes_in", "records_out", "bytes_out")
"""What rates are of."""
_WAITING: Final = "pending_records"
_TABLE: Final = "table "
"""The beginning of the name of a table's number; no other begins so."""
CHANGES: Final = ("insert", "update", "delete", "reject")
"""Values of the label `change`."""


@dataclass(frozen=True, slots=True)
class TableLook:
    """A table since the run began, and its changes a second."""

    table: str
    counts: Mapping[str, int]
    """Numbers by `CHANGES`."""
    rate: float | None
    """Changes and rejects a second, of the last seconds; None after the first look."""
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
    """The backlog of all partitions, in records."""
    rejects: float
    commits: Mapping[str, float]
    """Batches by outcome: `succeeded` and `failed`."""
    tables: tuple[TableLook, ...]
    """The busiest ones first."""
    rates: Mapping[str, float]
    """Records and bytes a second, by `FLOWS`: of the last seconds, or as the run says after the first look."""
    seconds_left: float | None
    """How long it takes until nothing waits, while a backlog goes down."""
    away: tuple[str, ...]
    """Sides that do not answer: `source`, `sink`."""
    silent_s: float | None
    """For how long the file of metrics has not been written, where it should have been; None for an answer."""
    snapshot: Mapping[str, float]
    """Of a database: tables whose rows are read (`tables_done`) and are being read (`tables_left`), and of these the
    rows (`rows_done`, `rows_left`)."""
    position: str
    """How far a database's log is read: `binlog.000004:1234`; an empty text for another source."""
    marked: tuple[str, ...]
    """Tables whose rows in the sink may differ."""


@dataclass(slots=True)
class Scrape:
    """The scraped metrics of one pipeline at a moment."""

    at: float
    """When it was read, in seconds of a monotonic clock."""
    numbers: dict[str, float] = field(default_factory=dict)
    pending: float = 0.0
    rejects: float = 0.0
    commits: dict[str, float] = field(default_factory=dict)
    tables: dict[str, dict[str, int]] = field(default_factory=dict)
    table_bytes: dict[str, dict[str, int]] = field(default_factory=dict)
    """By table: bytes `in` and `out`."""
    away: list[str] = field(default_factory=list)
    silent_s: float | None = None
    snapshot: dict[str, float] = field(default_factory=dict)
    position: str = ""
    marked: list[str] = field(default_factory=list)

    @property
    def waiting(self) -> float:
        """The backlog: records, or bytes of a database's log."""
        return self.numbers.get("pending_bytes", self.pending)

    @property
    def over(self) -> bool:
        """Whether the run has ended, or its metrics file is no longer written."""
        return "exit_code" in self.numbers or self.silent_s is not None

    @property
    def batch_s(self) -> float:
        """How long batches take, in seconds."""
        return self.numbers.get("batch_seconds_sum", 0) / max(self.numbers.get("batch_seconds_count", 0), 1)

    def counts(self) -> dict[str, float]:
        """Return the numbers whose growth makes rates: of each flow, of the backlog, and of each table."""
        flows = {name: self.numbers.get(f"{name}_total", 0) for name in FLOWS}
        tables = {f"{_TABLE}{table}": sum(counts.values()) for table, counts in self.tables.items()}
        return {**flows, _WAITING: self.waiting, **tables}

    def look(self, pipeline: str, pace: Pace | None = None) -> Look:
        """Return the figures to display; `pace`: earlier samples, for rates."""
        rates = self._rates(pace)
        window = window_s(self.waiting, self.batch_s)
        tables = [
            TableLook(
                table,
                counts,
                None if pace is None else pace.per_second(f"{_TABLE}{table}", window),
                *self._bytes(table),
            )
            for table, counts in self.tables.items()
        ]
        tables.sort(key=lambda table: (-(table.rate or 0.0), -sum(table.counts.values()), table.table))
        watched = (
            pace is not None
            and not self.over
            and ("pending_bytes" in self.numbers or is_backlog(self.pending, rates["records_in"]))
        )
        left = pace.left_s(_WAITING) if pace is not None and watched else None
        return Look(
            pipeline, self.numbers, self.pending, self.rejects, self.commits, tuple(tables), rates, left,
            tuple(self.away), self.silent_s, self.snapshot, self.position, tuple(sorted(self.marked)),
        )  # fmt: skip

    def _rates(self, pace: Pace | None) -> dict[str, float]:
        window = window_s(self.waiting, self.batch_s)
        idle = self.over or (not self.waiting and self.numbers.get("source_idle_seconds", 0) > RATE_S)
        out = {}
        for name in FLOWS:
            seen = None if pace is None else pace.per_second(name, window)
            said = 0.0 if idle else self.numbers.get(f"{name}_per_second", 0.0)
            out[name] = said if seen is None else seen
        return out

    def _bytes(self, table: str) -> tuple[int, int]:
        sizes = self.table_bytes.get(table, {})
        return sizes.get("in", 0), sizes.get("out", 0)


def read(where: str) -> dict[str, Scrape]:
    """Return a scrape of each pipeline at a URL, or in a file.

    Raises Unavailable where nothing answers, or what answers has no metrics of this tool.
    """
    if where.startswith(("http://", "https://")):
        parts = urlsplit(where)
        shown = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        return scrapes(_fetched(shown, parts), shown)
    text, silent_s = _content(Path(where))
    by_pipeline = scrapes(text, where)
    for scrape in by_pipeline.values():
        if silent_s > SILENT_S and "exit_code" not in scrape.numbers:
            scrape.silent_s = silent_s
    return by_pipeline


class Watcher:
    """Scraper of pipelines that keeps earlier samples, for rates."""

    def __init__(self) -> None:
        self._paces: dict[tuple[str, str], tuple[float | None, Pace]] = {}
        """By place and pipeline: when the run began, and its numbers."""

    def looks(self, where: str) -> list[Look]:
        """Return a look at each pipeline at a URL, or in a file. Raises Unavailable as `read` does."""
        return [self.look(where, pipeline, scrape) for pipeline, scrape in read(where).items()]

    def look(self, where: str, pipeline: str, scrape: Scrape) -> Look:
        """Return a pipeline's current figures, with rates since earlier samples. A new run starts without rates."""
        began = scrape.numbers.get("start_time_seconds")
        since, pace = self._paces.get((where, pipeline), (None, None))
        if pace is None or since != began:
            pace = Pace()
            self._paces[where, pipeline] = began, pace
        pace.note(scrape.at, scrape.counts(), scrape.batch_s)
        return scrape.look(pipeline, pace)


def scrapes(text: str, where: str) -> dict[str, Scrape]:
    """Return a scrape of each pipeline whose metrics are in a text of Prometheus' form.

    Raises Unavailable where the text has none; `where` says whose text it is.
    """
    by_pipeline: dict[str, Scrape] = {}
    now = time.monotonic()
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name.startswith("ingest_"):
                    scrape = by_pipeline.setdefault(sample.labels.get("pipeline", ""), Scrape(now))
                    _take(scrape, sample.name.removeprefix("ingest_"), sample.labels, sample.value)
    except (ValueError, KeyError, IndexError) as exc:
        msg = f"what {where} answers is not in Prometheus' form"
        raise Unavailable(msg, "give the port of pipeline.metrics.port, or of --metrics") from exc
    if not by_pipeline:
        msg = f"{where} has no metrics of a pipeline"
        raise Unavailable(msg, "give the port of pipeline.metrics.port, or of --metrics")
    return by_pipeline


def _take(scrape: Scrape, name: str, labels: Mapping[str, str], value: float) -> None:
    match name:
        case "pending_records":
            scrape.pending += value
        case "side_answers":
            if not value:
                scrape.away.append(labels["side"])
        case "rejects_total":
            scrape.rejects += value
        case "commits_total":
            scrape.commits[labels["outcome"]] = value
        case "table_changes_total":
            scrape.tables.setdefault(labels["table"], {})[labels["change"]] = int(value)
        case "snapshot_rows" | "snapshot_tables":
            of = f"{name.removeprefix('snapshot_')}_{labels['state']}"
            scrape.snapshot[of] = scrape.snapshot.get(of, 0) + value
        case "log_offset":
            scrape.position = f"{labels['file']}:{value:.0f}"
        case "table_marked":
            scrape.marked.append(labels["table"])
        case "table_bytes_total":
            scrape.table_bytes.setdefault(labels["table"], {})[labels["direction"]] = int(value)
        case _ if len(labels) == 1:
            scrape.numbers[name] = value


def basic_login(user: str, password: str) -> str:
    """Return the header `Authorization` for a user and a password."""
    return f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


def _fetched(url: str, parts: SplitResult) -> str:
    """Return the response of a URL. `parts` may have a user and a password, which are sent and never shown."""
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
        why = reason_of(exc)
        msg = f"{url} does not answer: {why}"
        raise Unavailable(msg, "the run is over, or has no --metrics PORT and no pipeline.metrics.port") from exc
    return data.decode("utf-8", "replace")


def _content(path: Path) -> tuple[str, float]:
    """Return a file's text, and its age in seconds."""
    try:
        return path.read_text(encoding="utf-8", errors="replace"), time.time() - path.stat().st_mtime
    except OSError as exc:
        raise Unavailable(
            f"{path} cannot be read: {reason_of(exc)}", "give a URL, or a file of --metrics-file"
        ) from exc
