# cython: language_level=3, boundscheck=False, wraparound=False
"""Changes that the reference has decoded, on their way to encoded records, or to rows for expressions.

In: what decoders in Python return (model/change.py). Out: what `NativeEncoder` makes of messages, by the same encoders of
tables. The reference is `encode` in encode/encode.py.

What goes here is plainly right, as with messages: a known table, images that are JSON without doubt, values that fit
their columns. Whatever is not is left to the reference, one message after the other: rejects, the rows of one message,
what does not fit.

What a message declares of its columns' types is not looked at: its values have that form already, and a value that is in
the form of its own column is written alike, whatever was declared of it.
"""

cimport cython

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer, Py_buffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.pyport cimport PY_SSIZE_T_MAX
from cpython.sequence cimport PySequence_GetItem
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport UINT32_MAX

from ingest.native.change cimport MAX_KEYS, Change, Workspace, enter, leave
from ingest.native.codes cimport FORM_CANAL, FORM_ROWS
from ingest.native.records cimport BATCH_MESSAGES, EncodedBatch
from ingest.native.row_encoder cimport RowEncoder, encode_change, feed_change
from ingest.native.scan cimport Row, is_utf8, scan_row
from ingest.native.transform_rows cimport TransformRows

from msgspec import Raw
from ingest.model.change import Change as DecodedChange
from ingest.model.change import Kind, Skip


cdef enum:
    MEMBERS = 6               # of a change

cdef object INSERT = Kind.INSERT
cdef object UPDATE = Kind.UPDATE
cdef object DELETE = Kind.DELETE


cdef char op_of(object kind) noexcept:
    """Return what happened, as messages have it; 0 for no kind that there is."""
    return b'u' if kind is UPDATE else b'c' if kind is INSERT else b'd' if kind is DELETE else 0


cdef bint scan_image(object image, Row *row, const Row *like) except -1:
    """Scan an image, whose memory is there as long as it is; False for a fallback. None is no image."""
    cdef Py_buffer buffer
    cdef const char *text
    cdef size_t size
    row.size = 0
    if image is None:
        return True
    if type(image) is not Raw:
        return False
    PyObject_GetBuffer(image, &buffer, PyBUF_SIMPLE)
    text = <const char *> buffer.buf
    size = <size_t> buffer.len
    PyBuffer_Release(&buffer)  # it does not change, nor move
    if not size or size > UINT32_MAX or not is_utf8(text, size):
        return False
    return scan_row(text, text + size, row, like) == text + size


cdef bint read_primary_key(object names, Change *change) except -1:
    """Read the names of the primary key's columns that a message declares; False for a fallback."""
    cdef Py_ssize_t size
    if type(names) is not tuple or len(names) > <Py_ssize_t> MAX_KEYS:
        return False
    for name in <tuple> names:
        if type(name) is not str:
            return False
        change.names[change.named].text = PyUnicode_AsUTF8AndSize(name, &size)
        change.names[change.named].size = <size_t> size
        change.named += 1
    return True


@cython.final
cdef class DecodedEncoder:
    """Changes that the reference has decoded: `find` returns the `RowEncoder` of a table's id, or None."""

    cdef object find
    cdef dict tables          # the encoders of tables, or None where that is the reference
    cdef object last          # the table of the last change; most decoders make one object of an id
    cdef RowEncoder encoder   # its encoder
    cdef dict skips
    cdef object held          # memory of the change in hand that the change itself does not hold

    def __cinit__(self, find):
        self.find, self.tables, self.skips = find, {}, {}

    cdef RowEncoder find_table(self, object table):
        """Return the encoder of a table; None where that is the reference. Raises what `find` raises."""
        if table is self.last:
            return self.encoder
        found = self.tables.get(table)
        if found is None:
            found = self.find(table)
            if type(found) is not RowEncoder:
                return None
            self.tables[table] = found
        self.last, self.encoder = table, <RowEncoder> found
        return self.encoder

    cdef RowEncoder read_change(self, Workspace *ws, tuple given, Change *change):
        """Read a change; return the encoder of its table, or None for a fallback."""
        if len(given) != MEMBERS:
            return None
        table, kind, before, after, message_key, declared = given
        change.form, change.op, change.named = FORM_ROWS, op_of(kind), 0
        change.sparse, change.typed, change.declared = False, False, declared is not None
        change.composed = change.extended = change.numbers = False
        if not change.op or not (message_key is None or type(message_key) is bytes):
            return None
        change.message_key.text, change.message_key.size = NULL, 0
        if message_key is not None:
            change.message_key.text = PyBytes_AS_STRING(message_key)
            change.message_key.size = <size_t> PyBytes_GET_SIZE(message_key)
        if change.op == b'c':
            before = None
        elif change.op == b'd':
            after = None
        if declared is not None:
            names = declared.primary_key
            if not read_primary_key(names, change):
                return None
            if declared.unread or declared.left_out or declared.in_key or declared.unsent:
                return None  # the reference counts them, knows the key, or writes the columns that came
            if before is not None and change.op == b'u' and declared.overlay:
                change.form = FORM_CANAL  # whose rows before updates have what changed
            change.sparse, change.numbers = declared.sparse, bool(declared.numbers)
            self.held = names
        if not scan_image(before, &ws.before, NULL):
            return None
        if not scan_image(after, &ws.after, &ws.before if ws.before.size else NULL):
            return None
        return self.find_table(table)

    cdef int take_one(
        self, Workspace *ws, object given, object message, EncodedBatch batch, TransformRows rows
    ) except -1:
        """Add what becomes of a message's change, all or nothing: returns 1, or 0 for a fallback."""
        cdef Change change
        cdef RowEncoder encoder
        cdef Py_ssize_t count, sent
        cdef int taken = 0
        if type(given) is Skip:
            self.skips[given.reason] = self.skips.get(given.reason, 0) + 1
            return 1
        if type(given) is not DecodedChange:
            return 0
        encoder = self.read_change(ws, <tuple> given, &change)
        if encoder is None:
            return 0
        if rows is None:
            batch.hold(given)  # a row that is written as it came is in its image
            return encode_change(ws, encoder, None, &change, batch)
        rows.offset = message.offset()
        count, sent = rows.count, rows.sent
        try:
            taken = feed_change(ws, encoder, None, &change, rows)
        finally:
            if not taken:
                rows.count, rows.sent = count, sent
        return taken

    cdef Py_ssize_t take(
        self, list changes, Py_ssize_t start, Py_ssize_t end, EncodedBatch batch, object messages, Py_ssize_t first,
        TransformRows rows
    ) except -1:
        """Take changes until one is a fallback, and return where that is; the list may change while they are asked."""
        cdef Workspace *ws
        cdef Py_ssize_t at = start
        if start < 0 or first < 0 or first > PY_SSIZE_T_MAX - end:
            raise ValueError("start is negative, or there are no such messages")
        ws = enter()
        try:
            while at < end and at < len(changes):
                message = None if rows is None else PySequence_GetItem(messages, first + at)
                if not self.take_one(ws, changes[at], message, batch, rows):
                    break
                at += 1
        finally:
            leave()
        return at

    def encode(self, list changes not None, Py_ssize_t start):
        cdef EncodedBatch batch = EncodedBatch()
        cdef Py_ssize_t count = len(changes)
        end = start + <Py_ssize_t> BATCH_MESSAGES if start < count else count
        stop = self.take(changes, start, end, batch, None, 0, None)
        batch.full = stop - start == BATCH_MESSAGES and stop < count
        return batch, stop

    def feed(self, list changes not None, Py_ssize_t start, messages, Py_ssize_t first, TransformRows rows not None):
        rows.begin()
        try:
            return self.take(changes, start, len(changes), None, messages, first, rows)
        finally:
            rows.busy = False

    def skipped(self):
        skips, self.skips = self.skips, {}
        return skips

    def forget(self):
        enter()  # a change's table is not held while it is taken
        self.last = self.encoder = None
        self.tables.clear()
        leave()
