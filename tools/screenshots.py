"""`make screenshots`: pictures of what people look at, in build/screenshots or in $SCREENSHOTS.

The page about a run that goes on and about one that ended, pages of the documentation, and commands on a terminal, with
a real sandbox, its sample data, and a pipeline that reads them; the same of a pipeline from a database whose tables are
being read. It needs Chromium, MariaDB, and tests/support in PYTHONPATH.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from counted import measured
from mysql_servers import MARIADB_10, running
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text
from terminals import ESCAPE, on_terminal, plain

from ingest.observe.events import BatchDone, RunStarted, SideAnswers
from ingest.observe.metrics import SIDES, Metrics
from ingest.observe.observers import Health
from ingest.observe.serving import Exposition, MetricsServer, registry_of
from ingest.task.task import TableCounters

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingest.observe.events import Event

ROOT: Final = Path(__file__).parent.parent
INGEST: Final = str(Path(sys.executable).with_name("ingest"))
COLUMNS, ROWS = 100, 34
PAGE_S: Final = 180.0
"""The time that the page of a running pipeline may take until it has tables, in seconds."""
SMALLEST: Final = 8_000
"""Bytes of a picture that shows something."""
SHOP: Final = """\
pipeline: {name: shop}
source:
  type: kafka
  properties.bootstrap.servers: SERVER
  topic: shop.changes
  value.format: debezium-json
  scan.startup.mode: earliest-offset
sink:
  type: upsert-kafka
  properties.bootstrap.servers: SERVER
route:
  - {source-table: shop.\\.*, sink-table: ods.<>, replace-symbol: <>}
"""
DATABASE: Final = """\
pipeline: {name: shop-lake}
SOURCE  tables: shop.\\.*
  scan.incremental.snapshot.chunk.size: 10000
  scan.snapshot.rows-per-second: 6000
  schema-change.resnapshot: never
sink:
  type: iceberg
  catalog.properties.warehouse: lake
  sink.commit-interval: 2 s
"""
HOME: Final = "\x1b[H"
"""Begins each screen of a command that fills the terminal."""
LIKE: Final = """\
source: {type: file, path: like.jsonl}
sink: {type: file, path: out}
route:
  - {source-table: shop.\\.*, sink-table: ods.<>, replace-symbol: <>}
  - {source-table: shpo.\\.*, sink-table: ods.shop}
"""
_HTML: Final = """\
<!doctype html><meta charset="utf-8"><style>{stylesheet}
body {{ margin: 0; padding: 16px; color: {foreground}; background: {background} }}
pre {{ margin: 0; font: 14px/1.35 "DejaVu Sans Mono", monospace; width: WIDTHch; white-space: pre-wrap;
  overflow-wrap: anywhere }}</style>
<pre><code style="font-family: inherit">{code}</code></pre>"""


class Pictures:
    """Pictures by their names, and how many there are."""

    def __init__(self, folder: Path, out: Path) -> None:
        """`folder`: for pages on their way, and for the browser."""
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        if chromium is None:
            sys.exit("Chromium is needed (on Debian: apt-get install chromium)")
        self._chromium = chromium
        self._folder = folder
        self._out = out
        out.mkdir(parents=True, exist_ok=True)

    def page(self, name: str, page: Path, width: int = 1280, height: int = 1600) -> None:
        """Take a picture of a page. Ends the program where it shows nothing."""
        picture = self._out / f"{name}.png"
        done = subprocess.run(
            [self._chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             f"--window-size={width},{height}", f"--user-data-dir={self._folder / 'browser'}",
             f"--screenshot={picture}", page.as_uri()],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        if done.returncode or not picture.exists() or picture.stat().st_size < SMALLEST:
            sys.exit(f"{picture} shows nothing: {done.stderr}")

    def terminal(
        self, name: str, *command: str, columns: int = COLUMNS, press: tuple[str, bytes] | None = None, after: int = 1
    ) -> None:
        """Take a picture of what a command shows on a terminal; of one that fills it, of the last screen."""
        _, said = on_terminal(*command, columns=columns, rows=ROWS, press=press, after=after)
        screen = said.rpartition(HOME)[2].split("\x1b[?1049l")[0]
        shown = ESCAPE.sub(lambda found: found[0] if found[0].endswith("m") else "", screen)
        text = f"$ {' '.join(['ingest', *command])}\n\n{shown}"
        while not plain(text.rpartition("\n")[2]).strip():  # a screen is filled up with empty lines
            text = text.rpartition("\n")[0]
        console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True, color_system="standard")
        console.print(Text.from_ansi(text), soft_wrap=True)
        page = self._folder / f"{name}.html"
        form = _HTML.replace("WIDTH", str(columns))
        page.write_text(console.export_html(theme=MONOKAI, code_format=form), encoding="utf-8")
        lines = sum(1 + len(plain(line).rstrip()) // columns for line in text.split("\n"))
        self.page(name, page, width=9 * columns + 32, height=20 * (lines + 2) + 32)


NAMES: Final = (
    "customers", "orders", "order_items", "payments", "shipments", "inventory_movements_of_all_warehouses", "prices",
)  # fmt: skip


def busy_run() -> MetricsServer:
    """Return a server with the metrics of a run that reads a backlog, in batches of a second."""
    health = Health(300)
    metrics = Metrics("shop-orders", 1000, health)

    def work() -> None:
        waiting = 4_200_000
        began = RunStarted("shop-orders", 3, "c", 4, True, waiting, True)
        health(began)
        metrics(began)
        for batch in range(10_000):
            waiting -= 31_000
            tables = {
                f"shop.{name}": TableCounters(0, batch + 900 * n, 700 * n, 90 * n, n // 6)
                for n, name in enumerate(NAMES, 1)
            }
            event = measured(
                records_in=52_000, bytes_in=18 << 20, records_out=51_000, bytes_out=12 << 20, tables=tables,
                table_bytes={name: (n << 18, n << 17) for n, name in enumerate(tables)}, waiting={("shop", 0): waiting},
                rejects={("decode", "malformed"): 2}, fetch_lag_s=81.2, emit_lag_s=83.4, send_s=0.1, failed=False,
            )  # fmt: skip
            done = BatchDone(batch, 52_000, 1.0, waiting, 2, 0.5, 390 << 10, None)
            told: list[Event] = [*(SideAnswers(side, answers=True) for side in SIDES), event, done]
            for one in told:
                health(one)
                metrics(one)
            time.sleep(1)

    threading.Thread(target=work, daemon=True).start()
    return MetricsServer("127.0.0.1", 0, Exposition(registry_of(metrics)), health)


@contextmanager
def sandbox(folder: Path) -> Iterator[str]:
    """Yield where a broker with sample data answers."""
    place = str(folder / "sandbox")
    port = free_port()
    ingest("sandbox", "up", "--dir", place, "--port", str(port), "--heap", "512m", "--sample", "--rate", "20")
    try:
        yield f"127.0.0.1:{port}"
    finally:
        ingest("sandbox", "down", "--dir", place, "--wipe")


def ingest(*arguments: str, cwd: Path = ROOT, code: int = 0) -> None:
    """Run the command. Ends the program where it ends otherwise than expected."""
    done = subprocess.run([INGEST, *arguments], cwd=cwd, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != code:
        sys.exit(f"ingest {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def free_port() -> int:
    """Return a port that nobody listens to now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class RunningPage:
    """The page about a run that goes on."""

    def __init__(self, path: Path, run: subprocess.Popen[bytes], log: Path) -> None:
        """`log`: what the run says."""
        self.path = path
        self._run = run
        self._log = log

    def has(self, text: str) -> None:
        """Wait until the page has a text. Ends the program where that does not come."""
        until = time.monotonic() + PAGE_S
        while not (self.path.exists() and text in self.path.read_text(encoding="utf-8")):
            if time.monotonic() > until or self._run.poll() is not None:
                sys.exit(self._log.read_text(encoding="utf-8"))
            time.sleep(0.2)


@contextmanager
def running_pipeline(file: str, folder: Path) -> Iterator[tuple[str, RunningPage]]:
    """Run a pipeline of a folder; yields the port of its metrics, and its page."""
    port, log, page = str(free_port()), folder / f"{file}.log", folder / f"{file}.html"
    with log.open("w") as out:
        run = subprocess.Popen([INGEST, "run", file, "--metrics", port, "--report", str(page)], cwd=folder,
                               stdout=out, stderr=out)  # fmt: skip
    try:
        yield port, RunningPage(page, run, log)
    finally:
        run.send_signal(signal.SIGTERM)
        run.wait(60)


def of_commands(folder: Path, pictures: Pictures) -> None:
    """Take pictures of help, of a mistake in a file, and of `top` with a backlog and a run that does not answer."""
    for columns in (80, 120):
        pictures.terminal(f"help-{columns}", "--help", columns=columns)
        pictures.terminal(f"help-run-{columns}", "run", "--help", columns=columns)
    server = busy_run()
    for columns in (48, 80, 120):
        place = f"127.0.0.1:{server.port}"
        pictures.terminal(f"top-{columns}", "top", place, "127.0.0.1:1", columns=columns, press=("left", b"q"))
    server.close()
    os.chdir(folder)
    Path("wrong.yaml").write_text("source:\n  type: kafka\n  topic: orders\nsink:\n  type: upsert-kafa\n")
    pictures.terminal("check", "check", "wrong.yaml")
    sources = [{"db": "shop", "table": f"orders_{number:02}"} for number in range(30)]
    rows = [{"op": "c", "after": {"id": 1, "name": "x", "total": 2}, "source": source} for source in sources]
    Path("like.jsonl").write_text("\n".join(map(json.dumps, rows)))
    Path("like.yaml").write_text(LIKE)
    pictures.terminal("plan-like", "plan", "like.yaml", columns=80)


def of_runs(folder: Path, pictures: Pictures) -> None:
    """Take pictures of a pipeline that runs, of one that has ended, and of one that has failed."""
    ingest("run", "pipelines/quickstart.yaml", "--once", "--checkpoint", str(folder / ".ingest" / "quickstart"),
           "--report", str(folder / "ended.html"))  # fmt: skip
    pictures.page("report", folder / "ended.html")
    os.chdir(folder)
    with sandbox(folder) as server:
        Path("shop.yaml").write_text(SHOP.replace("SERVER", server))
        Path("away.yaml").write_text(SHOP.replace("SERVER", f"127.0.0.1:{free_port()}").replace("shop}", "away}"))
        pictures.terminal("plan", "plan", "shop.yaml")
        pictures.terminal("plan-ddl", "plan", "shop.yaml", "--tables", "shop.orders", "--ddl")
        ingest("run", "away.yaml", "--once", cwd=folder, code=75)
        with running_pipeline("shop.yaml", folder) as (port, page):
            page.has("<h2>Tables")
            pictures.page("report-running", page.path)
            pictures.terminal("top", "top", port, press=("q: quit", b"q"), after=4)
            pictures.terminal("status", "status")


def of_a_database(folder: Path, pictures: Pictures) -> None:
    """Take pictures of a run that reads the tables of a database beside its log, of which one table is marked."""
    os.chdir(folder)
    with running(MARIADB_10) as server:
        server.execute(
            "CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(30))",
            "CREATE TABLE orders (id INT PRIMARY KEY, customer INT, total DECIMAL(9,2), made DATETIME)",
            "INSERT INTO customers SELECT seq, CONCAT('customer ', seq) FROM seq_1_to_2000",
            "INSERT INTO orders SELECT seq, seq % 2000, seq / 7, '2020-01-31 12:13:14' FROM seq_1_to_600000",
            database="shop",
        )
        Path("lake.yaml").write_text(DATABASE.replace("SOURCE", server.source()))
        pictures.terminal("database-plan", "plan", "lake.yaml")
        with running_pipeline("lake.yaml", folder) as (port, page):
            page.has("Snapshot: tables that are being read")
            server.execute("ALTER TABLE customers ADD COLUMN country CHAR(2) DEFAULT 'xx'", database="shop")
            server.execute("UPDATE orders SET total = total + 1 WHERE id > 400000", database="shop")
            page.has("Tables whose rows may differ")
            pictures.page("database-running", page.path)
            pictures.terminal("database-top", "top", port, press=("q: quit", b"q"), after=4)
            pictures.terminal("database-status", "status")
            pictures.terminal("database-plan-running", "plan", "lake.yaml")
        pictures.page("database-ended", page.path)


def main() -> None:
    """Take all pictures."""
    out = Path(os.environ.get("SCREENSHOTS", "build/screenshots")).absolute()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pictures = Pictures(folder, out)
        subprocess.run(
            [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-d", str(folder / "site")],
            cwd=ROOT, check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        )  # fmt: skip
        for page in ("index", "tutorial", "errors"):
            pictures.page(f"site-{page}", folder / "site" / f"{page}.html")
        of_commands(folder, pictures)
        of_runs(folder, pictures)
        of_a_database(folder, pictures)
        os.chdir(ROOT)
    print("\n".join(sorted(picture.name for picture in out.glob("*.png"))))


if __name__ == "__main__":
    main()
