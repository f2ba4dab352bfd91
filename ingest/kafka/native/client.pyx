# cython: language_level=3
"""The common part of a consumer and a producer: how they are made, what librdkafka tells of them, and their end.

Callbacks are set before a client is made. librdkafka's threads run them without the GIL; they only write into `Events`,
which Python asks for when it likes. No function of Python is ever called from there.
"""

from confluent_kafka import KafkaError, KafkaException

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memmove
from posix.time cimport CLOCK_REALTIME, clock_gettime, timespec
from posix.types cimport time_t
from posix.unistd cimport getpid

from ingest.kafka.native.library cimport (
    CONF_OK, CONSUMER, DESTROY_F_NO_CONSUMER_CLOSE, ERR_FATAL, ERR_INVALID_ARG, ERR_INVALID_DIFFERENT_RECORD,
    ERR_INVALID_RECORD, ERR_INVALID_TIMESTAMP, ERR_MSG_SIZE_TOO_LARGE, ERR_RECORD_LIST_TOO_LARGE, PRODUCER, rd,
    rd_kafka_conf_t, rd_kafka_message_t,
)

from ingest.kafka.native.library import load

cdef extern from "<string.h>" nogil:
    size_t strnlen(const char *, size_t)

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_t:
        pass
    ctypedef struct pthread_cond_t:
        pass
    int pthread_create(pthread_t *, void *, void *(*)(void *) noexcept nogil, void *)
    int pthread_detach(pthread_t)
    int pthread_cond_init(pthread_cond_t *, void *)
    int pthread_cond_destroy(pthread_cond_t *)
    int pthread_cond_signal(pthread_cond_t *)
    int pthread_cond_timedwait(pthread_cond_t *, pthread_mutex_t *, const timespec *)

cdef enum:
    MAX_MILLIS = 0x7FFFFFFF

cdef double LET_GO_S = 1.0
"""The time that an object which goes without having been closed waits for its client's threads, in seconds."""

VERSION = load()


# -- Events ------------------------------------------------------------------------------------------------------------

cdef void copy_text(char *to, const char *text, size_t room) noexcept nogil:
    cdef size_t size = strnlen(text, room - 1) if text else 0
    if size:
        memcpy(to, text, size)
    to[size] = 0


cdef void on_error(rd_kafka_t *rk, int code, const char *reason, void *opaque) noexcept nogil:
    cdef Events *events = <Events *> opaque
    cdef ErrorEvent event
    event.fatal = code == ERR_FATAL
    event.code = code
    if event.fatal:
        event.code = rd.fatal_error(rk, event.text, MAX_TEXT)
    else:
        copy_text(event.text, reason, MAX_TEXT)
    pthread_mutex_lock(&events.lock)
    if events.errors == MAX_ERRORS:
        events.errors -= 1
        memmove(events.error, events.error + 1, sizeof(ErrorEvent) * <size_t> events.errors)
    memcpy(events.error + events.errors, &event, sizeof(ErrorEvent))
    events.errors += 1
    pthread_mutex_unlock(&events.lock)


cdef void on_log(const rd_kafka_t *rk, int level, const char *facility, const char *text) noexcept nogil:
    cdef Events *events = <Events *> rd.opaque(rk) if rk else NULL
    if not events:
        return
    pthread_mutex_lock(&events.lock)
    if events.lines == MAX_LINES:
        events.lines -= 1
        events.lines_lost += 1
        memmove(events.line, events.line + 1, sizeof(LogLine) * <size_t> events.lines)
    events.line[events.lines].level = level
    copy_text(events.line[events.lines].facility, facility, MAX_FACILITY)
    copy_text(events.line[events.lines].text, text, MAX_TEXT)
    events.lines += 1
    pthread_mutex_unlock(&events.lock)


cdef bint is_refusal(int code) noexcept nogil:
    """Return whether a topic does not take a record for what the record is."""
    return (
        code == ERR_MSG_SIZE_TOO_LARGE or code == ERR_RECORD_LIST_TOO_LARGE or code == ERR_INVALID_TIMESTAMP
        or code == ERR_INVALID_RECORD or code == ERR_INVALID_DIFFERENT_RECORD
    )


cdef void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque) noexcept nogil:
    cdef Events *events = <Events *> opaque
    if not message.err:
        return
    cdef const char *topic = rd.topic_name(message.rkt) if message.rkt else NULL
    pthread_mutex_lock(&events.lock)
    if is_refusal(message.err):
        if not events.refused:
            events.refused = message.err
            copy_text(events.refused_topic, topic, MAX_NAME)
            events.refused_partition = message.partition
    else:
        events.failures += 1
        if not events.failed:
            events.failed = message.err
            copy_text(events.topic, topic, MAX_NAME)
            events.partition = message.partition
    pthread_mutex_unlock(&events.lock)


cdef int on_statistics(rd_kafka_t *rk, char *json, size_t size, void *opaque) noexcept nogil:
    cdef Events *events = <Events *> opaque
    pthread_mutex_lock(&events.lock)
    cdef char *before = events.statistics
    events.statistics = json
    pthread_mutex_unlock(&events.lock)
    if before:
        rd.mem_free(rk, before)
    return 1  # it is ours now


cdef void release_events(Events *events) noexcept nogil:
    """Let go of the events for one of their holders: the object, or librdkafka's client."""
    pthread_mutex_lock(&events.lock)
    events.holders -= 1
    cdef bint last = events.holders == 0
    pthread_mutex_unlock(&events.lock)
    if not last:
        return
    if events.statistics:
        rd.mem_free(NULL, events.statistics)
    pthread_mutex_destroy(&events.lock)
    free(events)


# -- The end of a client -----------------------------------------------------------------------------------------------

cdef struct Ending:
    pthread_mutex_t lock
    pthread_cond_t over
    rd_kafka_t *rk
    Events *events
    bint closes                  # the consumer
    bint destroys
    bint done
    int holders


cdef void drop(Ending *ending) noexcept nogil:
    """Let go of it; needs its lock, which is unlocked."""
    ending.holders -= 1
    cdef bint last = ending.holders == 0
    pthread_mutex_unlock(&ending.lock)
    if last:
        pthread_cond_destroy(&ending.over)
        pthread_mutex_destroy(&ending.lock)
        free(ending)


cdef void *end(void *given) noexcept nogil:
    cdef Ending *ending = <Ending *> given
    if ending.closes:
        rd.consumer_close(ending.rk)
    if ending.destroys:
        rd.destroy_flags(ending.rk, DESTROY_F_NO_CONSUMER_CLOSE)
        release_events(ending.events)
    pthread_mutex_lock(&ending.lock)
    ending.done = True
    pthread_cond_signal(&ending.over)
    drop(ending)
    return NULL


cdef bint end_within(rd_kafka_t *rk, Events *events, bint closes, bint destroys, double seconds) noexcept nogil:
    """End a client in a thread of its own, as librdkafka may never return from that; whether it did in time."""
    cdef Ending *ending = <Ending *> calloc(1, sizeof(Ending))
    cdef pthread_t thread
    cdef timespec until
    cdef bint done
    if not ending:
        return False
    ending.rk, ending.events, ending.closes, ending.destroys = rk, events, closes, destroys
    ending.holders = 2
    pthread_mutex_init(&ending.lock, NULL)
    pthread_cond_init(&ending.over, NULL)
    pthread_mutex_lock(&ending.lock)
    if pthread_create(&thread, NULL, end, ending):
        ending.holders = 1
        drop(ending)
        return False
    pthread_detach(thread)
    clock_gettime(CLOCK_REALTIME, &until)
    cdef double moment = <double> until.tv_sec + <double> until.tv_nsec / 1e9 + seconds
    until.tv_sec = <time_t> moment
    until.tv_nsec = <long> ((moment - <double> until.tv_sec) * 1e9)
    while not ending.done:
        if pthread_cond_timedwait(&ending.over, &ending.lock, &until):
            break
    done = ending.done
    drop(ending)
    return done


# -- A client ----------------------------------------------------------------------------------------------------------

cdef class Client:
    """A client of librdkafka's. The GIL guards it; calls that let go of the GIL say so in `calls`.

    It belongs to the process that made it: librdkafka's threads do not exist in a forked one.
    """

    def __cinit__(self):
        self.events = <Events *> calloc(1, sizeof(Events))
        if not self.events:
            raise MemoryError
        pthread_mutex_init(&self.events.lock, NULL)
        self.events.holders = 1
        self.process = getpid()

    cdef int make(self, conf, bint consumes) except -1:
        """Make the client; raises KafkaException for a configuration that librdkafka does not take."""
        if self.rk or self.events.holders > 1:
            raise RuntimeError("the client is made already")
        cdef char text[MAX_TEXT]
        cdef rd_kafka_conf_t *made = rd.conf_new()
        cdef str kind = "consumer" if consumes else "producer"
        self.consumes = consumes
        rd.conf_set_opaque(made, self.events)
        rd.conf_set_error_cb(made, on_error)
        rd.conf_set_log_cb(made, on_log)
        rd.conf_set_stats_cb(made, on_statistics)
        if not consumes:
            rd.conf_set_dr_msg_cb(made, on_delivery)
        try:
            for name, value in conf.items():
                if rd.conf_set(made, c_text(name), c_text(value), text, MAX_TEXT) != CONF_OK:
                    raise failure(ERR_INVALID_ARG, text_of(text))
            self.rk = rd.new(CONSUMER if consumes else PRODUCER, made, text, MAX_TEXT)
            if not self.rk:
                raise failure(rd.last_error(), f"Failed to create {kind}: {text_of(text)}")
            made = NULL  # the client has it now
            self.events.holders = 2
        finally:
            if made:
                rd.conf_destroy(made)
        if consumes:
            check_code(rd.poll_set_consumer(self.rk))
        return 0

    cdef rd_kafka_t *opened(self) except NULL:
        """Return librdkafka's client; raises RuntimeError where it is closed, or of another process."""
        if not self.rk:
            raise RuntimeError("the client is closed")
        if self.process != getpid():
            raise RuntimeError("the client was made before this process was forked: make another one")
        return self.rk

    def log_in(self, token, int64_t until_ms):
        """Give the client a token of OAUTHBEARER, which lasts until a time in milliseconds since 1970.

        Raises KafkaException for one that librdkafka does not take. Any thread may call it.
        """
        cdef char text[MAX_TEXT]
        cdef bytes value = c_text(token)
        cdef int code = rd.oauthbearer_set_token(self.opened(), value, until_ms, b"ingest", NULL, 0, text, MAX_TEXT)
        if code:
            raise failure(code, text_of(text))

    cdef bint has_news(self) noexcept nogil:
        pthread_mutex_lock(&self.events.lock)
        cdef bint found = self.events.failed or self.events.refused or self.events.errors
        pthread_mutex_unlock(&self.events.lock)
        return found

    cdef int let_go(self) except -1:
        """Let go of what belongs to the client, before its end."""
        return 0

    def errors(self):
        """Return what librdkafka's threads have met since the last call, the last few: a list of KafkaErrors."""
        cdef ErrorEvent found[MAX_ERRORS]
        cdef int count
        pthread_mutex_lock(&self.events.lock)
        count = self.events.errors
        memcpy(found, self.events.error, sizeof(ErrorEvent) * <size_t> count)
        self.events.errors = 0
        pthread_mutex_unlock(&self.events.lock)
        return [KafkaError(found[i].code, text_of(found[i].text), found[i].fatal) for i in range(count)]

    def failures(self):
        """Return how many deliveries have failed; and error, topic and partition of the first since the last call."""
        cdef char topic[MAX_NAME]
        pthread_mutex_lock(&self.events.lock)
        cdef long count = self.events.failures
        cdef int code = self.events.failed
        cdef int32_t partition = self.events.partition
        memcpy(topic, self.events.topic, MAX_NAME)
        self.events.failed = 0
        pthread_mutex_unlock(&self.events.lock)
        return count, (KafkaError(code), text_of(topic), partition) if code else None

    def refusal(self):
        """Return error, topic and partition of the first refused record since the last call; None if there is none."""
        cdef char topic[MAX_NAME]
        pthread_mutex_lock(&self.events.lock)
        cdef int code = self.events.refused
        cdef int32_t partition = self.events.refused_partition
        memcpy(topic, self.events.refused_topic, MAX_NAME)
        self.events.refused = 0
        pthread_mutex_unlock(&self.events.lock)
        return (KafkaError(code), text_of(topic), partition) if code else None

    def log(self):
        """Return librdkafka's log lines since the last call (level, facility, text), and how many were not kept."""
        cdef LogLine *found = <LogLine *> calloc(MAX_LINES, sizeof(LogLine))
        if not found:
            raise MemoryError
        pthread_mutex_lock(&self.events.lock)
        cdef int count = self.events.lines
        cdef long lost = self.events.lines_lost
        memcpy(found, self.events.line, sizeof(LogLine) * <size_t> count)
        self.events.lines = 0
        self.events.lines_lost = 0
        pthread_mutex_unlock(&self.events.lock)
        try:
            return [(found[i].level, text_of(found[i].facility), text_of(found[i].text)) for i in range(count)], lost
        finally:
            free(found)

    def statistics(self):
        """Return the newest statistics that nobody has asked for yet, as JSON, or None.

        There are some where `statistics.interval.ms` is set, while the client is polled.
        """
        pthread_mutex_lock(&self.events.lock)
        cdef char *json = self.events.statistics
        self.events.statistics = NULL
        pthread_mutex_unlock(&self.events.lock)
        if not json:
            return None
        try:
            return <bytes> json
        finally:
            rd.mem_free(NULL, json)

    def close(self, double seconds):
        """End the client; return whether that came to its end within so many seconds.

        It is left as it is where it does not, and ends with the process. Where records that were read from it are still
        there, it ends when they are gone. Raises RuntimeError while another call is under way.
        """
        if not self.rk:
            return True
        self.opened()
        if self.calls:
            raise RuntimeError("the client is in use: it can be closed when that has ended")
        self.let_go()
        cdef rd_kafka_t *rk = self.rk
        cdef bint destroys = self.batches == 0
        cdef bint done
        self.rk = NULL
        self.calls += 1
        with nogil:
            done = end_within(rk, self.events, self.consumes, destroys, seconds)
        self.calls -= 1
        if done and not destroys:
            self.ending = rk
        return done

    def __dealloc__(self):
        if not self.events or self.process != getpid():
            return
        cdef rd_kafka_t *rk = self.rk if self.rk else self.ending
        if rk:
            with nogil:
                end_within(rk, self.events, self.consumes and rk == self.rk, True, LET_GO_S)
        release_events(self.events)


# -- Values ------------------------------------------------------------------------------------------------------------

cdef object failure(int code, text=None):
    """Return an exception for one of librdkafka's codes."""
    return KafkaException(KafkaError(code) if text is None else KafkaError(code, text))


cdef int check_code(int code) except -1:
    """Raise KafkaException for a code that is an error."""
    if code:
        raise failure(code)
    return 0


cdef int check_error(rd_kafka_error_t *error) except -1:
    """Raise KafkaException for an error, and free it."""
    if not error:
        return 0
    try:
        raise KafkaException(KafkaError(
            rd.error_code(error), text_of(rd.error_string(error)), rd.error_is_fatal(error) != 0,
            rd.error_is_retriable(error) != 0, rd.error_txn_requires_abort(error) != 0,
        ))
    finally:
        rd.error_destroy(error)


cdef int millis_of(double seconds) except -1:
    """Return a time in milliseconds; raises ValueError for one that librdkafka cannot be given."""
    if not 0 <= seconds * 1000 <= MAX_MILLIS:
        raise ValueError(f"{seconds} seconds cannot be waited for")
    return <int> (seconds * 1000)


cdef bytes c_text(text):
    """Return a text as C has it; raises ValueError for one with a NUL in it."""
    if isinstance(text, bool):
        text = "true" if text else "false"
    cdef bytes out = str(text).encode()
    if b"\0" in out:
        raise ValueError(f"{text!r} has a NUL in it")
    return out


cdef str text_of(const char *text):
    return (<bytes> text).decode("utf-8", "replace") if text else ""
