# cython: language_level=3
"""Rows on their way to expressions, in columns as Arrow has them."""

cimport cython

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t


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
