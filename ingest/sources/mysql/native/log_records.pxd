# cython: language_level=3
"""Records of the log in the making, and those that are given on; see ingest/sources/mysql/log_records.py."""

from libc.stdint cimport int64_t

from ingest.native.records cimport Messages, RawMetadata


cdef struct PendingRecord:            # a record: its value is in `PendingRecords.data`
    size_t at
    size_t size
    int64_t position
    int64_t millis


cdef class PendingRecords:
    cdef char *data
    cdef size_t used
    cdef size_t room
    cdef PendingRecord *entries
    cdef Py_ssize_t count
    cdef Py_ssize_t entry_room
    cdef readonly Py_ssize_t ended
    cdef bint with_metadata

    cdef char *reserve(self, size_t size) except NULL
    cdef int keep(self, size_t size, int64_t position, int64_t millis) except -1
    cdef int cut(self, Py_ssize_t count) except -1
    cdef bytes value(self, Py_ssize_t at)


cdef class Arena:
    cdef char *data


cdef class LogRecords(Messages):
    cdef Arena arena
    cdef int64_t *millis
    cdef RawMetadata *metadata
