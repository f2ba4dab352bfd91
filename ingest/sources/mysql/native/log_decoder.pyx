# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Packets of the log to records; see `LogDecoder` of ingest/sources/mysql/log_decoder.py, which is the reference.

The kinds of events that are many are handled here: beginnings and ends of transactions, table maps that are known, rows.
`next` returns the packets of all others, and of each event that is not plainly right.
"""

cimport cython

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memmove

from ingest.sources.mysql.events import FormatDescription, uuid_text
from ingest.sources.mysql.log_decoder import GtidRun, read_event
from ingest.sources.mysql.log_model import NO_END, NumberedTransactions
from ingest.sources.mysql.native.log_records cimport PendingRecords
from ingest.sources.mysql.native.packed cimport crc32_of, low_bytes
from ingest.sources.mysql.native.row_image cimport RowPlan, RowShape

cdef enum:
    HEADER = 19
    CHECKSUM = 4
    TABLE_ID = 6              # bytes of it, at the beginning of a table map
    FULL_PACKET = (1 << 24) - 1
    FIRST_ROOM = 1 << 19
    FIRST_NUMBERS = 1 << 10
    CACHED = 64               # places of tables that were looked up
    QUERY = 2
    XID = 16
    TABLE_MAP = 19
    WRITE_ROWS_V1 = 23
    DELETE_ROWS_V1 = 25
    HEARTBEAT = 27
    ROWS_QUERY = 29
    WRITE_ROWS = 30
    DELETE_ROWS = 32
    GTID = 33
    ANONYMOUS_GTID = 34
    HEARTBEAT_V2 = 41
    ANNOTATE_ROWS = 160
    MARIADB_GTID = 162
    ARTIFICIAL = 0x20
    STANDALONE = 1
    NO_FOREIGN_KEYS = 2
    NO_GTID = 0
    OF_MYSQL = 1
    OF_MARIADB = 2


cdef struct Number:           # a GTID: of MySQL's server, or of MariaDB's domain and server
    int kind
    uint8_t uuid[16]
    uint32_t domain
    uint32_t server
    uint64_t number


cdef struct Numbered:         # a transaction with a GTID, as `NumberedTransactions` of log_model.py has it
    int64_t begin             # positions
    int64_t end
    uint64_t number
    int64_t source            # which of the sources


cdef struct Head:
    uint32_t time
    int kind
    uint32_t server
    uint32_t size
    uint32_t end
    int flags


cdef bint is_whole(const uint8_t *present, int count) noexcept nogil:
    """Return whether an image has all columns."""
    cdef int at
    for at in range(count >> 3):
        if present[at] != 0xFF:
            return False
    return not count & 7 or present[count >> 3] & ((1 << (count & 7)) - 1) == (1 << (count & 7)) - 1


cdef str source_of(Number *number):
    if number.kind == OF_MYSQL:
        return uuid_text(PyBytes_FromStringAndSize(<const char *> number.uuid, 16))
    return f"{number.domain}-{number.server}"


cdef bint is_same_source(Number *one, Number *other) noexcept nogil:
    if one.kind != other.kind:
        return False
    if one.kind == OF_MYSQL:
        return not memcmp(one.uuid, other.uuid, 16)
    return one.domain == other.domain and one.server == other.server


cdef class LogDecoder:
    """See log_decoder.pyi."""

    cdef uint8_t *data
    cdef size_t begin, end, room      # what came and was not read yet
    cdef readonly PendingRecords records
    cdef readonly object description
    cdef size_t checksum              # bytes of it
    cdef public int64_t base, offset, opened, ended, last
    cdef public uint32_t last_crc
    cdef public uint32_t time         # when the event was logged that was read last
    cdef public bint begun, given, held, unheld, skipped
    cdef public dict savepoints
    cdef public bint plain            # True if native code may handle events: none is compared or passed over
    cdef public bint asks             # True if the caller decides by its GTID whether a transaction is read
    cdef public int64_t bound         # a transaction that ends there or behind is the last
    cdef Number number                # the GTID of the open transaction
    cdef object other                 # a GTID that has no `Number`
    cdef Number run                   # the first of the transactions that ended last, with numbers without a gap
    cdef uint64_t run_last
    cdef list done                    # the runs before it
    cdef Numbered *numbers            # the same transactions one by one
    cdef size_t numbers_used, numbers_room
    cdef Number source                # the source of the last of them
    cdef int64_t source_at            # which of all it is
    cdef list sources                 # all of them, by name
    cdef dict tables                  # by id: a plan, or the body of the table map of a table that is not read
    cdef dict maps                    # the same by the bodies of table maps, without the id
    cdef readonly dict watched        # by id: what looks at rows that others refer to
    cdef dict watches                 # the same by the bodies of table maps, without the id
    cdef uint64_t cached_ids[CACHED]
    cdef list cached
    cdef int post_query, post_map, post_rows_1, post_rows_2
    cdef size_t most, open_most, held_most  # bytes of records after which `next` returns

    def __init__(self, size_t most, size_t open_most, size_t held_most, with_metadata=False):
        """Stand nowhere. `next` returns after so many bytes of records: if transactions ended, if one is open, held."""
        self.most, self.open_most, self.held_most = most, open_most, held_most
        self.records = PendingRecords(with_metadata)
        self.done, self.sources = [], []
        self.cached = [None] * CACHED
        self.reset(0, 0)

    def __dealloc__(self):
        PyMem_Free(self.data)
        PyMem_Free(self.numbers)

    def reset(self, int64_t base, int64_t offset):
        """Stand at a place of a file, of whose events nothing is known."""
        self.begin = self.end = 0
        self.describe(FormatDescription("", b"", checksums=False))
        self.records.cut(self.records.ended)
        self.abandon()
        self.plain = False
        self.enter(base, offset)
        self.forget()

    def enter(self, int64_t base, int64_t offset):
        """Go on in another file."""
        self.base, self.offset = base, offset
        self.ended, self.last, self.last_crc = offset, offset, 0

    def describe(self, description):
        """Take how events are written from here on."""
        self.description = description
        self.checksum = CHECKSUM if description.checksums else 0
        self.post_query = description.length(QUERY, 13)
        self.post_map = description.length(TABLE_MAP, 8)
        self.post_rows_1 = description.length(WRITE_ROWS_V1, 8)
        self.post_rows_2 = description.length(WRITE_ROWS, 10)

    def forget(self):
        """Forget what is known of tables: a statement may have changed them."""
        cdef int at
        self.tables, self.maps, self.watched, self.watches = {}, {}, {}, {}
        for at in range(CACHED):
            self.cached[at] = None

    def learn(self, uint64_t table, plan, watch=None):
        """Take a table's plan; in place of one the body of its table map, where its rows are not read.

        None: the reference has to do all of it. `watch`: what looks at its rows, as others refer to them.
        """
        cdef int at = table % CACHED
        self.watched.pop(table, None)
        if watch is not None:
            self.watched[table] = watch
        if plan is None:
            self.tables.pop(table, None)
            self.cached[at] = None
            return
        body = ((<RowPlan> plan).map if isinstance(plan, RowPlan) else plan)[TABLE_ID:]
        self.maps[body] = plan
        self.watches.pop(body, None)
        if watch is not None:
            self.watches[body] = watch
        self.give(table, plan)

    cdef void give(self, uint64_t table, plan):
        """Let a plan be that of an id."""
        cdef int at = table % CACHED
        self.tables[table] = plan
        self.cached_ids[at], self.cached[at] = table, plan

    def plan(self, uint64_t table):
        """Return what was learned of a table; None where that is nothing."""
        return self.tables.get(table)

    @property
    def known(self):
        """The number of ids that are known."""
        return len(self.tables)

    # -- Bytes ------------------------------------------------------------------------------------------------------

    def feed(self, data):
        """Add bytes that came."""
        cdef Py_buffer view
        cdef uint8_t *grown
        cdef size_t room = self.room or FIRST_ROOM, size
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            size = <size_t> view.len
            if self.begin == self.end:
                self.begin = self.end = 0
            if self.room - self.end < size and self.begin:
                memmove(self.data, self.data + self.begin, self.end - self.begin)
                self.end -= self.begin
                self.begin = 0
            if self.room - self.end < size:
                while room - self.end < size:
                    room *= 2
                if room > (<size_t> 1 << 32):
                    raise MemoryError
                grown = <uint8_t *> PyMem_Realloc(self.data, room)
                if grown == NULL:
                    raise MemoryError
                self.data, self.room = grown, room
            memcpy(self.data + self.end, view.buf, size)
            self.end += size
        finally:
            PyBuffer_Release(&view)

    def next(self):
        """Handle packets. Return one that is for the caller; None where bytes are needed, or records are enough."""
        cdef uint8_t *packet
        cdef size_t size
        while self.end - self.begin >= 4:
            if self.plain and (
                self.records.used >= self.enough() or (self.opened < 0 and self.base + self.ended >= self.bound)
            ):
                return None
            packet = self.data + self.begin
            size = <size_t> low_bytes(packet, 3)
            if size == FULL_PACKET:
                return self.long_packet()
            if self.end - self.begin < 4 + size:
                return None
            self.begin += 4 + size
            if not self.plain or size <= HEADER or packet[4] or not self.handle(packet + 5, size - 1):
                return PyBytes_FromStringAndSize(<const char *> packet + 4, <Py_ssize_t> size)
        return None

    cdef size_t enough(self) noexcept:
        """Return the bytes of records after which they are given on, or dropped."""
        return self.most if self.records.ended else self.held_most if self.held else self.open_most

    cdef object long_packet(self):
        """Return a packet of 16 MiB or more, which goes on in those behind it; None where it is not all there."""
        cdef size_t at = self.begin, size = FULL_PACKET
        cdef list parts = []
        while size == FULL_PACKET:
            if self.end - at < 4:
                return None
            size = <size_t> low_bytes(self.data + at, 3)
            if self.end - at < 4 + size:
                return None
            parts.append(PyBytes_FromStringAndSize(<const char *> self.data + at + 4, <Py_ssize_t> size))
            at += 4 + size
        self.begin = at
        return b"".join(parts)

    # -- Events -----------------------------------------------------------------------------------------------------

    cdef bint handle(self, const uint8_t *event, size_t size) except -1:
        """Handle an event; False where that is for the caller, and nothing was done."""
        cdef Head head
        cdef int64_t start, end
        cdef size_t checksum = self.checksum
        cdef int kind = event[4]
        head.time, head.kind, head.server = <uint32_t> low_bytes(event, 4), kind, <uint32_t> low_bytes(event + 5, 4)
        head.size, head.end = <uint32_t> low_bytes(event + 9, 4), <uint32_t> low_bytes(event + 13, 4)
        head.flags = <int> low_bytes(event + 17, 2)
        if head.size != size or size < HEADER + checksum:
            return False
        if checksum and crc32_of(event, size - CHECKSUM) != low_bytes(event + size - CHECKSUM, 4):
            return False
        if kind in (HEARTBEAT, HEARTBEAT_V2):
            return True
        if head.flags & ARTIFICIAL:
            return False
        if head.end:
            end = (self.offset & ~<int64_t> 0xFFFFFFFF) | head.end
            if end < self.offset:
                end += <int64_t> 1 << 32
        elif kind in (ROWS_QUERY, ANNOTATE_ROWS):
            return False
        else:
            end = self.offset + <int64_t> size
        start = end - <int64_t> size
        if start < 0 or end <= self.offset:
            return False
        try:
            if not self.dispatch(&head, event, size - checksum, start, end):
                return False
        except:  # what says where the reading stopped says what the reference does
            self.offset = end
            raise
        self.offset, self.time = end, head.time
        return True

    cdef bint dispatch(self, Head *head, const uint8_t *event, size_t size, int64_t start, int64_t end) except -1:
        cdef int kind = head.kind
        if kind == TABLE_MAP:
            return self.table_map(event + HEADER, size - HEADER)
        if WRITE_ROWS_V1 <= kind <= DELETE_ROWS_V1:
            return self.rows(head, kind - WRITE_ROWS_V1, event, size, self.post_rows_1, start)
        if WRITE_ROWS <= kind <= DELETE_ROWS:
            return self.rows(head, kind - WRITE_ROWS, event, size, self.post_rows_2, start)
        if kind in (ROWS_QUERY, ANNOTATE_ROWS):
            return True
        if kind == XID:
            if self.unheld or self.opened < 0:
                return False
            self.end_group(start, end, crc32_of(event, size))
            return True
        if kind == QUERY:
            return self.query(event + HEADER, size - HEADER, start)
        if kind == GTID or kind == ANONYMOUS_GTID:
            if size < HEADER + 25 or self.opened >= 0 or self.asks:
                return False
            self.open_group(start, False)
            if kind == GTID:
                self.number.kind = OF_MYSQL
                memcpy(self.number.uuid, event + HEADER + 1, 16)
                self.number.number = low_bytes(event + HEADER + 17, 8)
            return True
        if kind == MARIADB_GTID:
            if size < HEADER + 13 or self.opened >= 0 or self.asks:
                return False
            self.open_group(start, not event[HEADER + 12] & STANDALONE)
            self.number.kind = OF_MARIADB
            self.number.number = low_bytes(event + HEADER, 8)
            self.number.domain, self.number.server = <uint32_t> low_bytes(event + HEADER + 8, 4), head.server
            return True
        return False

    cdef bint query(self, const uint8_t *body, size_t size, int64_t start) except -1:
        """Handle the statement `BEGIN`; no other."""
        cdef size_t before
        if size < 13 + 1 + 5 or memcmp(body + size - 5, b"BEGIN", 5):
            return False
        before = 13 + <size_t> low_bytes(body + 11, 2) + body[8] + 1
        if self.post_query != 13 or before + 5 != size:
            return False
        if self.opened < 0:
            self.open_group(start, True)
        self.begun = True
        return True

    cdef bint table_map(self, const uint8_t *body, size_t size) except -1:
        """Look whether the table is known by the same map: one plan may stand for several ids, which are its beginning."""
        cdef uint64_t table
        if self.post_map != 8 or size < 8:
            return False
        table = low_bytes(body, 6)
        plan = self.table(table)
        if plan is None:  # servers give a table another id each time that they open it
            named = PyBytes_FromStringAndSize(<const char *> body + TABLE_ID, <Py_ssize_t> size - TABLE_ID)
            plan = self.maps.get(named)
            if plan is None:
                return False
            if named in self.watches:
                self.watched[table] = self.watches[named]
            self.give(table, plan)
            return True
        known = (<RowPlan> plan).map if isinstance(plan, RowPlan) else plan
        return <size_t> PyBytes_GET_SIZE(known) == size and not memcmp(
            PyBytes_AS_STRING(known) + TABLE_ID, body + TABLE_ID, size - TABLE_ID
        )

    cdef object table(self, uint64_t table):
        """Return what is known of a table; None where that is nothing."""
        cdef int at = table % CACHED
        cdef object plan = self.cached[at]
        if plan is None or self.cached_ids[at] != table:
            plan = self.tables.get(table)
            self.cached_ids[at], self.cached[at] = table, plan
        return plan

    cdef bint rows(
        self, Head *head, int kind, const uint8_t *event, size_t size, int post, int64_t start
    ) except -1:
        cdef const uint8_t *p = event + HEADER
        cdef const uint8_t *end = event + size
        cdef const uint8_t *before = NULL
        cdef const uint8_t *after = NULL
        cdef uint64_t count
        cdef size_t bitmap
        cdef RowPlan plan
        if post not in (8, 10) or end - p < post:
            return False
        found = self.table(low_bytes(p, 6))
        if found is None:
            return False
        if self.skipped:
            return True
        watch = self.watched.get(low_bytes(p, 6)) if kind and self.watched else None
        if watch is not None and low_bytes(p + 6, 2) & NO_FOREIGN_KEYS:
            watch = None
        if watch is not None and kind == 2 and watch.deletes:
            watch.deleted(self.base + start)
        if watch is not None and (kind == 2 or not watch.updates):
            watch = None
        if watch is not None and watch.shape is None:
            watch.updated(self.base + start, None)
            watch = None
        if watch is None and (self.unheld or not isinstance(found, RowPlan)):
            return True
        p += post
        if post == 10:
            count = low_bytes(p - 2, 2)
            if count < 2 or <uint64_t> (end - p) < count - 2:
                return False
            p += count - 2
        if end - p < 4:
            return False
        count = p[0]
        p += 1
        if count >= 251:
            if count != 252:
                return False
            count = low_bytes(p, 2)
            p += 2
        bitmap = <size_t> (count + 7) // 8
        if <size_t> (end - p) < bitmap * (2 if kind == 1 else 1):
            return False
        if watch is not None and not self.look(watch, watch.shape, count, p, bitmap, end, start):
            return False
        if self.unheld or not isinstance(found, RowPlan):
            return True
        plan = <RowPlan> found
        if count != <uint64_t> plan.count:
            return False
        if kind != 0:
            before = p
            p += bitmap
        if kind != 2:
            after = p
            if not is_whole(after, <int> count):  # the reference knows what stands for what is absent
                return False
            p += bitmap
        return plan.rows(self.records, p, end, before, after, self.base + start, <int64_t> head.time * 1000)

    cdef bint look(
        self, watch, RowShape shape, uint64_t count, const uint8_t *p, size_t bitmap, const uint8_t *end, int64_t start
    ) except -1:
        """Let a watch know which columns of its own an update changes; False where the reference has to look."""
        if count != <uint64_t> shape.count:
            return False
        changed = shape.changed(p + 2 * bitmap, end, p, p + bitmap)
        if changed is None:
            return False
        if changed:
            watch.updated(self.base + start, changed)
        return True

    def rows_of(self, bytes data not None, int64_t position):
        """Add the records of a row event, at positions from one on; False where the reference has to do it."""
        cdef const uint8_t *event = <const uint8_t *> PyBytes_AS_STRING(data)
        cdef size_t size = <size_t> PyBytes_GET_SIZE(data)
        cdef Head head
        if size < HEADER:
            return False
        head.time, head.kind = <uint32_t> low_bytes(event, 4), event[4]
        if WRITE_ROWS_V1 <= head.kind <= DELETE_ROWS_V1:
            return self.rows(&head, head.kind - WRITE_ROWS_V1, event, size, self.post_rows_1, position - self.base)
        if WRITE_ROWS <= head.kind <= DELETE_ROWS:
            return self.rows(&head, head.kind - WRITE_ROWS, event, size, self.post_rows_2, position - self.base)
        return False

    # -- Transactions -----------------------------------------------------------------------------------------------

    cdef void open_group(self, int64_t start, bint begun):
        self.opened, self.begun = start, begun
        self.given = self.held = self.unheld = self.skipped = False
        self.number.kind, self.other = NO_GTID, None
        if self.savepoints:
            self.savepoints = {}

    cdef int end_group(self, int64_t start, int64_t end, uint32_t crc) except -1:
        self.records.ended = self.records.count
        self.ended, self.last, self.last_crc = end, start, crc
        self.count_number(end)
        if self.other is not None:
            self.close_run()
            self.done.append(GtidRun(self.other.source, self.other.number, self.other.number))
        elif self.number.kind != NO_GTID:
            if is_same_source(&self.run, &self.number) and self.run_last + 1 == self.number.number:
                self.run_last += 1
            else:
                self.close_run()
                self.run = self.number
                self.run_last = self.number.number
        self.opened, self.begun = -1, False
        self.number.kind, self.other = NO_GTID, None
        return 0

    cdef int count_number(self, int64_t end) except -1:
        """Add the open transaction to those with a GTID, if it has one."""
        cdef Numbered *grown
        cdef size_t room = self.numbers_room * 2 or FIRST_NUMBERS
        if self.other is None and self.number.kind == NO_GTID:
            return 0
        if self.numbers_used == self.numbers_room:
            if room > (<size_t> 1 << 32):
                raise MemoryError
            grown = <Numbered *> PyMem_Realloc(self.numbers, room * sizeof(Numbered))
            if grown == NULL:
                raise MemoryError
            self.numbers, self.numbers_room = grown, room
        if self.other is not None:
            self.numbers[self.numbers_used].number = self.other.number
            self.source_at = self.place_of(self.other.source)
            self.source.kind = NO_GTID
        else:
            self.numbers[self.numbers_used].number = self.number.number
            if not is_same_source(&self.source, &self.number):
                self.source_at = self.place_of(source_of(&self.number))
                self.source = self.number
        self.numbers[self.numbers_used].source = self.source_at
        self.numbers[self.numbers_used].begin = self.base + self.opened
        self.numbers[self.numbers_used].end = self.base + end
        self.numbers_used += 1
        return 0

    cdef int64_t place_of(self, str name) except -1:
        """Return which of the sources one is."""
        if name not in self.sources:
            self.sources.append(name)
        return <int64_t> self.sources.index(name)

    def numbered(self, int64_t first, int64_t last):
        """Return the transactions with GTIDs that have positions from `first` to `last`; also the one that is open."""
        cdef size_t low = 0, counted = self.numbers_used, high, middle, end
        cdef bytes places = b""
        if self.opened >= 0:
            self.count_number(<int64_t> NO_END - self.base)
        high = self.numbers_used
        while low < high:  # the first that ends behind `first`
            middle = (low + high) // 2
            if self.numbers[middle].end > first:
                high = middle
            else:
                low = middle + 1
        end, high = low, self.numbers_used
        while end < high:  # the first behind it that begins behind `last`
            middle = (end + high) // 2
            if self.numbers[middle].begin > last:
                high = middle
            else:
                end = middle + 1
        if end > low:
            places = PyBytes_FromStringAndSize(
                <const char *> (self.numbers + low), <Py_ssize_t> ((end - low) * sizeof(Numbered))
            )
        self.numbers_used = counted
        return NumberedTransactions(places, list(self.sources))

    cdef int close_run(self) except -1:
        if self.run.kind != NO_GTID:
            self.done.append(GtidRun(source_of(&self.run), self.run.number, self.run_last))
        self.run.kind = NO_GTID
        return 0

    def begin_at(self, int64_t start, gtid, begun):
        """Note that a transaction begins, or goes on with a statement that begins it."""
        if self.opened < 0:
            self.open_group(start, begun)
        self.begun = begun
        if gtid is not None:
            self.other = gtid

    def end_with(self, event):
        """Note that the open transaction ends with an event, and that its pending records count."""
        self.end_group(event.start, event.end, crc32_of(<const uint8_t *> PyBytes_AS_STRING(event.data),
                                                        <size_t> PyBytes_GET_SIZE(event.data)))

    def pass_over(self, event):
        """Note that an event between two transactions was read."""
        self.ended, self.last = event.end, event.start
        self.last_crc = crc32_of(
            <const uint8_t *> PyBytes_AS_STRING(event.data), <size_t> PyBytes_GET_SIZE(event.data)
        )

    def abandon(self):
        """Note that no transaction is open any more."""
        self.opened, self.begun = -1, False
        self.given = self.held = self.unheld = self.skipped = False
        self.savepoints = {}
        self.number.kind, self.other = NO_GTID, None

    @property
    def runs(self):
        """The transactions that ended since `begin_runs`."""
        if self.run.kind == NO_GTID:
            return list(self.done)
        return [*self.done, GtidRun(source_of(&self.run), self.run.number, self.run_last)]

    def begin_runs(self):
        """Forget the transactions that ended."""
        self.done, self.sources = [], []
        self.run.kind = self.source.kind = NO_GTID
        self.numbers_used = 0

    def event(self, bytes data not None):
        """Return the event of a packet, and go on to its end. Raise BadEvent."""
        found, description = read_event(data, self.description, self.offset)
        if description is not None:
            self.describe(description)
        self.offset = found.end
        if found.filed:
            self.time = found.header.time
        return found

