"""What metrics cost: 1,000 tables in one topic, with metrics that are asked for every second and a file, and without.

Each first in turn, in one run. See README.md here.
"""

from __future__ import annotations

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


def run(bootstrap: str, folder: Path, name: str, *, watched: bool) -> Result:
    """A run into one sink topic."""
    more, port = "", any_port()
    if watched:
        more = f"pipeline: {{metrics: {{port: {port}, host: 127.0.0.1, file: {folder / 'ingest.prom'}}}}}\n"
    scraper = Scraper(port) if watched else None
    try:
        return throughput.pipeline(bootstrap, "tables", name, folder, more=more, table="all")
    finally:
        if scraper is not None:
            scraper.end()
            assert scraper.sizes, "nobody was asked"
            print(f"    asked {len(scraper.sizes)} times, {scraper.sizes[-1] / 1e3:,.0f} kB each")


def main() -> None:
    """Measure, and print."""
    options = options_of(messages=2_000_000, rounds=5).parse_args()
    with own_broker() as (bootstrap, folder):
        throughput.create(bootstrap, "tables")
        messages.write(
            bootstrap, "tables", options.messages, throughput.PARTITIONS, load=Load(tables=TABLES, drift=False)
        )
        print(f"{options.messages:,} messages of {TABLES:,} tables")
        rates, cpus = [], []
        for number in range(options.rounds):
            found: dict[bool, Result] = {}
            for watched in (True, False) if number % 2 else (False, True):
                found[watched] = run(bootstrap, folder, f"m{number}{'w' if watched else ''}", watched=watched)
                throughput.drop(bootstrap, f"m{number}")
            rates.append(found[True].rate / found[False].rate)
            cpus.append(found[True].cpu_us / found[False].cpu_us)
            print(
                f"{number + 1:<4}{found[False].rate / 1e3:>8.1f} k/s{found[True].rate / 1e3:>8.1f} k/s{rates[-1]:>7.3f}"
            )
        print(f"throughput with metrics by without, median: {median(rates):.3f}")
    figures = {"throughput with metrics by without": rates, "CPU of workers with by without": cpus}
    found_by_name = {f"1,000 tables, {what}": values for what, values in figures.items()}
    save(options, "metrics", found_by_name, messages=options.messages)


if __name__ == "__main__":
    main()
