"""`.venv/bin/python bench/studies/instructions.py`: what a message costs in the hot loop's C, in instructions.

Valgrind counts them (Debian package `valgrind`), so that two versions can be compared where other load makes times
worthless. Messages are those of the other benchmarks; what becomes of their records is no part of what is counted.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import messages

COUNT = 2000


class Message:
    """What an encoder asks of a message."""

    def __init__(self, key: bytes, value: bytes) -> None:
        """Key and value."""
        self.key = lambda: key
        self.value = lambda: value


def updates() -> list[Any]:
    """Updates, one in ten of them a delete."""
    chance = random.Random(7)  # noqa: S311  (the same messages every time)
    made = []
    for n in range(COUNT):
        key, now = chance.randrange(messages.KEYS), messages._NOW + n
        before, after = (
            messages._ROW
            % (key, key % 9973, status, (key % 100_000) / 100, n % 19, key, messages._NOTE[: 5 + key % 50],
               now, now, "true", key % 999, "")
            for status in ("NEW", "PAID")
        )  # fmt: skip
        row, op = ("null", "d") if chance.random() < 0.1 else (after, "u")
        value = messages._MESSAGE % (before, row, messages._SOURCE % (now, 0, n), op, now)
        made.append(Message(b'{"id":%d}' % key, value.encode()))
    return made


def columns() -> tuple[Any, ...]:
    """Return the columns of the messages' rows."""
    from ingest.model import types
    from ingest.model.schema import Column

    names = {
        "id": "BIGINT", "customer_id": "BIGINT", "status": "STRING", "amount": "DOUBLE", "quantity": "BIGINT",
        "sku": "BIGINT", "note": "STRING", "created_at": "BIGINT", "updated_at": "BIGINT", "active": "BOOLEAN",
        "address": "STRING",
    }  # fmt: skip
    return tuple(Column(name, types.parse(kind), nullable=name != "id") for name, kind in names.items())


def take() -> None:
    """Take the messages, as a worker does."""
    from ingest.encode.encode import EncoderCache
    from ingest.formats.debezium.options import DebeziumJson
    from ingest.model.schema import TableSchema
    from ingest.native import native
    from ingest.schema.evolve import Schemas, SourceTable
    from ingest.schema.infer import Inference
    from ingest.sinks.topics.upsert_kafka import UpsertKafka

    schema, table = TableSchema(columns(), ("id",)), ("inventory", "t0")
    sink = UpsertKafka.model_validate({"type": "upsert-kafka", "properties.*": {"bootstrap.servers": "h:1"}})
    cache = EncoderCache(sink.encoder, Inference(DebeziumJson().reading, False, {}, 2000))
    cache.renew(Schemas(1, {table: SourceTable(schema, (("out",),), True)}, {("out",): schema}), None)
    encoder, given = native.NativeEncoders(DebeziumJson(), cache).of("t"), updates()
    stop, full = 0, True
    while full:
        batch, stop = encoder.encode(given, stop)
        full = batch.full
    assert stop == COUNT, f"{stop} of {COUNT} messages were encoded"


def main() -> None:
    """Count, and print."""
    if sys.argv[1:] == ["take"]:
        take()
        return
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        sys.exit("valgrind is not here: install it (Debian: apt-get install valgrind)")
    with tempfile.TemporaryDirectory() as folder:
        counting = [
            "--tool=callgrind",
            "--toggle-collect=*add_message*",
            f"--callgrind-out-file={Path(folder) / 'out'}",
        ]
        command = [valgrind, *counting, sys.executable, __file__, "take"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or found is None:
        sys.exit(done.stderr)
    print(f"{int(found[1]) / COUNT:,.0f} instructions a message")


if __name__ == "__main__":
    main()
