"""A pipeline under load for a long time, with pauses: memory and threads of all its processes, early against late.

`python bench/soak.py --minutes 60`; not part of `make bench`. See README.md here.
"""

from __future__ import annotations

import argparse
import sys
import time
from statistics import median
from typing import TYPE_CHECKING

import latency
import psutil
from confluent_kafka.admin import AdminClient, NewTopic
from setting import own_broker, pipeline_file, start

if TYPE_CHECKING:
    from pathlib import Path


def sample(pid: int) -> dict[str, tuple[int, int]]:
    """Resident memory in MiB and threads of the driver, of Java, and of the Python workers together."""
    kinds: dict[str, list[psutil.Process]] = {"driver": [psutil.Process(pid)], "java": [], "workers": []}
    for child in psutil.Process(pid).children(recursive=True):
        kinds["java" if "java" in child.name() else "workers"].append(child)
    out = {}
    for kind, processes in kinds.items():
        alive = [p for p in processes if p.is_running()]
        out[kind] = (sum(p.memory_info().rss for p in alive) >> 20, sum(p.num_threads() for p in alive))
    return out


def main() -> None:
    """Run, and print what grew."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--minutes", type=float, default=60)
    arguments.add_argument("--rate", type=int, default=2_000)
    options = arguments.parse_args()
    with own_broker() as (bootstrap, folder):
        soak(bootstrap, folder, options.minutes * 60, options.rate)


def soak(bootstrap: str, folder: Path, seconds: float, rate: int) -> None:
    """Load and pauses in turn, a sample every few seconds."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic("soak", latency.PARTITIONS, 1, config={"retention.bytes": "50000000", "segment.bytes": "10000000"})
    admin.create_topics([topic])["soak"].result()
    more = "pipeline: {batch-interval: 100 ms}\n"
    file = pipeline_file(folder, bootstrap, "soak", "soak.out", latency.PARTITIONS, more)
    feed = latency.Feed(bootstrap, "soak")
    feed.run(100, 1)
    pipeline = start(file, folder)
    samples = []
    started = time.monotonic()
    while time.monotonic() - started < seconds:
        for _ in range(6):
            feed.run(rate, 10)
            if pipeline.poll() is not None:
                sys.exit((folder / "log").read_text()[-2000:])
            samples.append(sample(pipeline.pid))
        time.sleep(min(75, seconds / 20))  # workers that have nothing to do go away after a minute
    pipeline.terminate()
    pipeline.wait(60)
    lines = (folder / "log").read_text().splitlines()
    batches = sum('"batch done"' in line for line in lines)
    print(f"{feed.sent:,} messages, {batches:,} batches in {(time.monotonic() - started) / 60:.0f} minutes")
    quarter = max(1, len(samples) // 4)
    skipped = samples[quarter // 2 :]
    for kind in ("driver", "java", "workers"):
        early = [s[kind] for s in skipped[:quarter]]
        late = [s[kind] for s in skipped[-quarter:]]
        print(
            f"{kind}: memory {median(m for m, _ in early):.0f} -> {median(m for m, _ in late):.0f} MiB, "
            f"threads {median(t for _, t in early):.0f} -> {median(t for _, t in late):.0f}"
        )


if __name__ == "__main__":
    main()
