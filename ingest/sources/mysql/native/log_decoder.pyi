from collections.abc import Sequence

from ingest.sources.mysql.events import FormatDescription, Gtid
from ingest.sources.mysql.log_decoder import Event, GtidRun
from ingest.sources.mysql.log_model import NumberedTransactions
from ingest.sources.mysql.native.log_records import PendingRecords
from ingest.sources.mysql.native.row_image import RowPlan
from ingest.sources.mysql.table_maps import ParentWatch

class LogDecoder:
    """See `LogDecoder` of ingest/sources/mysql/log_decoder.py."""

    records: PendingRecords
    description: FormatDescription
    base: int
    offset: int
    opened: int
    begun: bool
    ended: int
    last: int
    last_crc: int
    time: int
    given: bool
    held: bool
    unheld: bool
    skipped: bool
    savepoints: dict[bytes, int]
    plain: bool
    asks: bool
    bound: int
    watched: dict[int, ParentWatch]

    def __init__(self, most: int, open_most: int, held_most: int, with_metadata: bool = False) -> None: ...
    @property
    def runs(self) -> Sequence[GtidRun]:
        """The transactions that ended since `begin_runs`."""

    def reset(self, base: int, offset: int) -> None:
        """Stand at a place of a file, of whose events nothing is known."""

    def enter(self, base: int, offset: int) -> None:
        """Go on in another file."""

    def forget(self) -> None:
        """Forget what is known of tables."""

    def learn(self, table: int, plan: RowPlan | bytes | None, watch: ParentWatch | None = None) -> None:
        """Take a table's plan; in place of one the body of its table map, where its rows are not read."""

    def plan(self, table: int) -> RowPlan | bytes | None:
        """Return what was learned of a table; None where that is nothing."""

    @property
    def known(self) -> int:
        """The number of ids that are known."""

    def rows_of(self, data: bytes, position: int) -> bool:
        """Add the records of a row event, at positions from one on; False where the reference has to do it."""

    def feed(self, data: bytes | memoryview) -> None:
        """Add bytes that came."""

    def next(self) -> bytes | None:
        """Return the next packet that is for the caller; None where bytes are needed, or records are enough."""

    def event(self, data: bytes) -> Event:
        """Return the event of a packet, and go on to its end. Raise BadEvent."""

    def begin_at(self, start: int, gtid: Gtid | None, begun: bool) -> None:
        """Note that a transaction begins, or goes on with a statement that begins it."""

    def end_with(self, event: Event) -> None:
        """Note that the open transaction ends with an event, and that its pending records count."""

    def pass_over(self, event: Event) -> None:
        """Note that an event between two transactions was read."""

    def abandon(self) -> None:
        """Note that no transaction is open any more."""

    def begin_runs(self) -> None:
        """Forget the transactions that ended."""

    def numbered(self, first: int, last: int) -> NumberedTransactions:
        """Return the transactions with GTIDs that have positions from `first` to `last`; also the one that is open."""
