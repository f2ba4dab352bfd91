"""`make demo`: a small shop's change messages through the pipeline of pipelines/shop.yaml, and what came out.

Starts a real Kafka, writes Debezium messages of three tables into one topic, runs the pipeline twice, and prints the
resulting topics next to what the shop's database held. Then pipelines/lake.yaml writes the same into tables of Iceberg,
and DuckDB answers a query about them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from ingest.kafka.admin import Cluster

INGEST = [str(Path(sys.executable).with_name("ingest"))]
PIPELINE = "pipelines/shop.yaml"
LAKE_PIPELINE = "pipelines/lake.yaml"
LAKE = Path(".ingest/lake")
QUERY = """\
SELECT c.name, count(*) AS orders, round(sum(o.quantity * p.price), 2) AS total
FROM iceberg_scan('{lake}/shop/orders') AS o
JOIN iceberg_scan('{lake}/shop/customers') AS c ON c.id = o.customer
JOIN iceberg_scan('{lake}/shop/products') AS p ON p.id = o.product
GROUP BY c.name ORDER BY total DESC"""
TOPIC = "shop.changes"
TABLES = ("customers", "products", "orders")

Row = dict[str, Any]


class Shop:
    """The shop's database: it holds rows, and it tells Kafka about every change as Debezium would."""

    def __init__(self, producer: Producer) -> None:
        """An empty database."""
        self.tables: dict[str, dict[int, Row]] = {table: {} for table in TABLES}
        self.messages = 0
        self._producer = producer

    def _send(self, key: int, value: bytes | None) -> None:
        self.messages += 1
        partition = key % 2
        self._producer.produce(TOPIC, value, json.dumps({"id": key}).encode(), partition=partition)

    def _change(self, table: str, operation: str, before: Row | None, after: Row | None) -> None:
        row = after or before or {}
        source = {"connector": "mysql", "name": "shop", "db": "shop", "table": table, "ts_ms": 1763700000000}
        value = {"before": before, "after": after, "source": source, "op": operation, "ts_ms": 1763700000000}
        self._send(row["id"], json.dumps(value).encode())

    def insert(self, table: str, **row: Any) -> None:
        """A new row."""
        self.tables[table][row["id"]] = row
        self._change(table, "c", None, row)

    def update(self, table: str, key: int, **changes: Any) -> None:
        """A changed row; a changed primary key arrives as a delete and a create, as from Debezium."""
        before = self.tables[table].pop(key)
        after = {**before, **changes}
        self.tables[table][after["id"]] = after
        if after["id"] == key:
            self._change(table, "u", before, after)
        else:
            self._change(table, "d", before, None)
            self._send(key, None)
            self._change(table, "c", None, after)

    def delete(self, table: str, key: int) -> None:
        """A deleted row, and the tombstone that Debezium sends after it."""
        self._change(table, "d", self.tables[table].pop(key), None)
        self._send(key, None)

    def garbage(self) -> None:
        """A message that is broken."""
        self._send(7, b'{"before": null, "after": {"id": 7, "item": ')


def fill(shop: Shop) -> None:
    """A day in the life of the shop."""
    for key, name in enumerate(["Ada", "Grace", "Edsger", "Barbara"], 1):
        shop.insert("customers", id=key, name=name, email=f"{name.lower()}@example.org")
    for key, (name, price) in enumerate([("apple", 0.5), ("pear", 0.75), ("melon", 3.2)], 1):
        shop.insert("products", id=key, name=name, price=price, shelf=key * 10)
    for key in range(1, 6):
        shop.insert("orders", id=key, customer=key % 4 + 1, product=key % 3 + 1, quantity=key, status="NEW")
    shop.update("orders", 1, status="PAID")
    shop.delete("orders", 3)
    shop.garbage()
    # Half way, somebody adds a column ...
    shop.insert("orders", id=6, customer=2, product=2, quantity=9, status="NEW", note="gift wrap, please")
    shop.update("orders", 2, status="PAID")
    # ... a number becomes a text ...
    shop.insert("products", id=4, name="quince", price=2.1, shelf="cellar 4")
    # ... and a primary key changes
    shop.update("customers", 4, id=40, name="Barbara L.")
    shop.delete("products", 2)


def read(bootstrap: str, topic: str) -> tuple[dict[int, Row], int]:
    """The rows that a compacted topic holds, and how many records it has."""
    at_once = {"enable.auto.commit": False, "enable.partition.eof": True, "fetch.wait.max.ms": 20}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "demo", **at_once})
    rows: dict[int, Row] = {}
    records = 0
    try:
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        unread = set(partitions)
        while unread:
            message = consumer.poll(10)
            if message is None:
                sys.exit(f"the broker gives nothing of {topic}: look with ingest sandbox status")
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  (it has no other name)
                unread.discard(message.partition())
                continue
            if error is not None:
                sys.exit(f"{topic}: {error}")
            key = json.loads(message.key() or b"")["id"]
            records += 1
            value = message.value()
            rows.pop(key, None)
            if value is not None:
                rows[key] = json.loads(value)
    finally:
        consumer.close()
    return rows, records


def show(title: str, rows: dict[int, Row]) -> Table:
    """Rows as a table."""
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    table = Table(title=title, title_justify="left", title_style="bold", pad_edge=False)
    for name in columns:
        table.add_column(name)
    for _, row in sorted(rows.items()):
        table.add_row(*(json.dumps(row[name]) if name in row else "" for name in columns))
    return table


def reset(bootstrap: str) -> None:
    """Forget the last demo."""
    for left in (".ingest/shop", ".ingest/lake-checkpoint", LAKE):
        shutil.rmtree(left, ignore_errors=True)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    old = [t for t in admin.list_topics(timeout=10).topics if t == TOPIC or t.startswith("ods.shop_")]
    for future in (admin.delete_topics(old) if old else {}).values():
        future.result(10)
    # A broker may still write to the old topic for a moment: wait until it knows that it is gone
    cluster = Cluster({"bootstrap.servers": bootstrap})
    if not cluster.wait_until(lambda: not cluster.names() & set(old), 20):
        sys.exit("the topics of the last demo are still there: try again")
    time.sleep(0.5 if old else 0)
    admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(10)
    cluster.wait_until(lambda: TOPIC in cluster.names(), 10)


def run(console: Console, bootstrap: str, pipeline: str = PIPELINE, *more: str) -> None:
    """A pipeline, once."""
    command = [*INGEST, "run", pipeline, "--once", "--set", f"bootstrap={bootstrap}", *more]
    console.print(f"\n[bold]$ ingest run {pipeline} --once[/bold]")
    done = subprocess.run(command, check=False, stderr=None if sys.stderr.isatty() else subprocess.PIPE)
    if done.returncode:
        console.print((done.stderr or b"").decode(), style="red")
        sys.exit(done.returncode)


def query(console: Console) -> list[tuple[Any, ...]]:
    """What DuckDB answers about the tables, with the extensions of the package index; nothing of it is our own."""
    session = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for module in (duckdb_extension_avro, duckdb_extension_iceberg):
        (extension,) = Path(str(module.__file__)).parent.rglob("*.duckdb_extension")
        session.execute(f"LOAD '{extension}'")
    text = QUERY.format(lake=LAKE)
    console.print(f"\n[bold]$ duckdb[/bold]\n{text}")
    found = session.execute(text)
    table = Table(pad_edge=False)
    for column in found.description or ():
        table.add_column(str(column[0]))
    rows = found.fetchall()
    for row in rows:
        table.add_row(*map(str, row))
    console.print(table)
    return rows


def expected(shop: Shop) -> list[tuple[Any, ...]]:
    """What the query would answer in the shop's database."""
    customers, products = shop.tables["customers"], shop.tables["products"]
    totals: dict[str, list[float]] = {}
    for order in shop.tables["orders"].values():
        if order["customer"] in customers and order["product"] in products:
            price = order["quantity"] * products[order["product"]]["price"]
            totals.setdefault(customers[order["customer"]]["name"], []).append(price)
    rows = [(name, len(prices), round(sum(prices), 2)) for name, prices in totals.items()]
    return sorted(rows, key=lambda row: -row[2])


def main() -> None:
    """Run the demo."""
    console = Console(highlight=False)
    console.print("[bold]$ ingest sandbox up[/bold]")
    up = subprocess.run([*INGEST, "sandbox", "up", "--format", "json"], check=False, capture_output=True, text=True)
    if up.returncode:
        console.print(up.stderr, style="red")
        sys.exit(up.returncode)
    bootstrap = json.loads(up.stdout)["bootstrap"]
    console.print(f"Apache Kafka at {bootstrap}")
    reset(bootstrap)
    producer = Producer({"bootstrap.servers": bootstrap})
    shop = Shop(producer)
    fill(shop)
    producer.flush(10)
    console.print(f"\nwrote {shop.messages} change messages of {len(TABLES)} tables to the topic {TOPIC}")

    run(console, bootstrap)
    wrong = 0
    totals = {}
    for table in TABLES:
        rows, totals[table] = read(bootstrap, f"ods.shop_{table}")
        grid = Table.grid(padding=(0, 4))
        grid.add_row(show(f"database: {table}", shop.tables[table]), show(f"topic: ods.shop_{table}", rows))
        console.print(grid)
        wrong += rows.keys() != shop.tables[table].keys()

    run(console, bootstrap)
    again = {table: read(bootstrap, f"ods.shop_{table}")[1] for table in TABLES}
    wrong += again != totals
    console.print(f"\nrecords in the topics after the first run {totals}, after the second {again}")
    run(console, bootstrap, LAKE_PIPELINE, "--checkpoint", ".ingest/lake-checkpoint")
    wrong += query(console) != expected(shop)
    if wrong:
        console.print("the topics or tables are not what they should be", style="red")
        sys.exit(1)
    console.print("The broker goes on running: look around, or stop it with [bold]ingest sandbox down[/bold].")


if __name__ == "__main__":
    main()
