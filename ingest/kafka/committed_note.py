"""The note that was committed with an offset, as confluent_kafka gives it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition

_end_of = json.JSONDecoder().raw_decode


def note_of(found: TopicPartition) -> str:
    """Return the note of a committed offset, empty where there is none.

    confluent_kafka reads a note up to a zero byte, which librdkafka does not always put behind it. What follows a note
    of ours, which is a JSON text, is therefore cut off.
    """
    try:
        text = found.metadata or ""
    except UnicodeDecodeError as exc:
        text = exc.object[: exc.start].decode()
    try:
        _, end = _end_of(text)
    except ValueError:
        return text
    return text[:end]
