"""Changes as we, Debezium and Canal write them, read by Flink's own formats: recorded, and compared row by row."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from change_peers import flink_rows
from peer_changes import (
    CHANGES,
    FORMS,
    LATER,
    NO_DAYS,
    SERVERS,
    OurMessages,
    change,
    declared,
    differing,
    made,
    meant,
    question,
    recorded,
)  # fmt: skip
from peer_values import told

if TYPE_CHECKING:
    from pathlib import Path

UNITS: Final = {
    "io.debezium.time.Date": ("INT", "days"), "io.debezium.time.Time": ("INT", "milliseconds"),
    "io.debezium.time.MicroTime": ("BIGINT", "microseconds"), "io.debezium.time.Timestamp": ("BIGINT", "milliseconds"),
    "io.debezium.time.MicroTimestamp": ("BIGINT", "microseconds"),
    "org.apache.kafka.connect.data.Decimal": ("BYTES", "unscaled"),
}  # fmt: skip
"""What the names of Debezium's types say: Flink's type, and the unit."""
DEFAULTS: Final = "INT DEFAULT 3"
OF_DEBEZIUM: Final = {"BIT(13)", "BIGINT UNSIGNED", "ENUM('a','B''s','ü,x','')", DEFAULTS}
OF_CANAL: Final = {
    "VARCHAR(20) CHARACTER SET latin1", "BINARY(5)", "ENUM('a','B''s','ü,x','')", "SET('a','b c','ü')", "GEOMETRY",
}  # fmt: skip


@pytest.mark.parametrize("server", SERVERS)
def test_flink_reads_the_same_rows_of_ours_as_of_theirs(server: str) -> None:
    """The types whose values differ are those of which the page says so."""
    said = told()
    assert all(said[kind][0] != "same" for kind in OF_DEBEZIUM - {DEFAULTS})
    assert all(said[kind][1] != "same" for kind in OF_CANAL)
    found = recorded()[server]
    rows = {form: (form, one.rows) for form, one in found.items()}
    plain = rows["debezium"]
    assert differing(plain, rows["debezium with schema"]) == {}
    assert differing(rows["canal"], rows["Canal"]).keys() == OF_CANAL
    if server == "mariadb":
        assert differing(plain, rows["Debezium"]).keys() == OF_DEBEZIUM
    kinds = [kind for kind, _ in meant(*plain)]
    assert {kind: kinds.count(kind) for kind in kinds} == {"+I": 11, "-U": 4, "+U": 4, "-D": 8}


def test_keys_are_debeziums_and_of_tombstones_flink_reads_nothing() -> None:
    found = recorded()["mariadb"]
    theirs = found["Debezium"]
    values = [
        (json.loads(key or ""), rows) for (key, value), rows in zip(theirs.messages, theirs.rows, strict=True) if value
    ]
    for form in ("debezium", "debezium with schema"):
        ours = found[form]
        assert [json.loads(key or "") for key, _ in ours.messages] == [key for key, _ in values]
        assert [[row[0] for row in rows] for rows in ours.rows] == [[row[0] for row in rows] for _, rows in values]
    tombstones = [rows for (_, value), rows in zip(theirs.messages, theirs.rows, strict=True) if value is None]
    assert tombstones == [[]] * 9


@pytest.mark.parametrize("server", SERVERS)
def test_days_that_are_none_are_null_and_flink_refuses_canals(server: str) -> None:
    for form, one in recorded()[server].items():
        of_row = [
            rows for (_, value), rows in zip(one.messages, one.rows, strict=True)
            if value and _id_of(json.loads(value)) == str(NO_DAYS)
        ]  # fmt: skip
        assert len(of_row) == 2, form
        if form == "Canal":
            assert all("DateTimeException" in rows["error"] for rows in of_row)
            continue
        named = [{"kind": row[0], **dict(zip(declared(form), row[1:], strict=True))} for rows in of_row for row in rows]
        days = [(row["kind"], row["d0"], row["dt"]) for row in named]
        assert days == [("+I", None, None), ("-D", None, None)], form


def _id_of(message: Any) -> str:
    found = message.get("payload", message)
    row = found["data"][0] if "data" in found else found["after"] or found["before"]
    return str(row["id"])


def test_numbers_are_in_the_units_that_the_schema_names() -> None:
    """By what the page declares for Flink, with which the values mean what those without a schema do."""
    columns = declared("debezium with schema")
    for server in SERVERS:
        for _, value in recorded()[server]["debezium with schema"].messages:
            schema = json.loads(value or "")["schema"]
            (after,) = [one for one in schema["fields"] if one["field"] == "after"]
            of = {one["field"]: one.get("name", "") for one in after["fields"]}
            numbers = {name: UNITS[kind] for name, kind in of.items() if kind in UNITS}
            assert numbers == {
                name: (one.kind, one.unit) for name, one in columns.items() if (one.kind, one.unit) in UNITS.values()
            }  # fmt: skip


@pytest.mark.parametrize("server", SERVERS)
def test_our_messages_are_those_that_were_recorded(server: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """`record_changes.py` of tests/support records them once more."""
    running = request.getfixturevalue(server)
    made(running)
    ours = OurMessages(running, tmp_path)
    change(running, [*CHANGES, *LATER])
    found = recorded()[server]
    for form, messages in ours.read().items():
        assert messages == found[form].messages, form


def test_flink_reads_what_was_recorded(java: None) -> None:
    found = [(form, one) for forms in recorded().values() for form, one in forms.items()]
    assert len(found) == 2 * len(FORMS) + 3
    read = flink_rows([question(form, one.messages) for form, one in found])
    assert read == [one.rows for _, one in found]
