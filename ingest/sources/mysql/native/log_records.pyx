# cython: language_level=3, boundscheck=False, wraparound=False
"""Records of the log in the making, and those that are given on; see log_records.pxd."""

cimport cython

from collections.abc import Sequence

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memmove

from ingest.native.records cimport Messages, RawMetadata, RawRecord
from ingest.sources.mysql.log_records import LogRecord, entry_of, spread

cdef enum:
    FIRST_BYTES = 1 << 18
    FIRST_RECORDS = 1 << 10


@cython.final
@cython.no_gc
cdef class Arena:
    """Bytes of values. They never move."""

    def __dealloc__(self):
        PyMem_Free(self.data)


@cython.final
cdef class LogRecords(Messages):
    """Consecutive records of the log."""

    def __dealloc__(self):
        PyMem_Free(self.metadata)
        PyMem_Free(self.millis)
        PyMem_Free(<void *> self.records)

    def __getitem__(self, index):
        cdef Py_ssize_t at, start, stop, step, count
        cdef LogRecords some
        cdef RawRecord *raw
        if isinstance(index, slice):
            start, stop, step = index.indices(self.count)
            count = len(range(start, stop, step))
            some = room_for(self.arena, count, self.metadata != NULL)
            raw = <RawRecord *> some.records
            for at in range(count):
                raw[at] = self.records[start + at * step]
                some.millis[at] = self.millis[start + at * step]
            some.count = count
            some.describe()
            return some
        at = index
        if at < 0:
            at += self.count
        if not 0 <= at < self.count:
            raise IndexError("no such record")
        value = PyBytes_FromStringAndSize(self.records[at].value, <Py_ssize_t> self.records[at].value_size)
        return LogRecord(value, self.records[at].offset, self.millis[at])

    def describe(self):
        """Put in what there is to know of records beside their values, where somebody asks."""
        cdef Py_ssize_t at
        cdef RawRecord *raw = <RawRecord *> self.records
        cdef RawMetadata *of
        if self.metadata == NULL:
            return
        for at in range(self.count):
            of = &self.metadata[at]
            of.topic, of.topic_size = b"binlog", 6
            of.offset, of.millis, of.time_type = raw[at].offset, self.millis[at], 1
            of.headers, of.header_count, of.partition, of.leader_epoch = NULL, 0, 0, -1
            raw[at].metadata = of


Sequence.register(LogRecords)


cdef LogRecords room_for(Arena arena, Py_ssize_t count, bint with_metadata):
    """Return room for so many records of an arena."""
    cdef LogRecords out = LogRecords.__new__(LogRecords)
    out.arena = arena
    out.records = <RawRecord *> PyMem_Calloc(<size_t> (count or 1), sizeof(RawRecord))
    out.millis = <int64_t *> PyMem_Malloc(<size_t> (count or 1) * sizeof(int64_t))
    if with_metadata:
        out.metadata = <RawMetadata *> PyMem_Calloc(<size_t> (count or 1), sizeof(RawMetadata))
    if out.records == NULL or out.millis == NULL or (with_metadata and out.metadata == NULL):
        raise MemoryError
    return out


@cython.final
cdef class PendingRecords:
    """See `PendingRecords` of ingest/sources/mysql/log_records.py."""

    def __cinit__(self, with_metadata=False):
        self.with_metadata = with_metadata

    def __dealloc__(self):
        PyMem_Free(self.data)
        PyMem_Free(self.entries)

    def __len__(self):
        return self.count

    @property
    def size(self):
        """Bytes of all of them."""
        return self.used

    cdef char *reserve(self, size_t size) except NULL:
        """Return where so many bytes may be written. What was written before may move."""
        cdef size_t room = self.room or FIRST_BYTES
        cdef char *data
        if self.room - self.used < size:
            while room - self.used < size:
                room *= 2
            data = <char *> PyMem_Realloc(self.data, room)
            if data == NULL:
                raise MemoryError
            self.data, self.room = data, room
        return self.data + self.used

    cdef int keep(self, size_t size, int64_t position, int64_t millis) except -1:
        """Make a record of the bytes that were written where `reserve` said."""
        cdef PendingRecord *entries
        cdef Py_ssize_t room
        if self.count == self.entry_room:
            room = self.entry_room * 2 or FIRST_RECORDS
            entries = <PendingRecord *> PyMem_Realloc(self.entries, <size_t> room * sizeof(PendingRecord))
            if entries == NULL:
                raise MemoryError
            self.entries, self.entry_room = entries, room
        self.entries[self.count] = PendingRecord(self.used, size, position, millis)
        self.used += size
        self.count += 1
        return 0

    cdef int cut(self, Py_ssize_t count) except -1:
        """Keep the first `count` records only."""
        if count < self.count:
            self.used = self.entries[count].at
            self.count = count
        self.ended = min(self.ended, count)
        return 0

    cdef bytes value(self, Py_ssize_t at):
        return PyBytes_FromStringAndSize(self.data + self.entries[at].at, <Py_ssize_t> self.entries[at].size)

    def add(self, bytes value not None, int64_t position, int64_t millis):
        """Add a record of the open transaction."""
        cdef size_t size = <size_t> PyBytes_GET_SIZE(value)
        memcpy(self.reserve(size), PyBytes_AS_STRING(value), size)
        self.keep(size, position, millis)

    def end(self):
        """Note that the open transaction ended, and all of it counts."""
        self.ended = self.count

    def drop(self, Py_ssize_t start, but=()):
        """Drop the records from `start` on, but those of some entries of the history of schemas."""
        if start < 0 or start >= self.count:
            return
        kept = [record for record in self.since(start) if entry_of(record.data) in but] if but else ()
        self.cut(start)
        for record in kept:
            self.add(record.data, record.position, record.millis)

    def place(self, Py_ssize_t start, int64_t position, Py_ssize_t room):
        """Give the records from `start` on positions of their own, of which there are so many from one on."""
        cdef Py_ssize_t at
        if start < 0 or start >= self.count:
            return
        if self.count - start <= room:
            for at in range(start, self.count):
                self.entries[at].position = position + at - start
                self.entries[at].millis = self.entries[start].millis
            return
        made = self.since(start)
        self.cut(start)
        for value in spread([record.data for record in made], room):
            self.add(value, position, made[0].millis)
            position += 1

    def since(self, Py_ssize_t start):
        """Return the records from `start` on."""
        cdef Py_ssize_t at
        if start < 0:
            raise ValueError(start)
        return [
            LogRecord(self.value(at), self.entries[at].position, self.entries[at].millis)
            for at in range(start, self.count)
        ]

    def take(self, Py_ssize_t count):
        """Return the first `count` records, and keep the others."""
        cdef LogRecords out
        cdef RawRecord *raw
        cdef Arena arena = Arena.__new__(Arena)
        cdef size_t size
        cdef Py_ssize_t at
        cdef char *rest = NULL
        count = max(0, min(count, self.count))
        out = room_for(arena, count, self.with_metadata)
        size = self.entries[count].at if count < self.count else self.used
        if count < self.count:
            rest = <char *> PyMem_Malloc(max(self.used - size, <size_t> FIRST_BYTES))
            if rest == NULL:
                raise MemoryError
            memcpy(rest, self.data + size, self.used - size)
        arena.data = self.data
        raw = <RawRecord *> out.records
        for at in range(count):
            raw[at].value = arena.data + self.entries[at].at
            raw[at].value_size = self.entries[at].size
            raw[at].offset = self.entries[at].position
            out.millis[at] = self.entries[at].millis
        out.count = count
        out.describe()
        self.data = rest
        self.room = max(self.used - size, <size_t> FIRST_BYTES) if rest else 0
        self.used -= size
        self.count -= count
        self.ended = max(self.ended - count, 0)
        if self.count:  # nothing was ever kept: there are no entries to move, and C takes no NULL for them
            memmove(self.entries, self.entries + count, <size_t> self.count * sizeof(PendingRecord))
        for at in range(self.count):
            self.entries[at].at -= size
        return out
