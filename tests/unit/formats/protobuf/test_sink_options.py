"""Options of the formats of Protocol Buffers that change what a sink writes."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.component.options import WRITTEN
from ingest.formats.protobuf.options import Protobuf, ProtobufConfluent
from ingest.formats.written import RowPlace
from ingest.model import types
from ingest.model.reject import RowError
from ingest.model.schema import Column

SCHEMA = 'syntax = "proto3"; message Row { int32 id = 4; repeated string tags = 7; }'
COLUMNS = {"id": Column("id", types.parse("INT")), "tags": Column("tags", types.parse("ARRAY<STRING>"))}
ROW = {"id": b"1", "tags": b'["a",null]'}
BYTES = b"\x20\x01\x3a\x01a\x3a\x04none"
GIVEN: dict[str, Any] = {"protobuf.message-class-name": "Row", "protobuf.schema": SCHEMA}
NOWHERE = RowPlace("t", "value", ("t",), asks=False)


def test_a_null_among_texts_has_the_text_of_the_option() -> None:
    written = Protobuf.model_validate({**GIVEN, "protobuf.write-null-string-literal": "none"})
    assert written.row_writer(NOWHERE, COLUMNS)(ROW) == BYTES
    with pytest.raises(RowError):
        Protobuf.model_validate(GIVEN).row_writer(NOWHERE, COLUMNS)(ROW)


def test_a_given_schema_of_a_registry_says_the_numbers_of_fields() -> None:
    options = {
        "protobuf-confluent.url": "http://127.0.0.1:1",
        "protobuf-confluent.schema": SCHEMA,
        "protobuf-confluent.write-null-string-literal": "none",
    }
    written = ProtobufConfluent.model_validate(options, context={WRITTEN: True})
    assert written.row_writer(NOWHERE, COLUMNS)(ROW) == b"\0\0\0\0\0\0" + BYTES
