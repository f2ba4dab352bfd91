"""Main street: plan, run, merge, commit, evolve, store, again.

The driver owns the batches and Spark runs them; docs/adr says why. Each stage is one line here and one object of its
own, which `run.py` puts together. Out: nothing but what the stages leave: records in the sink, progress in the
checkpoint, events at the observer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ingest.driver.batch_checks import BatchChecks
    from ingest.driver.context import LivenessFile
    from ingest.driver.dispatcher import Dispatcher, SchemaBroadcast
    from ingest.driver.ledger import Ledger
    from ingest.driver.pacing import Pacing
    from ingest.driver.planner import Planner, SplitWatch
    from ingest.driver.reports import Reports
    from ingest.driver.schemas import SchemaStore


@dataclass(frozen=True, slots=True)
class Driver:
    """One run, from its first batch on."""

    planner: Planner
    dispatcher: Dispatcher
    ledger: Ledger
    schemas: SchemaStore
    broadcast: SchemaBroadcast
    checks: BatchChecks
    splits: SplitWatch
    pacing: Pacing
    reports: Reports
    liveness: LivenessFile

    def run(self) -> None:
        """Run batches until the source is drained, it is asked to stop, or one fails; raises IngestError."""
        try:
            self.reports.run_started()
            self.ledger.settle()  # what was due when a run was killed
            while (batch := self.planner.next_batch()) is not None:  # plan: stored before any task starts
                results = self.dispatcher.run(batch)  # run: a task for each shard; what fails in it is a value
                self.liveness.touch()
                merged = self.ledger.merge(batch, results)  # merge: positions reached, counters, observed schemas
                self.ledger.commit(results)  # commit: where the driver does that, not the tasks
                self.ledger.settle()  # settle: rows that the source does not have any more leave the sink
                news = merged.observed, merged.widening
                evolution = self.schemas.evolve(*news)  # evolve: the sink's tables first, then the store
                self.schemas.comment(self.ledger.comments())
                self.broadcast.add(evolution)
                self.ledger.store(self.splits.waiting, self.splits.standing)  # store: progress, behind its schemas
                self.reports.batch_done(batch, results, self.pacing.learn(results))
                if self.checks.passed(merged, results, evolved=evolution is not None):
                    self.splits.show()
            self.ledger.keep(self.splits.waiting, self.splits.standing)
            self.splits.look_past_targets()
        finally:
            self.reports.run_ended()
