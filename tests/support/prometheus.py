"""A real Prometheus, and a real push gateway: programs of Debian's packages, each in a process of its own."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

RULES = Path(__file__).parents[2] / "docker" / "monitoring" / "alerts.yaml"


def program(name: str) -> str:
    found = shutil.which(name)
    assert found, f"{name} is not installed: apt-get install {name} (.ci/run does it)"
    return found


def get(url: str) -> tuple[int, str]:
    """Ask a server; 0 where none answers."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310  (a test's own server)
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as exc:
        return exc.code, exc.read().decode()
    except OSError:
        return 0, ""


class Prometheus:
    """A server that asks its targets every second."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def ask(self, path: str, **query: str) -> Any:
        """What its API answers; the error of a query is an assertion."""
        status, text = get(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}")
        answer = json.loads(text or "{}")
        assert status == 200, answer
        assert answer["status"] == "success", answer
        return answer["data"]

    def firing(self) -> set[str]:
        """The names of the alerts that fire."""
        return {one["labels"]["alertname"] for one in self.ask("alerts")["alerts"] if one["state"] == "firing"}

    def query(self, text: str) -> dict[tuple[str, ...], float]:
        """The samples of a query, by the values of their labels, without name and target."""
        out = {}
        for one in self.ask("query", query=text)["result"]:
            labels = {
                name: value for name, value in one["metric"].items() if name not in {"instance", "job", "__name__"}
            }
            out[tuple(value for _, value in sorted(labels.items()))] = float(one["value"][1])
        return out


@contextmanager
def process(command: list[str], ready: str, log: Path) -> Iterator[None]:
    """A program that runs, from when it answers at `ready`."""
    with log.open("wb") as out:
        running = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + 60
        while get(ready)[0] != 200:
            assert running.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield
    finally:
        running.terminate()
        running.wait(30)


@contextmanager
def prometheus(folder: Path, *targets: int, rules: Path = RULES) -> Iterator[Prometheus]:
    """A server that asks programs on these ports, with the project's rules or others."""
    asked = ", ".join(f"'127.0.0.1:{port}'" for port in targets)
    config = folder / "prometheus.yaml"
    config.write_text(
        f"global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\nrule_files: ['{rules}']\n"
        f"scrape_configs: [{{job_name: ingest, honor_labels: true, static_configs: [{{targets: [{asked}]}}]}}]\n"
    )
    port = free_port()
    command = [
        program("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip
    made = Prometheus(port)
    with process(command, f"{made.url}/-/ready", folder / "prometheus.log"):
        yield made


def shortened(folder: Path) -> Path:
    """The project's rules, whose faults need not last for minutes or concern many records."""
    text = RULES.read_text()
    for long, short in (
        (r"> 2\n", "> 0\n"), (r"for: \d+m", "for: 1s"), (r"\[15m:1m\]", "[10s:1s]"), ("> 100000", "> 1"),
        ("> 600", "> 2"), ("> 300", "> 2"), ("> 900", "> 2"),
    ):  # fmt: skip
        text, count = re.subn(long, short, text)
        assert count, long
    rules = folder / "alerts.yaml"
    rules.write_text(text)
    return rules


@contextmanager
def push_gateway(folder: Path) -> Iterator[str]:
    """A push gateway; its URL."""
    url = f"http://127.0.0.1:{free_port()}"
    command = [program("prometheus-pushgateway"), f"--web.listen-address={url.removeprefix('http://')}"]
    with process(command, f"{url}/-/ready", folder / "pushgateway.log"):
        yield url
