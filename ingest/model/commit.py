"""The work of one shard in one batch, as a writer needs to know it: its scope, earlier progress, records refused.

And what a task's clients, readers as well as writers, have for the task beside records: reports, and their end.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from ingest.errors import CheckpointError, ConfigError, Fenced, IngestError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ingest.model.record import Split

OLDER: Final = "older-than-its-row"
"""The reason for leaving out a change that is older than the row that is there (`sink.sequence-by`)."""
NO_ROW: Final = "no-row-for-its-columns"
"""The reason for leaving out a change of which only some columns came, where the sink has no row with the others."""


@dataclass(frozen=True, slots=True)
class CommitScope:
    """A shard's part of a batch. All attempts at it, in any process, have equal values except for `kept`."""

    owner: str
    """The name of the progress that is committed: the checkpoint's id.

    A replay of dead letters has a progress of its own.
    """
    run: int
    batch: int
    planned: int
    """The number of the run that planned the batch."""
    shard: int
    starts: Mapping[Split, int]
    """The first offset of each split's range."""
    kept: bool
    """True if this process was the last one that wrote this shard, as far as the driver knows."""
    partitions: dict[str, int] = field(default_factory=dict)
    """By topic of the sink: over how many partitions keys are hashed."""


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The progress that an earlier attempt at a shard's part of a batch has committed."""

    positions: Mapping[Split, int]
    metadata: bytes
    """The counters at that time (`ingest/task/task.py`); empty where nothing was kept."""
    final: bool
    """True if the attempt was complete. Nothing is left to do then, wherever it stopped."""


class LeavingOut(Protocol):
    """The part of a writer whose sink may leave changes out."""

    def left_out(self) -> Mapping[str, int]:
        """Return, by reason, how many changes have been left out by what was committed since the last call."""


class ByOne(Protocol):
    """The part of a writer that looks for records which its sink refuses in small commits only."""

    def apart(self, *, on: bool) -> None:
        """Say whether each chunk is committed by itself from now on, as records of the last commit were refused."""


class LoggingClient(Protocol):
    """A client that keeps its log lines and statistics until somebody asks for them."""

    def log(self) -> tuple[list[tuple[int, str, str]], int]:
        """Return the log lines since the last call, and how many more there were than were kept.

        A line is a level (syslog's), a facility, and a text.
        """

    def statistics(self) -> bytes | None:
        """Return the newest statistics that nobody has asked for yet, as JSON, or None."""


@dataclass(frozen=True, slots=True)
class ClientReport:
    """Log lines and statistics of one client, since its report before, for whoever observes the run."""

    client: str
    """The kind of client: `consumer` or `producer`."""
    lines: tuple[tuple[int, str, str], ...]
    """Level (syslog's: 3 is an error, 4 a warning), facility, text; only the newest are kept."""
    lost: int
    """How many lines there were that were not kept."""
    statistics: bytes | None
    """The newest ones, as the client's own JSON, where it was asked for them."""

    @classmethod
    def of(cls, client: LoggingClient, kind: str) -> ClientReport | None:
        """Return what a client has told since the last call; None where that is nothing."""
        (lines, lost), statistics = client.log(), client.statistics()
        return cls(kind, tuple(lines), lost, statistics) if lines or statistics is not None else None


class Reporting(Protocol):
    """The part of a reader or writer whose client has something to tell."""

    def report(self) -> ClientReport | None:
        """Return what the client told since the last call; None where that is nothing."""


def reports(*clients: Reporting | None) -> list[ClientReport]:
    """Return what clients have to tell, as far as there are any."""
    return [report for client in clients if client is not None and (report := client.report()) is not None]


class Closing(Protocol):
    """Object with connections or files."""

    def close(self) -> None:
        """Release them. Raise IngestError."""


def release(client: Closing | None) -> None:
    """Close a client, if there is one; a failure of that tells nothing to those who are done."""
    if client is not None:
        with suppress(IngestError):
            client.close()


class RefusedRow(NamedTuple):
    """A record that the sink does not take, as its writer got it, and the sink's own words for why."""

    destination: Any
    key: bytes | None
    value: bytes | None
    reason: str
    may_pass: bool = False
    """True if it may be taken once other tasks have committed: it is at odds with rows that they are about to write."""


class RowsRefused(ConfigError):
    """Error of a writer whose sink takes all of its records but for some, which are at fault themselves.

    Nothing since the last commit is written. The task then calls `abort`, goes over these records again, and leaves out
    those of messages that become rejects. See docs/spec/dirty-data.md#rows-that-the-sink-refuses.
    """

    code = "rows-refused"
    for_time: bool = False
    """True if a record is refused for its time alone."""

    def __init__(self, message: str, hint: str = "", rows: Sequence[RefusedRow] = ()) -> None:
        """`rows`: those at fault. None where there were too many to look for them: fewer come before the next commit.

        A writer that gets the same records again has to say which they are. `message` ends a run that cannot go on.
        """
        super().__init__(message, hint)
        self.rows = tuple(rows)

    @property
    def may_pass(self) -> bool:
        """True if some of them may be taken once other tasks have committed."""
        return any(row.may_pass for row in self.rows)


def begun_already(newest: int, run: int) -> Fenced:
    """Return the error of a run of a checkpoint of which a newer one has begun."""
    msg = f"run {newest} of this checkpoint has begun already, and this one is run {run}"
    return Fenced(msg, "see that only one run of a pipeline is started; an old copy of a checkpoint is of no use")


def taken_over(prefix: str, who: str) -> Fenced:
    """Return the error of a run whose prefix another one writes under. `who`: that run."""
    msg = f"another run has taken over sink.transactional-id-prefix {prefix}: {who}"
    hint = "nothing is lost; see that only one run of a pipeline is started, and that no two share a prefix"
    return Fenced(msg, hint)


def old_copy(newest: int, number: int) -> CheckpointError:
    """Return the error of a checkpoint whose last batch is older than the one that the sink holds."""
    msg = f"the sink holds batch {newest} of this checkpoint, which itself knows of no batch after {number}"
    return CheckpointError(msg, "it is an old copy: restore the newest one, or start over with another --checkpoint")
