"""The history of schemas as a checkpoint has it: small, and the same when it is read again."""

from __future__ import annotations

import msgspec

from ingest.sources.mysql.columns import Column, ForeignKey, Table
from ingest.sources.mysql.history import SchemaEntry, from_document, to_document

KINDS = (
    Column("", "varchar", length=255, charset="utf8mb4", collation="utf8mb4_general_ci"),
    Column("", "int", nullable=False, unsigned=True), Column("", "decimal", precision=10, scale=2),
    Column("", "enum", labels=("a", "b'c", ""), charset="latin1", default="a", comment="é"),
    Column("", "timestamp", fsp=6, generated=True, invisible=True, hidden=True),
)  # fmt: skip


def entry(number: int, prefix: str = "customer_field") -> SchemaEntry:
    columns = tuple(
        Column(f"{prefix}_{at}", **{f: getattr(kind, f) for f in Column.__dataclass_fields__ if f != "name"})
        for at, kind in enumerate(KINDS * 10)
    )
    key = ForeignKey("fk", ("d", "p"), "CASCADE", "")
    table = Table(
        "d", f"t.{number}", columns, (columns[1].name,), ((columns[0].name,),), charset="latin1", unique_names=("u",),
        other_indexes=("i", "j"), cascades=(key,), row_end=columns[4].name, comment="c",
    )  # fmt: skip
    return SchemaEntry(number, 7, ("d", f"t.{number}"), table, read=True, booleans=False)


def test_entries_are_what_they_were() -> None:
    entries = [entry(1), SchemaEntry(2, 9, ("d", "gone"), None, read=False, booleans=True), entry(3), entry(4, "x")]
    stored = msgspec.json.decode(msgspec.json.encode(to_document(entries)))
    assert [*from_document(stored)] == entries
    assert len(stored["shapes"]) == 2
    assert len(stored["kinds"]) == len(KINDS)


def test_ten_thousand_tables_are_some_megabytes() -> None:
    """Of 50 columns each, with names of their own."""
    size = len(msgspec.json.encode(to_document(entry(number, f"field_{number}") for number in range(100))))
    assert size * 100 < 15_000_000
