"""The cluster's log of transactions, byte by byte, in both of the forms that its records have."""

from __future__ import annotations

import struct

import pytest

from ingest.kafka.transaction_log import read_key, read_value

PLAIN = (
    struct.pack(">hqhib", 0, 4000, 3, 60_000, 1) + struct.pack(">i", 1) + struct.pack(">h", 3) + b"out"
    + struct.pack(">iii", 2, 0, 5) + struct.pack(">qq", 111, 100)
)  # fmt: skip
FLEXIBLE = (
    struct.pack(">hqhib", 1, 4000, 3, 60_000, 1) + b"\x02" + b"\x04out" + b"\x03" + struct.pack(">ii", 0, 5) + b"\x00"
    + struct.pack(">qq", 111, 100) + b"\x01\x02\x02\x00\x02"
)  # fmt: skip


@pytest.mark.parametrize("value", [PLAIN, FLEXIBLE], ids=["version 0", "version 1"])
def test_a_record_says_what_is_open(value: bytes) -> None:
    found = read_value("a/0", value)
    assert (found.id, found.state, found.producer, found.epoch, found.timeout_ms) == ("a/0", "open", 4000, 3, 60_000)
    assert found.partitions == (("out", 0), ("out", 5))
    assert (found.updated, found.started) == (111, 100)


def test_keys_and_what_is_unknown() -> None:
    assert read_key(struct.pack(">hh", 0, 3) + b"a/0") == "a/0"
    with pytest.raises(ValueError, match="version 2"):
        read_value("a", struct.pack(">h", 2))
    with pytest.raises(ValueError, match="ends too soon"):
        read_value("a", PLAIN[:9])
    with pytest.raises(ValueError, match="unknown version"):
        read_key(struct.pack(">h", 9))
