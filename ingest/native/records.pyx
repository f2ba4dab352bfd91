# cython: language_level=3, boundscheck=False, wraparound=False
"""Records on their way between a Kafka client and the native code; see records.pxd for what is in them."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.stdint cimport uint64_t

from collections.abc import Sequence

cdef enum:
    FIRST_RECORDS = 256
    BLOCK_BYTES = 256 << 10
    SPARES = 4

cdef struct Spare:            # memory of batches that are gone, for the next ones: it is in the cache still
    EncodedRecord *records
    Py_ssize_t room
    Block *block

cdef Spare spares[SPARES]
cdef int spare_count = 0
cdef uint64_t batches_made = 0


cdef class Messages:
    """Records of one split, in order. Whoever extends it sets `records` and `count`, and owns their memory."""

    def __len__(self) -> int:
        return self.count

    @property
    def size(self) -> int:
        """Bytes of all keys and values."""
        cdef size_t total = 0
        cdef Py_ssize_t at
        for at in range(self.count):
            total += self.records[at].key_size + self.records[at].value_size
        return total


cdef class EncodedBatch:
    """Records that are to be written: in Python a sequence of (destination, key, value).

    Its memory never moves while it lives: keys and values that were made are in blocks of its own, unchanged values
    where its messages have them, which it keeps alive.
    """

    def __cinit__(self):
        global batches_made, spare_count
        batches_made += 1
        self.number = batches_made
        self.targets = []
        self.held = None
        if spare_count:
            spare_count -= 1
            self.records = spares[spare_count].records
            self.room = spares[spare_count].room
            self.block = spares[spare_count].block
            return
        self.grow_records()
        self.grow_arena(1)

    def __dealloc__(self):
        global spare_count
        cdef Block *before
        while self.block and (self.block.before or self.block.size > BLOCK_BYTES):
            before = self.block.before
            PyMem_Free(self.block)
            self.block = before
        if self.block and self.records and self.room <= FIRST_RECORDS * 4 and spare_count < SPARES:
            self.block.used = 0
            spares[spare_count] = Spare(self.records, self.room, self.block)
            spare_count += 1
            return
        PyMem_Free(self.block)
        PyMem_Free(self.records)

    cdef int hold(self, object value) except -1:
        """Keep bytes alive that a value may be in."""
        if self.held is None:
            self.held = []
        self.held.append(value)
        return 0

    cdef Py_ssize_t add_target(self, object destination) except -1:
        """Return the place of a destination in `targets`, where it is put once more."""
        self.targets.append(destination)
        return len(self.targets) - 1

    cdef int grow_records(self) except -1:
        """Make room for more records; raises MemoryError."""
        cdef Py_ssize_t room = self.room * 2 or FIRST_RECORDS
        more = <EncodedRecord *> PyMem_Realloc(self.records, room * sizeof(EncodedRecord))
        if not more:
            raise MemoryError
        self.records = more
        self.room = room
        return 0

    cdef char *grow_arena(self, size_t size) except NULL:
        """Begin a block that has room for `size` bytes, and return where they are; raises MemoryError."""
        cdef size_t room = BLOCK_BYTES if size < BLOCK_BYTES else size
        block = <Block *> PyMem_Malloc(sizeof(Block) + room)
        if not block:
            raise MemoryError
        block.before = self.block
        block.size = room
        block.used = 0
        self.block = block
        return <char *> (block + 1)

    cdef tuple record(self, Py_ssize_t at):
        cdef EncodedRecord *found = &self.records[at]
        key = None if not found.key else PyBytes_FromStringAndSize(found.key, <Py_ssize_t> found.key_size)
        value = None if not found.value else PyBytes_FromStringAndSize(found.value, <Py_ssize_t> found.value_size)
        return self.targets[found.target], key, value

    def __len__(self) -> int:
        return self.count

    @property
    def size(self) -> int:
        """Bytes of all keys and values."""
        cdef size_t total = 0
        cdef Py_ssize_t at
        for at in range(self.count):
            total += self.records[at].key_size + self.records[at].value_size
        return total

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self.record(i) for i in range(*index.indices(self.count))]
        cdef Py_ssize_t at = index
        if at < 0:
            at += self.count
        if not 0 <= at < self.count:
            raise IndexError("no such record")
        return self.record(at)

    def __iter__(self):
        return iter([self.record(at) for at in range(self.count)])


Sequence.register(EncodedBatch)
