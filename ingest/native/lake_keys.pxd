# cython: language_level=3
"""The last states of the keys of one table, as columns of Arrow."""

cimport cython

from ingest.native.lake_rows cimport LakeRows


@cython.final
cdef class LakeKeys:
    cdef bint busy            # one of its methods runs
    cdef LakeRows rows
    cdef dict numbers         # of the last states of keys: of rows, and below 0 of those that were left
    cdef list left            # records that the reference has to look at
    cdef Py_ssize_t left_count

    cdef int begin(self) except -1
    cdef int keep(
        self, Py_ssize_t place, const char *key, size_t key_size, const char *row, size_t row_size
    ) except -1
    cdef tuple last_states(self)
