"""The log of a run: one line for each event, as JSON or as text, on standard error.

Levels are those of a log: `debug` is written with --verbose only, and --quiet leaves all below `error` out.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final, TextIO

import structlog

from ingest.cli.summary import print_lines, print_summary
from ingest.config.redaction import masked
from ingest.model.standing import Standing
from ingest.model.text import one_line
from ingest.observe import events

REPEATED_S: Final = 60.0
"""The time between two lines of one kind of a Kafka client, in seconds."""
MAX_KINDS: Final = 200
"""Kinds of such lines that are counted."""
STOPPING: Final = "finishing the batch in progress; a second signal ends at once"
ENDED_NOW: Final = "ended at once: the next run repeats the batch in progress\n"
WARNING: Final = 4
"""Syslog's level of a warning; errors are below it."""


class LogFormat(StrEnum):
    """The forms of a run's log."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What a command line says of the log."""

    form: LogFormat | None = None
    """None: a live line on a terminal, and JSON elsewhere."""
    quiet: bool = False
    verbose: bool = False

    @property
    def level(self) -> int:
        """The lowest level that is written."""
        return logging.ERROR if self.quiet else logging.DEBUG if self.verbose else logging.INFO


USUAL: Final = LogOptions()


class Repeats:
    """Lines of Kafka clients, of which one a minute is written of each kind: librdkafka repeats them while it tries."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._kinds: dict[tuple[str, int, str], tuple[float, int]] = {}
        """By client, level and facility: when a line was written, and the lines that were not since."""

    def more(self, client: str, level: int, facility: str) -> int | None:
        """Return how many lines of a kind were not written before this one; None where it is not written, either."""
        kind, now = (client, level, facility), self._now()
        written, count = self._kinds.get(kind, (now - REPEATED_S, 0))
        if now - written < REPEATED_S:
            self._kinds[kind] = written, count + 1
            return None
        if kind in self._kinds or len(self._kinds) < MAX_KINDS:
            self._kinds[kind] = now, 0
        return count

    def rest(self) -> Iterator[tuple[str, int, str, int]]:
        """Yield client, level, facility and number of lines that were not written and not counted yet."""
        kinds, self._kinds = self._kinds, {}
        for kind, (_, count) in sorted(kinds.items()):
            if count:
                yield *kind, count


class Log:
    """One line per event."""

    def __init__(self, secrets: frozenset[str], stream: TextIO | None = None, options: LogOptions = USUAL) -> None:
        """Write to standard error, or to `stream`."""
        self._secrets = secrets
        self._options = options
        self._repeats = Repeats()
        form: Any = as_text if options.form is LogFormat.TEXT else structlog.processors.JSONRenderer()
        self._log = structlog.wrap_logger(
            structlog.PrintLogger(stream or sys.stderr),
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
                self._mask,
                form,
            ],
            wrapper_class=structlog.make_filtering_bound_logger(options.level),
        )

    def _mask(self, _logger: object, _method: str, event: Any) -> Any:
        return masked(event, self._secrets)

    def __call__(self, event: events.Event) -> None:
        """Write the event."""
        match event:
            case events.RunStarted():
                self._log.info(
                    "run started",
                    pipeline=event.pipeline,
                    run=event.run,
                    checkpoint=event.checkpoint,
                    splits=event.splits,
                    resumed=event.resumed,
                    **lag_fields(event),
                    native=event.native,
                    **({"in_python": [*event.in_python]} if event.in_python else {}),
                )
            case events.OptionChanged():
                self._log.info("option changed", option=event.option, before=event.before, now=event.now)
            case events.BatchDone():
                self._log.info(
                    "batch done",
                    batch=event.batch,
                    records=event.records,
                    seconds=round(event.seconds, 3),
                    **lag_fields(event),
                    rejected=event.rejected,
                    cpu_s=round(event.cpu_s, 3),
                    worker_rss_mib=event.worker_rss_kib >> 10,
                    first_ack=event.first_ack,
                )
            case events.Serving():
                self._log.info("metrics", host=event.host, port=event.port)
            case events.SchemaChanged():
                self._log.info("schema changed", table=event.table, change=event.change, why=event.why)
            case events.RejectEvent() | events.DirtyRecord():
                self._reject(event)
            case events.Printed():
                print_lines(event, self._secrets)
            case events.Warned():
                self._log.warning(event.text)
            case events.ClientLogged() | events.ClientStatistics() | events.SideAnswers():
                self._beside(event)
            case events.Stopping():
                self._stopping(event)
            case events.BatchMeasured() | events.Pending():
                self._detail(event)
            case events.TopicGrown() | events.Alive():
                pass  # for whoever counts
            case events.RunEnded():
                self._ended(event)

    def _detail(self, event: events.BatchMeasured | events.Pending) -> None:
        if isinstance(event, events.Pending):
            lag = {"records": event.records} if event.standing is None else standing_fields(event.standing)
            self._log.debug("backlog", **lag)
        else:
            self._log.debug("batch measured", **measured_fields(event))

    def _reject(self, event: events.RejectEvent | events.DirtyRecord) -> None:
        if isinstance(event, events.DirtyRecord):
            self._log.warning("dirty data", **asdict(event))
        else:
            self._log.warning("record rejected", table=event.table, reason=event.text)

    def configured(self, options: Mapping[str, str]) -> None:
        """Write the options in effect, with --verbose."""
        self._log.debug("options", options=dict(options))

    def _ended(self, event: events.RunEnded) -> None:
        for client, level, facility, count in self._repeats.rest():
            self._client_line(level, client=client, facility=facility, more=count)
        log = self._log.error if event.exit_code else self._log.info
        log(
            "run ended",
            pipeline=event.pipeline,
            stopped=event.stopped,
            exit_code=event.exit_code,
            code=event.code,
            batches=event.batches,
            records=event.records,
            seconds=round(event.seconds, 3),
            rejected=event.rejected,
            **(
                {"left": None if event.left is None else sum(event.left.values())}
                if event.standing is None
                else standing_fields(event.standing)
            ),
        )
        if not self._options.quiet:
            print_summary(event, self._secrets)

    def _beside(self, event: events.ClientLogged | events.ClientStatistics | events.SideAnswers) -> None:
        if isinstance(event, events.SideAnswers):
            if event.news:
                self._side(event)
            return
        if isinstance(event, events.ClientStatistics):
            self._log.info("kafka client", client=event.client, statistics=json.loads(event.json))
            return
        more = 0 if self._options.verbose else self._repeats.more(event.client, event.level, event.facility)
        if more is not None:
            suppressed = {"more": more} if more else {}
            self._client_line(event.level, client=event.client, facility=event.facility, text=event.text, **suppressed)

    def _client_line(self, level: int, **fields: object) -> None:
        """Write a line of a client; `more`: lines of its kind since the one before that were not written."""
        log = self._log.error if level < WARNING else self._log.warning
        log("kafka client", **fields)

    def _side(self, event: events.SideAnswers) -> None:
        if event.answers:
            self._log.info("answers again", side=event.side, away_s=round(event.away_s))
        else:
            self._log.warning("waiting", side=event.side, away_s=round(event.away_s), why=event.why)

    def _stopping(self, event: events.Stopping) -> None:
        if event.now:
            end_now()
        else:
            self._log.warning("stopping", signal=event.signal, then=STOPPING)

    def close(self) -> None:
        """Nothing to put back."""


def lag_fields(event: events.RunStarted | events.BatchDone) -> dict[str, object]:
    """Return the lag by the names of fields: records, or the position and lag of a database's log."""
    return {"lag": event.lag} if event.standing is None else standing_fields(event.standing)


def standing_fields(standing: Standing) -> dict[str, object]:
    """Return where the reading of a database stands, by the names of fields, which say the units."""
    fields: dict[str, object] = {
        "log": f"{standing.file}:{standing.offset}",
        "lag_bytes": standing.lag_bytes,
        "lag_s": round(standing.lag_s, 1),
    }
    if standing.tables:
        left = standing.seconds_left
        fields |= {
            "snapshot_tables": len(standing.tables),
            "snapshot_rows_read": standing.rows_read,
            "snapshot_rows_left": standing.rows_left,
            "snapshot_left_s": None if left is None else round(left),
        }
    return fields


def measured_fields(event: events.BatchMeasured) -> dict[str, object]:
    """Return the numbers of a batch, by the names of fields."""
    return {
        "records_in": event.records_in,
        "bytes_in": event.bytes_in,
        "records_out": event.records_out,
        "bytes_out": event.bytes_out,
        "fetch_lag_s": event.fetch_lag_s,
        "emit_lag_s": event.emit_lag_s,
        "send_s": round(event.send_s, 3),
        "commit_s": round(event.commit_s, 3),
        "failed": event.failed,
        "rejects": {f"{stage}/{code}": count for (stage, code), count in event.rejects.items()},
        "skipped": dict(event.skipped),
    }


def as_text(_logger: object, _method: str, event: Any) -> str:
    """Return an event as a line for people: time, level, what, and its fields. What is not known is left out."""
    at, level, what = event.pop("time"), event.pop("level"), event.pop("event")
    return f"{at[:19]}Z {level:<7} {one_line(what)}{fields_text(event)}"


def fields_text(fields: Mapping[str, object]) -> str:
    """Return fields as ` name=value …`; what is not known or is empty is left out."""
    return "".join(f" {name}={_value(value)}" for name, value in fields.items() if value not in (None, {}, [], ""))


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        text = one_line(value)
        return text if text and not set(' "=').intersection(text) else json.dumps(text, ensure_ascii=False)
    return one_line(json.dumps(value, ensure_ascii=False, default=str))


def end_now(before: str = "") -> None:
    """Say that the run ends here, in a signal handler: past all buffers, which somebody may be writing to."""
    with suppress(OSError):
        os.write(2, f"{before}{ENDED_NOW}".encode())
