# One call at a time: `Lane`, `drain` and `settle` raise RuntimeError while one of them runs, in whatever thread; `Rows`
# while one of its own does. A `Table` is told what it has to know before it is used, each thing once; ValueError else.
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ingest.encode.plan import Record as Written
from ingest.encode.plan import TablePlan
from ingest.encode.rows import RowPlan
from ingest.encode.transform import FeedPlan
from ingest.model.record import Raw, Record

class Table:
    """How rows of one table are checked and written; made from the schemas of both sides."""

    def __init__(
        self,
        plan: TablePlan | RowPlan | FeedPlan,
        destination: Any,  # noqa: ANN401
        columns: tuple[tuple[bytes, bytes, int, bool, int, int, int, int], ...],
        order: tuple[int, ...],
        own: int,
        key: tuple[int, ...],
        keyed: bool,
        key_strings: bool,
        /,
    ) -> None:
        """Take the plan whose counters are kept, and the sink's destination.

        `columns`: name, what fills it in, code of what it takes, whether it becomes a text, two numbers that the code
        needs, the number of its type, or 0 where the sink's is another, whether the pipeline declares its type (2: and
        no expression reads it); the first `own` are the source's. `order`: the
        sink's columns, as places in `columns`; `key`: the primary key's. `keyed`: whether the primary key comes from
        messages' keys; `key_strings`: whether every value is a text in keys.
        """

    def feed(
        self,
        program: int,
        columns: tuple[int, ...],
        slots: tuple[int, ...],
        kinds: bytes,
        base: list[Any],
        event: int,
        decisive: tuple[int, ...],
        key: tuple[int, ...],
        images: bool,
        were: tuple[int, ...],
        were_slots: tuple[int, ...],
        were_kinds: bytes,
        /,
    ) -> None:
        """Let rows go to expressions: these columns in these slots of these kinds, among the values in `base`.

        `event`: the slot of what happened, or -1. `decisive`: the columns where a difference makes the row before an
        update go, too; `key`: those that are of the result's key; `images`: it goes in any case. `were`: its columns
        that go in slots of the row after it, where both have the same key; none where it goes by itself.
        """

    def lay_out(
        self,
        key: tuple[tuple[int, bytes, int], ...] | None,
        insert: tuple[tuple[int, bytes, int], ...],
        update: tuple[tuple[int, bytes, int], ...],
        alone: tuple[tuple[int, bytes, int], ...],
        delete: tuple[tuple[int, bytes, int], ...] | None,
        moves: bool,
        /,
    ) -> None:
        """Let records be put together of pieces: of each its code, its text, and the place of its column.

        `key`: None for none; its columns are places among those of the primary key. Values: of an insert, of an update
        whose row before it is known, of one where it is not, of a delete, where None is null. `moves`: an update that
        changes the key writes null under the old one.
        """

    def ready(self, heads: tuple[int, int, int, int], /) -> None:
        """Where its records go that pass expressions by: of an insert, an update, a delete, and of an old key."""

    def answer(
        self,
        filter_at: int,
        was_at: int,
        soft_delete: bool,
        key_made: bool,
        names: tuple[bytes, ...],
        places: tuple[int, ...],
        kinds: bytes,
        writers: tuple[Callable[[Any], bytes], ...],
        columns: tuple[bytes | int, ...] | None,
        /,
    ) -> None:
        """Let rows be made of images and results.

        `filter_at`: which result says whether a row passes, or -1; `was_at`: whether the row before it did. `key_made`:
        whether a result is of the primary key. `names`: those of the results, as JSON has them between its quotes;
        `places`: which results they are; `kinds`: `l` integers, `b` truth values, `t` texts, or `x`, which `writers`
        make JSON of, as they do of texts that are not plain. `columns`: what the row shall have, each a name of the
        image's or the place of a name; None: what the image has, then results that are new.
        """

Parts: TypeAlias = tuple[bytes | None, bytes | None, bytes]
"""A column as Arrow has it: validity, offsets, data."""

def settle() -> None:
    """Tell the plans what lanes counted since the last time."""

def drain(
    tables: list[Table | None],
    heads: list[tuple[Any, Any]],
    size: int,
    kept: list[tuple[int, Any, Any, Any]],
    kinds: bytes,
    sent: int,
    back: list[tuple[int, Any, Any, Any]],
    start: int,
    row: int,
    limit: int,
    out: list[Written],
    /,
) -> tuple[int, int, int, dict[int, int]]:
    """Put the records of rows[start:] in `out`.

    `tables`: by program; `heads`: where ready-made records go, by their place. `kept`: of each of `size` rows, program,
    head, offset, what it is, text, key. `back`: of those `sent` rows that went to expressions, program, mask of
    failures, and the results, which are of these `kinds`; those of rows[start] begin at `row`. Columns are (first
    value, validity, offsets, data), as Arrow has them. `limit`: the offset to end before. Rows of one offset are one
    message. Gives the first row that is left to others, where its results begin, how many messages did not pass, and by
    head how many records went there. What is written is counted in the plans of `tables`.
    """

class Rows:
    """Rows on their way to expressions, column by column."""

    def __init__(self, kinds: bytes, /) -> None:
        """`kinds`: those of the slots: `s` texts, `l` integers, `d` floating-point numbers, `b` truth values."""

    def add(self, meta: tuple[Any, ...], values: tuple[Any, ...], /) -> None:
        """Add a row: program, head, offset, what it is, text, key; and the values of its slots, or none at all.

        It goes to expressions if its program is not negative.
        """

    def mark(self, code: int, count: int, /) -> None:
        """Add rows that only go to expressions, with this in the place of a program."""

    def size(self) -> tuple[int, int]:
        """How many rows go to expressions, and how many bytes the texts have that stay."""

    def take(self) -> tuple[int, list[Parts], int, list[Parts]]:
        """How many rows there are, and what stays of them; how many go to expressions: their programs, their slots.

        None are left.
        """

class Saying:
    """What messages say of their columns' types."""

    def __init__(self, columns: tuple[tuple[bytes, int, int, int, int], ...], /) -> None:
        """Take of each column its name, how its values are read, two numbers that belong to it, its type's number."""

class Lane:
    """The way of one topic's messages."""

    def __init__(
        self,
        form: int,
        find: Callable[[bytes], Table | None],
        member: bytes | None,
        say: Callable[[bytes], Saying | None],
        /,
    ) -> None:
        """Take a place in `FORMS`, and what finds the table of an id: its three parts, each with a zero byte.

        `member`: the name of what says what columns' types are, where messages have it; `say`: what it says.
        """

    def take(self, messages: Sequence[Record], start: int, out: list[Written] | Raw, /) -> int:
        """Put the records of `messages[start:]` in `out`; the index of the first message that is left to others.

        `messages` is a list or has them in C; `out` is a list, or takes them in C and raises what it raises.
        """

    def feed(self, messages: Sequence[Record], start: int, rows: Rows, /) -> int:
        """Put rows for expressions in `rows`; the index of the first message that is left to others."""

    def tombstones(self) -> int:
        """How many messages without a value were passed since the last time."""

    def forget(self) -> None:
        """Ask for every table again."""
