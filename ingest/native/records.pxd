# cython: language_level=3
"""Records on their way between a Kafka client and the native code, without a Python object for each.

A client extends `Messages` with the records that it read. The native code returns an `EncodedBatch`, which a client
writes: it goes over `batch.records` and resolves a record's destination by `batch.targets[record.target]`. Calls go
down only: neither side holds a pointer to a function of the other one.
"""

cimport cython

from libc.stdint cimport int32_t, int64_t, uint64_t


cdef struct Header:
    const char *name
    const char *value     # NULL: the header has none
    size_t name_size
    size_t value_size


cdef struct RawMetadata:
    const char *topic
    size_t topic_size
    int64_t offset        # where the record came from; a dead letter's is not its own
    int64_t millis        # its time, since 1970
    const Header *headers
    int header_count      # -1: they are not known here
    int time_type         # 0: it has no time, 1: when it was made, 2: when it was appended
    int32_t partition
    int32_t leader_epoch  # -1: not known

cdef enum:
    MAX_HEADERS = 32      # of a record, as columns: each is compared with the others
    BATCH_MESSAGES = 200  # of a batch, at most: their records are in the cache still when they are written


cdef struct RawRecord:
    const char *key       # NULL: the record has none
    const char *value     # NULL: the record has none
    size_t key_size
    size_t value_size
    int64_t offset
    const RawMetadata *metadata  # NULL: nobody asked for it


cdef enum WantedMetadata:     # what of records is asked for, beside keys, values and offsets
    WANTED_NOTHING
    WANTED_METADATA           # all but headers
    WANTED_HEADERS            # all


cdef class Messages:
    cdef const RawRecord *records
    cdef Py_ssize_t count


@cython.final
cdef class CapsuleMessages(Messages):
    cdef object owner


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


cdef struct EncodedRecord:
    const char *key       # NULL: the record has none
    const char *value     # NULL: the record has none, as a tombstone
    size_t key_size
    size_t value_size
    Py_ssize_t target     # place of the destination in `EncodedBatch.targets`


cdef struct Block:        # its bytes follow it
    Block *before
    size_t size
    size_t used


@cython.final
cdef class EncodedBatch:
    cdef EncodedRecord *records
    cdef Py_ssize_t count
    cdef readonly list targets
    cdef readonly bint full
    cdef uint64_t number      # no other batch of the process has it
    cdef object messages      # keeps the memory alive that unchanged values are in
    cdef list held            # bytes objects that values are in, where messages are objects
    cdef Py_ssize_t room
    cdef Block *block

    cdef int hold(self, object value) except -1
    cdef Py_ssize_t add_target(self, object destination) except -1
    cdef int grow_records(self) except -1
    cdef char *grow_arena(self, size_t size) except NULL
    cdef tuple record(self, Py_ssize_t at)


cdef inline char *reserve(EncodedBatch batch, size_t size) except NULL:
    """Return where the next `size` bytes may be written; they are the batch's once `keep` is told of them."""
    cdef Block *block = batch.block
    if block.size - block.used >= size:
        return <char *> (block + 1) + block.used
    return batch.grow_arena(size)


cdef inline void keep(EncodedBatch batch, size_t size) noexcept nogil:
    """Keep the first `size` of the bytes that were reserved last."""
    batch.block.used += size


cdef inline int add_record(
    EncodedBatch batch, Py_ssize_t target, const char *key, size_t key_size, const char *value, size_t value_size
) except -1:
    """Add a record whose bytes live as long as the batch: in its arena, in its messages, or in what it holds."""
    if batch.count == batch.room:
        batch.grow_records()
    cdef EncodedRecord *record = &batch.records[batch.count]
    record.key = key
    record.value = value
    record.key_size = key_size
    record.value_size = value_size
    record.target = target
    batch.count += 1
    return 0
