"""Reports of librdkafka, as errors that say what to do."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from ingest.errors import (
    AccessError,
    CommitOutcomeUnknown,
    ConfigError,
    DataLoss,
    IngestError,
    TopicMissing,
    Unavailable,
)


class LocalError(IntEnum):
    """Code of an error that librdkafka itself found, with its number in rdkafka.h (`RD_KAFKA_RESP_ERR__FAIL`).

    Errors of brokers have theirs in `confluent_kafka.KafkaError`.
    """

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


_ACCESS: Final = {
    LocalError.AUTHENTICATION,
    LocalError.SSL,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.ILLEGAL_SASL_STATE,
    KafkaError.UNSUPPORTED_SASL_MECHANISM,
}
_RIGHTS: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "Read or Write on the topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "Read on the consumer group (properties.group.id)",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "the operation on the cluster",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Write on the transactional ids (sink.transactional-id-prefix)",
}
_MISSING: Final = {KafkaError.UNKNOWN_TOPIC_OR_PART, LocalError.UNKNOWN_TOPIC, LocalError.UNKNOWN_PARTITION}
_LOST: Final = {KafkaError.OFFSET_OUT_OF_RANGE, LocalError.AUTO_OFFSET_RESET}
_AWAY: Final = {
    LocalError.TRANSPORT,
    LocalError.ALL_BROKERS_DOWN,
    LocalError.TIMED_OUT,
    LocalError.MSG_TIMED_OUT,
    LocalError.RESOLVE,
    LocalError.DESTROY,
    LocalError.WAIT_COORD,
    LocalError.TIMED_OUT_QUEUE,
    LocalError.PURGE_QUEUE,
    LocalError.PURGE_INFLIGHT,
    LocalError.ISR_INSUFF,
    # The client has dropped a broker, because the cluster has another list of them now, or is about to ask again
    LocalError.DESTROY_BROKER,
    LocalError.UNKNOWN_BROKER,
    LocalError.NODE_UPDATE,
    LocalError.RETRY,
    LocalError.WAIT_CACHE,
    LocalError.OUTDATED,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.KAFKA_STORAGE_ERROR,
    # A broker that has just come back, or a leader that has just moved
    LocalError.NOENT,  # ListOffsets, as long as no partition that it was asked for has a leader
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
    KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    KafkaError.NOT_CONTROLLER,
    KafkaError.STALE_BROKER_EPOCH,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.THROTTLING_QUOTA_EXCEEDED,
}

_TAKEN: Final = {
    LocalError.FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.PRODUCER_FENCED,
    KafkaError.TRANSACTION_COORDINATOR_FENCED,
}
_FENCED: Final = _TAKEN | {
    LocalError.FATAL,
    LocalError.STATE,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
    KafkaError.INVALID_TXN_STATE,
    KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
    KafkaError.UNKNOWN_PRODUCER_ID,
}
"""The producer is of no more use: a newer one has its id, or its transaction was ended for it."""

INVALID_TIMESTAMP: Final = KafkaError.INVALID_TIMESTAMP
REFUSED: Final = {
    KafkaError.MSG_SIZE_TOO_LARGE: "a record larger than its max.message.bytes",
    KafkaError.RECORD_LIST_TOO_LARGE: "a record larger than its segment.bytes",
    INVALID_TIMESTAMP: "a record of such a time (message.timestamp.before.max.ms, .after.max.ms)",
    KafkaError.INVALID_RECORD: "a record that its settings forbid: one without a key, where it is compacted",
    LocalError.INVALID_DIFFERENT_RECORD: "a record that comes with one that its settings forbid",
}
"""Errors about a record: its topic takes others. A broker refuses all records of a request for one of them."""

_FEW_REPLICAS: Final = {KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND}
_IN_SYNC: Final = "a topic takes no record while fewer replicas are in sync than its min.insync.replicas says"

_SETTLING: Final = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
    LocalError.NOENT,
}


_ALERT: Final = re.compile(r"alert (bad certificate|certificate|unknown ca|unsupported certificate|access denied)")
_AROUND: Final = re.compile(r"^([a-z_]+://\S+|\S+/bootstrap): | \(after \d+ms in state .*\)$")


class ClientError(KafkaException):
    """A failure of a client; `what` says what it could not do, for `explain`."""

    def __init__(self, cause: KafkaException, what: str) -> None:
        super().__init__(error_of(cause))
        self.what = what


def error_of(exc: KafkaException | KafkaError) -> KafkaError:
    """Return the error inside an exception."""
    if isinstance(exc, KafkaException):
        inner = exc.args[0] if exc.args else None
        return inner if isinstance(inner, KafkaError) else KafkaError(LocalError.FAIL, str(exc))
    return exc


def is_away(exc: KafkaException | KafkaError) -> bool:
    """Return whether an error is temporary, so that a retry may succeed."""
    error = error_of(exc)
    return error.code() in _AWAY or error.retriable()


def is_refusal(error: KafkaError) -> bool:
    """Return whether a broker has refused a record because of the record itself, such as its size."""
    return error.code() in REFUSED


def is_fenced(exc: KafkaException | KafkaError) -> bool:
    """Return whether a newer producer has the transactional id."""
    return error_of(exc).code() in _TAKEN


def is_settling(exc: BaseException | None) -> bool:
    """Return whether a reachable broker is only settling: it has just started, or a leader has moved."""
    return isinstance(exc, KafkaException) and error_of(exc).code() in _SETTLING


def is_access(error: KafkaError) -> bool:
    """Return whether authentication or TLS failed, which no retry repairs."""
    return error.code() in _ACCESS or _refused_certificate(error)


def _refused_certificate(error: KafkaError) -> bool:
    """Return whether the broker sent a TLS alert about the client's certificate.

    librdkafka calls that a broken connection.
    """
    return error.code() == LocalError.TRANSPORT and _ALERT.search(error.str()) is not None


def reason(text: str) -> str:
    """Librdkafka's text without the address in front and the connection's state behind, which say nothing more."""
    return _AROUND.sub("", text)


def _access(error: KafkaError, what: str, servers: str) -> AccessError | None:
    text = reason(error.str())
    if _refused_certificate(error):
        return AccessError(
            f"cannot {what}: the broker at {servers} did not accept this client's certificate: {text}",
            "check properties.ssl.certificate.location and ssl.key.location: missing, expired, or of an authority that "
            "the broker does not trust",
        )
    if error.code() not in _ACCESS:
        return None
    if error.code() == LocalError.SSL:
        hint = "set properties.ssl.ca.location to the certificate (PEM) of the authority that issued the broker's"
        if "verify failed" in text:
            return AccessError(f"cannot {what}: the certificate of the broker at {servers} is not trusted", hint)
        return AccessError(
            f"cannot {what}: TLS with the broker at {servers} failed: {text}", "check the ssl.* properties"
        )
    if "GSSAPI" in text or "Kerberos" in text:
        return AccessError(
            f"cannot {what}: no Kerberos login at the broker at {servers}: {text}",
            "check properties.sasl.kerberos.keytab, .principal and .service.name, KRB5_CONFIG, and whether kinit works "
            "with them here",
        )
    return AccessError(
        f"cannot {what}: the broker at {servers} refused the login: {text}",
        "check properties.sasl.mechanism, sasl.username and sasl.password, and security.protocol",
    )


def explain(exc: KafkaException | KafkaError, what: str, servers: str) -> IngestError:
    """Return the error to stop with: `what` was tried (e.g. `read shop.orders[0]`), at these servers."""
    error = error_of(exc)
    code, text = error.code(), error.str()
    access = _access(error, what, servers)
    if access is not None:
        return access
    if code in _RIGHTS:
        return AccessError(f"cannot {what} at {servers}: {text}", f"grant this user {_RIGHTS[code]}")
    if code in _MISSING:
        return TopicMissing(f"cannot {what} at {servers}: {text}", "create the topic, or correct its name")
    if code in _LOST:
        return DataLoss(
            f"cannot {what} at {servers}: {text}",
            "the records were deleted before they were read; set scan.on-data-loss to earliest or latest to go on",
        )
    if code == LocalError.LOG_TRUNCATION:
        return IngestError(
            f"cannot {what} at {servers}: {text}: records that were read may have been replaced by others",
            "look whether a broker that was not in sync became the leader; go on with ingest checkpoint reset",
        )
    if code == KafkaError.INVALID_TRANSACTION_TIMEOUT:
        return ConfigError(
            f"cannot {what} at {servers}: properties.transaction.timeout.ms is above what the broker allows",
            "lower it, or raise the broker's transaction.max.timeout.ms",
        )
    if code in _FENCED or error.fatal():
        return CommitOutcomeUnknown(
            f"cannot {what} at {servers}: {error.name()}: {text}", "a newer attempt has taken over; nothing is lost"
        )
    if is_away(error):
        return _unavailable(error, what, servers)
    if code == LocalError.INVALID_ARG:
        return ConfigError(f"cannot {what}: {text}", "correct the properties.* of the pipeline file")
    if code in {
        KafkaError.POLICY_VIOLATION,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_CONFIG,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.MSG_SIZE_TOO_LARGE,
    }:
        return ConfigError(f"cannot {what} at {servers}: {text}", "change the pipeline file or the broker's settings")
    return IngestError(f"cannot {what} at {servers}: {error.name()}: {text}", "the broker's log may say more")


def _unavailable(error: KafkaError, what: str, servers: str) -> Unavailable:
    code = error.code()
    if code in _FEW_REPLICAS:
        hint = f"{_IN_SYNC}: start the other brokers, or run again later"
        return Unavailable(f"cannot {what} at {servers}: {error.str()}", hint)
    # Of a record that was not taken in time the client does not tell what the broker answered meanwhile
    more = f"; {_IN_SYNC}" if code == LocalError.MSG_TIMED_OUT else ""
    return Unavailable(
        f"cannot {what}: no answer from the broker at {servers}: {reason(error.str())}",
        f"start it, or run again later{more}",
    )


def refuse(exc: Exception, section: str, servers: str) -> IngestError:
    """Return the error for properties that no client can be made with."""
    what = f"use the properties of {section}"
    if isinstance(exc, KafkaException):
        return explain(exc, what, servers)
    return ConfigError(f"cannot {what}: {exc}", "correct the properties.* of the pipeline file")
