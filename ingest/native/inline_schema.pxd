# cython: language_level=3
"""The types that messages declare for their columns. The reference is formats/typed.py."""

cimport cython

from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint32_t

from ingest.native.scan cimport Row
from ingest.native.workspace cimport Typing

cdef enum:
    RECENT_SCHEMAS = 8


cdef struct ColumnCodec:
    const char *name
    uint32_t name_size
    int codec                 # ValueCodec
    int type                  # the number of its type, as columns of tables have it
    int64_t first
    int64_t second


cdef struct RecentSchema:     # kept by the cache's dictionary
    PyObject *text
    PyObject *schema


@cython.final
cdef class RowCodec:
    cdef ColumnCodec *columns
    cdef int count
    cdef bint numbers         # some of its columns have texts that hold numbers
    cdef size_t weight        # bytes that it takes
    cdef object spec          # owns the texts of names

    cdef bint read_row(self, Row *row, Typing *typing, char **to) noexcept nogil


@cython.final
cdef class SchemaCache:
    cdef object read
    cdef dict schemas         # by its text: a text and what it says
    cdef size_t count
    cdef size_t weight
    cdef RecentSchema recent[RECENT_SCHEMAS]  # the last ones first
    cdef object __weakref__

    cdef RowCodec find(self, const char **at, const char *end)
    cdef RowCodec find_text(self, bytes text)
    cdef bint keep(self, bytes text, object made) except -1
    cdef void forget(self) noexcept
