# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Rows on their way to expressions; see transform_rows.pxd."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.long cimport PyLong_AsLongLong
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Realloc
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport INT32_MAX, INT32_MIN, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset


cdef enum:
    MAX_ROWS = 1 << 28        # what is computed of their number stays in range

cdef const char *META_KINDS = b"iilissi"
cdef uint64_t rows_made = 0


cdef size_t width_of(char kind) noexcept nogil:
    return 4 if kind == b'i' else 1 if kind == b'b' else 0 if kind == b's' else 8


# -- Values of a row that is there only when `count` says so: what was put for another try is written over --------------


cdef int put_text(TransformRows rows, int column, Py_ssize_t row, const char *text, size_t size) except -1:
    cdef RowColumn *col = &rows.cols[column]
    cdef size_t start = <size_t> col.ends[row - 1] if row else 0
    cdef size_t room
    if start + size > INT32_MAX:
        raise OverflowError("a chunk of more than 2 GiB")
    if start + size > col.room:
        room = (start + size) * 2 + 4096
        more = <char *> PyMem_Realloc(col.data, room)
        if not more:
            raise MemoryError
        col.data, col.room = more, room
    if size:
        memcpy(col.data + start, text, size)
    col.ends[row] = <int32_t> (start + size)
    col.valid[row] = True
    return 0


cdef void put_null(TransformRows rows, int column, Py_ssize_t row) noexcept nogil:
    cdef RowColumn *col = &rows.cols[column]
    if col.kind == b's':
        col.ends[row] = col.ends[row - 1] if row else 0
    else:
        memset(col.data + <size_t> row * width_of(col.kind), 0, width_of(col.kind))
    col.valid[row] = False


cdef int put_object(TransformRows rows, int column, Py_ssize_t row, value) except -1:
    """Put a value of Python's; raises TypeError or OverflowError."""
    cdef char kind = rows.cols[column].kind
    cdef Py_ssize_t size
    cdef const char *text
    cdef int64_t whole
    if value is None:
        put_null(rows, column, row)
    elif kind == b's':
        if type(value) is bytes:
            return put_text(rows, column, row, PyBytes_AS_STRING(value), <size_t> PyBytes_GET_SIZE(value))
        text = PyUnicode_AsUTF8AndSize(value, &size)
        return put_text(rows, column, row, text, <size_t> size)
    elif kind == b'd':
        put_double(rows, column, row, value)
    elif kind == b'b':
        put_truth(rows, column, row, value is True)
    else:
        whole = PyLong_AsLongLong(value)
        if kind == b'l':
            put_long(rows, column, row, whole)
            return 0
        if not INT32_MIN <= whole <= INT32_MAX:
            raise OverflowError("more than 32 bits")
        put_small(rows, column, row, <int32_t> whole)
    return 0


# -- Columns that are taken --------------------------------------------------------------------------------------------


cdef bytes bits_of(const uint8_t *flags, Py_ssize_t count):
    """Return bits, the first row's the lowest of the first byte, as Arrow has them."""
    cdef bytes bits = PyBytes_FromStringAndSize(NULL, (count + 7) // 8)
    to = <uint8_t *> PyBytes_AS_STRING(bits)
    cdef Py_ssize_t i
    memset(to, 0, <size_t> (count + 7) // 8)
    for i in range(count):
        to[i // 8] |= flags[i] << (i % 8)
    return bits


cdef tuple parts_of(const RowColumn *col, Py_ssize_t count):
    """Return a column's first `count` values, as Arrow has them: validity, ends, data."""
    cdef Py_ssize_t nulls = 0, i
    cdef bytes ends
    for i in range(count):
        nulls += not col.valid[i]
    valid = bits_of(col.valid, count) if nulls else None
    if col.kind == b'b':
        return valid, None, bits_of(<const uint8_t *> col.data, count)
    if col.kind != b's':
        return valid, None, PyBytes_FromStringAndSize(col.data, count * <Py_ssize_t> width_of(col.kind))
    ends = PyBytes_FromStringAndSize(NULL, (count + 1) * 4)
    memset(PyBytes_AS_STRING(ends), 0, 4)
    if count:
        memcpy(PyBytes_AS_STRING(ends) + 4, col.ends, <size_t> count * 4)
    return valid, ends, PyBytes_FromStringAndSize(col.data, col.ends[count - 1] if count else 0)


cdef class TransformRows:
    """Rows on their way to expressions, with slots of these kinds: `s`, `l`, `d` or `b` for each."""

    def __cinit__(self, bytes kinds):
        global rows_made
        cdef Py_ssize_t c, size = len(kinds)
        if size > MAX_ROWS:
            raise ValueError("too many slots")
        rows_made += 1
        self.number = rows_made
        self.cols = <RowColumn *> PyMem_Calloc(<size_t> size + SLOTS, sizeof(RowColumn))
        if not self.cols:
            raise MemoryError
        for c in range(SLOTS):
            self.cols[c].kind = META_KINDS[c]
        for c in range(size):
            if kinds[c] not in b"sldb":
                raise ValueError("a slot is of s, l, d or b")
            self.cols[SLOTS + c].kind = kinds[c]
        self.columns = SLOTS + <int> size

    def __dealloc__(self):
        cdef int c
        for c in range(self.columns):
            PyMem_Free(self.cols[c].valid)
            PyMem_Free(self.cols[c].ends)
            PyMem_Free(self.cols[c].data)
        PyMem_Free(self.cols)

    cdef int begin(self) except -1:
        """Begin a call: rows are of one at a time. Raises RuntimeError."""
        if self.busy:
            raise RuntimeError("these rows are in use: by a call that is not done yet, or in another thread")
        self.busy = True
        return 0

    cdef int make_room(self, Py_ssize_t more) except -1:
        """Make room for so many more rows of either kind; raises OverflowError."""
        cdef Py_ssize_t count = self.count if self.count > self.sent else self.sent
        cdef size_t room
        cdef RowColumn *col
        cdef void *made
        cdef int c
        if more > MAX_ROWS - count:
            raise OverflowError(f"a chunk of more than {MAX_ROWS} rows")
        count += more
        if count <= self.room:
            return 0
        room = <size_t> count * 2 + 1024
        for c in range(self.columns):
            col = &self.cols[c]
            made = PyMem_Realloc(col.valid, room)
            if not made:
                raise MemoryError
            col.valid = <uint8_t *> made
            if col.kind == b's':
                made = PyMem_Realloc(col.ends, room * sizeof(int32_t))
                col.ends = <int32_t *> made if made else col.ends
            else:
                made = PyMem_Realloc(col.data, room * width_of(col.kind))
                col.data = <char *> made if made else col.data
            if not made:
                raise MemoryError
        self.room = <Py_ssize_t> room
        return 0

    cdef int add_ready(self, int32_t target, const char *key, size_t key_size, const char *text, size_t size) except -1:
        """Add a record that is ready to be written; a key or a text of NULL is none."""
        cdef Py_ssize_t row = self.count
        self.make_room(1)
        put_meta(self, row, -1, target, self.offset, 0)
        if key == NULL:
            put_null(self, AT_KEY, row)
        else:
            put_text(self, AT_KEY, row, key, key_size)
        if text == NULL:
            put_null(self, AT_TEXT, row)
        else:
            put_text(self, AT_TEXT, row, text, size)
        self.count += 1
        return 0

    def add(self, tuple meta not None, tuple values not None):
        self.begin()
        try:
            self.add_row(meta, values)
        finally:
            self.busy = False

    def add_row(self, tuple meta, tuple values):
        cdef int c
        cdef int32_t transform
        if len(meta) != AT_SENT or (values and len(values) != self.columns - SLOTS):
            raise ValueError("one value for each column, or none for all slots")
        self.make_room(1)
        for c in range(AT_SENT):
            put_object(self, c, self.count, meta[c])
        transform = (<int32_t *> self.cols[AT_TRANSFORM].data)[self.count]
        if transform >= 0:
            put_small(self, AT_SENT, self.sent, transform)
            for c in range(SLOTS, self.columns):
                put_object(self, c, self.sent, values[c - SLOTS] if values else None)
            self.sent += 1
        self.count += 1

    def mark(self, int code, Py_ssize_t count):
        cdef int32_t transform = code
        cdef int c
        if self.busy:
            self.begin()
        if code >= 0 or count < 0:
            raise ValueError("a mark is no transform")
        self.make_room(count)
        for _ in range(count):
            put_small(self, AT_SENT, self.sent, transform)
            for c in range(SLOTS, self.columns):
                put_null(self, c, self.sent)
            self.sent += 1

    def size(self):
        if self.busy:
            self.begin()
        return self.sent, self.cols[AT_TEXT].ends[self.count - 1] if self.count else 0

    def take(self):
        self.begin()
        try:
            kept = [parts_of(&self.cols[c], self.count) for c in range(<int> AT_SENT)]
            going = [parts_of(&self.cols[c], self.sent) for c in range(<int> AT_SENT, self.columns)]
            count, sent = self.count, self.sent
            self.count = self.sent = 0
        finally:
            self.busy = False
        return count, kept, sent, going
