# cython: language_level=3
"""Finds librdkafka's functions in the library that confluent-kafka has loaded, and refuses one that was not tested.

The functions are looked up through the extension module `confluent_kafka.cimpl` and what it is linked with. So they are
those of the very library that confluent-kafka runs on, wherever it lies, and there is no second copy in the process.
"""

from confluent_kafka import cimpl, libversion

cdef extern from "<dlfcn.h>" nogil:
    void *dlopen(const char *, int)
    void *dlsym(void *, const char *)
    int dlclose(void *)
    int RTLD_NOW
    int RTLD_NOLOAD


cdef int find(void *library, void **place, const char *name) except -1:
    """Put a function's address in its place; raises LookupError where the library does not have it."""
    place[0] = dlsym(library, name)
    if place[0] == NULL:
        raise LookupError(f"librdkafka {libversion()[0]} has no function {name.decode()}")
    return 0


cdef int find_all(void *library) except -1:
    """Fill the table of functions; raises LookupError where one is missing."""
    find_common(library)
    find_consumer(library)
    find_producer(library)
    return 0


cdef int find_common(void *library) except -1:
    """Find the functions of every client: configurations, errors, topics, metadata."""
    find(library, <void **> &rd.version, b"rd_kafka_version")
    find(library, <void **> &rd.conf_new, b"rd_kafka_conf_new")
    find(library, <void **> &rd.conf_destroy, b"rd_kafka_conf_destroy")
    find(library, <void **> &rd.conf_set, b"rd_kafka_conf_set")
    find(library, <void **> &rd.conf_set_opaque, b"rd_kafka_conf_set_opaque")
    find(library, <void **> &rd.conf_set_dr_msg_cb, b"rd_kafka_conf_set_dr_msg_cb")
    find(library, <void **> &rd.conf_set_error_cb, b"rd_kafka_conf_set_error_cb")
    find(library, <void **> &rd.conf_set_log_cb, b"rd_kafka_conf_set_log_cb")
    find(library, <void **> &rd.conf_set_stats_cb, b"rd_kafka_conf_set_stats_cb")
    find(library, <void **> &rd.new, b"rd_kafka_new")
    find(library, <void **> &rd.opaque, b"rd_kafka_opaque")
    find(library, <void **> &rd.oauthbearer_set_token, b"rd_kafka_oauthbearer_set_token")
    find(library, <void **> &rd.destroy_flags, b"rd_kafka_destroy_flags")
    find(library, <void **> &rd.mem_free, b"rd_kafka_mem_free")
    find(library, <void **> &rd.last_error, b"rd_kafka_last_error")
    find(library, <void **> &rd.fatal_error, b"rd_kafka_fatal_error")
    find(library, <void **> &rd.error_code, b"rd_kafka_error_code")
    find(library, <void **> &rd.error_string, b"rd_kafka_error_string")
    find(library, <void **> &rd.error_is_fatal, b"rd_kafka_error_is_fatal")
    find(library, <void **> &rd.error_is_retriable, b"rd_kafka_error_is_retriable")
    find(library, <void **> &rd.error_txn_requires_abort, b"rd_kafka_error_txn_requires_abort")
    find(library, <void **> &rd.error_destroy, b"rd_kafka_error_destroy")
    find(library, <void **> &rd.topic_new, b"rd_kafka_topic_new")
    find(library, <void **> &rd.topic_destroy, b"rd_kafka_topic_destroy")
    find(library, <void **> &rd.topic_name, b"rd_kafka_topic_name")
    find(library, <void **> &rd.topic_partition_list_new, b"rd_kafka_topic_partition_list_new")
    find(library, <void **> &rd.topic_partition_list_add, b"rd_kafka_topic_partition_list_add")
    find(library, <void **> &rd.topic_partition_list_destroy, b"rd_kafka_topic_partition_list_destroy")
    find(library, <void **> &rd.metadata, b"rd_kafka_metadata")
    find(library, <void **> &rd.metadata_destroy, b"rd_kafka_metadata_destroy")
    return 0


cdef int find_consumer(void *library) except -1:
    """Find the functions that read records."""
    find(library, <void **> &rd.poll_set_consumer, b"rd_kafka_poll_set_consumer")
    find(library, <void **> &rd.queue_get_consumer, b"rd_kafka_queue_get_consumer")
    find(library, <void **> &rd.queue_destroy, b"rd_kafka_queue_destroy")
    find(library, <void **> &rd.consume_batch_queue, b"rd_kafka_consume_batch_queue")
    find(library, <void **> &rd.assign, b"rd_kafka_assign")
    find(library, <void **> &rd.incremental_unassign, b"rd_kafka_incremental_unassign")
    find(library, <void **> &rd.position, b"rd_kafka_position")
    find(library, <void **> &rd.committed, b"rd_kafka_committed")
    find(library, <void **> &rd.query_watermark_offsets, b"rd_kafka_query_watermark_offsets")
    find(library, <void **> &rd.consumer_close, b"rd_kafka_consumer_close")
    find(library, <void **> &rd.message_destroy, b"rd_kafka_message_destroy")
    find(library, <void **> &rd.message_errstr, b"rd_kafka_message_errstr")
    find(library, <void **> &rd.message_timestamp, b"rd_kafka_message_timestamp")
    find(library, <void **> &rd.message_headers, b"rd_kafka_message_headers")
    find(library, <void **> &rd.message_leader_epoch, b"rd_kafka_message_leader_epoch")
    find(library, <void **> &rd.header_get_all, b"rd_kafka_header_get_all")
    return 0


cdef int find_producer(void *library) except -1:
    """Find the functions that write records, and those of transactions."""
    find(library, <void **> &rd.produce, b"rd_kafka_produce")
    find(library, <void **> &rd.produceva, b"rd_kafka_produceva")
    find(library, <void **> &rd.partition_by_murmur2, b"rd_kafka_msg_partitioner_murmur2")
    find(library, <void **> &rd.headers_new, b"rd_kafka_headers_new")
    find(library, <void **> &rd.headers_copy, b"rd_kafka_headers_copy")
    find(library, <void **> &rd.headers_destroy, b"rd_kafka_headers_destroy")
    find(library, <void **> &rd.header_add, b"rd_kafka_header_add")
    find(library, <void **> &rd.poll, b"rd_kafka_poll")
    find(library, <void **> &rd.flush, b"rd_kafka_flush")
    find(library, <void **> &rd.purge, b"rd_kafka_purge")
    find(library, <void **> &rd.outq_len, b"rd_kafka_outq_len")
    find(library, <void **> &rd.init_transactions, b"rd_kafka_init_transactions")
    find(library, <void **> &rd.begin_transaction, b"rd_kafka_begin_transaction")
    find(library, <void **> &rd.send_offsets_to_transaction, b"rd_kafka_send_offsets_to_transaction")
    find(library, <void **> &rd.commit_transaction, b"rd_kafka_commit_transaction")
    find(library, <void **> &rd.abort_transaction, b"rd_kafka_abort_transaction")
    find(library, <void **> &rd.consumer_group_metadata_new, b"rd_kafka_consumer_group_metadata_new")
    find(library, <void **> &rd.consumer_group_metadata_destroy, b"rd_kafka_consumer_group_metadata_destroy")
    return 0


def load() -> str:
    """Make the functions ready to be called, and return the library's version.

    Raises LookupError where the library is not to be found, lacks a function, or is of a version that was not tested.
    """
    cdef bytes path = cimpl.__file__.encode()
    cdef void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD)
    if library == NULL:
        raise LookupError(f"librdkafka cannot be found through {cimpl.__file__}")
    try:
        find_all(library)
    finally:
        dlclose(library)  # it stays loaded: confluent_kafka.cimpl is in use
    cdef int version = rd.version()
    text, known = libversion()
    if version != known:
        raise LookupError(f"librdkafka {text} is not the library that was found: {version:#x} instead of {known:#x}")
    if not OLDEST <= version <= NEWEST:
        raise LookupError(f"librdkafka {text} was not tested; tested are 2.11 to 2.16")
    return text
