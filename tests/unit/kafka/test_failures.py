"""What kind of error each code of librdkafka's own is: whether trying again may help decides whether a run ends."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from ingest.errors import (
    AccessError,
    CommitOutcomeUnknown,
    ConfigError,
    DataLoss,
    IngestError,
    TopicMissing,
    Unavailable,
)
from ingest.kafka.failures import LocalError, explain

LOCAL = {
    KafkaError(code).name()
    for name in dir(KafkaError)
    if name[0] == "_" and name[1:2].isupper() and (code := getattr(KafkaError, name)) < 0
}
KINDS: dict[type[IngestError], set[str]] = {
    Unavailable: {
        "_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_MSG_TIMED_OUT", "_RESOLVE", "_DESTROY",
        "_DESTROY_BROKER", "_UNKNOWN_BROKER", "_NODE_UPDATE", "_WAIT_COORD", "_WAIT_CACHE", "_RETRY", "_OUTDATED",
        "_PURGE_QUEUE", "_PURGE_INFLIGHT", "_ISR_INSUFF", "_NOENT",
    },
    AccessError: {"_AUTHENTICATION", "_SSL"},
    TopicMissing: {"_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"},
    DataLoss: {"_AUTO_OFFSET_RESET"},
    CommitOutcomeUnknown: {"_FENCED", "_FATAL", "_STATE"},
    ConfigError: {"_INVALID_ARG"},
}  # fmt: skip
"""All others end a run: a client is used wrongly, or has broken. So does a log that was truncated, whatever
`scan.on-data-loss` says: what the sink has may never have been."""


@pytest.mark.parametrize("name", sorted(LOCAL))
def test_a_code_of_the_clients_own_is_of_one_kind(name: str) -> None:
    expected = next((kind for kind, names in KINDS.items() if name in names), IngestError)
    found = explain(KafkaError(getattr(KafkaError, name)), "read t[0]", "b:9092")
    assert type(found) is expected
    assert "read t[0]" in found.message


def test_every_kind_is_of_codes_that_there_are() -> None:
    assert set().union(*KINDS.values()) <= LOCAL
    assert len(LOCAL) > 50


@pytest.mark.parametrize("code", [
    KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND, KafkaError._MSG_TIMED_OUT,
])  # fmt: skip
def test_too_few_replicas_of_a_topic_are_said(code: int) -> None:
    """The client tries such a record until its time is over, and says of it that only."""
    found = explain(KafkaError(code), "write to out[0]", "b:9092")
    assert (type(found), "write to out[0]" in found.message) == (Unavailable, True)
    assert "fewer replicas are in sync than its min.insync.replicas says" in found.hint
    assert ("no answer" in found.message) is (code == KafkaError._MSG_TIMED_OUT)


@pytest.mark.parametrize("code", LocalError, ids=lambda code: code.name)
def test_a_code_has_the_number_that_the_client_gives_it(code: LocalError) -> None:
    assert getattr(KafkaError, f"_{code.name}") == code
    assert KafkaError(code).name() == f"_{code.name}"
