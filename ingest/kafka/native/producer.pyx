# cython: language_level=3, boundscheck=False, wraparound=False
"""A producer that takes records from Python and, without a Python object for each, from native code.

See `Producer` of ingest/kafka/handle.py.
"""

from confluent_kafka import KafkaException

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_CheckSignals
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.stdint cimport int32_t, int64_t, uintptr_t
from libc.stdlib cimport malloc
from libc.string cimport memcpy, memset
from posix.unistd cimport getpid

from ingest.kafka.failures import ClientError
from ingest.kafka.waiting import METADATA_S
from ingest.kafka.native.client cimport Client, c_text, check_code, check_error, failure, millis_of, text_of
from ingest.kafka.native.library cimport (
    ERR_QUEUE_FULL, ERR_TIMED_OUT, ERR_UNKNOWN, MSG_F_COPY, PURGE_F_INFLIGHT, PURGE_F_QUEUE, VTYPE_HEADERS, VTYPE_KEY,
    VTYPE_MSGFLAGS, VTYPE_PARTITION, VTYPE_RKT, VTYPE_TIMESTAMP, VTYPE_TOPIC, VTYPE_VALUE, rd,
    rd_kafka_consumer_group_metadata_t, rd_kafka_error_t, rd_kafka_headers_t, rd_kafka_metadata_t, rd_kafka_t,
    rd_kafka_topic_partition_list_t, rd_kafka_topic_partition_t, rd_kafka_topic_t, rd_kafka_vu_t,
)
from ingest.native.records cimport EncodedBatch, EncodedRecord

cdef enum:
    RECENT = 256                 # destinations that are found without a look into a dictionary
    MAX_TARGETS = 20000          # that are kept: some are made for a record
    FULL_MS = 2                  # how long one look at a full queue waits

cdef struct Target:
    rd_kafka_topic_t *topic      # NULL: it is known by its name only
    const char *name
    int32_t partition            # -1: by the key
    int32_t partitions           # over which keys are hashed; 0: over those that the topic has
    int64_t millis               # since 1970; 0: now
    rd_kafka_headers_t *headers  # or NULL

cdef const char *NOTHING = ""   # what is empty is not missing

cdef struct Bytes:               # a key or a value of Python's
    Py_buffer buffer
    bint held


cdef rd_kafka_headers_t *headers_of(given) except NULL:
    """Return names and values as librdkafka has them."""
    cdef tuple pairs = tuple(given)
    cdef rd_kafka_headers_t *out = rd.headers_new(<size_t> len(pairs))
    cdef bytes name, text
    try:
        for key, value in pairs:
            name = key.encode()
            if value is None:
                rd.header_add(out, <const char *> name, len(name), NULL, 0)
                continue
            text = value.encode() if isinstance(value, str) else value
            rd.header_add(out, <const char *> name, len(name), <const char *> text, len(text))
    except BaseException:
        rd.headers_destroy(out)
        raise
    return out


cdef int hold(given, Bytes *out, const char **text, size_t *size) except -1:
    """Hold the bytes of a key or a value, which may be None, until they are released."""
    text[0] = NULL
    size[0] = 0
    if given is None:
        return 0
    PyObject_GetBuffer(given, &out.buffer, PyBUF_SIMPLE)
    out.held = True
    text[0] = <const char *> out.buffer.buf if out.buffer.buf else NOTHING
    size[0] = <size_t> out.buffer.len
    return 0


cdef void release(Bytes *held) noexcept:
    if held.held:
        PyBuffer_Release(&held.buffer)


cdef class Producer(Client):
    """See `Producer` of ingest/kafka/handle.py.

    A destination is a topic, headers or None, and a partition: -1 for that of the key, four bytes for that of a hash.
    """

    cdef bint writing
    cdef dict places              # of destinations in `targets`
    cdef dict kept_partitions     # of topics: the number that keys are hashed over
    cdef dict partition_counts    # of other topics; asked once
    cdef Target *targets
    cdef Py_ssize_t count, size
    cdef list recent              # destinations, by a hash of their addresses
    cdef Py_ssize_t[RECENT] recent_place

    def __init__(self, conf):
        """Make the client; raises KafkaException for a configuration that librdkafka does not take."""
        self.make(conf, False)
        self.places = {}
        self.kept_partitions = {}
        self.partition_counts = {}
        self.recent = [None] * RECENT

    def __dealloc__(self):
        if self.process == getpid():
            self.free_targets()
        PyMem_Free(self.targets)

    cdef void free_targets(self) noexcept:
        cdef Py_ssize_t i
        for i in range(self.count):
            rd.topic_destroy(self.targets[i].topic)
            if self.targets[i].headers:
                rd.headers_destroy(self.targets[i].headers)
        self.count = 0

    cdef int let_go(self) except -1:
        if self.writing:
            raise RuntimeError("the client is in use: it can be closed when that has ended")
        self.forget_targets()
        return 0

    cdef int forget_targets(self) except -1:
        self.free_targets()
        self.places.clear()
        self.recent = [None] * RECENT
        return 0

    cdef rd_kafka_t *begin(self) except NULL:
        """Begin to write; raises RuntimeError where that is not done yet somewhere else."""
        cdef rd_kafka_t *rk = self.opened()
        if self.writing:
            raise RuntimeError(
                "the client is writing already: it was entered again from what it calls, or from another thread"
            )
        self.writing = True
        return rk

    # -- Destinations

    cdef Py_ssize_t place_of(self, destination) except -1:
        """Return where a destination is in `targets`, which it is added to."""
        cdef size_t slot = (<uintptr_t> <void *> destination >> 4) % RECENT
        cdef Py_ssize_t place
        if self.recent[slot] is destination:
            return self.recent_place[slot]
        known = self.places.get(destination)
        place = self.add_target(destination) if known is None else known
        self.recent[slot] = destination
        self.recent_place[slot] = place
        return place

    cdef Py_ssize_t add_target(self, destination) except -1:
        cdef Target made
        cdef Target *more
        cdef Py_ssize_t size
        topic, headers, partition = destination
        memset(&made, 0, sizeof(Target))
        made.partition = self.partition_of(topic, partition)
        made.partitions = self.partitions_for(topic, made.partition)
        if self.count == self.size:
            size = self.size * 2 or 16
            more = <Target *> PyMem_Realloc(self.targets, <size_t> size * sizeof(Target))
            if not more:
                raise MemoryError
            self.targets, self.size = more, size
        try:
            if headers is not None:
                made.headers = headers_of(headers)
            made.topic = rd.topic_new(self.rk, c_text(topic), NULL)
            if not made.topic:
                raise ClientError(failure(rd.last_error()), f"write to the topic {topic!r}")
            self.places[destination] = self.count
        except BaseException:
            if made.headers:
                rd.headers_destroy(made.headers)
            if made.topic:
                rd.topic_destroy(made.topic)
            raise
        self.targets[self.count] = made
        self.count += 1
        return self.count - 1

    cdef int32_t partition_of(self, topic, wanted) except? -2:
        """Return the partition of a destination, -1 for the key's."""
        if not isinstance(wanted, bytes):
            return wanted
        count = self.kept_partitions.get(topic) or self.partition_counts.get(topic)
        if count is None:
            try:
                count = self.partition_counts[topic] = max(1, self.partitions(topic, METADATA_S))
            except KafkaException as exc:
                raise ClientError(exc, f"ask for the partitions of {topic}") from exc
        return int.from_bytes(wanted, "big") % count

    cdef int32_t partitions_for(self, topic, int32_t partition) except -1:
        """Return over how many partitions the keys of a destination are hashed; 0 if librdkafka decides that."""
        return <int32_t> self.kept_partitions.get(topic, 0) if partition < 0 else 0

    def keep_partitions(self, counts):
        """See `Producer` of ingest/kafka/handle.py."""
        if counts is self.kept_partitions:
            return
        if self.writing:
            raise RuntimeError("the client is in use: its partitions can be set when that has ended")
        for topic, count in counts.items():
            if not 0 < count <= 0x7FFFFFFF:
                raise ValueError(f"topic {topic!r} cannot have {count} partitions")
        self.kept_partitions = counts
        self.forget_targets()

    def partitions(self, topic, double seconds):
        """Return how many partitions a topic has."""
        cdef rd_kafka_t *rk = self.opened()
        cdef int millis = millis_of(seconds), code
        cdef const rd_kafka_metadata_t *found = NULL
        cdef rd_kafka_topic_t *asked = rd.topic_new(rk, c_text(topic), NULL)
        if not asked:
            raise failure(rd.last_error())
        self.calls += 1
        with nogil:
            code = rd.metadata(rk, 0, asked, &found, millis)
        self.calls -= 1
        rd.topic_destroy(asked)
        check_code(code)
        try:
            if not found.topic_cnt:
                raise failure(ERR_UNKNOWN)
            check_code(found.topics[0].err)
            return found.topics[0].partition_cnt
        finally:
            rd.metadata_destroy(found)

    # -- Records

    cdef int offer(self, rd_kafka_t *rk, const Target *to, const EncodedRecord *record) noexcept nogil:
        """Offer a record to librdkafka, which copies it: 0, or the code of why it does not take it."""
        cdef rd_kafka_vu_t parts[7]
        cdef rd_kafka_headers_t *own = NULL
        cdef rd_kafka_error_t *error
        cdef size_t count = 6
        cdef int32_t partition = to.partition
        cdef int code
        if to.partitions and record.key:
            partition = rd.partition_by_murmur2(NULL, record.key, record.key_size, to.partitions, NULL, NULL)
        if to.topic and not to.headers and not to.millis:  # as it mostly is: the cheapest way
            if not rd.produce(to.topic, partition, MSG_F_COPY, <void *> record.value, record.value_size,
                              record.key, record.key_size, NULL):
                return 0
            code = rd.last_error()
            return code if code else ERR_UNKNOWN
        if to.topic:
            parts[0].vtype, parts[0].u.rkt = VTYPE_RKT, to.topic
        else:
            parts[0].vtype, parts[0].u.cstr = VTYPE_TOPIC, to.name
        parts[1].vtype, parts[1].u.i32 = VTYPE_PARTITION, partition
        parts[2].vtype, parts[2].u.i64 = VTYPE_TIMESTAMP, to.millis
        parts[3].vtype, parts[3].u.i = VTYPE_MSGFLAGS, MSG_F_COPY
        parts[4].vtype = VTYPE_KEY
        parts[4].u.mem.mem, parts[4].u.mem.size = <void *> record.key, record.key_size
        parts[5].vtype = VTYPE_VALUE
        parts[5].u.mem.mem, parts[5].u.mem.size = <void *> record.value, record.value_size
        if to.headers:
            own = rd.headers_copy(to.headers)
            parts[6].vtype, parts[6].u.headers = VTYPE_HEADERS, own
            count = 7
        error = rd.produceva(rk, parts, count)
        if not error:
            return 0
        if own:
            rd.headers_destroy(own)
        code = rd.error_code(error)
        rd.error_destroy(error)
        return code

    cdef bint make_room(self, rd_kafka_t *rk) except -1:
        """Wait a moment for room in the queue; return whether there is something to look at before one goes on."""
        with nogil:
            rd.poll(rk, FULL_MS)
        PyErr_CheckSignals()
        return self.has_news()

    cdef object refused(self, int code, const Target *to, size_t size):
        topic = text_of(rd.topic_name(to.topic) if to.topic else to.name)
        return ClientError(failure(code), f"write a record of {size} bytes to {topic}")

    def write(self, records, Py_ssize_t start=0):
        """Queue records, each a destination, a key and a value, from the one at `start` on.

        It waits while the queue is full. Returns where it has come. That is the end, or a record before which `errors`
        and `failures` have something that may make it useless to wait on. Raises ClientError for a record that
        librdkafka does not take.
        """
        if start < 0:
            raise ValueError(f"{start} is no record's place")
        cdef rd_kafka_t *rk = self.begin()
        try:
            if isinstance(records, EncodedBatch):
                return self.write_batch(rk, records, start)
            return self.write_list(rk, records, start)
        finally:
            self.writing = False

    cdef Py_ssize_t write_batch(self, rd_kafka_t *rk, EncodedBatch batch, Py_ssize_t start) except -1:
        cdef Py_ssize_t count = len(batch.targets), i, at = start
        cdef Py_ssize_t *places = <Py_ssize_t *> PyMem_Malloc(<size_t> (count or 1) * sizeof(Py_ssize_t))
        cdef const EncodedRecord *record
        cdef int code = 0
        if not places:
            raise MemoryError
        try:
            if self.count + count > MAX_TARGETS:
                self.forget_targets()  # only here: `places` are places in what is there now
            for i in range(count):
                places[i] = self.place_of(batch.targets[i])
            while True:
                with nogil:
                    code = 0
                    while at < batch.count:
                        record = &batch.records[at]
                        if <size_t> record.target >= <size_t> count:
                            break
                        code = self.offer(rk, &self.targets[places[record.target]], record)
                        if code:
                            break
                        at += 1
                if not code and at < batch.count:
                    raise IndexError("a record of the batch has no destination")
                if not code or (code == ERR_QUEUE_FULL and self.make_room(rk)):
                    return at
                if code != ERR_QUEUE_FULL:
                    raise self.refused(code, &self.targets[places[record.target]], record.value_size)
        finally:
            PyMem_Free(places)

    cdef Py_ssize_t write_list(self, rd_kafka_t *rk, records, Py_ssize_t start) except -1:
        cdef Py_ssize_t at = start, place
        while at < len(records):  # its length may change while a destination is compared
            destination, key, value = records[at]
            if len(destination) > 3:
                if not self.give_alone(rk, destination, key, value):
                    break
                at += 1
                continue
            if self.count >= MAX_TARGETS:
                self.forget_targets()
            place = self.place_of(destination)
            if not self.give(rk, &self.targets[place], key, value):
                break
            at += 1
        return at

    cdef bint give_alone(self, rd_kafka_t *rk, destination, key, value) except -1:
        """Give a record whose destination has a time and is no other record's; returns as `give` does."""
        cdef bytes name
        cdef Target to
        topic, headers, partition, millis = destination
        memset(&to, 0, sizeof(Target))
        try:
            name = c_text(topic)
            to.name = name
            to.partition = self.partition_of(topic, partition)
            to.partitions = self.partitions_for(topic, to.partition)
            to.millis = 0 if millis is None else millis
            if headers is not None:
                to.headers = headers_of(headers)
            return self.give(rk, &to, key, value)
        finally:
            if to.headers:
                rd.headers_destroy(to.headers)

    cdef bint give(self, rd_kafka_t *rk, const Target *to, key, value) except -1:
        """Give one record of Python's to librdkafka; return whether it has it, or there is something to look at."""
        cdef Target copied = to[0]  # `targets` may move
        cdef EncodedRecord record
        cdef Bytes held_key, held_value
        cdef int code
        held_key.held = held_value.held = False
        try:
            hold(key, &held_key, &record.key, &record.key_size)
            hold(value, &held_value, &record.value, &record.value_size)
            while True:
                code = self.offer(rk, &copied, &record)
                if not code:
                    return True
                if code != ERR_QUEUE_FULL:
                    raise self.refused(code, &copied, record.value_size)
                if self.make_room(rk):
                    return False
        finally:
            release(&held_key)
            release(&held_value)

    def send(self, topic, key, value, headers, millis):
        """Queue one record with headers and a time (milliseconds since 1970), or None for either.

        Returns whether it is queued; where not, there is something to look at, see `write`.
        """
        cdef rd_kafka_t *rk = self.begin()
        try:
            return self.give_alone(rk, (topic, headers, -1, millis), key, value)
        finally:
            self.writing = False

    # -- Deliveries

    def poll(self):
        """Let librdkafka say what became of records; `errors` and `failures` have it then."""
        cdef rd_kafka_t *rk = self.opened()
        self.calls += 1
        with nogil:
            rd.poll(rk, 0)
        self.calls -= 1

    def flush(self, double seconds):
        """Wait until nothing is queued, for so many seconds at most; return how many records are left."""
        cdef rd_kafka_t *rk = self.opened()
        cdef int millis = millis_of(seconds), code
        self.calls += 1
        with nogil:
            code = rd.flush(rk, millis)
        self.calls -= 1
        if code and code != ERR_TIMED_OUT:
            raise failure(code)
        return rd.outq_len(rk)

    def queued(self):
        """Return how many records are not delivered yet."""
        return rd.outq_len(self.opened())

    def purge(self):
        """Drop what is queued and under way."""
        cdef rd_kafka_t *rk = self.opened()
        cdef int code
        self.calls += 1
        with nogil:
            code = rd.purge(rk, PURGE_F_QUEUE | PURGE_F_INFLIGHT)
        self.calls -= 1
        check_code(code)

    # -- Transactions

    cdef int transact(self, rd_kafka_error_t *(*step)(rd_kafka_t *, int) noexcept nogil, double seconds) except -1:
        cdef rd_kafka_t *rk = self.opened()
        cdef int millis = millis_of(seconds)
        cdef rd_kafka_error_t *error
        self.calls += 1
        with nogil:
            error = step(rk, millis)
        self.calls -= 1
        return check_error(error)

    def init_transactions(self, double seconds):
        """Take the transactional id over, and end what another producer left open under it."""
        self.transact(rd.init_transactions, seconds)

    def begin_transaction(self):
        """Begin a transaction."""
        cdef rd_kafka_t *rk = self.opened()
        cdef rd_kafka_error_t *error
        self.calls += 1
        with nogil:
            error = rd.begin_transaction(rk)
        self.calls -= 1
        check_error(error)

    def send_offset(self, split, int64_t offset, note, consumer, double seconds):
        """Commit an offset with a note for the group of a consumer, in the transaction in hand.

        The consumer has joined nothing, so its group's name is all that there is to say of it.
        """
        cdef rd_kafka_t *rk = self.opened()
        cdef int millis = millis_of(seconds)
        cdef int32_t partition = split[1]
        cdef bytes name = c_text(split[0]), group_name = c_text(consumer.group), text = note.encode()
        cdef rd_kafka_error_t *error
        cdef rd_kafka_topic_partition_list_t *offsets = rd.topic_partition_list_new(1)
        cdef rd_kafka_topic_partition_t *to = rd.topic_partition_list_add(offsets, name, partition)
        cdef rd_kafka_consumer_group_metadata_t *member = rd.consumer_group_metadata_new(group_name)
        to.offset = offset
        if text:
            to.metadata = malloc(<size_t> len(text))  # the list frees it
            if to.metadata:
                memcpy(to.metadata, <const char *> text, <size_t> len(text))
                to.metadata_size = <size_t> len(text)
        self.calls += 1
        with nogil:
            error = rd.send_offsets_to_transaction(rk, offsets, member, millis)
        self.calls -= 1
        rd.consumer_group_metadata_destroy(member)
        rd.topic_partition_list_destroy(offsets)
        check_error(error)

    def commit_transaction(self, double seconds):
        """Commit what was written and sent since the transaction began."""
        self.transact(rd.commit_transaction, seconds)

    def abort_transaction(self, double seconds):
        """End the transaction in hand without what was written in it."""
        self.transact(rd.abort_transaction, seconds)
