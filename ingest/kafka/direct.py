"""Records from the Kafka client and to it without a Python object for each, where that was built.

`attach` gives a client that was made with `plugin()` in its configuration the ways of `_client.c`: batches of records
that C code takes as they are, and a way for records out of C code. Without it, readers and writers do the same by the
client's own methods, at twice the cost (docs/adr/2026-11-22-records-pass-in-c.md). `INGEST_NATIVE=off` in the workers'
environment does without.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingest.kafka._client import Client, Writer

try:
    from ingest.kafka import _client
except ImportError:  # it was installed without a compiler
    _client = None  # type: ignore[assignment]


@cache
def plugin() -> dict[str, str]:
    """What a client's configuration needs for `attach`; nothing where that does not work here."""
    if _client is None or os.environ.get("INGEST_NATIVE") == "off" or ";" in _client.__file__:
        return {}
    conf = {"plugin.library.paths": _client.__file__}
    try:
        consumer = Consumer({"group.id": "plugin", "log_level": 0, **conf})
        _client.Client(consumer, None).close()
        consumer.close()
    except (KafkaException, RuntimeError):  # a librdkafka that takes no plugins
        return {}
    return conf


def attach(owner: Any, writer: Writer | None = None) -> Client | None:  # noqa: ANN401  (a consumer or a producer)
    """The ways of a client that was made just before, in this thread, with `plugin()`; None where there are none."""
    return _client.Client(owner, writer) if plugin() else None


def errors(client: Client) -> Iterator[KafkaError]:
    """What the client's threads have met since one asked last."""
    for code, text, fatal in client.notes():
        yield KafkaError(code, text, fatal)
