# cython: language_level=3, boundscheck=False, wraparound=False
"""A consumer that gives records in batches. Native code takes them without a Python object for each.

See `Consumer` of ingest/kafka/handle.py.
"""

cimport cython

from collections.abc import Sequence

from confluent_kafka import KafkaError

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc
from libc.stdint cimport int32_t, int64_t
from libc.string cimport strlen
from posix.unistd cimport getpid

from ingest.kafka.native.client cimport Client, c_text, check_code, check_error, failure, millis_of, text_of
from ingest.kafka.native.library cimport (
    rd, rd_kafka_error_t, rd_kafka_headers_t, rd_kafka_message_t, rd_kafka_queue_t, rd_kafka_t,
    rd_kafka_topic_partition_list_t, rd_kafka_topic_t, ssize_t,
)
from ingest.native.records cimport Header, Messages, RawRecord, RawMetadata

cdef enum:
    MAX_CONSUMED = 1000000
    MAX_MILLIS = 0x7FFFFFFF


@cython.final
@cython.no_gc
cdef class ConsumedBatch:
    """Messages that were taken at once. They are librdkafka's, and are given back when nobody has one of them."""

    cdef Client client            # messages are gone before their consumer is
    cdef rd_kafka_message_t **messages
    cdef Py_ssize_t count

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.client is None:
            return
        self.client.batches -= 1
        if self.client.process == getpid():
            for i in range(self.count):
                rd.message_destroy(self.messages[i])
        PyMem_Free(self.messages)


cdef object bytes_of(const void *text, size_t size):
    return None if text == NULL else PyBytes_FromStringAndSize(<const char *> text, <Py_ssize_t> size)


@cython.final
@cython.no_gc
cdef class Record:
    """One record; see `Record` of ingest/model/record.py."""

    cdef ConsumedBatch batch
    cdef rd_kafka_message_t *message

    def key(self):
        """Return the key's bytes, or None."""
        return bytes_of(self.message.key, self.message.key_len)

    def value(self):
        """Return the value's bytes, or None."""
        return bytes_of(self.message.payload, self.message.len)

    def topic(self):
        """Return the topic."""
        return text_of(rd.topic_name(self.message.rkt))

    def partition(self):
        """Return the partition."""
        return self.message.partition

    def offset(self):
        """Return the offset."""
        return self.message.offset

    def timestamp(self):
        """Return which kind of time it is (0: none, 1: when it was made, 2: when it was appended) and milliseconds."""
        cdef int kind = 0
        cdef int64_t millis = rd.message_timestamp(self.message, &kind)
        return kind, millis

    def leader_epoch(self):
        """Return the epoch of the partition's leader, or None."""
        cdef int32_t epoch = rd.message_leader_epoch(self.message)
        return None if epoch < 0 else epoch

    def headers(self):
        """Return names and values, or None where there are no headers."""
        cdef rd_kafka_headers_t *headers = NULL
        cdef const char *name = NULL
        cdef const void *value = NULL
        cdef size_t size = 0, at = 0
        if rd.message_headers(self.message, &headers):
            return None
        out = []
        while not rd.header_get_all(headers, at, &name, &value, &size):
            out.append((text_of(name), bytes_of(value, size)))
            at += 1
        return out


cdef void describe(rd_kafka_message_t *message, RawMetadata *metadata, bint with_headers) noexcept:
    """Put in what there is to know of a record beside its key and value. Its headers are in memory of its own."""
    cdef rd_kafka_headers_t *headers = NULL
    cdef Header *found
    cdef const char *name = NULL
    cdef const void *value = NULL
    cdef size_t size = 0
    cdef int count = 0, i
    metadata.topic = rd.topic_name(message.rkt)
    metadata.topic_size = strlen(metadata.topic)
    metadata.partition, metadata.offset = message.partition, message.offset
    metadata.time_type = 0
    metadata.millis = rd.message_timestamp(message, &metadata.time_type)
    metadata.leader_epoch = rd.message_leader_epoch(message)
    metadata.headers, metadata.header_count = NULL, 0
    if not with_headers or rd.message_headers(message, &headers):
        return
    while not rd.header_get_all(headers, <size_t> count, &name, &value, &size):
        count += 1
    found = <Header *> PyMem_Calloc(<size_t> count or 1, sizeof(Header))
    metadata.headers, metadata.header_count = found, count if found else -1
    if not found:
        return
    for i in range(count):
        rd.header_get_all(headers, <size_t> i, &found[i].name, <const void **> &found[i].value, &found[i].value_size)
        found[i].name_size = strlen(found[i].name)


@cython.final
@cython.no_gc
cdef class Records(Messages):
    """Consecutive records of one split."""

    cdef ConsumedBatch batch
    cdef rd_kafka_message_t **messages
    cdef RawRecord *raw
    cdef RawMetadata *metadata # NULL: nobody asked for it
    cdef bint with_headers

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.metadata:
            for i in range(self.count):
                PyMem_Free(<void *> self.metadata[i].headers)
        PyMem_Free(self.metadata)
        PyMem_Free(self.messages)
        PyMem_Free(self.raw)

    cdef void add(self, rd_kafka_message_t *message) noexcept:
        """Add a record, for which there is room."""
        cdef RawRecord *raw = &self.raw[self.count]
        self.messages[self.count] = message
        raw.key = <const char *> message.key
        raw.value = <const char *> message.payload
        raw.key_size = message.key_len if message.key else 0
        raw.value_size = message.len if message.payload else 0
        raw.offset = message.offset
        raw.metadata = NULL
        if self.metadata:
            raw.metadata = &self.metadata[self.count]
            describe(message, &self.metadata[self.count], self.with_headers)
        self.count += 1

    def __getitem__(self, index):
        cdef Py_ssize_t at, start, stop, step
        cdef Records some
        cdef Record one
        if isinstance(index, slice):
            start, stop, step = index.indices(self.count)
            some = room_for(self.batch, len(range(start, stop, step)), self.metadata != NULL, self.with_headers)
            for at in range(len(range(start, stop, step))):
                some.add(self.messages[start + at * step])
            return some
        at = index
        if at < 0:
            at += self.count
        if not 0 <= at < self.count:
            raise IndexError("no such record")
        one = Record.__new__(Record)
        one.batch = self.batch
        one.message = self.messages[at]
        return one


Sequence.register(Records)


cdef Records room_for(ConsumedBatch batch, Py_ssize_t count, bint with_metadata, bint with_headers):
    """Return room for so many records of a batch, and for what there is to know of them."""
    cdef Records out = Records.__new__(Records)
    out.batch = batch
    out.messages = <rd_kafka_message_t **> PyMem_Malloc(<size_t> (count or 1) * sizeof(rd_kafka_message_t *))
    out.raw = <RawRecord *> PyMem_Malloc(<size_t> (count or 1) * sizeof(RawRecord))
    if not out.messages or not out.raw:
        raise MemoryError
    if with_metadata:
        out.with_headers = with_headers
        out.metadata = <RawMetadata *> PyMem_Malloc(<size_t> (count or 1) * sizeof(RawMetadata))
        if not out.metadata:
            raise MemoryError
    out.records = out.raw
    return out


cdef struct Group:               # messages of one split
    const rd_kafka_topic_t *topic
    int32_t partition
    Py_ssize_t count


cdef Py_ssize_t count_groups(ConsumedBatch batch, Group *groups, Py_ssize_t *group_of) noexcept:
    """Find the splits of a batch, in the order of their first records, and which each message is of (-1: an error).

    Returns how many there are.
    """
    cdef Py_ssize_t i, last = 0, count = 0
    cdef rd_kafka_message_t *message
    for i in range(batch.count):
        message = batch.messages[i]
        if message.err:
            group_of[i] = -1
            continue
        if last >= count or groups[last].topic != message.rkt or groups[last].partition != message.partition:
            last = 0
            while last < count and (groups[last].topic != message.rkt or groups[last].partition != message.partition):
                last += 1
            if last == count:
                groups[last].topic = message.rkt
                groups[last].partition = message.partition
                groups[last].count = 0
                count += 1
        groups[last].count += 1
        group_of[i] = last
    return count


cdef tuple grouped(ConsumedBatch batch, bint with_metadata, bint with_headers):
    """Return records by split, and the errors that came in place of some."""
    cdef Group *groups = <Group *> PyMem_Calloc(<size_t> (batch.count or 1), sizeof(Group))
    cdef Py_ssize_t *group_of = <Py_ssize_t *> PyMem_Calloc(<size_t> (batch.count or 1), sizeof(Py_ssize_t))
    cdef Py_ssize_t i, count
    cdef rd_kafka_message_t *message
    cdef list found = [], failed = [], of = []
    try:
        if not groups or not group_of:
            raise MemoryError
        count = count_groups(batch, groups, group_of)
        for i in range(count):
            of.append(room_for(batch, groups[i].count, with_metadata, with_headers))
            found.append((text_of(rd.topic_name(groups[i].topic)), groups[i].partition, of[i]))
        for i in range(batch.count):
            message = batch.messages[i]
            if group_of[i] >= 0:
                (<Records> of[group_of[i]]).add(message)
                continue
            error = KafkaError(message.err, text_of(rd.message_errstr(message)))
            failed.append((text_of(rd.topic_name(message.rkt)) if message.rkt else "", message.partition, error))
        return found, failed
    finally:
        PyMem_Free(groups)
        PyMem_Free(group_of)


cdef class Consumer(Client):
    """See `Consumer` of ingest/kafka/handle.py."""

    cdef rd_kafka_queue_t *queue
    cdef readonly str group

    def __init__(self, conf):
        """Make the client; raises KafkaException for a configuration that librdkafka does not take."""
        self.group = str(conf["group.id"])
        self.make(conf, True)
        self.queue = rd.queue_get_consumer(self.rk)

    def __dealloc__(self):
        if self.queue and self.process == getpid():
            rd.queue_destroy(self.queue)

    cdef int let_go(self) except -1:
        if self.queue:
            rd.queue_destroy(self.queue)
        self.queue = NULL
        return 0

    def busy(self):
        """Return whether records that were read from it are still there."""
        return self.batches > 0

    def consume(self, long long most, long long millis, metadata=()):
        """Take at most so many records, in so many milliseconds. `metadata`: names of what native code asks of them.

        Returns (topic, partition, records) for each split, and (topic, partition, error) for each error.
        """
        if not 0 < most <= MAX_CONSUMED or not 0 <= millis <= MAX_MILLIS:
            raise ValueError(f"{most} records in {millis} milliseconds: a million records can be consumed at most")
        self.opened()
        if not self.queue:
            raise RuntimeError("the client was not made")
        cdef ConsumedBatch batch = ConsumedBatch.__new__(ConsumedBatch)
        cdef ssize_t count
        batch.messages = <rd_kafka_message_t **> PyMem_Malloc(<size_t> most * sizeof(rd_kafka_message_t *))
        if not batch.messages:
            raise MemoryError
        batch.client = self
        self.batches += 1
        self.calls += 1
        with nogil:
            count = rd.consume_batch_queue(self.queue, <int> millis, batch.messages, <size_t> most)
        self.calls -= 1
        batch.count = count if count > 0 else 0
        return grouped(batch, len(metadata) > 0, "headers" in metadata)

    cdef rd_kafka_topic_partition_list_t *splits(self, splits) except NULL:
        """Return splits as librdkafka has them, each with an offset; `splits` has topic, partition, offset."""
        cdef rd_kafka_topic_partition_list_t *out = rd.topic_partition_list_new(16)
        try:
            for topic, partition, offset in splits:
                rd.topic_partition_list_add(out, c_text(topic), partition).offset = offset
        except BaseException:
            rd.topic_partition_list_destroy(out)
            raise
        return out

    def assign(self, starts):
        """Read these splits from these offsets on, and no others."""
        cdef rd_kafka_t *rk = self.opened()
        cdef rd_kafka_topic_partition_list_t *splits = self.splits([(*split, at) for split, at in starts.items()])
        cdef int code
        self.calls += 1
        with nogil:
            code = rd.assign(rk, splits)
        self.calls -= 1
        rd.topic_partition_list_destroy(splits)
        check_code(code)

    def unassign(self):
        """Read nothing."""
        cdef rd_kafka_t *rk = self.opened()
        cdef int code
        self.calls += 1
        with nogil:
            code = rd.assign(rk, NULL)
        self.calls -= 1
        check_code(code)

    def remove(self, topic, int32_t partition):
        """Read no more of a split."""
        cdef rd_kafka_t *rk = self.opened()
        cdef rd_kafka_topic_partition_list_t *splits = self.splits([(topic, partition, 0)])
        cdef rd_kafka_error_t *error
        self.calls += 1
        with nogil:
            error = rd.incremental_unassign(rk, splits)
        self.calls -= 1
        rd.topic_partition_list_destroy(splits)
        check_error(error)

    def positions(self, splits):
        """Return the offset that each split is read at next; splits of which nothing was read yet are left out."""
        cdef rd_kafka_t *rk = self.opened()
        cdef rd_kafka_topic_partition_list_t *asked = self.splits([(*split, 0) for split in splits])
        cdef int i
        try:
            check_code(rd.position(rk, asked))
            return {
                (text_of(asked.elems[i].topic), asked.elems[i].partition): asked.elems[i].offset
                for i in range(asked.cnt)
                if asked.elems[i].offset >= 0
            }
        finally:
            rd.topic_partition_list_destroy(asked)

    def watermarks(self, topic, int32_t partition, double seconds):
        """Return the first offset of a split and the one after its last."""
        cdef rd_kafka_t *rk = self.opened()
        cdef bytes name = c_text(topic)
        cdef const char *text = name
        cdef int millis = millis_of(seconds), code
        cdef int64_t low = 0, high = 0
        self.calls += 1
        with nogil:
            code = rd.query_watermark_offsets(rk, text, partition, &low, &high, millis)
        self.calls -= 1
        check_code(code)
        return low, high

    def committed(self, topic, int32_t partition, double seconds):
        """Return the offset that the group committed for a split, negative where there is none, and its note."""
        cdef rd_kafka_t *rk = self.opened()
        cdef rd_kafka_topic_partition_list_t *asked = self.splits([(topic, partition, 0)])
        cdef int millis = millis_of(seconds), code
        self.calls += 1
        with nogil:
            code = rd.committed(rk, asked, millis)
        self.calls -= 1
        try:
            check_code(code)
            check_code(asked.elems[0].err)
            note = bytes_of(asked.elems[0].metadata, asked.elems[0].metadata_size) or b""
            # confluent_kafka commits the zero byte behind a note with it
            return asked.elems[0].offset, note.partition(b"\0")[0].decode("utf-8", "replace")
        finally:
            rd.topic_partition_list_destroy(asked)
