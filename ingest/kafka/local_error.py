"""Codes of librdkafka's own errors. Errors of brokers have theirs in `confluent_kafka.KafkaError`."""

from __future__ import annotations

from enum import IntEnum


class LocalError(IntEnum):
    """Code of an error that librdkafka itself found, with its number in rdkafka.h (`RD_KAFKA_RESP_ERR__FAIL`)."""

    DESTROY_BROKER = -137
    INVALID_DIFFERENT_RECORD = -138
    LOG_TRUNCATION = -139
    AUTO_OFFSET_RESET = -140
    FENCED = -144
    UNKNOWN_BROKER = -146
    FATAL = -150
    PURGE_INFLIGHT = -151
    PURGE_QUEUE = -152
    RETRY = -153
    NOENT = -156
    WAIT_CACHE = -164
    TIMED_OUT_QUEUE = -166
    OUTDATED = -167
    AUTHENTICATION = -169
    STATE = -172
    WAIT_COORD = -180
    SSL = -181
    NODE_UPDATE = -182
    ISR_INSUFF = -183
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
