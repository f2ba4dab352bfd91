# cython: language_level=3
"""The way of rows to expressions, in columns as Arrow has them.

`TransformRows` has the rows of a chunk, `TransformInput` what of a table's rows goes there. The reference is
`TransformInputEncoder` in encode/transform_input.py.
"""

cimport cython

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from ingest.native.change cimport Change, Typing, Workspace
from ingest.native.scan cimport MAX_FIELDS, Field, Row, Text
from ingest.native.table cimport Table


cdef struct RowColumn:        # as Arrow has it, but for truth values and validity, of a byte each until they are taken
    char kind                 # `i` 32 bits, `l` 64 bits, `d` double, `b` truth, `s` text or bytes
    uint8_t *valid
    int32_t *ends             # of texts
    char *data
    size_t room               # for texts' bytes


cdef enum:                    # what stays on this side of Spark, then what goes: the transform once more, and slots
    AT_TRANSFORM
    AT_TARGET
    AT_OFFSET
    AT_WHAT
    AT_TEXT
    AT_KEY
    AT_SENT
    SLOTS


@cython.final
cdef class TransformRows:
    cdef bint busy            # one of its methods runs, or messages are on their way here
    cdef uint64_t number      # no other one of the process has it
    cdef int columns
    cdef RowColumn *cols
    cdef Py_ssize_t count     # rows
    cdef Py_ssize_t sent      # those of them that go to expressions
    cdef Py_ssize_t room
    cdef int64_t offset       # of the message in hand

    cdef int begin(self) except -1
    cdef int make_room(self, Py_ssize_t more) except -1
    cdef int add_ready(self, int32_t target, const char *key, size_t key_size, const char *text, size_t size) except -1


cdef int put_text(TransformRows rows, int column, Py_ssize_t row, const char *text, size_t size) except -1
cdef void put_null(TransformRows rows, int column, Py_ssize_t row) noexcept nogil
cdef bytes bits_of(const uint8_t *flags, Py_ssize_t count)


cdef inline void put_small(TransformRows rows, int column, Py_ssize_t row, int32_t value) noexcept nogil:
    cdef RowColumn *col = &rows.cols[column]
    (<int32_t *> col.data)[row] = value
    col.valid[row] = True


cdef inline void put_long(TransformRows rows, int column, Py_ssize_t row, int64_t value) noexcept nogil:
    cdef RowColumn *col = &rows.cols[column]
    (<int64_t *> col.data)[row] = value
    col.valid[row] = True


cdef inline void put_double(TransformRows rows, int column, Py_ssize_t row, double value) noexcept nogil:
    cdef RowColumn *col = &rows.cols[column]
    (<double *> col.data)[row] = value
    col.valid[row] = True


cdef inline void put_truth(TransformRows rows, int column, Py_ssize_t row, bint value) noexcept nogil:
    cdef RowColumn *col = &rows.cols[column]
    col.data[row] = value
    col.valid[row] = True


cdef inline void put_meta(
    TransformRows rows, Py_ssize_t row, int32_t transform, int32_t target, int64_t offset, int32_t what
) noexcept nogil:
    """Put what every row has, beside its text and its key."""
    put_small(rows, AT_TRANSFORM, row, transform)
    put_small(rows, AT_TARGET, row, target)
    put_long(rows, AT_OFFSET, row, offset)
    put_small(rows, AT_WHAT, row, what)


cdef struct Slot:
    int column
    int slot
    char kind


cdef struct Slots:
    Slot *slots
    int count


cdef struct Fed:              # what of a change goes
    const Row *row
    const Typing *typing
    const Row *old            # NULL: there is none
    const Typing *old_typing
    const Field *decisive[MAX_FIELDS]  # of the row before
    const Field *before[MAX_FIELDS]
    bint together             # columns of the row before go with the row after it
    bint alone                # it goes by itself


@cython.final
cdef class TransformInput:
    cdef int32_t transform
    cdef int32_t insert       # what the row of an insert is
    cdef Slots inputs
    cdef Slots before         # of the row before an update, that go with the row after it
    cdef int event            # the slot of what happened, or -1
    cdef int *decisive
    cdef int decisive_count
    cdef bint always_before
    cdef Text *constants      # a text of NULL: the slot has none
    cdef int slots
    cdef int *unfed           # slots that are neither of `inputs` nor `event`
    cdef int unfed_count
    cdef uint64_t checked     # the number of those rows whose slots are known to be the same
    cdef object spec          # owns the constants

    cdef int find_unfed(self) except -1
    cdef int fits(self, TransformRows rows) except -1
    cdef bint check_old(self, Workspace *ws, Table table, const Change *change, Fed *fed) noexcept nogil
    cdef bint check_key(self, Workspace *ws, Table table, const Change *change, const Row *row) noexcept nogil
    cdef bint check(self, Workspace *ws, Table table, const Change *change, Fed *fed) noexcept nogil
    cdef int put_row(
        self, Table table, TransformRows rows, Py_ssize_t next, const Row *row, int32_t what, const char *event
    ) except -1
    cdef int add(self, Workspace *ws, Table table, const Change *change, TransformRows rows) except -1
