# cython: language_level=3
"""Columns that come back from expressions, as Arrow has them, and rows made of them.

The reference is `ResultMerger` in encode/result_merger.py.
"""

cimport cython

from cpython.buffer cimport Py_buffer
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from ingest.native.change cimport Room, Workspace
from ingest.native.records cimport EncodedBatch
from ingest.native.scan cimport Field, Row, Text

cdef enum:
    MAX_MARKS = 63            # results whose failures are bits of one mask


cdef struct ArrowBuffer:
    const char *bytes
    Py_ssize_t size
    bint there                # an empty one may have no bytes


cdef struct ArrowColumn:
    char kind                 # `i` 32 bits, `l` 64 bits, `d` double, `b` truth, `s` text or bytes
    Py_ssize_t first          # where its values begin
    ArrowBuffer valid
    ArrowBuffer ends
    ArrowBuffer data


@cython.final
cdef class ArrowColumns:
    cdef ArrowColumn *columns
    cdef Py_ssize_t count
    cdef Py_buffer *held
    cdef Py_ssize_t held_count

    cdef int hold(self, object given, ArrowBuffer *buffer) except -1
    cdef int open(self, Py_ssize_t at, char kind, object given, Py_ssize_t size) except -1


cdef inline bint bit_at(const ArrowBuffer *bits, Py_ssize_t at) noexcept nogil:
    return ((<uint8_t> bits.bytes[at >> 3]) >> (at & 7)) & 1


cdef inline bint is_null(const ArrowColumn *column, Py_ssize_t at) noexcept nogil:
    return column.valid.there and not bit_at(&column.valid, column.first + at)


cdef inline bint truth_at(const ArrowColumn *column, Py_ssize_t at) noexcept nogil:
    return not is_null(column, at) and bit_at(&column.data, column.first + at)


cdef inline int32_t int_at(const ArrowColumn *column, Py_ssize_t at) noexcept nogil:
    cdef int32_t value
    memcpy(&value, column.data.bytes + (column.first + at) * <Py_ssize_t> sizeof(value), sizeof(value))
    return value


cdef inline int64_t long_at(const ArrowColumn *column, Py_ssize_t at) noexcept nogil:
    cdef int64_t value
    memcpy(&value, column.data.bytes + (column.first + at) * <Py_ssize_t> sizeof(value), sizeof(value))
    return value


cdef inline double double_at(const ArrowColumn *column, Py_ssize_t at) noexcept nogil:
    cdef double value
    memcpy(&value, column.data.bytes + (column.first + at) * <Py_ssize_t> sizeof(value), sizeof(value))
    return value


cdef int text_at(const ArrowColumn *column, Py_ssize_t at, Text *text) except -1


cdef struct Result:
    Text name
    int place                 # which of the results that come back it is
    char kind
    Text copied               # the name of the column that it is a copy of


cdef struct ResultColumn:     # of a row that is made: the place of a result, or -1 and a name
    int place
    Text name


@cython.final
cdef class ResultRows:
    cdef Result *results
    cdef int count
    cdef ResultColumn *columns
    cdef int column_count     # -1: all that a row has, then results that are new
    cdef int filter           # which result, or -1
    cdef int filter_before
    cdef bint changeable
    cdef bint soft_delete
    cdef bint makes_key
    cdef list writers
    cdef object spec          # owns the texts of names

    cdef bint fits(self, bytes kinds) except -1
    cdef bint make(
        self, Workspace *ws, Text raw, const ArrowColumn *came, Py_ssize_t at, EncodedBatch batch, Room *room, Row *made
    ) except -1
    cdef bint write_results(
        self, Workspace *ws, Text raw, const ArrowColumn *came, Py_ssize_t at, Field *values
    ) except -1
