# cython: language_level=3, boundscheck=False, wraparound=False
"""Records on their way between a Kafka client and the native code; see records.pxd for what is in them."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.pycapsule cimport PyCapsule_GetPointer
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport uint64_t

from collections.abc import Sequence

from ingest.encode.upsert_encoder import Record

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


cdef struct WholeRecords:     # what a capsule has
    const RawRecord *records
    Py_ssize_t count


cdef class CapsuleMessages(Messages):
    """Records in a capsule: tests make such whose bytes have nothing behind them, for the sanitizers to see a read too far."""

    def __cinit__(self, owner):
        capsule = owner.raw
        whole = <WholeRecords *> PyCapsule_GetPointer(capsule, b"ingest.model.raw.records")
        self.records, self.count = whole.records, whole.count
        self.owner = owner


cdef const char *text_of(object text, size_t *size) except NULL:
    """Return a text's bytes, which it owns; raises UnicodeEncodeError for half a surrogate pair."""
    cdef Py_ssize_t found = 0
    cdef const char *bytes_ = PyUnicode_AsUTF8AndSize(text, &found)
    size[0] = <size_t> found
    return bytes_


cdef const char *bytes_of(object given, size_t *size) noexcept:
    """Return where bytes are, or NULL for None."""
    size[0] = 0 if given is None else <size_t> PyBytes_GET_SIZE(given)
    return NULL if given is None else PyBytes_AS_STRING(given)


cdef bint is_bytes(object given) noexcept:
    return given is None or type(given) is bytes


cdef class ObjectRecord:
    """Takes one record after the other: `raw` is the last one, whose bytes are there until the next one is read."""

    cdef bint read(self, message, int wanted) except -1:
        """Read a record; False for a fallback. `wanted`: a WantedMetadata. Raises what the record's methods raise."""
        key, value = message.key(), message.value()
        if not is_bytes(key) or not is_bytes(value):
            return False
        self.value, self.kept = value, [key]
        self.raw.key = bytes_of(key, &self.raw.key_size)
        self.raw.value = bytes_of(value, &self.raw.value_size)
        self.raw.offset = -1
        self.raw.metadata = NULL
        return wanted == WANTED_NOTHING or self.read_metadata(message, wanted == WANTED_HEADERS)

    cdef bint read_metadata(self, message, bint with_headers) except -1:
        origin = getattr(message, "origin", message)  # a dead letter's position is not its own
        topic, epoch = message.topic(), message.leader_epoch()
        time_type, millis = message.timestamp()
        if type(topic) is not str or (epoch is not None and epoch < 0):
            return False
        self.kept.append(topic)
        try:
            self.metadata.topic = text_of(topic, &self.metadata.topic_size)
            self.metadata.partition = origin.partition() or 0
            self.metadata.offset = origin.offset() or 0
            self.metadata.millis, self.metadata.time_type = millis, time_type
            self.metadata.leader_epoch = -1 if epoch is None else epoch
            self.metadata.header_count = 0
            self.raw.metadata = &self.metadata
            return not with_headers or self.read_headers(message.headers() or [])
        except (OverflowError, UnicodeEncodeError):  # no number of a record that Kafka has
            return False

    cdef bint read_headers(self, given) except -1:
        cdef Header *header
        if len(given) > MAX_HEADERS:
            return False
        self.metadata.headers = self.headers
        for name, value in given:
            if type(name) is not str or not is_bytes(value) or self.metadata.header_count == MAX_HEADERS:
                return False
            self.kept += [name, value]
            header = &self.headers[self.metadata.header_count]
            header.name = text_of(name, &header.name_size)
            header.value = bytes_of(value, &header.value_size)
            self.metadata.header_count += 1
        return True


cdef class EncodedBatch:
    """Records that are to be written: in Python a sequence of `Record`.

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
        return <tuple> Record(self.targets[found.target], key, value)

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
