# cython: language_level=3, boundscheck=False, wraparound=False
"""The encoders of tables by the ids that messages have; see table_cache.pxd."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport uint64_t
from libc.string cimport memcmp, memcpy

from ingest.native.row_encoder cimport RowEncoder
from ingest.native.scan cimport Text

cdef enum:
    MAX_ID = 1024             # bytes of a table's id
    MAX_BITS = 12             # of the place of a table among the recent ones
    MAX_REASONS = 10_000      # of tables that are skipped: messages may name any


cdef class TableCache:
    """The answers of `find` for ids: a `RowEncoder`, or a text, which is why messages of a table are skipped."""

    def __cinit__(self, find):
        self.find, self.tables = find, {}

    def __dealloc__(self):
        self.forget_recent()

    cdef void forget_recent(self) noexcept:
        cdef Py_ssize_t i
        if self.recent != NULL:
            for i in range(1 << self.bits):
                if self.recent[i].id != NULL:
                    Py_DECREF(<object> self.recent[i].id)
        PyMem_Free(self.recent)
        self.recent = NULL

    cdef void forget(self) noexcept:
        """Let `find` be asked for every table again."""
        self.forget_recent()
        self.tables.clear()
        self.reasons = 0

    cdef RecentTable *place_of(self, const char *id, size_t size) except NULL:
        """Return where a table of this id was kept, or is to be. There is room for as many as there are."""
        cdef uint64_t end = 0
        cdef Py_ssize_t count = len(self.tables)
        if self.recent == NULL or (self.bits < MAX_BITS and count > <Py_ssize_t> 1 << self.bits):
            self.forget_recent()
            self.bits = 2
            while self.bits < MAX_BITS and count > <Py_ssize_t> 1 << self.bits:
                self.bits += 1
            self.recent = <RecentTable *> PyMem_Calloc(<size_t> 1 << self.bits, sizeof(RecentTable))
            if self.recent == NULL:
                raise MemoryError
        # Ids mostly differ at their ends, before the last zero byte
        memcpy(&end, id + size - 9 if size > 8 else id, 8 if size > 8 else size)
        return &self.recent[((end ^ size) * <uint64_t> 0x9E3779B97F4A7C15) >> (64 - self.bits)]

    cdef object of(self, const Text *parts, int count):
        """Return the encoder of a table, or the reason why its messages are skipped; None where there is neither.

        Raises what `find` raises.
        """
        cdef char id[MAX_ID]
        cdef size_t size = 0
        cdef RecentTable *recent
        cdef int i
        id[0] = 0  # there may be no parts
        for i in range(count):
            if size + parts[i].size + 1 > MAX_ID:
                return None
            if parts[i].size:
                memcpy(id + size, parts[i].text, parts[i].size)
            size += parts[i].size
            id[size] = 0  # no string of JSON has one
            size += 1
        recent = self.place_of(id, size)
        if recent.id != NULL and <size_t> PyBytes_GET_SIZE(<object> recent.id) == size:
            if not memcmp(PyBytes_AS_STRING(<object> recent.id), id, size):
                return <object> recent.found
        return self.keep(PyBytes_FromStringAndSize(id, <Py_ssize_t> size))

    cdef object keep(self, bytes id):
        """Return what there is of a table that is not among the recent ones, and put it there."""
        cdef RecentTable *recent
        found = self.tables.get(id)
        if found is None:
            found = self.find(id)
            if type(found) is str:
                if self.reasons == MAX_REASONS:
                    self.forget()
                self.reasons += 1
            elif type(found) is not RowEncoder:
                return None
            self.tables[id] = found
        recent = self.place_of(PyBytes_AS_STRING(id), <size_t> PyBytes_GET_SIZE(id))
        if recent.id != NULL:
            Py_DECREF(<object> recent.id)
        Py_INCREF(id)
        recent.id, recent.found = <PyObject *> id, <PyObject *> found
        return found
