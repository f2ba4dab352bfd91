"""Records that the sink refuses: how a task goes over them again, so that only the messages at fault become rejects.

    ordinary    native; a commit every few seconds
    apart       native, a commit for each chunk: shows which chunk the records are in
    watched     by the reference, which knows the records of each message: only in that chunk

A refusal leads from one mode to the next one, beginning where the last commit was. At the end of what it is for, each
mode leads back to the one before. A message whose record may be taken once other tasks have committed waits for that:
the task commits what is before it, and ends. Rules: docs/spec/dirty-data.md#rows-that-the-sink-refuses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ingest.model.reject import LeftForLater, RowError
from ingest.task.counters import add_counts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ingest.encode.upsert_encoder import Record
    from ingest.model.commit import RefusedRow, RowsRefused
    from ingest.model.record import Split
    from ingest.model.reject import RejectedRecord
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.task.task import TaskResult


class RefusedRecords:
    """The records that the sink has refused since the last commit."""

    def __init__(self, *, waits: bool = False) -> None:
        """Know of none. `waits`: whether those are to wait that may pass once other tasks have committed."""
        self._reasons: dict[tuple[Any, bytes | None, bytes | None], RefusedRow] = {}
        self._put_off = False
        self._waits = waits
        self.waiting = False
        """True if a message waits: the task ends there."""

    def add(self, exc: RowsRefused) -> None:
        """Add the records of an error. Raise it where it tells nothing new, as trying again would not end."""
        before = len(self._reasons)
        self._reasons.update({row[:3]: row for row in exc.rows})
        self.waiting = False
        if len(self._reasons) == before:
            if exc.rows or self._put_off:
                raise exc
            self._put_off = True

    def __bool__(self) -> bool:
        """Return whether any are known."""
        return bool(self._reasons)

    def reason(self, records: Sequence[Record]) -> str | None:
        """Return why the first one of a message's records is refused; None if none is.

        Raise LeftForLater for a message that waits.
        """
        for record in records:
            value = None if record.value is None else bytes(record.value)
            found = self._reasons.get((record.destination, record.key, value))
            if found is not None:
                if found.may_pass and self._waits:
                    self.waiting = True
                    raise LeftForLater
                return found.reason
        return None

    def check(self, records: Sequence[Record]) -> None:
        """Raise RowError if one of a message's records is refused, LeftForLater if it waits."""
        why = self.reason(records) if self._reasons else None
        if why is not None:
            raise RowError("refused", why)


@dataclass(frozen=True, slots=True)
class Stopped:
    """What a task that goes back keeps of how it had ended."""

    observed: dict[TableId, TableSchema]
    widening: dict[tuple[TableId, str], bytes]
    rejects: list[RejectedRecord]
    """Those that it stopped at."""
    drifted: bool
    waited: bool

    @classmethod
    def of(cls, result: TaskResult) -> Stopped:
        """Return that of a task."""
        progress = result.progress
        at_fault = [reject for reject in progress.rejects if not reject.passed]
        return cls(progress.observed, progress.widening, at_fault, progress.drifted, progress.waited)

    def put_back(self, result: TaskResult) -> None:
        """Let the task end so."""
        progress = result.progress
        progress.observed, progress.widening = progress.observed | self.observed, progress.widening | self.widening
        progress.drifted, progress.waited = progress.drifted or self.drifted, progress.waited or self.waited
        for reject in self.rejects:
            progress.rejects.append(reject)
            progress.stopped_by_reject = True
            add_counts(result.counters.reject_codes, {(reject.stage, reject.code): 1})


class RefusalMode:
    """The mode in which a task goes over its records, and up to where."""

    def __init__(self, ends: Mapping[Split, int], *, waits: bool = False) -> None:
        """Begin with the ordinary mode. `ends`: where the task ends; `waits`: see `RefusedRecords`."""
        self._ends, self._waits = ends, waits
        self._apart: Mapping[Split, int] | None = None
        self._watched: Mapping[Split, int] | None = None
        self.refused = self._none_refused()

    def _none_refused(self) -> RefusedRecords:
        return RefusedRecords(waits=self._waits)

    @property
    def ends(self) -> Mapping[Split, int]:
        """The positions where the mode ends."""
        return self._watched or self._apart or self._ends

    @property
    def apart(self) -> bool:
        """True if each chunk is committed by itself."""
        return self._apart is not None

    @property
    def watched(self) -> bool:
        """True if messages are encoded by the reference, without those whose records are refused."""
        return self._watched is not None

    def refuse(self, exc: RowsRefused, reached: Mapping[Split, int]) -> None:
        """Choose the mode after a refusal. Raise its error if it tells nothing new.

        `reached`: the positions behind all that has been written, from which the task goes back to its last commit.
        """
        if self._apart is None:
            self._apart = dict(reached)
            return
        self.refused.add(exc)
        if self.refused and self._watched is None:
            self._watched = dict(reached)

    def cut(self, reached: Mapping[Split, int]) -> None:
        """Let all modes end at these positions at the latest."""
        self._ends = reached
        self._apart = None if self._apart is None else reached
        self._watched = None if self._watched is None else reached

    def committed(self) -> None:
        """Forget records that were refused before a commit: they are rejects."""
        if self._watched is None:
            self.refused = self._none_refused()

    def end(self) -> None:
        """Go back to the mode before, at the end of one."""
        if self._watched is not None:
            self._watched, self.refused = None, self._none_refused()
        else:
            self._apart = None
