"""`make screenshots`: pictures of what people look at, in build/screenshots or in $SCREENSHOTS. Needs Chromium.

The page about a run that goes on and about one that ended, pages of the documentation, and commands on a terminal. All
is real: a sandbox with sample data, and a pipeline that reads it.
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parent.parent
INGEST: Final = str(Path(sys.executable).with_name("ingest"))
COLUMNS, ROWS = 100, 34
PAGE_S: Final = 90.0
"""The time that the page of a running pipeline may take until it has tables, in seconds."""
TOP_S: Final = 8.0
"""The time that `top` is looked at, so that there are rates, in seconds."""
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
_HTML: Final = """\
<!doctype html><meta charset="utf-8"><style>{stylesheet}
body {{ margin: 0; padding: 16px; color: {foreground}; background: {background} }}
pre {{ margin: 0; font: 14px/1.35 "DejaVu Sans Mono", monospace }}</style>
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

    def terminal(self, name: str, said: str) -> None:
        """Take a picture of what a terminal shows."""
        console = Console(record=True, width=COLUMNS, file=io.StringIO(), color_system="truecolor")
        console.print(Text.from_ansi(said), soft_wrap=True)
        page = self._folder / f"{name}.html"
        page.write_text(console.export_html(theme=MONOKAI, code_format=_HTML), encoding="utf-8")
        self.page(name, page, width=900, height=20 * (said.count("\n") + 3))


def on_terminal(*command: str, cwd: Path, seconds: float = 120.0, key: bytes = b"") -> str:
    """Return what a command shows on a terminal; of one that draws its screen again and again, the last screen.

    `key` is pressed after this time, else the command has to be over by then.
    """
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(cwd)
        os.environ.update({"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(ROWS)})
        os.execv(command[0], command)  # noqa: S606  (there is no shell to guard against)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    said, until = b"", time.monotonic() + seconds
    try:
        while True:
            ready, _, _ = select.select([terminal], [], [], max(0.0, until - time.monotonic()))
            if not ready and not key:
                os.kill(process, signal.SIGKILL)
            if not ready:
                os.write(terminal, key)
                until += 30.0
            else:
                chunk = os.read(terminal, 1 << 16)
                if not chunk:
                    break
                said += chunk
    except OSError:  # EIO: the command has ended
        pass
    os.close(terminal)
    os.waitpid(process, 0)
    text = said.decode().replace("\r\n", "\n").partition("\x1b[?1049l")[0]
    return f"$ {' '.join(['ingest', *command[1:]])}\n\n" + _seen(text)


def _seen(text: str) -> str:
    """Return what is seen in the end: the last screen of many, and lines without trailing spaces."""
    return "\n".join(line.rstrip() for line in text.rpartition("\x1b[H")[2].split("\n")).rstrip()


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


def of_runs(folder: Path, pictures: Pictures) -> None:
    """Take pictures of a pipeline that runs, of one that has ended, and of one that has failed."""
    ingest("run", "pipelines/quickstart.yaml", "--once", "--checkpoint", str(folder / ".ingest" / "quickstart"),
           "--report", str(folder / "ended.html"))  # fmt: skip
    pictures.page("report", folder / "ended.html")
    with sandbox(folder) as server:
        (folder / "shop.yaml").write_text(SHOP.replace("SERVER", server), encoding="utf-8")
        (folder / "away.yaml").write_text(
            SHOP.replace("SERVER", f"127.0.0.1:{free_port()}").replace("shop}", "away}"), encoding="utf-8"
        )
        pictures.terminal("plan", on_terminal(INGEST, "plan", "shop.yaml", cwd=folder))
        ingest("run", "away.yaml", "--once", cwd=folder, code=75)
        port, page = str(free_port()), folder / "running.html"
        with (folder / "run.log").open("w") as log:
            run = subprocess.Popen([INGEST, "run", "shop.yaml", "--metrics", port, "--report", str(page)], cwd=folder,
                                   stdout=log, stderr=log)  # fmt: skip
        try:
            until = time.monotonic() + PAGE_S
            while not (page.exists() and "<h2>Tables" in page.read_text(encoding="utf-8")):
                if time.monotonic() > until or run.poll() is not None:
                    sys.exit((folder / "run.log").read_text(encoding="utf-8"))
                time.sleep(0.5)
            pictures.page("report-running", page)
            pictures.terminal("top", on_terminal(INGEST, "top", port, cwd=folder, seconds=TOP_S, key=b"q"))
            pictures.terminal("status", on_terminal(INGEST, "status", cwd=folder))
        finally:
            run.send_signal(signal.SIGTERM)
            run.wait(60)


def main() -> None:
    """Take all pictures."""
    out = Path(os.environ.get("SCREENSHOTS", "build/screenshots")).absolute()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pictures = Pictures(folder, out)
        for title, arguments in (("help", ["--help"]), ("help-run", ["run", "--help"])):
            pictures.terminal(title, on_terminal(INGEST, *arguments, cwd=folder))
        subprocess.run(
            [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-d", str(folder / "site")],
            cwd=ROOT, check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        )  # fmt: skip
        for page in ("index", "tutorial", "errors"):
            pictures.page(f"site-{page}", folder / "site" / f"{page}.html")
        of_runs(folder, pictures)
    print("\n".join(sorted(picture.name for picture in out.glob("*.png"))))


if __name__ == "__main__":
    main()
