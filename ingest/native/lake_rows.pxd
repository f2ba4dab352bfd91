# cython: language_level=3
"""Rows of one table as columns of Arrow."""

cimport cython

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from ingest.native.scan cimport Field, Row


cdef struct LakeCells:        # a column, as Arrow has it, but for truth values and validity, of a byte each until they are taken
    int kind                  # LakeKind
    bint of_key
    bint was_cut              # the value in hand is a time that lost something
    int64_t first             # bits, or digits
    int64_t second            # the scale
    const char *name
    uint32_t name_size
    const Field *field        # the value in hand; NULL: there is none
    uint8_t *valid
    int32_t *ends             # of texts and bytes, after a 0
    char *data
    size_t bytes              # room for texts and bytes
    int64_t cut               # values that lost something


@cython.final
cdef class LakeRows:
    cdef bint busy            # one of its methods runs
    cdef object spec          # has the names
    cdef LakeCells *cells
    cdef int columns
    cdef uint8_t *gone        # rows that are deletes
    cdef Py_ssize_t count
    cdef Py_ssize_t room
    cdef Row *rows            # the row in hand, and the one before it, in turn
    cdef Row *key_row
    cdef int now              # which one is in hand
    cdef bint alike           # the memory of the row before is there still
    cdef object held          # the row before, where it is an object

    cdef int begin(self) except -1
    cdef bint add(self, const char *key, size_t key_size, const char *row, size_t row_size) except -1
    cdef bint place_fields(self, Row *row, bint of_key) noexcept nogil
    cdef bint put_cells(self, bint deleted) except -1
    cdef int make_room(self) except -1
    cdef tuple take_parts(self, LakeCells *col)


cdef bytes bits_of(const uint8_t *flags, Py_ssize_t count)
