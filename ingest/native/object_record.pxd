# cython: language_level=3
"""A record that is an object of Python, as native code has records."""

cimport cython

from ingest.native.metadata cimport MAX_HEADERS
from ingest.native.records cimport Header, RawRecord, RawMetadata


@cython.final
cdef class ObjectRecord:
    cdef RawRecord raw
    cdef RawMetadata metadata
    cdef Header headers[MAX_HEADERS]
    cdef object value
    cdef list kept            # objects that own what the others point to

    cdef bint read(self, message, int wanted) except -1
    cdef bint read_metadata(self, message, bint with_headers) except -1
    cdef bint read_headers(self, given) except -1
