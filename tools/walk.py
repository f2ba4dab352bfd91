"""Count the modules that a record passes, from the plan of its batch to the stored progress.

    python tools/walk.py [--native] [--command .venv/bin/ingest]

A broker of the sandbox gets a Debezium message, and `ingest run` reads it, so that its table is known. Then it gets
another one, whose batch is traced: a module counts if one of its functions runs in the driver's thread, or in one that
begins meanwhile, between the plan of the batch and its stored progress, or in the task. Without `--native` records go
by the reference, which is what a reader follows; functions of compiled modules are not seen by the tracer. `--command`
is the `ingest` of another checkout; begin in its folder then, as tasks load the package from where they are.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ingest.sandbox import broker

SINKS: Final = {
    "topic": "type: upsert-kafka\n  properties.bootstrap.servers: {server}",
    "iceberg": "type: iceberg\n  catalog.properties.warehouse: {folder}/lake",
}
TRACER: Final = """
import os, sys, threading
in_task = "ingest.task.daemon" in sys.orig_argv
begin = ("ingest.task.worker", "state_for") if in_task else ("ingest.driver.planner", "_plan")
ends = {("ingest.driver.ledger", "store"), ("ingest.driver.books", "store")}  # the latter is its older name
seen, active = set(), [False]
def trace(frame, event, _):
    name, code = frame.f_globals.get("__name__", ""), frame.f_code
    if not active[0] and (name, code.co_name) == begin and os.path.exists(os.environ["WALK"]):
        active[0] = True
        threading.setprofile(trace)  # of threads that begin now: tables of a lake are committed in some
    if active[0] and event == "call" and name not in seen and name.startswith("ingest"):
        seen.add(name)
        with open(os.environ["WALK"], "a") as file:
            file.write(name + "\\n")
    if active[0] and event == "return" and (name, code.co_name) in ends:
        active[0] = False
        sys.setprofile(None)
        threading.setprofile(None)
if "WALK" in os.environ:
    sys.setprofile(trace)
"""
PIPELINE: Final = """source:
  type: kafka
  properties.bootstrap.servers: {server}
  topic: orders
  value.format: debezium-json
  scan.startup.mode: earliest-offset
sink:
  {sink}
transform:
  - {{source-table: shop.orders, primary-keys: id}}
"""


def main() -> None:
    """Print the modules for each sink."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--native", action="store_true", help="by native code, as far as there is a compiler")
    parser.add_argument("--command", default=str(Path(sys.executable).parent / "ingest"), help="the ingest to run")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        running = broker.up(folder / "broker")
        try:
            admin = AdminClient({"bootstrap.servers": running.bootstrap})
            admin.create_topics([NewTopic("orders", 1)])["orders"].result(20)
            (folder / "tracer").mkdir()
            (folder / "tracer" / "sitecustomize.py").write_text(TRACER)
            for sink in SINKS:
                walked = walk(folder, running.bootstrap, sink, chosen.command, native=chosen.native)
                print(f"{sink}: {len(walked)} modules", *walked, sep="\n  ")
        finally:
            broker.down(folder / "broker")


def walk(folder: Path, server: str, sink: str, command: str, *, native: bool) -> list[str]:
    """Return the modules that the second record of a table passes."""
    file, walked = folder / f"{sink}.yaml", folder / f"{sink}.txt"
    file.write_text(PIPELINE.format(server=server, sink=SINKS[sink].format(server=server, folder=folder)))
    environment = os.environ | ({} if native else {"INGEST_NATIVE": "off"})
    environment |= {"WALK": str(walked), "PYTHONPATH": str(folder / "tracer")}
    arguments = [command, "run", str(file), "--checkpoint", str(folder / f"{sink}-checkpoint")]
    with subprocess.Popen(arguments, env=environment, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        for number in (1, 2):
            send(server, {"id": number, "name": "a"})
            for line in run.stderr:
                if '"batch done"' in line:
                    break
                if '"level": "error"' in line:
                    sys.exit(line)
            walked.touch()  # it is traced from here on
        run.terminate()
    return sorted(set(walked.read_text().split()))


def send(server: str, row: dict[str, object]) -> None:
    """Send an insert as Debezium writes it."""
    source = {"db": "shop", "table": "orders", "ts_ms": 1}
    producer = Producer({"bootstrap.servers": server})
    producer.produce("orders", json.dumps({"before": None, "after": row, "source": source, "op": "c"}))
    assert producer.flush(20) == 0


if __name__ == "__main__":
    main()
