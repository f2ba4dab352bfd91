"""What is plainly no JSON object is a reject or is skipped, in every format whose messages are JSON objects."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.formats import FORMATS
from ingest.model.change import Kind, Reject, Skip

GARBAGE = [None, b"", b"[]", b"null", b"1", b'"x"', b"\xff\xfe", b"[" * 10_000, b"\x00" * 100]
GOOD = {
    "debezium-json": b'{"op":"c","after":{"id":1},"source":{"db":"a","table":"b"}}',
    "canal-json": b'{"data":[{"id":1}],"database":"a","table":"b","type":"INSERT"}',
    "maxwell-json": b'{"database":"a","table":"b","type":"insert","data":{"id":1}}',
    "ogg-json": b'{"table":"a.b","op_type":"I","after":{"id":1}}',
    "json": b'{"id":1}',
}


@pytest.mark.parametrize("name", GOOD)
def test_no_object_is_no_change(name: str) -> None:
    made: Any = FORMATS[name]()
    decoder = made.decoder("a.b")
    for _ in range(2):
        assert all(isinstance(result, (Reject, Skip)) for result in decoder.decode(GARBAGE, GARBAGE))
    ((table, kind, before, after, *_),) = decoder.decode([None], [GOOD[name]])
    assert (".".join(table), kind, before, bytes(after)) == ("a.b", Kind.INSERT, None, b'{"id":1}')
