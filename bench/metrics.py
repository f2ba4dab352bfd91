"""What metrics cost: 1,000 tables in one topic, with metrics that are asked for every second and a file, and without.

Each first in turn, in one run. See README.md here.
"""

from __future__ import annotations

import resource
import threading
import urllib.request
from statistics import median
from typing import TYPE_CHECKING

import messages
import throughput
from messages import Load
from setting import options_of, own_broker, save

from ingest.sandbox.process import any_port

if TYPE_CHECKING:
    from pathlib import Path

    from throughput import Result

TABLES = 1000


class Scraper:
    """A client that asks for metrics every second, as often as a Prometheus that is in a hurry."""

    def __init__(self, port: int) -> None:
        """Begin to ask."""
        self._url = f"http://127.0.0.1:{port}/metrics"
        self._over = threading.Event()
        self.sizes: list[int] = []
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def _ask(self) -> None:
        while not self._over.wait(1.0):
            try:
                with urllib.request.urlopen(self._url, timeout=5) as answer:  # noqa: S310  (loopback)
                    self.sizes.append(len(answer.read()))
            except OSError:
                pass  # it has not begun yet, or is over

    def end(self) -> None:
        """Ask no more."""
        self._over.set()
        self._thread.join()


def spent() -> float:
    """The processors' time of all processes that are over and were waited for, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(bootstrap: str, folder: Path, name: str, *, watched: bool) -> tuple[Result, float]:
    """A run into one sink topic, and the driver's processors' time in seconds."""
    more, port = "", any_port()
    if watched:
        more = f"pipeline: {{metrics: {{port: {port}, host: 127.0.0.1, file: {folder / 'ingest.prom'}}}}}\n"
    scraper, before = Scraper(port) if watched else None, spent()
    try:
        found = throughput.pipeline(bootstrap, "tables", name, folder, more=more, table="all")
        return found, spent() - before
    finally:
        if scraper is not None:
            scraper.end()
            assert scraper.sizes, "nobody was asked"
            print(f"    asked {len(scraper.sizes)} times, {scraper.sizes[-1] / 1e3:,.0f} kB each")


def main() -> None:
    """Measure, and print."""
    options = options_of(messages=6_000_000, rounds=7).parse_args()
    with own_broker() as (bootstrap, folder):
        throughput.create(bootstrap, "tables")
        messages.write(
            bootstrap, "tables", options.messages, throughput.PARTITIONS, load=Load(tables=TABLES, drift=False)
        )
        print(f"{options.messages:,} messages of {TABLES:,} tables")
        rates, costs, workers = [], [], []
        for number in range(options.rounds):
            found: dict[bool, tuple[Result, float]] = {}
            for watched in (True, False) if number % 2 else (False, True):
                found[watched] = run(bootstrap, folder, f"m{number}{'w' if watched else ''}", watched=watched)
                throughput.drop(bootstrap, f"m{number}")
            (bare, bare_spent), (watched_run, watched_spent) = found[False], found[True]
            rates.append(watched_run.rate / bare.rate)
            of_workers = bare.cpu_us * options.messages / 1e6
            costs.append((watched_spent - bare_spent) / (bare_spent + of_workers))
            workers.append(watched_run.cpu_us / bare.cpu_us)
            print(
                f"{number + 1:<4}{bare.rate / 1e3:>8.1f} k/s{watched_run.rate / 1e3:>8.1f} k/s{rates[-1]:>7.3f}"
                f"{bare_spent:>9.1f} s{watched_spent:>7.1f} s{costs[-1]:>8.4f}",
                flush=True,
            )
        print(f"throughput with metrics by without, median: {median(rates):.3f}")
        print(f"driver's time for metrics by the time of driver and workers, median: {median(costs):.4f}")
    figures = {
        "throughput with metrics by without": rates,
        "driver's CPU for metrics by all CPU without": costs,
        "CPU of workers with by without": workers,
    }
    found_by_name = {f"1,000 tables, {what}": values for what, values in figures.items()}
    save(options, "metrics", found_by_name, messages=options.messages)


if __name__ == "__main__":
    main()
