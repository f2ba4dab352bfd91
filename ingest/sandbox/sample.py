"""A small shop's messages in the sandbox's topics, which go on changing until the sandbox is stopped.

In: a running broker. Out: topics of the same rows in several formats, and a process that changes them. It is this
module as a program: `python -m ingest.sandbox.sample BOOTSTRAP RATE READY`.
"""

from __future__ import annotations

import csv
import io
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any, Final, NoReturn

from ingest.errors import Unavailable
from ingest.kafka.admin import Cluster
from ingest.kafka.handle import Producer, make_producer
from ingest.kafka.properties import BOOTSTRAP
from ingest.sandbox.process import launch, running, starting, stop, wait_for

Row = dict[str, Any]

TOPICS: Final = {
    "shop.changes": "Debezium, all tables",
    "shop.shop.customers": "Debezium, a topic for each table",
    "shop.shop.products": "",
    "shop.shop.orders": "",
    "shop.canal": "Canal",
    "shop.events": "JSON with a field event_type",
    "shop.lines": "CSV with a header line",
}
"""Topics and what is in them."""
_NOTE: Final = "sample.json"
_NAMES: Final = ("Ada", "Grace", "Edsger", "Barbara", "Alan", "Radia", "Ken", "Frances", "Dennis", "Hedy")
_PRODUCTS: Final = (("apple", "0.50"), ("pear", "0.75"), ("melon", "3.20"), ("quince", "2.10"), ("plum", "0.30"))
_TYPES: Final = {
    "customers": {"id": "bigint", "name": "varchar(64)", "email": "varchar(128)"},
    "products": {"id": "bigint", "name": "varchar(64)", "price": "decimal(10,2)"},
    "orders": {
        "id": "bigint",
        "customer": "bigint",
        "product": "bigint",
        "quantity": "int",
        "status": "varchar(16)",
        "created_at": "datetime",
    },
}
"""The columns of each table, with MySQL's types, as Canal says them."""
_LINE: Final = ("id", "name", "price")


@dataclass(frozen=True, slots=True)
class RunningSample:
    """A process that changes the shop's rows."""

    target: str
    """The broker's address, or the directory of the sandbox with the database."""
    pid: int
    log: str
    rate: float
    """Changes in a second."""


class Shop:
    """The shop's rows, and the messages that its database's changes become. The same seed gives the same changes."""

    def __init__(self, to: Producer | None, now_ms: int, seed: int = 7) -> None:
        """`to`: where messages go; None where there are none."""
        self.tables: dict[str, dict[int, Row]] = {table: {} for table in _TYPES}
        self._to = to
        self._random = Random(seed)  # noqa: S311  (it makes an example, no secret)
        self.now_ms = now_ms

    def fill(self) -> None:
        """Send the rows that are there when somebody begins to look, as a snapshot."""
        for key, name in enumerate(_NAMES, 1):
            self._put("customers", "r", {"id": key, "name": name, "email": f"{name.lower()}@example.org"})
        self._send("shop.lines", None, _line(_LINE))
        for key, (name, price) in enumerate(_PRODUCTS, 1):
            self._put("products", "r", {"id": key, "name": name, "price": price})
            self._send("shop.lines", None, _line((str(key), name, price)))
        for _ in range(20):
            self._order("r")

    def change(self) -> None:
        """Change something: mostly an order is placed, paid or sent; now and then one is cancelled."""
        orders = self.tables["orders"]
        open_ = [row for row in orders.values() if row["status"] != "SENT"]
        what = self._random.random()
        if what < 0.5 or len(open_) < 3:
            self._order("c")
        elif what < 0.9:
            row = self._random.choice(open_)
            self._put("orders", "u", {**row, "status": "SENT" if row["status"] == "PAID" else "PAID"})
        elif what < 0.97:
            row = self.tables["customers"].get(self._random.randint(1, len(_NAMES)), {})
            email = f"{row.get('name', '').lower()}{self._random.randint(1, 99)}@example.org"
            if row:  # somebody may have deleted it in the database
                self._put("customers", "u", {**row, "email": email})
        else:
            self._delete("orders", self._random.choice(open_)["id"])

    def _order(self, operation: str) -> None:
        key = max(self.tables["orders"], default=0) + 1
        row: Row = {
            "id": key,
            "customer": self._random.randint(1, len(_NAMES)),
            "product": self._random.randint(1, len(_PRODUCTS)),
            "quantity": self._random.randint(1, 9),
            "status": "NEW",
            "created_at": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(self.now_ms / 1000)),
        }
        self._put("orders", operation, row)
        price = float(self.tables["products"].get(row["product"], {"price": 0})["price"])
        event = {"event_type": "order_placed", "order": key, "total": round(price * row["quantity"], 2)}
        seen = {"event_type": "page_viewed", "page": f"/products/{row['product']}", "visitor": row["customer"]}
        for message in (seen, event):
            self._send("shop.events", None, json.dumps(message).encode())

    def _put(self, table: str, operation: str, row: Row) -> None:
        before = self.tables[table].get(row["id"])
        self.tables[table][row["id"]] = row
        self._changed(table, operation, before, row)

    def _delete(self, table: str, key: int) -> None:
        self._changed(table, "d", self.tables[table].pop(key), None)

    def _changed(self, table: str, operation: str, before: Row | None, after: Row | None) -> None:
        """Send what Debezium and Canal say of a change."""
        row = after or before or {}
        key = json.dumps({"id": row["id"]}).encode()
        source = {"connector": "mysql", "name": "shop", "db": "shop", "table": table, "ts_ms": self.now_ms}
        value = {"before": before, "after": after, "source": source, "op": operation, "ts_ms": self.now_ms}
        for topic in ("shop.changes", f"shop.shop.{table}"):
            self._send(topic, key, json.dumps(value).encode())
            if after is None:
                self._send(topic, key, None)
        old = {name: before[name] for name in row if before[name] != row[name]} if before and after else None
        canal = {
            "data": [{name: str(cell) for name, cell in row.items()}],
            "old": None if old is None else [{name: str(cell) for name, cell in old.items()}],
            "database": "shop",
            "table": table,
            "pkNames": ["id"],
            "mysqlType": _TYPES[table],
            "isDdl": False,
            "type": {"d": "DELETE", "u": "UPDATE"}.get(operation, "INSERT"),
            "es": self.now_ms,
            "ts": self.now_ms,
        }
        self._send("shop.canal", None, json.dumps(canal).encode())

    def sent(self) -> None:
        """Let the client see what became of its records: a broker that is away is waited for."""
        if self._to is not None:
            self._to.poll()

    def _send(self, topic: str, key: bytes | None, value: bytes | None) -> None:
        while self._to is not None and not self._to.send(topic, key, value, None, None):
            self._to.poll()
            time.sleep(0.01)


def _line(cells: tuple[str, ...]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue().encode()


def fill(bootstrap: str) -> Shop:
    """Make the shop's topics where they are not there, and send its rows. Raise IngestError."""
    cluster = Cluster({BOOTSTRAP: bootstrap})
    try:
        cluster.connect(10.0)
        cluster.create([*TOPICS], 1, 1, {})
    finally:
        cluster.close()
    to = make_producer({BOOTSTRAP: bootstrap, "linger.ms": 5})
    shop = Shop(to, int(time.time() * 1000))
    shop.fill()
    if to.flush(30.0) or to.failures()[0]:
        msg = f"the broker at {bootstrap} does not take the shop's messages"
        raise Unavailable(msg, "see its log: ingest sandbox status")
    return shop


def status(folder: Path, name: str = "sample") -> RunningSample | None:
    """Return the process that changes rows in the sandbox of this directory, or None. `name`: see `start`."""
    return running(folder / name, _NOTE, RunningSample)


def up(folder: Path, bootstrap: str, rate: float) -> RunningSample | None:
    """Fill the shop's topics, and start to change their rows unless a process does; None for a rate of 0.

    Raise IngestError.
    """
    process = status(folder)
    if process is None and not rate:
        fill(bootstrap)
        return None
    return process or start(folder, "sample", __name__, bootstrap, rate)


def start(folder: Path, name: str, module: str, target: str, rate: float) -> RunningSample:
    """Start the process that fills and changes a shop, and return when the shop is filled. Raise Unavailable.

    `name`: of its directory within that of the sandbox. `module`: what it runs, with `target` and `rate`.
    """
    sample_folder = (folder / name).resolve()
    with starting(sample_folder, "sample") as lock:
        log, ready = sample_folder / "sample.log", sample_folder / "filled"
        ready.unlink(missing_ok=True)
        with log.open("wb") as out:
            process = launch([sys.executable, "-m", module, target, str(rate), str(ready)], sample_folder, lock, out)
        started = RunningSample(target, process.pid, str(log), rate)
        (sample_folder / _NOTE).write_text(json.dumps(asdict(started)), encoding="utf-8")
        wait_for(process, ready.exists, "sample", str(log))
    return started


def down(folder: Path, name: str = "sample") -> None:
    """Stop to change rows. `name`: see `start`. Raise Unavailable where that does not end."""
    running_sample = status(folder, name)
    if running_sample is not None:
        stop(folder / name, running_sample.pid, "sample", running_sample.log)


def keep_changing(shop: Shop, rate: float, ready: str) -> NoReturn:
    """Write the file `ready`, and change the shop so often in a second, until a signal ends this process."""
    Path(ready).touch()
    due = time.monotonic()
    while True:
        due += 1 / rate
        time.sleep(max(0.0, due - time.monotonic()))
        shop.now_ms = int(time.time() * 1000)
        shop.change()
        shop.sent()


if __name__ == "__main__":
    keep_changing(fill(sys.argv[1]), float(sys.argv[2]), sys.argv[3])
