"""Rows that leave the sink's tables behind a batch: some were emptied at the source, of some all rows were read again.

A table of a database that is read again replaces what the sink has: rows whose keys the database does not have are
deleted, in one commit, when all of its rows have been read. Other commands ask the run for that by requests in its
checkpoint: what is taken is stored before it is answered, so that a run that is killed goes on with it, and one that is
killed before takes it again. Rule: docs/spec/mysql.md#rows-that-are-read-again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, TypeAlias

from ingest.checkpoint.backfills import Answer, BackfillRequest, answer, asked
from ingest.driver.sink_tables import SinkTables, filled_places
from ingest.errors import ConfigError, Unavailable
from ingest.model.commit import release
from ingest.model.reject import RowError
from ingest.model.table import TableId, show
from ingest.schema.routes import rule_of

if TYPE_CHECKING:
    from ingest.checkpoint.checkpoint import Checkpoint
    from ingest.driver.context import RunContext
    from ingest.driver.run_parts import RunParts
    from ingest.driver.schemas import SchemaStore
    from ingest.driver.source_state import SourceMemory
    from ingest.encode.upsert_encoder import Record, TableEncoder
    from ingest.model.change import Change

    TableKeys: TypeAlias = tuple[TableId, Iterator[list[Change]]]

_SHOWN: Final = 20
"""Tables that an error names."""
MOST_KEYS: Final = 10_000_000
"""Keys of a sink table that are compared: the driver has them in memory, 80 to 350 bytes each by what the sink is."""
_STAY: Final = "the sink keeps rows that are gone"


class TableReplacement:
    """The rows that leave the sink's tables between two batches."""

    def __init__(
        self,
        context: RunContext,
        parts: RunParts,
        memory: SourceMemory,
        tables: SinkTables,
        schemas: SchemaStore,
        checkpoint: Checkpoint,
    ) -> None:
        self._checkpoint = checkpoint
        self._context = context
        self._parts = parts
        self._memory = memory
        self._tables = tables
        self._schemas = schemas

    @property
    def possible(self) -> bool:
        """True if the source is a database, whose rows can be read again."""
        return self._memory.has_state

    def begin(self, names: Sequence[str]) -> list[TableId]:
        """Start a backfill of tables, and return them. Raise ConfigError where the sink would keep duplicates.

        `names`: ids of source tables, as people write them; none: all of them. A table whose rows cannot be told from
        others by their keys is emptied before, when it is stored that they are read. Raise IngestError.
        """
        sink, sources = self._parts.endpoints.sink, self._schemas.schemas.sources
        chosen = chosen_tables(names, sources, self._context.settings.checkpoint) if names else None
        if not sink.capabilities.supersedes:
            targets = {target for table in chosen or sources for target in sources[table].targets}
            filled = sorted(filled_places(self._parts.sink, targets) or ())
            if filled:
                msg = f"{filled[0]} has rows, and keeps all that come: those that are read again would be there twice"
                raise ConfigError(msg, "empty it first, or route the table to a new one")
        tables = self._memory.read_again(chosen)
        for table in tables:
            if sink.capabilities.supersedes and self._is_changed(table) and not self._schemas.beside(table):
                self._memory.empty_first(table)
                self._memory.have_replaced(table)
        return tables

    def _is_changed(self, table: TableId) -> bool:
        """Return whether a transform changes a table's rows: then keys do not say which of them the sink has."""
        return rule_of(self._parts.rules.rules.transforms, table) is not None

    def carry_out(self) -> None:
        """Empty sink tables that the source has emptied, and delete stale rows of tables that were read again.

        Each was due after the last row that was written. A crash may repeat it. Raise IngestError.
        """
        for table, why in self._schemas.empty(self._memory.emptied()).items():
            self._memory.mark(table, why)
        for table in self._memory.replaced():
            source = self._schemas.schemas.sources.get(table)
            targets = () if source is None or not self._parts.endpoints.sink.capabilities.supersedes else source.targets
            done = [self._replace(table, target) for target in targets]
            if all(done):
                self._memory.have_replaced(table)

    def _replace(self, table: TableId, target: TableId) -> bool:
        """Delete rows of a sink table that none of its source tables has. Return False if that has to wait."""
        known = self._schemas.schemas
        sources = sorted(name for name, source_table in known.sources.items() if target in source_table.targets)
        changed = [name for name in sources if self._is_changed(name)]
        if changed:
            self._tell(table, target, f"a transform changes rows of {show(changed[0])}")
            return True
        rows: list[TableKeys] = []
        for name in sources:
            keys = self._memory.keys(name, known.sinks[target].primary_key)
            if not isinstance(keys, str):
                rows.append((name, keys))
                continue
            _close(rows)
            if keys:
                self._tell(table, target, keys)
            return bool(keys)
        try:
            count = self._tables.keep_only(target, known.sinks[target], self._encoded(target, rows))
        except RowError as exc:
            self._tell(table, target, str(exc))
            return True
        finally:
            _close(rows)
        if count is None:
            self._tell(table, target, _STAY)
        else:
            gone = f"{count} rows that the source does not have are deleted from {show(target)}" if count else ""
            self._context.warn(f"all rows of table {show(table)} were read again{'; ' if gone else ''}{gone}")
        return True

    def _tell(self, table: TableId, target: TableId, why: str) -> None:
        self._context.warn(f"table {show(table)} was read again; rows that it lacks stay in {show(target)}: {why}")

    def _encoded(self, target: TableId, rows: Iterable[TableKeys]) -> Iterator[list[bytes]]:
        """Yield groups of keys as the sink's encoder writes them, without keys that it refuses.

        Raise RowError where it refuses all or there are too many, and CheckpointError where a newer run has taken over.
        """
        all_keys = 0
        for name, groups in rows:
            encoder, count, accepted = self._encoder(name, target), 0, 0
            for changes in groups:
                all_keys += len(changes)
                if all_keys > MOST_KEYS:
                    msg = f"there are more than {MOST_KEYS:,} keys, which is too much for the driver's memory"
                    raise RowError("no-key", f"{msg}; `ingest verify FILE` shows such rows")
                encoded: list[Record] = []
                for change in changes:
                    try:
                        encoder.delete(change, encoded.append)
                    except RowError:
                        continue
                self._context.liveness.touch()
                count, accepted = count + len(changes), accepted + len(encoded)
                yield [record.key for record in encoded if record.key is not None]
            if count and not accepted:
                raise RowError("no-key", "the sink takes none of its keys")  # so that nobody knows whose its rows are
        self._checkpoint.refuse_newer_run()  # what is deleted now is not there again by then

    def _encoder(self, table: TableId, target: TableId) -> TableEncoder:
        known, parts = self._schemas.schemas, self._parts
        return parts.endpoints.sink.encoder(
            table, known.sources[table], target, known.sinks[target], parts.rules.inference
        )


def chosen_tables(names: Sequence[str], sources: Iterable[TableId], where: str) -> tuple[TableId, ...]:
    """Return the source tables of these names. Raise ConfigError for one that the checkpoint does not know.

    `where`: the checkpoint, for people.
    """
    known = {show(table): table for table in sorted(sources)}
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, 1)
            more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
            known_names = ", ".join([*known][:_SHOWN]) or "none"
            msg = f"the checkpoint {where} knows no source table {name!r}; it knows {known_names}{more}"
            raise ConfigError(
                msg, f"did you mean {near[0]}?" if near else "give the id that the table has at the source"
            )
    return tuple(sorted({known[name] for name in names}))


def _close(rows: Iterable[TableKeys]) -> None:
    for _, groups in rows:
        if isinstance(groups, Generator):
            release(groups)


LOOK_S: Final = 1.0
"""The time between two looks, in seconds."""
REMOTE_S: Final = 5.0
"""The same where the checkpoint is on another file system, in which each look is a question."""
_NAMED: Final = 5


class BackfillRequests:
    """Backfill requests of other commands to a run."""

    def __init__(
        self, context: RunContext, checkpoint: Checkpoint, replacement: TableReplacement, store: Callable[[], None]
    ) -> None:
        """`store`: stores the source's state with the progress."""
        self._context = context
        self._checkpoint = checkpoint
        self._replacement = replacement
        self._store = store
        self._every = REMOTE_S if checkpoint.storage.lock is None else LOOK_S
        self._looked: float | None = None

    def look(self) -> None:
        """Apply pending backfill requests, between two batches. Raise IngestError."""
        now = self._context.clock.now()
        if not self._replacement.possible or (self._looked is not None and now - self._looked < self._every):
            return
        self._looked = now
        for name, request in asked(self._checkpoint.storage):
            self._take(name, request)

    def _take(self, name: str, request: BackfillRequest) -> None:
        storage, run = self._checkpoint.storage, self._checkpoint.run
        try:
            tables = self._replacement.begin(request.tables)
        except ConfigError as exc:
            self._context.warn(f"ingest backfill of {_some(request.tables)} is refused: {exc.message}")
            answer(storage, name, Answer(run, refused=exc.message, hint=exc.hint or ""))
            return
        except Unavailable:
            return  # it is taken when the side that is away is back
        self._store()
        self._replacement.carry_out()  # what of them is emptied first
        shown = [*map(show, tables)]
        self._context.warn(f"ingest backfill: rows of {_some(shown)} are read again beside the log")
        answer(storage, name, Answer(run, shown))


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return (", ".join(names[:_NAMED]) or "all tables") + more
