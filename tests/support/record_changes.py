"""Records `golden/mysql_changes.jsonl`: the same changes as we, Debezium and Canal write them, and as Flink reads them.

`PYTHONPATH=tests/support python tests/support/record_changes.py` records them once more. MySQL 5.6
has Canal's and ours: Debezium's connector is the one for MariaDB.
"""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from change_peers import canal, debezium, flink_rows
from mysql_servers import running
from peer_changes import (
    CHANGES,
    DATABASE,
    LATER,
    SERVERS,
    OurMessages,
    Recorded,
    change,
    made,
    question,
    save,
)  # fmt: skip

if TYPE_CHECKING:
    from peer_changes import Message


def recorded(name: str, folder: Path) -> dict[str, list[Message]]:
    """The messages of all about the changes on a server."""
    with running(SERVERS[name]) as server, ExitStack() as peers:
        made(server)
        ours = OurMessages(server, folder)
        of_canal = peers.enter_context(canal(server, DATABASE, folder))
        of_debezium = None
        if server.kind.is_mariadb:
            of_debezium = peers.enter_context(debezium(server, DATABASE, folder))
            of_debezium.until(lambda one: one["topic"].endswith(".last"))
        found: dict[str, list[Message]] = {"Debezium": [], "Canal": []}
        for statements in (CHANGES, LATER):  # Canal asks for the columns of now
            change(server, statements)
            rows = of_canal.until(lambda one: one["table"] == "last")
            # Flink refuses statements, which `canal.instance.filter.query.*` leaves out of topics
            found["Canal"] += [(None, _text(one)) for one in rows if not one["isDdl"] and one["type"] != "QUERY"]
            if of_debezium is not None:
                found["Debezium"] += [
                    (_text(one["key"]["payload"]), _text(one["value"] and one["value"]["payload"]))
                    for one in of_debezium.until(lambda one: one["topic"].endswith(".last"))
                ]
        return {**ours.read(), **{name: of for name, of in found.items() if of}}


def _text(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def main() -> None:
    """Record them."""
    found = {}
    for name in SERVERS:
        with tempfile.TemporaryDirectory() as folder:
            messages = recorded(name, Path(folder))
        rows = flink_rows([question(form, of) for form, of in messages.items()])
        found[name] = {form: Recorded(of, read) for (form, of), read in zip(messages.items(), rows, strict=True)}
    save(found)


if __name__ == "__main__":
    main()
