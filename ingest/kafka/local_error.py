"""Codes of librdkafka's own errors. Errors of brokers have theirs in `confluent_kafka.KafkaError`."""

from __future__ import annotations

from enum import IntEnum


class LocalError(IntEnum):
    """Code of an error that librdkafka itself found, with its number in rdkafka.h (`RD_KAFKA_RESP_ERR__FAIL`)."""

    AUTO_OFFSET_RESET = -140
    FENCED = -144
    FATAL = -150
    PURGE_INFLIGHT = -151
    PURGE_QUEUE = -152
    NOENT = -156
    TIMED_OUT_QUEUE = -166
    AUTHENTICATION = -169
    STATE = -172
    WAIT_COORD = -180
    SSL = -181
    TIMED_OUT = -185
    INVALID_ARG = -186
    ALL_BROKERS_DOWN = -187
    UNKNOWN_TOPIC = -188
    UNKNOWN_PARTITION = -190
    MSG_TIMED_OUT = -192
    RESOLVE = -193
    TRANSPORT = -195
    FAIL = -196
    DESTROY = -197
