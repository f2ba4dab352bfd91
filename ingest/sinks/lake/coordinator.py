"""The driver's side that the sinks in tables of a lake share: which tables rows need, and the commits of a batch.

Each lake adds how its tables are looked up, made and changed, and how files become rows of a table.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic

import pyarrow as pa

from ingest.errors import ConfigError, IngestError, SchemaChangeRefused
from ingest.model import types
from ingest.model.commit import OLDER
from ingest.model.numbers import stored_as
from ingest.model.probe import ConnectProbe
from ingest.model.reject import RowError
from ingest.model.schema import NO_ORDER, Misfit, TableComments, TableSchema
from ingest.model.table import PLAIN, TableId, TableLayout, show
from ingest.sinks import SinkCoordinator
from ingest.sinks.lake.changes import Changes, ExistingColumn, LakeChangeError, statements
from ingest.sinks.lake.files import AddedFile, Committed, Mark, TakenAway, marks_of, marks_to_json, warn_of_lost_rows
from ingest.sinks.lake.pending_rows import LastStates
from ingest.sinks.lake.superseded import rows_of_other_keys
from ingest.sinks.lake.table import LakeTable, TableName, TableT, Warehouse, has_order
from ingest.sinks.sink import no_sequence

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from ingest.model.types import DataType
    from ingest.sinks.lake.options import LakeOptions
    from ingest.sinks.lake.writer import LakeFiles

_REPLACED: Final = ".replaced"
"""The end of the scope of commits that delete rows, and belong to no batch."""
_AT_ONCE: Final = 8
"""Tables that are committed at the same time."""


def _start_over(_table: TableId | None) -> str:
    return "to have them, start over with another --checkpoint"


class LakeCoordinator(SinkCoordinator, Generic[TableT]):
    """The driver's side. Raises IngestError only."""

    kind: ClassVar[str]
    """The type of the sink."""

    def __init__(self, options: LakeOptions, pipeline: str, warn: Callable[[str], None]) -> None:
        self.schemas = self.tables = self.comments = self.batches = self
        self._appends = options.write_mode == "append"
        self.rows = None if self._appends or options.delete_strategy == "ignore" else self
        self.probe = ConnectProbe(lambda: type(self)(options, pipeline, lambda _: None))
        self._options = options
        self._warehouse: Warehouse[TableT] = options.warehouse
        self._pipeline = pipeline
        self._warn = warn
        self._checkpoint = ""
        self._marks: dict[TableName, Mark] = {}
        self._remedy: Callable[[TableId | None], str] = _start_over
        self._compared: set[TableName] = set()
        """Tables of which it was seen whether this pipeline has written to them with another checkpoint."""
        self._older: dict[str, list[str]] = {}
        """By checkpoint: those to which it has."""
        self.stored: dict[TableId, dict[str, DataType]] = {}
        """By table: what `declare` or `undeclared` has seen last of the types by which it keeps numbers."""
        self._places: dict[TableName, TableId] = {}
        self._told: set[tuple[TableName, str, str]] = set()
        """Tables and columns of which it was said what became of values."""
        self._layouts: dict[TableId, TableLayout] = {}
        self._unordered: set[TableId] = set()
        """Tables of which it was said that they lack the column by which changes are newer."""
        self._neglected: set[TableName] = set()
        """Tables of which it was said that their upkeep is not done."""

    def fingerprint(self, identity: str) -> dict[str, Any]:
        """Return what a checkpoint of this sink depends on."""
        return {"type": self.kind, "warehouse": identity}

    def close(self) -> None:
        """Release connections."""
        self._warehouse.close()

    def _find(self, name: TableName) -> TableT | None:
        """Return a table as it is now; None where it is not there. Raise what the library raises."""
        return self._warehouse.find(name)

    def _load(self, name: TableName) -> TableT:
        """Return a table that is there, having compared it with its mark. Raise what the library raises."""
        return self._compare(name, self._warehouse.load(name))

    @abstractmethod
    def _has_rows(self, existing: TableT) -> bool:
        """Return whether a table that is there has rows. Raise what the library raises."""

    @abstractmethod
    def _make(self, wanted: LakeTable) -> TableT | None:
        """Make a table; returns None where another run has made it meanwhile. Raise what the library raises."""

    @abstractmethod
    def _changed(self, name: TableName, existing: TableT) -> None:
        """Take note of a table that this run has made or changed. Raise what the library raises."""

    @abstractmethod
    def _changes(self, wanted: LakeTable, existing: TableT) -> Changes:
        """Return the changes after which a table takes rows. Raise LakeChangeError where none will do."""

    @abstractmethod
    def _columns(self, existing: TableT) -> Mapping[str, ExistingColumn]:
        """Return the columns of a table that is there, by their names."""

    @abstractmethod
    def _has_beyond(self, existing: TableT, name: str) -> bool:
        """Return whether a column is BIGINT in a table and holds an integer beyond ±2^53.

        Raise what the library raises.
        """

    @abstractmethod
    def _apply(self, existing: TableT, wanted: LakeTable, found: Changes) -> None:
        """Change a table. Raise LakeChangeError where that cannot be, and what the library raises."""

    @abstractmethod
    def _commit(self, name: TableName, files: list[AddedFile], scope: str, batch: int) -> Committed:
        """Commit the files of a batch to a table, where that is not done yet. Raise what the library raises."""

    @abstractmethod
    def _compact(self, name: TableName) -> str:
        """Do the upkeep of a table; returns why a part is not done. Raise what the library raises."""

    def _add(self, name: TableName, files: list[AddedFile], scope: str, batch: int) -> int:
        """Commit the files of a batch to a table, where that is not done yet, and mark it. Raise IngestError.

        Returns how many rows were left out, as they are older than their row in the table.
        """
        with self._warehouse.asking(f"commit rows of the table {show(name)}"):
            done = self._commit(name, files, scope, batch)
            before, own = self._marks.get(name), scope == self._checkpoint
            # The batches of a replay have numbers of their own
            newest = batch if own else 0 if before is None else before.batch
            self._marks[name] = self._mark(name, done.state, newest)
            if done.due:
                self._keep_up(name)
                existing = self._load(name)  # compared with that mark: upkeep takes long, and others may roll back
                self._changed(name, existing)
                self._marks[name] = self._mark(name, existing, self._marks[name].batch)
        return done.older

    def _keep_up(self, name: TableName) -> None:
        """Do the upkeep of a table. What fails is said once: the batch is in the table."""
        try:
            with self._warehouse.asking("compact it"):
                why = self._compact(name)
        except IngestError as exc:
            why = exc.message
        if why and name not in self._neglected:
            self._neglected.add(name)
            self._warn(f"table {show(name)}: {why} (said once)")

    @abstractmethod
    def _mark(self, name: TableName, existing: TableT, batch: int) -> Mark:
        """Return a mark that a table in its present state has the rows up to this batch."""

    @abstractmethod
    def _taken_away(self, name: TableName, existing: TableT, mark: Mark) -> TakenAway | None:
        """Return what somebody has taken away of this checkpoint's rows since a mark; None where nothing is gone."""

    @abstractmethod
    def _older_progress(self, existing: TableT) -> str | None:
        """Return another checkpoint with which this pipeline has written to a table; None where there is none.

        Empty where its name is not known.
        """

    def resume(self, checkpoint: str, marks: list[Any], remedy: Callable[[TableId | None], str]) -> None:
        """Take what the checkpoint knows of the tables; `remedy` says what reads rows of a sink table again."""
        self._checkpoint, self._marks, self._remedy = checkpoint, marks_of(marks), remedy

    def marks(self) -> list[Any]:
        """Return the marks of all tables for the checkpoint, as JSON values."""
        return marks_to_json(self._marks)

    def _compare(self, name: TableName, existing: TableT) -> TableT:
        """Say once what somebody has taken away of a table's rows; returns the table. Raise what the library raises."""
        mark = self._marks.get(name)
        found = None if mark is None else self._taken_away(name, existing, mark)
        if found is not None:
            warn_of_lost_rows(self._warn, name, found, self._remedy(self._places.get(name)))
            self._marks[name] = self._mark(name, existing, found.newest)
        return existing

    def _meet(self, name: TableName, existing: TableT) -> None:
        """See what others have done to a table that is there, and whether an older checkpoint has written to it."""
        self._compare(name, existing)
        if name not in self._compared:
            self._compared.add(name)
            known = name in self._marks or not self._checkpoint
            found = None if known else self._older_progress(existing)
            if found is not None:
                self._older.setdefault(found, []).append(show(name))

    def _tell_older(self) -> None:
        """Say of which tables it was seen that an older checkpoint has written to them."""
        older, self._older = self._older, {}
        for checkpoint, names in older.items():
            where = f"checkpoint {checkpoint}, " if checkpoint else ""
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            twice = "; with sink.write-mode: append such rows are there twice then" if self._appends else ""
            self._warn(
                f"older progress of this pipeline was found at the sink ({where}table {names[0]}{more}), of which this "
                f"checkpoint knows nothing: all that it begins with is written, whether it was before or not{twice}"
            )

    def arrange(self, layouts: Mapping[TableId, TableLayout]) -> None:
        """Take the layouts of tables that may have to be made."""
        self._layouts.update(layouts)

    def unfit(self, table: TableId, schema: TableSchema) -> Mapping[str, Misfit]:
        """Return the columns that no change makes its table take, each with the reason. Raise IngestError."""
        try:
            wanted = self._options.table_for(table, schema)
        except RowError:
            return {}  # its rows are rejects, in the task
        if self._warehouse.is_new or not wanted.has_key:
            return {}
        with self._warehouse.asking(f"look the table {wanted} up"):
            existing = self._find(wanted.id)
            if existing is None:
                return {}
            ordered = self._ordered(wanted, existing)
            if not self._fault(wanted, existing):
                return ordered
            of_key = tuple(one for one in wanted.columns if one.name in wanted.key)
            if self._fault(replace(wanted, columns=of_key), existing):
                return {}  # it takes no row, and `declare` says so
            tried = [(one.name, replace(wanted, columns=(*of_key, one))) for one in wanted.columns]
            kinds = self._columns(existing)
            faults = {name: why for name, part in tried if (why := self._fault(part, existing))}
            found = {name: Misfit(why, kinds[name].type if name in kinds else None) for name, why in faults.items()}
            return ordered | found

    def _ordered(self, wanted: LakeTable, existing: TableT) -> dict[str, Misfit]:
        """Return the sequence column as a misfit, where it is a text in rows and has another type in the table."""
        name, known = wanted.sequence, self._columns(existing)
        kind = known[name].type if name is not None and name in known else None
        of_texts = any(one.name == name and types.is_text(one.type) for one in wanted.columns)
        if name is None or kind is None or types.is_text(kind) or not of_texts:
            return {}
        return {name: Misfit(NO_ORDER, kind)}

    def beyond(self, table: TableId, schema: TableSchema, names: Sequence[str]) -> set[str]:
        """Return those of the columns that its table has as BIGINT and that hold an integer beyond ±2^53.

        Raise IngestError.
        """
        try:
            wanted = self._options.table_for(table, schema)
        except RowError:
            return set()  # its rows are rejects, in the task
        if self._warehouse.is_new:
            return set()
        with self._warehouse.asking(f"look for integers beyond 2^53 in the table {wanted}"):
            existing = self._find(wanted.id)
            return set() if existing is None else {name for name in names if self._has_beyond(existing, name)}

    def _changes_of(self, table: TableId, wanted: LakeTable, existing: TableT) -> Changes:
        """Return what `_changes` returns, but no BIGINT becomes DOUBLE whose values would lose digits by it.

        Note by which types the table keeps numbers then.
        """
        found = self._changes(wanted, existing)
        for name in [name for name, kind in found.rewritten.items() if kind == types.DOUBLE]:
            if self._has_beyond(existing, name):
                found.rewritten[name] = types.STRING
        kinds = {name: one.type for name, one in self._columns(existing).items()} | found.widened | found.rewritten
        kept = {one.name: stored_as(one.type, kinds.get(one.name)) for one in wanted.columns}
        self.stored[table] = {name: kind for name, kind in kept.items() if kind is not None}
        return found

    def _fault(self, wanted: LakeTable, existing: TableT) -> str:
        """Return why a table that is there cannot take rows; nothing where it can."""
        try:
            self._changes(wanted, existing)
        except LakeChangeError as exc:
            return str(exc)
        return ""

    def declare(self, schemas: Mapping[TableId, TableSchema]) -> None:
        """Make and widen the tables, before their rows are written. Raise SchemaChangeRefused for what cannot be."""
        for table, wanted in self._wanted(schemas):
            with self._warehouse.asking(f"change the table {wanted}"), _refusing(table, wanted):
                existing = self._find(wanted.id)
                if existing is None:
                    self.stored.pop(table, None)
                    if (made := self._make(wanted)) is not None:
                        self._changed(wanted.id, made)
                    self._marks.pop(wanted.id, None)
                    self._compared.add(wanted.id)
                    continue
                self._meet(wanted.id, existing)
                if found := self._changes_of(table, wanted, existing):
                    self._apply(existing, wanted, found)
                    self._changed(wanted.id, existing)
        self._tell_older()

    @abstractmethod
    def _comment(self, existing: TableT, comments: TableComments) -> None:
        """Let a table have comments where it has others; all columns are there. Raise what the library raises."""

    def comment(self, table: TableId, schema: TableSchema, comments: TableComments) -> None:
        """Let a table and its columns have comments. Raise IngestError."""
        for _, wanted in () if self._warehouse.is_new else self._wanted({table: schema}):
            with self._warehouse.asking(f"comment the table {wanted}"):
                existing = self._find(wanted.id)
                if existing is not None:
                    columns = {one: text for one, text in comments.columns.items() if one in self._columns(existing)}
                    self._comment(existing, replace(comments, columns=columns))
                    self._changed(wanted.id, existing)

    def empty(self, table: TableId) -> bool:
        """Delete all rows of a table, unless it keeps those that are gone. Raise IngestError."""
        if not self._options.removes_rows:
            return False
        name = self._options.name_of(table)
        if self._warehouse.is_new:
            return True
        with self._warehouse.asking(f"empty the table {show(name)}"):
            existing, known = self._warehouse.find(name), self._marks.get(name)
            if existing is not None and self._has_rows(existing):
                existing = self._load(name)
                existing.delete()
                self._changed(name, existing)
                self._marks[name] = self._mark(name, existing, 0 if known is None else known.batch)
        return True

    @abstractmethod
    def _files(self) -> LakeFiles[TableT]:
        """Return what writes files of tables, as a task does."""

    @abstractmethod
    def _read(self, name: TableName, columns: Sequence[str]) -> pa.Table:
        """Return these columns of all rows of a table that is there. Raise what the library raises."""

    def keep_only(self, table: TableId, schema: TableSchema, keys: Iterator[Sequence[bytes]]) -> int:
        """Delete all rows of a table but those of these keys, or mark them as deleted; returns how many."""
        try:
            wanted = self._options.table_for(table, schema)
        except RowError:
            return 0  # its rows are rejects, in the task
        if self._warehouse.is_new:
            return 0
        with self._warehouse.asking(f"delete other rows of the table {wanted}"):
            if self._warehouse.find(wanted.id) is None:
                return 0
            files = self._files()
            columns, _ = files.columns_of(wanted)
            of_key = [one for one in columns if one.name in wanted.key]
            marks = [] if wanted.deleted is None else [wanted.deleted]
            existing = self._read(wanted.id, [*(one.name for one in of_key), *marks])
            others = rows_of_other_keys(of_key, wanted.key, existing, keys, wanted.deleted)
            if not others.num_rows:
                return 0
            states = LastStates(others, pa.repeat(pa.scalar(True), others.num_rows), {})
            # A row that is gone is older than none: what orders changes says nothing of it
            made = [one._replace(sequence=None) for one in files.write(wanted, states)]
            self._add(wanted.id, made, f"{self._checkpoint}{_REPLACED}", 0)
        return int(others.num_rows)

    def filled(self, tables: Iterable[TableId]) -> set[str]:
        """Return the tables that are there and have rows. Raise IngestError."""
        names = set(map(self._options.name_of, tables))
        if not names or self._warehouse.is_new:
            return set()
        with self._warehouse.asking("look tables up"):
            found = {name: self._warehouse.find(name) for name in names}
            return {
                f"table {show(name)}"
                for name, existing in found.items()
                if existing is not None and self._has_rows(existing)
            }

    def vanished(self, tables: Iterable[TableId]) -> set[str]:
        """Return the tables that are not there. Raise IngestError."""
        names = set(map(self._options.name_of, tables))
        if not names or self._warehouse.is_new:
            return {f"table {show(name)}" for name in names}
        with self._warehouse.asking("look tables up"):
            return {f"table {show(name)}" for name in names if self._warehouse.find(name) is None}

    def undeclared(self, schemas: Mapping[TableId, TableSchema]) -> set[str]:
        """Return the changes that `declare` would make, as statements. Raise what it would raise."""
        out: set[str] = set()
        for table, wanted in self._wanted(schemas):
            if self._warehouse.is_new:
                out.update(statements(wanted, None))
                continue
            with self._warehouse.asking(f"look the table {wanted} up"), _refusing(table, wanted):
                existing = self._find(wanted.id)
                if existing is not None:
                    self._meet(wanted.id, existing)
                out.update(statements(wanted, None if existing is None else self._changes_of(table, wanted, existing)))
        self._tell_older()
        return out

    def _wanted(self, schemas: Mapping[TableId, TableSchema]) -> Iterator[tuple[TableId, LakeTable]]:
        """Yield the tables that rows need. Raise SchemaChangeRefused where two would be one."""
        for table, schema in schemas.items():
            try:
                wanted = self._options.table_for(table, schema)
            except RowError:
                continue  # its rows are rejects, in the task
            other = self._places.setdefault(wanted.id, table)
            if other != table:
                msg = f"the tables {show(other)} and {show(table)} would be one table there: {wanted}"
                raise SchemaChangeRefused(msg, "route one of them to another name")
            self._check_wanted(table, schema, wanted)
            if wanted.has_key:
                yield table, replace(wanted, layout=self._layouts.get(table, PLAIN))

    def _check_wanted(self, table: TableId, schema: TableSchema, wanted: LakeTable) -> None:
        """Say that a table lacks the column of `sink.sequence-by`. Raise SchemaChangeRefused for one of no order."""
        by = self._options.sequence_by
        kind = next((one.type for one in schema.columns if one.name == by and one.type != types.NULL), None)
        if by is None or by in wanted.key:
            return
        if kind is None and table not in self._unordered:
            self._unordered.add(table)
            self._warn(no_sequence(table, by))
        if kind is not None and not has_order(kind):
            msg = f"the column {by!r} of the table {show(table)} is {types.name(kind)}, by which no change is newer"
            raise SchemaChangeRefused(f"{msg} than another one (sink.sequence-by)", "name another column")

    def additions(self, delivered: Sequence[Any]) -> list[Any] | None:
        """Return the files that tasks wrote; None where there are none."""
        for one in delivered:
            self._tell(one.table, one.cut, "times were cut to microseconds, which is as fine as a lake's columns are")
            self._tell(one.table, one.emptied, "empty texts are null there, as the column makes partitions")
        return [one.to_json() for one in delivered] or None

    def _tell(self, table: TableName, counts: Iterable[tuple[str, int]], text: str) -> None:
        """Say once for each column that values are not what rows had."""
        for column, count in counts:
            if (table, column, text) not in self._told:
                self._told.add((table, column, text))
                self._warn(f"table {show(table)}: {count} {text} (column {column}; said once)")

    def add(self, scope: str, batch: int, additions: list[Any]) -> Mapping[str, int]:
        """Commit a batch's files to their tables, where that is not done yet. Raise IngestError."""
        self._checkpoint = self._checkpoint or scope.partition(".")[0]
        by_table: dict[TableName, list[AddedFile]] = {}
        for one in map(AddedFile.from_json, additions):
            by_table.setdefault(one.table, []).append(one)
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            jobs = [threads.submit(self._add, *entry, scope, batch) for entry in by_table.items()]
            older = sum(job.result() for job in jobs)
        return {OLDER: older} if older else {}


@contextmanager
def _refusing(table: TableId, wanted: LakeTable) -> Generator[None]:
    """Let a change that cannot be stop the run."""
    try:
        yield
    except LakeChangeError as exc:
        msg = f"the table {wanted} cannot take rows of {show(table)}: {exc}"
        raise SchemaChangeRefused(msg, "change it there, or route the rows to another table") from None


def check_folder(folder: Path, option: str) -> None:
    """Raise ConfigError where a directory cannot be made or written to. Makes nothing. `option`: it names it."""
    existing = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    if not (existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)):
        msg = f"cannot write to the warehouse {folder} ({option}): {existing} cannot be written to"
        raise ConfigError(msg, "choose a directory that can be written to")
