# cython: language_level=3
"""The encoders of tables by the ids that messages have, and the reasons why messages of other tables are skipped."""

cimport cython

from cpython.ref cimport PyObject

from ingest.native.scan cimport Text


cdef struct RecentTable:      # `tables` keeps what was found
    PyObject *id
    PyObject *found


@cython.final
cdef class TableCache:
    cdef object find
    cdef dict tables
    cdef Py_ssize_t reasons   # so many of them are no encoders
    cdef RecentTable *recent  # 2 to the power of `bits`, or NULL
    cdef int bits

    cdef void forget_recent(self) noexcept
    cdef void forget(self) noexcept
    cdef RecentTable *place_of(self, const char *id, size_t size) except NULL
    cdef object of(self, const Text *parts, int count)
    cdef object keep(self, bytes id)
