"""What a run knows of the log so far: its state, and what statements and rows that tasks have met do to tables.

In: notes of tasks about the log. Out: the state (`state.py`) and the history of schemas (`history.py`), tables that are
emptied, marked or read again. The coordinator decides what is read, and asks the server by this connection.
Rules: docs/spec/mysql.md#statements, docs/spec/mysql.md#schemas.
"""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from hashlib import blake2s
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
import pymysql

from ingest.errors import CheckpointError, IngestError
from ingest.model.table import show, table_in
from ingest.sources.mysql import catalogue
from ingest.sources.mysql.cascades import (
    LOOK_S,
    PAUSE_S,
    changed_since,
    moment,
    note_parents,
    unknown_parents,
    unseen_parent,
)
from ingest.sources.mysql.connection import connect, explain
from ingest.sources.mysql.ddl import statement_text
from ingest.sources.mysql.effects import Consequence, Effect, Remedy, RowPolicy, consequences, refuse, warning
from ingest.sources.mysql.gtids import GtidSet
from ingest.sources.mysql.history import History, SchemaEntry, from_document, to_document
from ingest.sources.mysql.lanes import Lanes
from ingest.sources.mysql.log_search import LogSearch, LogStatus, identity, log_listing, log_status
from ingest.sources.mysql.start_positions import passed_over
from ingest.sources.mysql.state import LogNote, State, StatementNote
from ingest.sources.mysql.statements import StatementHistory, compare, note_applied, note_asked, note_passed, note_used
from ingest.sources.stateful import SinkHabits, SourceState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ingest.sources.mysql.connection import Connection
    from ingest.sources.mysql.events import Query
    from ingest.sources.mysql.log_model import ServerIdentity
    from ingest.sources.mysql.options import MySqlSource
    from ingest.sources.mysql.tokens import ServerRules
    from ingest.sources.mysql.types import Table, TableName

_T = TypeVar("_T")
LAST: Final = 1 << 63
"""Above every position."""
MOST_DOCUMENTS: Final = 64
"""Documents that have the history of schemas, at most: each plan names them."""


class LogHistory:
    """The state of a run, as the log makes it, and the connection by which the server is asked. Raises IngestError."""

    def __init__(self, options: MySqlSource, warn: Callable[[str], None]) -> None:
        self._options = options
        self._warn = warn
        self._with_invalid: set[str] = set()
        """Columns of which was said that texts have bytes that are no characters."""
        self.server = options.server
        self.search = LogSearch(self.server)
        self._connection: Connection | None = None
        self._statements: StatementHistory | None = None
        self.state: State | None = None
        self.history = History()
        self.lanes = Lanes(options)
        self.documents: dict[str, Any] = {}
        self.new: list[SchemaEntry] = []
        """Entries whose schemas were not passed on yet."""
        self.commented: dict[TableName, SchemaEntry] = {}
        """Those whose comments were not passed on yet."""
        self.answers: dict[str, Any] = {}
        """Documents with answers to statements that are not understood."""
        self.sink = SinkHabits()
        self._unseen: set[TableName] = set()
        """Tables that others refer to, and that this user may not see."""
        self.clock: Callable[[], float] = time.time

    def ask(self, what: str, question: Callable[[Connection], _T]) -> _T:
        """Return what a question gives; where the connection is gone, it is made again, once. Raise IngestError."""
        connection = self._connection
        was_open = connection is not None and connection.open
        if connection is None or not was_open:
            connection = self._connection = connect(self.server)
        try:
            return question(connection)
        except pymysql.MySQLError as exc:
            self._connection = None
            connection.close()
            if not was_open:  # a new connection does not fail for being old
                raise explain(exc, what, self.server) from exc
        return self.ask(what, question)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = None

    def rules(self) -> ServerRules:
        """Return what of the server decides how it reads statements."""
        return self.ask("ask for its version", catalogue.server)

    def identity(self) -> ServerIdentity:
        """Return who the server is."""
        return self.ask("ask who it is", identity)

    def status(self) -> LogStatus:
        """Return where the log ends."""
        return self.ask("ask for the log's position", log_status)

    def listing(self) -> list[tuple[str, int]]:
        """Return the log's files, with their sizes."""
        return self.ask("list its log files", log_listing)

    def end(self) -> int:
        """Return the position of the log's end."""
        return self.see(self.status())

    @property
    def now(self) -> State:
        """The state, once it is known where the log is read."""
        assert self.state is not None
        return self.state

    def restore(self, stored: SourceState) -> None:
        """Take over a state of the checkpoint. Raise CheckpointError."""
        try:
            self.state = State.from_json(stored.value)
            self.documents = {name: stored.documents[name] for name in self.state.documents}
            entries = [entry for name in self.state.documents for entry in from_document(self.documents[name])]
        except (LookupError, TypeError, ValueError, msgspec.ValidationError) as exc:
            msg = f"the checkpoint's state of the database cannot be read: {type(exc).__name__}: {exc}"
            raise CheckpointError(msg, "restore it, or start over with another --checkpoint") from exc
        self.answers = dict(stored.documents)
        self.history = History(tuple(entries), frozenset(self.state.answers))
        self.new = list(self.history.newest())
        self.commented = {entry.name: entry for entry in self.new if entry.read}

    def learn(self, note: LogNote) -> None:
        """Take into the state how far a task has read the log, and the statement that it met."""
        state = self.now
        if note.place.position >= state.place.position:
            state.inside = note.inside
        if note.place.position > state.place.position:
            state.place, state.files = note.place, state.files.pruned(note.place.position)
            state.read_time = note.time or state.read_time
            state.gtids = str(GtidSet.parse(state.gtids) | GtidSet.parse(note.gtids)) if state.gtids else note.gtids
            left = state.left_out
            if left is not None and GtidSet.parse(note.gtids).has(left.source, left.number):
                state.left_out = None
        for name, _, began in note.files:
            state.files = state.files.timed(name, began)
        for column in sorted(note.invalid.keys() - self._with_invalid):
            count = note.invalid[column]
            self._warn(
                f"{count} texts of column {column} have bytes that are no characters of its character set, for which "
                "U+FFFD stands (said once)"
            )
        self._with_invalid |= note.invalid.keys()
        note_used(state, note.used)
        note_parents(state, self.history, note.parents)
        statement = note.statement
        if statement is None or self.history.answered(statement.position):
            return
        note_passed(state)
        statements = self._with_statements()
        applied = self.ask(
            "ask for columns",
            lambda connection: statements.apply(
                self.history,
                statement,
                state.next_entry,
                connection,
                self.answers,
                state.used_answers,
                lambda: self._after(statement),
            ),
        )
        if self.sink.refuses:
            reads = partial(statements.reads, position=statement.position)
            refuse(self.history, applied.entries, applied.effect, statement.text, reads)
        state.used_answers += applied.answers
        note_asked(state, applied.asked)
        note_applied(state, [one for one in applied.entries if one.name not in applied.asked], statement.text)
        self._change(applied.entries, [statement.position])
        if applied.effect is not None:
            self._act(applied.effect, statement.position)
        if not self.sink.refuses:  # it stops right before such a statement
            self._look_ahead(statement)

    def _look_ahead(self, statement: StatementNote) -> None:
        """Apply the statements that follow one, as far as nothing has to be done when the log is read up to them."""
        state, statements = self.now, self._with_statements()
        file, _ = state.files.place(statement.position)
        over = passed_over(state.skip, self._options.gtid_excludes)
        written: set[TableName] = set()

        def notes() -> Iterator[StatementNote]:
            with suppress(IngestError):  # the task that reads this place says what is wrong there
                offset = statement.end - file.base
                for start, end, time, query in self.search.next_statements(file.name, offset, written, over):
                    if query.error or file.base + start >= state.files.end:
                        return
                    text = statement_text(query.text, query.charset)
                    yield StatementNote(file.base + start, file.base + end, query.database, text, query.sql_mode, time)

        found = statements.ahead(self.history, notes(), written, state.next_entry, self._policy())
        self._change([one for _, applied in found for one in applied.entries], [note.position for note, _ in found])
        for note, applied in found:
            note_applied(state, applied.entries, note.text)
            if applied.effect is not None:
                self._act(applied.effect, note.position)

    def _after(self, statement: StatementNote) -> Iterable[Query]:
        """Return the statements of the log behind one."""
        file, _ = self.now.files.place(statement.position)
        return (query for _, _, query in self.search.statements(file.name, statement.end - file.base))

    def compare(self, end: int) -> None:
        """Compare the tables that statements have changed with the server's, unless the log moves meanwhile."""
        differing = compare(self.now, self.history, self.ask, lambda: self.end() == end, self._warn)
        self._change(differing, [])

    def _change(self, entries: Sequence[SchemaEntry], answers: Sequence[int]) -> None:
        """Add entries of tables that were known before, and go on with those that are in snapshot."""
        before = {entry.name: self.history.at(entry.name, LAST) for entry in entries}
        self.add(entries, answers)
        for entry in entries:
            old = before[entry.name]
            if old is None or old.table is None or entry.table is None or not entry.read:
                continue
            if self.lanes.follow(self.now, entry.name, old.table, entry.table) and not self.sink.keyed:
                why = "its key changed while its rows were read: those that were read before come a second time"
                self.now.marked[shown(entry.name)] = why
                self._warn(f"{shown(entry.name)}: {why}")
        self.add_parents(entries[0].position if entries else 0)

    def add_tables(self, position: int, tables: Mapping[TableName, Table], *, read: bool) -> None:
        """Add tables to the history, as they are from a position on."""
        self.add(
            [
                SchemaEntry(number, position, name, table, read=read, booleans=self._options.booleans)
                for number, (name, table) in enumerate(sorted(tables.items()), self.now.next_entry)
            ],
            [],
        )

    def add_parents(self, position: int) -> None:
        """Add the tables to the history that are not read, and to which tables refer by foreign keys that change rows.

        Of one that nobody may see, each update counts as one of what others refer to.
        """
        while wanted := unknown_parents(self.history) - self._unseen:
            there = self.ask("ask for columns", partial(catalogue.tables, wanted=wanted, about=self.rules()))
            self.add_tables(position, there, read=False)
            for name in sorted(wanted - there.keys()):
                self._warn(unseen_parent(name))
            self._unseen |= wanted - there.keys()

    def follow_parents(self) -> None:
        """Let tables be read again whose rows have changed with those of others, or mark them."""
        state, now = self.now, self.clock()
        for dependent in changed_since(state, self.history):
            is_marked = shown(dependent.name) in state.marked
            if is_marked and now < dependent.after:
                continue
            remedy = self._policy().marks(self._count_of_rows(dependent.name))
            if remedy is Remedy.STAY:
                dependent.after = int(now) + LOOK_S
                why = dependent.why
            elif now < dependent.after:
                why = f"{dependent.why}; it is read again from {moment(dependent.after)} on"
            else:
                dependent.after = int(now) + PAUSE_S
                self._act_on(Consequence(dependent.name, remedy, dependent.why))
                continue
            if not is_marked:
                self._act_on(Consequence(dependent.name, Remedy.STAY, why))

    def _act(self, effect: Effect, position: int) -> None:
        """Do what the statement at a position means for the rows that the sink has."""
        made = consequences(
            effect,
            self._policy(),
            reads=partial(self._with_statements().reads, position=position),
            was_read=partial(self.history.was_read, position=position),
            rows=self._count_of_rows,
        )
        for one in made:
            self._act_on(one)

    def _policy(self) -> RowPolicy:
        truncate = self._options.truncate if self.sink.empties else "ignore"
        return RowPolicy(self.sink.keyed, truncate, self._options.resnapshot, self._options.resnapshot_rows)

    def _count_of_rows(self, name: TableName) -> int | None:
        return self.ask("count rows", lambda connection: catalogue.counts_of_rows(connection, [name]).get(name))

    def _act_on(self, consequence: Consequence) -> None:
        """Do what becomes of one table."""
        state = self.now
        if consequence.remedy is Remedy.DELETE:
            state.emptied.append(consequence.table)
            state.marked.pop(shown(consequence.table), None)  # what was wrong of its rows is gone with them
            if state.snapshot(consequence.table) is not None:
                self.lanes.restart(state, consequence.table)
        elif consequence.remedy in {Remedy.READ, Remedy.READ_AGAIN}:
            again = consequence.remedy is Remedy.READ_AGAIN
            self.begin([consequence.table], again=again)
            state.marked.pop(shown(consequence.table), None)
            self._warn(
                f"{shown(consequence.table)}: {consequence.why}; the table is read {'again ' * again}beside the log"
            )
        else:
            state.marked[shown(consequence.table)] = consequence.why
            self._warn(warning(consequence, keyed=self.sink.keyed))

    def _with_statements(self) -> StatementHistory:
        if self._statements is None:
            databases = self.ask("ask for databases", catalogue.databases)
            self._statements = StatementHistory(
                self.rules(), databases, self._options.reads, booleans=self._options.booleans, begins=self._begins
            )
        return self._statements

    def _begins(self, name: TableName) -> int:
        """Return from which position on the log of a table counts."""
        found = self.now.snapshot(name)
        return 0 if found is None else found.began

    def add(self, entries: Sequence[SchemaEntry], answers: Sequence[int]) -> None:
        """Add entries to the history, as a document of its own."""
        state, since = self.now, self.now.place.position
        self.history = self.history.with_entries(entries, answers, since=since)
        state.answers = sorted(self.history.answers)
        if entries:
            state.next_entry = entries[-1].id + 1
            self._keep(entries)
            new = [entry for entry in entries if entry.read and entry.table is not None]
            self.new += new
            self.commented |= {entry.name: entry for entry in new}
        if len(state.documents) > MOST_DOCUMENTS:
            self.replace_history(self.history.since(since, state.files.files[0].base))

    def _keep(self, entries: Sequence[SchemaEntry]) -> None:
        """Keep entries in a document more. A name has one content for ever, also where a crash loses the state."""
        document = to_document(entries)
        digest = blake2s(msgspec.json.encode(document), digest_size=6).hexdigest()
        name = f"history-{entries[0].id}-{digest}"
        if name not in self.documents:
            self.now.documents.append(name)
            self.documents[name] = document

    def replace_history(self, history: History) -> None:
        """Go on with another history, in one document."""
        self.history, self.now.documents, self.documents = history, [], {}
        self.now.answers = sorted(history.answers)
        if history.entries:
            self._keep(history.entries)

    def begin(self, names: Sequence[TableName], *, again: bool = False, at: int = 0) -> None:
        """Let the rows of tables be read. `at`: where the log ended when they were taken in."""
        rows = self.ask("count rows", lambda connection: catalogue.counts_of_rows(connection, names))
        self.lanes.begin(self.now, names, rows, again=again, at=at)

    def see(self, status: LogStatus) -> int:
        """Return the position of the log's end; the files are listed, which opens each, only where a new one began."""
        state = self.now
        reached = state.files.reached(status.file, status.offset)
        state.files = reached or state.files.grown(self.listing())
        return state.files.position(status.file, status.offset)


def shown(name: tuple[str, str]) -> str:
    """Return a table for messages."""
    return show(table_in(*name))
