"""The numbers of librdkafka's own errors."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from ingest.kafka.local_error import LocalError


@pytest.mark.parametrize("code", LocalError, ids=lambda code: code.name)
def test_a_code_has_the_number_that_the_client_gives_it(code: LocalError) -> None:
    assert getattr(KafkaError, f"_{code.name}") == code
    assert KafkaError(code).name() == f"_{code.name}"
