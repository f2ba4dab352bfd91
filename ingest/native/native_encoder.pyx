# cython: language_level=3, boundscheck=False, wraparound=False
"""Messages of one topic: to encoded records, or to rows for expressions.

A message goes through here only if it is plainly right: JSON without doubt, a known table, values that fit their columns.
Whatever is not -- drift, dirt, a shape that is rare -- is left to the reference: `encode` stops before such a message. So
what is here may always fall back, and must never be more lenient than the reference. tests/property/test_native.py
compares the two.

One call at a time: a worker has one thread that does this. The GIL is held throughout, but while an encoder of rows is
made; who comes in then is refused (`enter`). Nothing is kept between calls but what the objects hold, and counters until
`settle`.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.pycapsule cimport PyCapsule_GetPointer
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport UINT32_MAX, uint64_t
from libc.string cimport memcmp, memcpy

from ingest.native.codes cimport FORM_CANAL, FORM_DEBEZIUM, FORM_ROWS
from ingest.native.messages cimport ID_PARTS, Change, Said, read_canal, read_debezium, read_plain
from ingest.native.records cimport BATCH_MESSAGES, EncodedBatch, Messages, RawRecord
from ingest.native.row_encoder cimport RowEncoder, encode_change, feed_change
from ingest.native.scan cimport Text, is_utf8
from ingest.native.table cimport count_touched
from ingest.native.transform_rows cimport TransformRows
from ingest.native.workspace cimport Workspace, enter, leave

cdef extern from *:
    const Py_ssize_t PY_SSIZE_T_MAX

cdef enum:
    MAX_ID = 1024             # bytes of a table's id
    MAX_BITS = 12             # of the place of a table among the recent ones


cdef struct RecentTable:      # `tables` keeps the encoder
    PyObject *id
    PyObject *encoder


cdef struct WholeRecords:     # what a capsule has
    const RawRecord *records
    Py_ssize_t count


@cython.final
cdef class CapsuleMessages(Messages):
    """Records in a capsule: tests make such whose bytes have nothing behind them, for the sanitizers to see a read too far."""

    cdef object owner

    def __cinit__(self, owner):
        capsule = owner.raw
        whole = <WholeRecords *> PyCapsule_GetPointer(capsule, b"ingest.model.raw.records")
        self.records, self.count = whole.records, whole.count
        self.owner = owner


@cython.final
cdef class NativeEncoder:
    """Messages of a form: `find` returns the `RowEncoder` of an id, or None.

    `member` is the name of what says what columns' types are, and `read` returns the `InlineSchema` of that, or None.
    """

    cdef int form
    cdef object find
    cdef dict tables
    cdef Said said
    cdef long tombstone_count
    cdef RecentTable *recent  # 2 to the power of `bits`, or NULL
    cdef int bits

    def __cinit__(self, int form, find, bytes member, read):
        if not 0 <= form <= <int> FORM_CANAL:
            raise ValueError("messages are of one of the forms")
        self.form, self.find, self.tables = form, find, {}
        self.said = Said(member, read)

    def __dealloc__(self):
        self.forget_recent()

    # -- Tables --------------------------------------------------------------------------------------------------------

    cdef void forget_recent(self) noexcept:
        cdef Py_ssize_t i
        if self.recent != NULL:
            for i in range(1 << self.bits):
                if self.recent[i].id != NULL:
                    Py_DECREF(<object> self.recent[i].id)
        PyMem_Free(self.recent)
        self.recent = NULL

    cdef RecentTable *place_of(self, const char *id, size_t size) except NULL:
        """Return where a table of this id was kept, or is to be. There is room for as many as there are."""
        cdef uint64_t end = 0
        cdef Py_ssize_t count = len(self.tables)
        if self.recent == NULL or (self.bits < MAX_BITS and count > <Py_ssize_t> 1 << self.bits):
            self.forget_recent()
            self.bits = 2
            while self.bits < MAX_BITS and count > <Py_ssize_t> 1 << self.bits:
                self.bits += 1
            self.recent = <RecentTable *> PyMem_Calloc(<size_t> 1 << self.bits, sizeof(RecentTable))
            if self.recent == NULL:
                raise MemoryError
        # Ids mostly differ at their ends, before the last zero byte
        memcpy(&end, id + size - 9 if size > 8 else id, 8 if size > 8 else size)
        return &self.recent[((end ^ size) * <uint64_t> 0x9E3779B97F4A7C15) >> (64 - self.bits)]

    cdef RowEncoder find_table(self, const Text *parts, int count):
        """Return the encoder of a table; None where there is none. Raises what `find` raises."""
        cdef char id[MAX_ID]
        cdef size_t size = 0
        cdef RecentTable *recent
        cdef int i
        id[0] = 0  # there may be no parts
        for i in range(count):
            if size + parts[i].size + 1 > MAX_ID:
                return None
            if parts[i].size:
                memcpy(id + size, parts[i].text, parts[i].size)
            size += parts[i].size
            id[size] = 0  # no string of JSON has one
            size += 1
        recent = self.place_of(id, size)
        if recent.id != NULL and <size_t> PyBytes_GET_SIZE(<object> recent.id) == size:
            if not memcmp(PyBytes_AS_STRING(<object> recent.id), id, size):
                return <RowEncoder> recent.encoder
        return self.make_table(PyBytes_FromStringAndSize(id, <Py_ssize_t> size))

    cdef RowEncoder make_table(self, bytes id):
        """Return the encoder of a table that is not among the recent ones, and put it there."""
        cdef RecentTable *recent
        found = self.tables.get(id)
        if found is None:
            found = self.find(id)
            if type(found) is not RowEncoder:
                return None
            self.tables[id] = found
        recent = self.place_of(PyBytes_AS_STRING(id), <size_t> PyBytes_GET_SIZE(id))
        if recent.id != NULL:
            Py_DECREF(<object> recent.id)
        Py_INCREF(id)
        recent.id, recent.encoder = <PyObject *> id, <PyObject *> found
        return <RowEncoder> found

    # -- One message ---------------------------------------------------------------------------------------------------

    cdef RowEncoder read_change(self, Workspace *ws, const RawRecord *record, Change *change):
        """Read a message that has a value; return the encoder of its table, or None for a fallback."""
        cdef const char *text = record.value
        cdef const char *end = text + record.value_size
        cdef bint read
        cdef int i
        change.form, change.op, change.named, change.typed, change.declared = self.form, 0, 0, False, False
        change.message_key.text, change.message_key.size = NULL, 0
        for i in range(ID_PARTS):
            change.parts[i].text, change.parts[i].size = NULL, 0
        self.said.found = None
        if record.value_size > UINT32_MAX or not is_utf8(text, record.value_size):
            return None
        if self.form == FORM_DEBEZIUM:
            change.message_key.text, change.message_key.size = record.key, record.key_size
            read = read_debezium(ws, self.said, text, end, change)
        elif self.form == FORM_CANAL:
            read = read_canal(ws, self.said, text, end, change)
        else:
            read = read_plain(ws, text, end, change)
        if not read:
            return None
        return self.find_table(change.parts, 0 if self.form == FORM_ROWS else ID_PARTS)

    cdef int encode_one(self, Workspace *ws, const RawRecord *record, EncodedBatch batch) except -1:
        """Add the records of a message, all or none: returns 1, or 0 for a fallback."""
        cdef Change change
        if record.value == NULL:
            self.tombstone_count += 1
            return 1
        encoder = self.read_change(ws, record, &change)
        return 0 if encoder is None else encode_change(ws, encoder, self.said.found, &change, batch)

    cdef int feed_one(self, Workspace *ws, const RawRecord *record, TransformRows rows) except -1:
        """Add the rows of a message, all or none: returns 1, or 0 for a fallback."""
        cdef Change change
        if record.value == NULL:
            self.tombstone_count += 1
            return 1
        encoder = self.read_change(ws, record, &change)
        return 0 if encoder is None else feed_change(ws, encoder, self.said.found, &change, rows)

    # -- Many messages -------------------------------------------------------------------------------------------------

    cdef int take_one(self, Workspace *ws, const RawRecord *record, EncodedBatch batch, TransformRows rows) except -1:
        cdef Py_ssize_t count, sent
        cdef int taken = 0
        if rows is None:
            return self.encode_one(ws, record, batch)
        rows.offset = record.offset
        count, sent = rows.count, rows.sent
        try:
            taken = self.feed_one(ws, record, rows)
        finally:
            if not taken:
                rows.count, rows.sent = count, sent
        return taken

    cdef Py_ssize_t take_raw(
        self, Workspace *ws, Messages messages, Py_ssize_t at, Py_ssize_t end, EncodedBatch batch, TransformRows rows
    ) except -1:
        """Take messages until one is a fallback, and return where that is."""
        while at < end and at < messages.count:
            if not self.take_one(ws, &messages.records[at], batch, rows):
                break
            at += 1
        return at

    cdef Py_ssize_t take_objects(
        self, Workspace *ws, list messages, Py_ssize_t at, Py_ssize_t end, EncodedBatch batch, TransformRows rows
    ) except -1:
        """Do the same for messages that are objects; the list may change while they are asked."""
        cdef RawRecord record
        while at < end and at < len(messages):
            message = messages[at]
            key, value = message.key(), message.value()
            if not (key is None or type(key) is bytes) or not (value is None or type(value) is bytes):
                break
            record.key = record.value = NULL
            record.key_size = record.value_size = 0
            record.offset = -1
            if key is not None:
                record.key, record.key_size = PyBytes_AS_STRING(key), <size_t> PyBytes_GET_SIZE(key)
            if value is not None:
                record.value, record.value_size = PyBytes_AS_STRING(value), <size_t> PyBytes_GET_SIZE(value)
            if rows is not None:
                record.offset = message.offset()
            else:
                batch.hold(value)
            if not self.take_one(ws, &record, batch, rows):
                break
            at += 1
        return at

    cdef Py_ssize_t take(
        self, messages, Py_ssize_t start, Py_ssize_t most, EncodedBatch batch, TransformRows rows
    ) except -1:
        cdef Workspace *ws
        cdef Py_ssize_t end
        if start < 0:
            raise ValueError("start is negative")
        end = start + most if 0 <= most <= PY_SSIZE_T_MAX - start else PY_SSIZE_T_MAX
        if type(messages) is not list and not isinstance(messages, Messages):
            messages = CapsuleMessages(messages)
        ws = enter()
        try:
            if type(messages) is list:
                return self.take_objects(ws, <list> messages, start, end, batch, rows)
            if batch is not None:
                batch.messages = messages
            return self.take_raw(ws, <Messages> messages, start, end, batch, rows)
        finally:
            leave()

    def encode(self, messages, Py_ssize_t start):
        cdef EncodedBatch batch = EncodedBatch()
        stop = self.take(messages, start, BATCH_MESSAGES, batch, None)
        batch.full = stop - start == BATCH_MESSAGES and stop < len(messages)
        return batch, stop

    def feed(self, messages, Py_ssize_t start, TransformRows rows not None):
        rows.begin()
        try:
            return self.take(messages, start, -1, None, rows)
        finally:
            rows.busy = False

    def tombstones(self):
        count, self.tombstone_count = self.tombstone_count, 0
        return count

    def forget(self):
        enter()  # a message's table is not held while it is taken
        self.forget_recent()
        self.tables.clear()
        leave()


def settle():
    """Tell the tables' encoders what was counted since the last time."""
    enter()
    try:
        count_touched(True)
    finally:
        leave()
