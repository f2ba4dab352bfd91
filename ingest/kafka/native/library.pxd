# cython: language_level=3
"""librdkafka's public interface, as far as it is used here: the one place that stands for its header.

Wheels of confluent-kafka hold the library without `rdkafka.h`. These declarations repeat that header. librdkafka keeps
them within a major version; `library.pyx` refuses a version outside of `OLDEST` to `NEWEST`. Tested with

    librdkafka 2.11.0   confluent-kafka 2.11.0, the oldest that pyproject.toml allows
    librdkafka 2.12.1   confluent-kafka 2.12.2; the image builds this one with Kerberos
    librdkafka 2.16.0   confluent-kafka 2.16.1, the newest when this was written

To add a version: run tests/unit/kafka/test_handle*.py, tests/integration/kafka/test_direct.py and
tests/integration/driver/test_exactly_once.py with it, compare the declarations with its header, and raise `NEWEST`.
"""

from libc.stdint cimport int32_t, int64_t

cdef enum:
    OLDEST = 0x020B00FF  # as rd_kafka_version() has it: major, minor, revision, ff for a release
    NEWEST = 0x0210FFFF  # any revision of 2.16

cdef extern from "<sys/types.h>" nogil:
    ctypedef Py_ssize_t ssize_t

# Nobody but librdkafka knows what is in these
ctypedef struct rd_kafka_t:
    int _
ctypedef struct rd_kafka_conf_t:
    int _
ctypedef struct rd_kafka_topic_t:
    int _
ctypedef struct rd_kafka_topic_conf_t:
    int _
ctypedef struct rd_kafka_queue_t:
    int _
ctypedef struct rd_kafka_headers_t:
    int _
ctypedef struct rd_kafka_error_t:
    int _
ctypedef struct rd_kafka_consumer_group_metadata_t:
    int _

ctypedef struct rd_kafka_message_t:
    int err
    rd_kafka_topic_t *rkt
    int32_t partition
    void *payload
    size_t len
    void *key
    size_t key_len
    int64_t offset
    void *_private

ctypedef struct rd_kafka_topic_partition_t:
    char *topic
    int32_t partition
    int64_t offset
    void *metadata
    size_t metadata_size
    void *opaque
    int err
    void *_private

ctypedef struct rd_kafka_topic_partition_list_t:
    int cnt
    int size
    rd_kafka_topic_partition_t *elems

ctypedef struct rd_kafka_metadata_topic_t:
    char *topic
    int partition_cnt
    void *partitions
    int err

ctypedef struct rd_kafka_metadata_t:
    int broker_cnt
    void *brokers
    int topic_cnt
    rd_kafka_metadata_topic_t *topics
    int32_t orig_broker_id
    char *orig_broker_name

cdef struct Memory:
    void *mem
    size_t size

cdef union Value:
    const char *cstr
    rd_kafka_topic_t *rkt
    int i
    int32_t i32
    int64_t i64
    Memory mem
    rd_kafka_headers_t *headers
    char _pad[64]

ctypedef struct rd_kafka_vu_t:
    int vtype
    Value u

cdef enum:
    PRODUCER = 0
    CONSUMER = 1

cdef enum:
    VTYPE_TOPIC = 1
    VTYPE_RKT = 2
    VTYPE_PARTITION = 3
    VTYPE_VALUE = 4
    VTYPE_KEY = 5
    VTYPE_MSGFLAGS = 7
    VTYPE_TIMESTAMP = 8
    VTYPE_HEADERS = 10

cdef enum:
    CONF_OK = 0
    MSG_F_COPY = 0x2
    PURGE_F_QUEUE = 0x1
    PURGE_F_INFLIGHT = 0x2
    DESTROY_F_NO_CONSUMER_CLOSE = 0x8
    OFFSET_INVALID = -1001
    ERR_INVALID_ARG = -186
    ERR_QUEUE_FULL = -184
    ERR_TIMED_OUT = -185
    ERR_FATAL = -150
    ERR_UNKNOWN = -1

cdef enum:                       # of records that a topic does not take; see `REFUSED` in ingest/kafka/failures.py
    ERR_INVALID_DIFFERENT_RECORD = -138
    ERR_MSG_SIZE_TOO_LARGE = 10
    ERR_RECORD_LIST_TOO_LARGE = 18
    ERR_INVALID_TIMESTAMP = 32
    ERR_INVALID_RECORD = 87

ctypedef void (*delivery_cb)(rd_kafka_t *, const rd_kafka_message_t *, void *) noexcept nogil
ctypedef void (*error_cb)(rd_kafka_t *, int, const char *, void *) noexcept nogil
ctypedef void (*log_cb)(const rd_kafka_t *, int, const char *, const char *) noexcept nogil
ctypedef int (*stats_cb)(rd_kafka_t *, char *, size_t, void *) noexcept nogil

cdef struct Functions:
    # The library, a client's configuration, its making and its end
    int (*version)() noexcept nogil
    rd_kafka_conf_t *(*conf_new)() noexcept nogil
    void (*conf_destroy)(rd_kafka_conf_t *) noexcept nogil
    int (*conf_set)(rd_kafka_conf_t *, const char *, const char *, char *, size_t) noexcept nogil
    void (*conf_set_opaque)(rd_kafka_conf_t *, void *) noexcept nogil
    void (*conf_set_dr_msg_cb)(rd_kafka_conf_t *, delivery_cb) noexcept nogil
    void (*conf_set_error_cb)(rd_kafka_conf_t *, error_cb) noexcept nogil
    void (*conf_set_log_cb)(rd_kafka_conf_t *, log_cb) noexcept nogil
    void (*conf_set_stats_cb)(rd_kafka_conf_t *, stats_cb) noexcept nogil
    rd_kafka_t *(*new)(int, rd_kafka_conf_t *, char *, size_t) noexcept nogil
    void *(*opaque)(const rd_kafka_t *) noexcept nogil
    int (*oauthbearer_set_token)(
        rd_kafka_t *, const char *, int64_t, const char *, const char **, size_t, char *, size_t) noexcept nogil
    void (*destroy_flags)(rd_kafka_t *, int) noexcept nogil
    void (*mem_free)(rd_kafka_t *, void *) noexcept nogil

    # Errors
    int (*last_error)() noexcept nogil
    int (*fatal_error)(rd_kafka_t *, char *, size_t) noexcept nogil
    int (*error_code)(const rd_kafka_error_t *) noexcept nogil
    const char *(*error_string)(const rd_kafka_error_t *) noexcept nogil
    int (*error_is_fatal)(const rd_kafka_error_t *) noexcept nogil
    int (*error_is_retriable)(const rd_kafka_error_t *) noexcept nogil
    int (*error_txn_requires_abort)(const rd_kafka_error_t *) noexcept nogil
    void (*error_destroy)(rd_kafka_error_t *) noexcept nogil

    # Topics, partitions, metadata
    rd_kafka_topic_t *(*topic_new)(rd_kafka_t *, const char *, rd_kafka_topic_conf_t *) noexcept nogil
    void (*topic_destroy)(rd_kafka_topic_t *) noexcept nogil
    const char *(*topic_name)(const rd_kafka_topic_t *) noexcept nogil
    rd_kafka_topic_partition_list_t *(*topic_partition_list_new)(int) noexcept nogil
    rd_kafka_topic_partition_t *(*topic_partition_list_add)(
        rd_kafka_topic_partition_list_t *, const char *, int32_t) noexcept nogil
    void (*topic_partition_list_destroy)(rd_kafka_topic_partition_list_t *) noexcept nogil
    int (*metadata)(rd_kafka_t *, int, rd_kafka_topic_t *, const rd_kafka_metadata_t **, int) noexcept nogil
    void (*metadata_destroy)(const rd_kafka_metadata_t *) noexcept nogil

    # Reading
    int (*poll_set_consumer)(rd_kafka_t *) noexcept nogil
    rd_kafka_queue_t *(*queue_get_consumer)(rd_kafka_t *) noexcept nogil
    void (*queue_destroy)(rd_kafka_queue_t *) noexcept nogil
    ssize_t (*consume_batch_queue)(rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t) noexcept nogil
    int (*assign)(rd_kafka_t *, const rd_kafka_topic_partition_list_t *) noexcept nogil
    rd_kafka_error_t *(*incremental_unassign)(rd_kafka_t *, const rd_kafka_topic_partition_list_t *) noexcept nogil
    int (*position)(rd_kafka_t *, rd_kafka_topic_partition_list_t *) noexcept nogil
    int (*committed)(rd_kafka_t *, rd_kafka_topic_partition_list_t *, int) noexcept nogil
    int (*query_watermark_offsets)(rd_kafka_t *, const char *, int32_t, int64_t *, int64_t *, int) noexcept nogil
    int (*consumer_close)(rd_kafka_t *) noexcept nogil
    void (*message_destroy)(rd_kafka_message_t *) noexcept nogil
    const char *(*message_errstr)(const rd_kafka_message_t *) noexcept nogil
    int64_t (*message_timestamp)(const rd_kafka_message_t *, int *) noexcept nogil
    int (*message_headers)(const rd_kafka_message_t *, rd_kafka_headers_t **) noexcept nogil
    int32_t (*message_leader_epoch)(const rd_kafka_message_t *) noexcept nogil
    int (*header_get_all)(const rd_kafka_headers_t *, size_t, const char **, const void **, size_t *) noexcept nogil

    # Writing
    int (*produce)(rd_kafka_topic_t *, int32_t, int, void *, size_t, const void *, size_t, void *) noexcept nogil
    rd_kafka_error_t *(*produceva)(rd_kafka_t *, const rd_kafka_vu_t *, size_t) noexcept nogil
    int32_t (*partition_by_murmur2)(const rd_kafka_topic_t *, const void *, size_t, int32_t, void *, void *) noexcept nogil
    rd_kafka_headers_t *(*headers_new)(size_t) noexcept nogil
    rd_kafka_headers_t *(*headers_copy)(const rd_kafka_headers_t *) noexcept nogil
    void (*headers_destroy)(rd_kafka_headers_t *) noexcept nogil
    int (*header_add)(rd_kafka_headers_t *, const char *, ssize_t, const void *, ssize_t) noexcept nogil
    int (*poll)(rd_kafka_t *, int) noexcept nogil
    int (*flush)(rd_kafka_t *, int) noexcept nogil
    int (*purge)(rd_kafka_t *, int) noexcept nogil
    int (*outq_len)(rd_kafka_t *) noexcept nogil

    # Transactions
    rd_kafka_error_t *(*init_transactions)(rd_kafka_t *, int) noexcept nogil
    rd_kafka_error_t *(*begin_transaction)(rd_kafka_t *) noexcept nogil
    rd_kafka_error_t *(*send_offsets_to_transaction)(
        rd_kafka_t *, const rd_kafka_topic_partition_list_t *,
        const rd_kafka_consumer_group_metadata_t *, int) noexcept nogil
    rd_kafka_error_t *(*commit_transaction)(rd_kafka_t *, int) noexcept nogil
    rd_kafka_error_t *(*abort_transaction)(rd_kafka_t *, int) noexcept nogil
    rd_kafka_consumer_group_metadata_t *(*consumer_group_metadata_new)(const char *) noexcept nogil
    void (*consumer_group_metadata_destroy)(rd_kafka_consumer_group_metadata_t *) noexcept nogil

cdef Functions rd
