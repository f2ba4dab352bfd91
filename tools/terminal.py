"""Pages with what a terminal shows: help, `ingest top` of a run with a backlog, a mistake in a file.

For `tools/screenshots`, which takes pictures of them. It needs tests/support in PYTHONPATH.
Usage: tools/terminal.py FOLDER
"""

from __future__ import annotations

import re
import sys
import tempfile
import threading
import time
from html import escape
from io import StringIO
from pathlib import Path

from counted import measured
from rich.console import Console
from rich.text import Text
from terminals import ESCAPE, on_terminal

from ingest.observe.events import BatchDone, RunStarted, SideAnswers
from ingest.observe.exposition import Exposition
from ingest.observe.health import Health
from ingest.observe.metrics import SIDES, Metrics, TableCounts
from ingest.observe.serving import MetricsServer, registry_of

HOME = "\x1b[H"
"""Begins each screen of a command that fills the terminal."""


def page(said: str, columns: int) -> str:
    """Return a page of HTML with the last screen of what a command has written, its colours included."""
    screen = re.split(re.escape(HOME), said)[-1].split("\x1b[?1049l")[0]
    shown = ESCAPE.sub(lambda found: found[0] if found[0].endswith("m") else "", screen)
    console = Console(record=True, width=columns, file=StringIO(), force_terminal=True, color_system="standard")
    console.print(Text.from_ansi(shown.rstrip()), soft_wrap=True)
    title = escape(f"{columns} columns")
    form = f"<title>{title}</title><style>{{stylesheet}} body{{{{margin:16px}}}}</style><pre>{{code}}</pre>"
    return console.export_html(code_format=form)


def busy_run() -> MetricsServer:
    """Return a server with the metrics of a run that reads a backlog, in batches of a second."""
    health = Health(300)
    metrics = Metrics("shop-orders", 1000, health)

    def work() -> None:
        waiting = 4_200_000
        for side in SIDES:
            health(SideAnswers(side, answers=True))
        metrics(RunStarted("shop-orders", 3, "c", 4, True, waiting, True))
        for batch in range(10_000):
            waiting -= 31_000
            tables = {f"shop.{name}": TableCounts(batch + 900 * n, 700 * n, 90 * n, n // 6) for n, name in TABLES}
            event = measured(
                records_in=52_000, bytes_in=18 << 20, records_out=51_000, bytes_out=12 << 20, tables=tables,
                table_bytes={name: (n << 18, n << 17) for n, name in enumerate(tables)}, waiting={("shop", 0): waiting},
                rejects={("decode", "malformed"): 2}, fetch_lag_s=81.2, emit_lag_s=83.4, send_s=0.1, failed=False,
            )  # fmt: skip
            done = BatchDone(batch, 52_000, 1.0, waiting, 2, 0.5, 390 << 10, None)
            for one in (event, done):
                health(one)
                metrics(one)
            time.sleep(1)

    threading.Thread(target=work, daemon=True).start()
    return MetricsServer("127.0.0.1", 0, Exposition(registry_of(metrics)), health)


NAMES = (
    "customers",
    "orders",
    "order_items",
    "payments",
    "shipments",
    "inventory_movements_of_all_warehouses",
    "prices",
)
TABLES = list(enumerate(NAMES, 1))


def main() -> None:
    """Write the pages into a folder."""
    out = Path(sys.argv[1])
    for columns in (80, 120):
        for name, arguments in (("help", ["--help"]), ("help-run", ["run", "--help"])):
            (out / f"{name}-{columns}.html").write_text(page(on_terminal(*arguments, columns=columns)[1], columns))
    server = busy_run()
    for columns, rows in ((120, 30), (80, 30), (48, 30)):
        place = f"127.0.0.1:{server.port}"
        press = ("left", b"q")
        _, said = on_terminal("top", place, "127.0.0.1:1", columns=columns, rows=rows, press=press)
        (out / f"top-{columns}.html").write_text(page(said, columns))
    server.close()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "shop.yaml")
        file.write_text("source:\n  type: kafka\n  topic: orders\nsink:\n  type: upsert-kafa\n")
        said = on_terminal("check", str(file), columns=120)[1].replace(f"{folder}/", "")
    (out / "check-120.html").write_text(page(said, 120))


if __name__ == "__main__":
    main()
