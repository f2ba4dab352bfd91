from collections.abc import Callable
from typing import Any

from ingest.flow.plan import Record as Written
from ingest.flow.plan import TablePlan
from ingest.flow.transform import FeedPlan
from ingest.model.record import Record

class Table:
    """How rows of one table are checked and written; made from the schemas of both sides."""

    def __init__(
        self,
        plan: TablePlan | FeedPlan,
        destination: Any,  # noqa: ANN401
        columns: tuple[tuple[bytes, bytes, int, bool, int, int], ...],
        order: tuple[int, ...],
        own: int,
        key: tuple[int, ...],
        keyed: bool,
        /,
    ) -> None:
        """Take the plan whose counters are kept, and the sink's destination.

        `columns`: name, what fills it in, code of what it takes, whether it becomes a text, two numbers that the code
        needs; the first `own` are the source's. `order`: the sink's columns, as places in `columns`; `key`: the primary
        key's. `keyed`: whether the primary key comes from the messages' keys.
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
        images: bool,
        /,
    ) -> None:
        """Let rows go to expressions: these columns in these slots of these kinds, among the values in `base`.

        `event`: the slot of what happened, or -1. `decisive`: the columns where a difference makes the row before an
        update go, too; `images`: it goes in any case.
        """

    def ready(self, heads: tuple[int, int, int, int], /) -> None:
        """Where its records go that pass expressions by: of an insert, an update, a delete, and of an old key."""

    def put(self, row: bytes | None, old: bytes | None, out: list[Written], /) -> bool:
        """Put the records of a row in `out`; whether that was done. Nothing is counted.

        `old`: what the row was before: its key gets a tombstone where it is another. Without a row, it is a delete.
        """

def compose(
    row: bytes, names: tuple[bytes, ...], values: list[bytes], columns: tuple[bytes | int, ...] | None, /
) -> bytes | None:
    """A row's text with results in it; None where that is not for here.

    `names` are those of the results, as JSON has them between its quotes, `values` their JSON text. `columns`: what it
    shall have, each a name of the row's or the place of a result; None: what the row has, then results that are new.
    """

class Lane:
    """The way of one topic's messages."""

    def __init__(self, form: int, find: Callable[[bytes], Table | None], /) -> None:
        """Take a place in `FORMS`, and what finds the table of an id: its three parts, each with a zero byte."""

    def take(self, messages: list[Record], start: int, out: list[Written], /) -> int:
        """Put the records of `messages[start:]` in `out`; the index of the first message that is left to others."""

    def feed(
        self,
        messages: list[Record],
        start: int,
        rows: list[tuple[Any, ...]],
        values: list[tuple[Any, ...]],
        nothing: tuple[None, ...],
        /,
    ) -> int:
        """Put rows for expressions in `rows`, their slots in `values`; the first message's index left to others."""

    def tombstones(self) -> int:
        """How many messages without a value were passed since the last time."""

    def forget(self) -> None:
        """Ask for every table again."""
