# cython: language_level=3
"""The common part of a consumer and a producer: how they are made, what librdkafka tells of them, and their end."""

from posix.types cimport pid_t

from libc.stdint cimport int32_t

from ingest.kafka.native.library cimport rd_kafka_error_t, rd_kafka_t

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    int pthread_mutex_init(pthread_mutex_t *, void *)
    int pthread_mutex_destroy(pthread_mutex_t *)
    int pthread_mutex_lock(pthread_mutex_t *)
    int pthread_mutex_unlock(pthread_mutex_t *)

cdef enum:
    MAX_ERRORS = 8
    MAX_LINES = 32
    MAX_TEXT = 512
    MAX_NAME = 250
    MAX_FACILITY = 32

cdef struct ErrorEvent:
    int code
    bint fatal
    char text[MAX_TEXT]

cdef struct LogLine:
    int level
    char facility[MAX_FACILITY]
    char text[MAX_TEXT]

cdef struct Events:              # what librdkafka's threads leave for Python to ask for
    pthread_mutex_t lock
    int holders
    int errors
    ErrorEvent error[MAX_ERRORS]  # the newest ones, in order
    int lines
    LogLine line[MAX_LINES]       # the newest ones, in order
    long lines_lost
    long failures                 # deliveries that failed
    int failed                    # code of the first of them that nobody asked for yet, or 0
    char topic[MAX_NAME]
    int32_t partition
    int refused                   # code of the first record that its topic does not take, likewise; it is no failure
    char refused_topic[MAX_NAME]
    int32_t refused_partition
    char *statistics              # the newest ones, or NULL

cdef class Client:
    cdef object __weakref__
    cdef rd_kafka_t *rk           # NULL: closed
    cdef rd_kafka_t *ending       # closed, but records of it are still there
    cdef Events *events
    cdef pid_t process            # that it was made in
    cdef int calls                # that have let go of the GIL and are not back
    cdef Py_ssize_t batches       # of records that are still there
    cdef bint consumes

    cdef int make(self, conf, bint consumes) except -1
    cdef rd_kafka_t *opened(self) except NULL
    cdef bint has_news(self) noexcept nogil
    cdef int let_go(self) except -1

cdef object failure(int code, text=*)
cdef int check_code(int code) except -1
cdef int check_error(rd_kafka_error_t *error) except -1
cdef int millis_of(double seconds) except -1
cdef bytes c_text(text)
cdef str text_of(const char *text)
