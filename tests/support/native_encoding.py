"""Messages through native code, and a comparison of what it makes of them with what the reference makes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from any_table import SINK, Message, cache_of, schema
from hypothesis import currently_in_test_context, event

from ingest.encode.encode import encode
from ingest.formats.format import FormatOptions
from ingest.native import native

if TYPE_CHECKING:
    from ingest.model.schema import TableSchema

ORDERS = schema({"id": "BIGINT", "name": "STRING", "n": "DOUBLE"}, ("id",))
WHOLE = (
    b'{"before":{"id":1,"name":"a","n":null},"after":{"id":1,"name":"\xc3\xa9\\n","n":1.50},'
    b'"source":{"version":"2","ts_ms":5,"db":"shop","table":"t","x":{"y":[1,"z",{}]}},"op":"u","ts_ms":1}'
)


def take(encoder: Any, messages: Any, start: int, records: list[Any]) -> int:
    """Encode messages from `start` on, and return where that ends."""
    full = True
    while full:
        batch, start = encoder.encode(messages, start)
        records += batch
        full = batch.full
    return start


def compare(
    form: Any,
    table: Any,
    source: TableSchema,
    sink: TableSchema,
    message: Message,
    *,
    keyed: bool,
    to: Any = SINK,
    declared: tuple[str, ...] = (),
) -> bool:
    """Return whether native code took the message. If so, its records are those of the reference.

    `declared`: columns whose types the pipeline gives.
    """
    reference, natively = (cache_of(form, table, source, sink, keyed=keyed, to=to, declared=declared) for _ in range(2))
    if declared and isinstance(form, FormatOptions) and form.capabilities.says_types:
        form = form.beside({table: {column.name: column.type for column in source.columns if column.name in declared}})
    records: list[Any] = []
    encoders = native.NativeEncoders(form, natively)
    encoder = encoders.of("t")
    taken = take(encoder, [message], 0, records)
    encoders.settle()
    if currently_in_test_context():
        event("taken" if taken else "left")
    if not taken:
        assert not records
        return False
    encoded = encode(form.decoder("t").decode([message.key()], [message.value()]), reference, 0)
    assert encoded.stop == 1
    assert not encoded.rejects
    assert not any(one.rounded for one in reference.compiled.values()), "native code leaves what is rounded"
    assert encoder.skipped() == [(0, reason) for reason in encoded.skipped]
    assert [(to, key) for to, key, _ in records] == [(to, key) for to, key, _ in encoded.records]
    for (_, _, made), (_, _, expected) in zip(records, encoded.records, strict=True):
        if expected is None or made is None:
            assert made is expected
            continue
        assert bytes(made) == bytes(expected), "which way a row went does not show"
        if to is SINK:
            json.loads(made)
    for at, by_table in reference.compiled.items():
        other = natively.compiled[at]
        assert (by_table.inserted, by_table.updated, by_table.deleted) == (other.inserted, other.updated, other.deleted)
        assert by_table.bytes_out == other.bytes_out
        assert other.bytes_in == (0 if encoded.skipped else len(message.key() or b"") + len(message.value() or b""))
        assert not by_table.unrepresentable
    return True


def wrap(after: str, *, before: str = "null", op: str = "c") -> bytes:
    return f'{{"before":{before},"after":{after},"source":{{"db":"shop","table":"t"}},"op":"{op}"}}'.encode()


def canal(kind: str, row: str, old: str = "null", more: str = '"pkNames":["id"]') -> bytes:
    text = f'{{"data":[{row}],"database":"shop","isDdl":false,"mysqlType":{{"id":"bigint"}},"old":{old},{more},'
    return (text + f'"table":"t","ts":1,"type":"{kind}"}}').encode()
