"""Rejected rows of a database as dead letters: Debezium's messages with columns and place in headers, and back."""

from __future__ import annotations

import json
import pickle
import re
from bisect import bisect_left
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from mysql_log import Tables, server_of, tables_of

from ingest.deadletter.letter import DeadLetter
from ingest.model.change import Reject
from ingest.model.record import offset_of
from ingest.model.table import table_id
from ingest.sources.mysql import log_reader
from ingest.sources.mysql.format import MySqlRows, head_of
from ingest.sources.mysql.history import History, KnownSchemas, SchemaEntry
from ingest.sources.mysql.letters import LetterRow, LetterRows, as_letter
from ingest.sources.mysql.log_model import LogPlace, ServerIdentity
from ingest.sources.mysql.log_reader import LogReader
from ingest.sources.mysql.log_records import LogRecord
from ingest.sources.mysql.state import LOG, MySqlAssignment
from ingest.sources.mysql.types import Column, Table
from ingest.testing.in_memory import MemoryRecord

if TYPE_CHECKING:
    from mysql_servers import MySql

OF_OTHER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
COLUMNS = (
    Column("id", "bigint", unsigned=True, nullable=False), Column("flag", "tinyint", length=1), Column("n", "tinyint"),
    Column("d", "date"), Column("t", "varchar", length=9, charset="utf8mb4"),
)  # fmt: skip
TABLE = Table("shop", "orders", COLUMNS, ("id",))
OTHER = Table("shop", "users", COLUMNS[:2], ("id",))
HISTORY = History((
    SchemaEntry(7, 0, ("shop", "orders"), TABLE, read=True, booleans=True),
    SchemaEntry(9, 0, ("shop", "users"), OTHER, read=True, booleans=True),
))  # fmt: skip
ASSIGNED = MySqlAssignment(LogPlace("b.000001", 4, 0), {"b.000001": 0, "b.000002": 1_000}, server=ServerIdentity(5))
ROW = b'{"id":1,"flag":5,"n":1,"d":"0000-00-00","t":"\xc3\xa4"}'
CHANGE = b'{"before":{"id":1,"flag":true,"n":1,"d":null,"t":"b"},"after":' + ROW + (
    b',"source":{"db":"shop","table":"orders"},"op":"u"}'
)  # fmt: skip


def letter_of(value: bytes, position: int = 1_234, split: tuple[str, int] = LOG, place: Any = None) -> DeadLetter:
    kept = as_letter(ASSIGNED, HISTORY, split, LogRecord(value, position, 5_000), place)
    headers = [*(kept.headers() or ()), ("__ingest.errors.topic", b"binlog")]
    record = MemoryRecord(0, split[0], None, kept.value(), 0, 77, 5_000, headers)
    return DeadLetter(record, {"topic": split[0], "partition": str(split[1]), "offset": str(position)})


def test_a_letter_is_the_change_with_its_columns_and_its_place() -> None:
    kept = as_letter(ASSIGNED, HISTORY, LOG, LogRecord(head_of(7) + CHANGE, 1_234, 5_000), None)
    assert (kept.value(), kept.topic(), kept.partition(), kept.offset()) == (CHANGE, "binlog", 0, 1_234)
    headers = {name: (value or b"").decode() for name, value in kept.headers()}
    assert {name: headers[f"__ingest.mysql.{name}"] for name in ("file", "position", "server")} == {
        "file": "b.000002", "position": "234", "server": "server id 5",
    }  # fmt: skip
    ((number, _, name, table, *_),) = json.loads(headers["__ingest.mysql.schema"])
    assert (number, name, [column["name"] for column in table["columns"]]) == (
        7, ["shop", "orders"], ["id", "flag", "n", "d", "t"],
    )  # fmt: skip
    assert kept.where == "b.000002:234"
    assert "__ingest.mysql.gtid" not in headers, "its transaction has none"
    chunk = as_letter(ASSIGNED, HISTORY, ("snapshot", 3), LogRecord(head_of(7) + CHANGE, 2, 5_000), ("b.000001", 99))
    assert (chunk.topic(), chunk.partition(), chunk.offset()) == ("snapshot", 3, 2)
    assert (chunk.where, dict(chunk.headers())["__ingest.mysql.position"]) == ("rows as of b.000001:99", b"99")
    nowhere = as_letter(ASSIGNED, HISTORY, ("snapshot", 3), LogRecord(head_of(7) + CHANGE, 2, 5_000), None)
    assert (nowhere.where, "__ingest.mysql.file" in dict(nowhere.headers())) == ("", False)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("server", ["mariadb", "mysql5"])
def test_a_letter_of_the_log_has_the_gtid_that_the_server_says(
    server: str, native: bool, request: pytest.FixtureRequest
) -> None:
    """Also where a transaction of another source is between, in another file, and where it was given on in pieces."""
    running: MySql = request.getfixturevalue(server)
    running.execute("DROP DATABASE IF EXISTS named", "CREATE DATABASE named")
    running.execute("CREATE TABLE named.t (id INT PRIMARY KEY, v VARCHAR(9000))")
    file, offset = running.position()
    bulk = ", ".join(f"({number}, REPEAT('x', 9000))" for number in range(100, 140))
    other = "SET @@SESSION.server_id = 77" if running.kind.is_mariadb else f"SET GTID_NEXT = '{OF_OTHER}:{8 + native}'"
    back = "SET @@SESSION.server_id = DEFAULT" if running.kind.is_mariadb else "SET GTID_NEXT = 'AUTOMATIC'"
    running.execute(
        "INSERT INTO named.t VALUES (1, '')", "INSERT INTO named.t VALUES (2, ''), (3, '')", "FLUSH BINARY LOGS",
        other, "INSERT INTO named.t VALUES (4, '')", back, f"INSERT INTO named.t VALUES {bulk}",
        "ALTER TABLE named.t COMMENT 'passed over'", "UPDATE named.t SET v = 'new' WHERE id < 3",
    )  # fmt: skip
    wanted, bases, base = [], {file: 0}, offset
    for name, begin in ((file, offset), (running.position()[0], 4)):
        bases.setdefault(name, base)
        gtid = ""
        for row in running.execute(f"SHOW BINLOG EVENTS IN '{name}' FROM {begin}"):
            found = re.search(r"GTID (\d+-\d+-\d+)|GTID_NEXT= '([^']+)'", str(row[5]))
            gtid = found[1] or found[2] if found else gtid
            if "rows" in row[2].lower():
                wanted.append((bases[name] + row[4] - 1, gtid))
            base = max(base, bases[name] + row[4])
    assert len({gtid for _, gtid in wanted}) == 5
    assert len({gtid.rpartition("-" if running.kind.is_mariadb else ":")[0] for _, gtid in wanted}) == 2
    tables = Tables(tables_of(running, "named"))
    for pieces in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(log_reader, "OPEN_BYTES", 50_000 if pieces else log_reader.OPEN_BYTES)
            reader = LogReader(server_of(running), 4711, tables, native=native)
            with closing(reader):
                chunks = list(filter(None, reader.read(LogPlace(file, offset, 0), wanted[-1][0], bases=bases)))
        assert len(chunks) > (3 if pieces else 0)
        named = [(offset_of(one), pickle.loads(pickle.dumps(chunk.transactions)).gtid(offset_of(one)))  # noqa: S301
                 for chunk in chunks for one in chunk.messages]  # fmt: skip
        ends = [end for end, _ in wanted]
        assert [gtid for _, gtid in named] == [wanted[bisect_left(ends, at)][1] for at, _ in named]
        assert len(named) == 46
    kept = as_letter(ASSIGNED, HISTORY, LOG, chunks[0].messages[0], chunks[0].transactions)
    assert dict(kept.headers())["__ingest.mysql.gtid"] == wanted[0][1].encode()


@pytest.mark.parametrize("booleans", [True, False])
def test_a_letter_is_decoded_by_its_own_columns(booleans: bool) -> None:
    """Whatever this process knows of the table; TINYINT(1) is what it is for the pipeline by now."""
    rows, back = MySqlRows(), None
    letters = LetterRows(rows.schemas, booleans=booleans)
    back = letters.of(letter_of(head_of(7) + CHANGE))
    (found,) = rows.decoder("binlog").decode([None], [back.value()])
    if booleans:
        assert isinstance(found, Reject)
        assert found.code == "type-mismatch"
        back = letters.of(letter_of(head_of(7) + CHANGE.replace(b'"flag":5', b'"flag":false')))
        (found,) = rows.decoder("binlog").decode([None], [back.value()])
    assert isinstance(found, tuple)
    assert found[0] == table_id("shop.orders")
    assert len(rows.schemas.history.entries) == 1, "letters with the same columns share an entry"
    flags = [json.loads(bytes(image))["flag"] for image in found[2:4]]  # type: ignore[arg-type]  # images in JSON
    assert flags == ([True, False] if booleans else [1, 5])
    assert (back.topic(), back.partition(), back.offset(), back.timestamp()) == ("binlog", 0, 77, (1, 5_000))
    assert (back.origin.topic(), back.origin.offset()) == ("binlog", 1_234)


def test_several_changes_of_one_record_come_back() -> None:
    user = b'{"id":9,"before":null,"after":{"id":2,"flag":true},"source":{"db":"shop","table":"users"},"op":"c"}'
    value = head_of(7) + b'[{"id":7,' + CHANGE[1:] + b"," + user + b"]"
    rows = MySqlRows()
    back = LetterRows(rows.schemas, booleans=False).of(letter_of(value))
    (found,) = rows.decoder("binlog").decode([None], [back.value()])
    assert isinstance(found, list)
    assert [change[0] for change in found] == [table_id("shop.orders"), table_id("shop.users")]


def test_what_is_rejected_again_is_the_letter() -> None:
    letter = letter_of(head_of(7) + CHANGE)
    back = LetterRows(KnownSchemas(), booleans=False).of(letter)
    assert back.kept is letter
    assert back.kept.value() == CHANGE
    assert "__ingest.mysql.schema" in dict(back.kept.headers()), "the columns stay, the former rejection does not"


@pytest.mark.parametrize("broken", ["no header", "no schema", "no change", "another table"])
def test_a_letter_that_is_none_of_a_row_is_a_reject(broken: str) -> None:
    letter: Any = letter_of(head_of(7) + (b"x" if broken == "no change" else CHANGE))
    if broken != "no change":
        headers = (
            [] if broken == "no header" else [("__ingest.mysql.schema", b"[]" if broken == "no schema" else b"[[1]]")]
        )
        letter.letter.sent = headers
    rows = MySqlRows()
    back: LetterRow = LetterRows(rows.schemas, booleans=False).of(letter)
    (found,) = rows.decoder("binlog").decode([None], [back.value()])
    assert isinstance(found, Reject)
    assert found.code == "malformed"
