"""The history of schemas as a checkpoint has it: small, and the same when it is read again."""

from __future__ import annotations

import msgspec

from ingest.sources.mysql.history import History, SchemaEntry, from_document, to_document
from ingest.sources.mysql.types import Column, ForeignKey, Table

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


def of(number: int, position: int, *columns: str, name: str = "t", read: bool = True) -> SchemaEntry:
    made = tuple(Column(column, "int") for column in columns)
    table = Table("d", name, made, ("id",)) if columns else None
    return SchemaEntry(number, position, ("d", name), table, read=read, booleans=False)


def test_a_history_keeps_what_is_still_asked_for() -> None:
    """Columns that the sink has (H87), that a table was read, and what tables are like from the place on."""
    entries = [
        of(1, 0, "id", "a"), of(2, 10, "id", "a", "b"), of(3, 20, "id", "B"), of(4, 30, "id", "b"),
        of(5, 90, "id", "c"),
        of(6, 5, "id", name="gone"), of(7, 25, name="gone"),
        of(8, 5, "id", name="left"), of(9, 15, "id", name="left", read=False),
        of(10, 5, "id", name="other", read=False), of(11, 45, name="other", read=False),
        of(12, 5, "id", name="kept", read=False), of(13, 15, "id", "x", name="kept", read=False),
    ]  # fmt: skip
    kept = History(tuple(entries), frozenset({90})).since(50, 40)
    assert [entry.id for entry in kept.entries] == [2, 4, 5, 6, 7, 8, 9, 13]
    assert kept.answered(90)
    assert kept.since(50, 40).entries == kept.entries
    early = History(tuple(entries)).since(50, 20)
    assert [entry.id for entry in early.entries if entry.name[1] == "t"] == [2, 3, 4, 5], (
        "rows of then may be looked at"
    )


def test_a_history_without_what_was_applied_ahead() -> None:
    made = History(
        (of(1, 0, "id"), of(2, 50, "id", "a"), of(3, 60, "id", name="u"), of(4, 70, name="v")), frozenset({50, 60})
    )
    assert [entry.id for entry in made.without(55).entries] == [1, 2, 4]
    assert made.without(55).answers == {50}
