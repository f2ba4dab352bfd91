# cython: language_level=3
"""The way of a table's rows to expressions. The reference is `TransformInputEncoder` in encode/transform_input.py."""

cimport cython

from libc.stdint cimport int32_t, uint64_t

from ingest.native.change cimport Change, Typing, Workspace
from ingest.native.scan cimport MAX_FIELDS, Field, Row, Text
from ingest.native.table cimport Table
from ingest.native.transform_rows cimport TransformRows


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
