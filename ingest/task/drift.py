"""Drift: records that do not fit their table's schema, and looking ahead for what else is new.

A split stops at the first such record. What the task sees from there on it does not write: it only observes schemas,
for the driver to merge, until that brings nothing new.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from ingest.encode.coercer import check_before
from ingest.encode.encode import stage_of
from ingest.model.change import Change, Reject
from ingest.model.numbers import Numbers
from ingest.model.reject import RowError
from ingest.schema.infer import observe, reasons_of
from ingest.task.rejects import RecordReject

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.model.change import Decoded
    from ingest.model.record import Record, Split
    from ingest.schema.evolve import Schemas
    from ingest.task.rejects import RejectLimit
    from ingest.task.task import Setup, TaskProgress

LOOK_S: Final = 2.0
QUIET_S: Final = 0.2
"""Looking ahead ends after `LOOK_S` seconds, or when so many or `Setup.look_ahead` records bring nothing new."""


class SchemaObserver:
    """The schemas that a task observes, beside those that it knows."""

    def __init__(self, setup: Setup, schemas: Schemas, progress: TaskProgress) -> None:
        """`schemas`: those that the task knows."""
        self._setup = setup
        self._schemas = schemas
        self._progress = progress

    def see(self, changes: Sequence[Change]) -> bool | Reject:
        """Add what the changes of one message show; return whether anything was new.

        Returns the reject instead, and has observed nothing, if no schema takes one of the changes.
        """
        before = self._progress.observed
        if len(changes) > 1:
            self._progress.observed = dict(before)
        new = False
        for change in changes:
            try:
                new |= self._see(change)
            except RowError as exc:
                self._progress.observed = before
                return Reject(exc.code, str(exc), change.table)
        return new

    def _see(self, change: Change) -> bool:
        """Add what one change shows; return whether that was new. Raises RowError if no schema takes it."""
        setup, known_sources = self._setup, self._schemas.sources
        table = change.table
        source = known_sources.get(table)
        if source is None and len(known_sources) >= setup.max_tables:
            msg = f"there are {setup.max_tables} tables already (pipeline.max-tables)"
            raise RowError("too-many-tables", msg)
        inference, observed = setup.inference, self._progress.observed
        known = observed.get(table) or (None if source is None else source.schema)
        stored = self._schemas.number_types(table) if inference.numbers is Numbers.STORED else {}
        merged = observe(
            change,
            inference,
            known,
            stored,
            fixed=inference.static and known is not None,
            key_columns=() if source is None else source.key_columns,
        )
        if merged == known:
            if table in observed:
                observed[table] = merged  # a value may be larger than all before
            return False
        if source is None and not setup.rules.primary_key(table):
            # Later rows of such a table are rejects, so its first one is no reason to stop the run, nor to have no key
            if inference.keyed and not merged.primary_key:
                raise RowError("null-key", "the record's key tells no column of the primary key (key.format)")
            check_before(merged.primary_key, {column.name for column in merged.columns}, change.declared)
            missing = [name for name in merged.primary_key if all(c.name != name for c in merged.columns)]
            if missing:
                raise RowError("null-key", f"primary key column {missing[0]!r} is null or missing")
        observed[table] = merged
        for name, value in reasons_of(change, known, merged, inference).items():
            self._progress.widening.setdefault((table, name), value)
        return True


class LookAhead:
    """The splits that have stopped at a drift, and what the task still looks for in them."""

    def __init__(self, observer: SchemaObserver, limit: RejectLimit, look_ahead: int, progress: TaskProgress) -> None:
        """`look_ahead`: how many records may bring nothing new."""
        self.stopped: set[Split] = set()
        self._observer = observer
        self._limit = limit
        self._look_ahead = look_ahead
        self._progress = progress
        self._looked = 0
        """Records since the last one that brought something new."""
        self._last_news = 0.0
        self._until = 0.0

    def stop(self, split: Split, message: Record, changes: Sequence[Change]) -> RecordReject | None:
        """Stop a split at a message that does not fit.

        Returns the reject, and does not stop the split for a drift, if no schema takes the message.
        """
        seen = self._observer.see(changes)
        if isinstance(seen, Reject):
            stage = stage_of(seen)
            return RecordReject(message, stage, seen, passed=self._limit.allows(stage, seen))
        if not self.stopped:
            self._until = time.monotonic() + LOOK_S
        self.stopped.add(split)
        self._progress.drifted = True
        self._looked, self._last_news = 0, time.monotonic()
        return None

    def look(self, changes: Sequence[Decoded]) -> None:
        """Observe what else is new in messages of a split that has stopped."""
        for decoded in changes:
            if not isinstance(decoded, (Change, list)):
                continue
            self._looked += 1
            if self._looked > self._look_ahead:
                return
            seen = self._observer.see(decoded if isinstance(decoded, list) else [decoded])
            if isinstance(seen, Reject):
                continue  # it will be a reject when its turn comes
            if seen:
                self._looked, self._last_news = 0, time.monotonic()
            if self._looked % 100 == 0 and time.monotonic() > self._until:
                return

    def ended(self, now: float) -> bool:
        """Return whether a split has stopped, and looking ahead has brought all that it will."""
        if not self.stopped:
            return False
        return self._looked >= self._look_ahead or now - self._last_news > QUIET_S or now > self._until
