"""`make bench`: the pipeline against a raw copy of the same topic, interleaved, in one run.

Prints steady throughput of both and their ratio, worker CPU per message of both, the time from the command to the
first acknowledged record, and the Python workers' peak memory for a small and a large backlog. See README.md here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import get_context
from statistics import median
from typing import TYPE_CHECKING, Any

import messages
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from setting import INGEST, options_of, own_broker, pipeline_file, save

from ingest.kafka import reader as ingest_reader
from ingest.kafka import writer as ingest_writer

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

PARTITIONS = 8
SLOTS = os.cpu_count() or 2


@dataclass
class Result:
    """One measured run."""

    rate: float
    """Messages a second in the steady state."""
    cpu_us: float
    """CPU of the working processes per message, in microseconds."""
    first_ack: float = 0.0
    """Seconds from the command to the first acknowledged record."""
    rss_mib: int = 0
    wall: float = 0.0
    messages: int = 0
    bytes: int = 0
    """Of keys and values, where they were counted."""
    late_rate: float = 0.0
    """Messages a second in the second half of the messages, where Java has long been warm."""
    late_cpu_us: float = 0.0
    """CPU of the working processes per message in that half, in microseconds."""
    progress: tuple[tuple[float, int], ...] = ()
    """The end of each batch from the first one that wrote on, in seconds since the command, and the messages by then.

    The steady state begins with the first of these, and ends with the last.
    """

    def rate_from(self, moment: float) -> float:
        """Return messages a second from a moment, in seconds since the command, to the end of the last batch.

        Nothing says how far a batch was at that moment: as far as its messages have come if they come evenly.
        """
        done = 0.0
        for (began, before), (ended, after) in pairwise(self.progress):
            if began <= moment:
                done = before + (after - before) * min(1.0, (moment - began) / (ended - began))
        ended, total = self.progress[-1]
        return (total - done) / (ended - moment) if moment < ended else 0.0


def raw_worker(bootstrap: str, topic: str, to: str, part: int, parts: int, results: Any) -> None:
    """Copy some partitions as fast as the client can: no decoding."""
    shared = {"bootstrap.servers": bootstrap}
    consumer = Consumer({**ingest_reader.DEFAULTS, **shared, "group.id": "bench-raw", "enable.auto.commit": False})
    producer = Producer({**ingest_writer.DEFAULTS, **shared, "enable.idempotence": True, "acks": "all"})
    splits = [TopicPartition(topic, p) for p in range(PARTITIONS) if p % parts == part]
    ends = [consumer.get_watermark_offsets(split) for split in splits]
    left = sum(end - first for first, end in ends)
    consumer.assign([TopicPartition(s.topic, s.partition, first) for s, (first, _) in zip(splits, ends, strict=True)])
    count, size, started, cpu = 0, 0, 0.0, 0.0
    while left:
        chunk = consumer.consume(min(10_000, left), 0.1)
        if chunk and not count:
            started, cpu = time.time(), time.process_time()
        for message in chunk:
            while True:
                try:
                    producer.produce(to, message.value(), message.key())
                except BufferError:
                    producer.poll(0.05)
                    continue
                break
        producer.poll(0)
        left -= len(chunk)
        count += len(chunk)
        if not size and chunk:
            size = sum(len(m.value() or b"") + len(m.key() or b"") for m in chunk) // len(chunk)
    producer.flush()
    results.put((count, started, time.time(), time.process_time() - cpu, size))


def raw(bootstrap: str, topic: str, to: str) -> Result:
    """The limit here: as many processes as the pipeline has task slots, each a consumer and a producer."""
    spawn = get_context("spawn")  # Kafka clients do not survive a fork
    results: Any = spawn.Queue()
    workers = [spawn.Process(target=raw_worker, args=(bootstrap, topic, to, i, SLOTS, results)) for i in range(SLOTS)]
    for worker in workers:
        worker.start()
    done = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    count = sum(d[0] for d in done)
    seconds = max(d[2] for d in done) - min(d[1] for d in done)
    size = sum(d[4] for d in done) // len(done) * count
    return Result(count / seconds, sum(d[3] for d in done) / count * 1e6, wall=seconds, messages=count, bytes=size)


def pipeline(bootstrap: str, topic: str, prefix: str, folder: Path, *, program: str = INGEST, **more: str) -> Result:
    """`ingest run --once`, measured by what it logs; `more` is more of the pipeline's file."""
    return measured(pipeline_file(folder, bootstrap, topic, prefix, PARTITIONS, **more), program)


def measured(file: Path, program: str = INGEST) -> Result:
    """`ingest run --once` of a pipeline's file, measured by what it logs. Its checkpoint is a folder beside it."""
    command = [
        program,
        "run",
        str(file),
        "--once",
        "--checkpoint",
        str(file.with_suffix("")),
        "--master",
        f"local[{SLOTS}]",
    ]
    started = time.time()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wall = time.time() - started
    if done.returncode:
        sys.exit(done.stderr)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    batches = [line for line in lines if line["event"] == "batch done"]
    acks = [b["first_ack"] for b in batches if b["first_ack"]]
    # Steady: from the end of the first batch that wrote to the end of the last one, all that lies between included
    writing = [i for i, b in enumerate(batches) if b["records"]]
    steady = batches[writing[0] + 1 :]
    count = sum(b["records"] for b in steady)
    ends = [_epoch(b["time"]) for b in batches]
    seconds = ends[-1] - ends[writing[0]]
    total = sum(b["records"] for b in batches)
    half = next(i for i in range(len(batches)) if sum(b["records"] for b in batches[: i + 1]) * 2 >= total)
    late_batches = batches[half + 1 :]
    late = sum(b["records"] for b in late_batches)
    return Result(
        rate=count / seconds if seconds else 0.0,
        cpu_us=sum(b["cpu_s"] for b in steady) / max(count, 1) * 1e6,
        first_ack=min(acks) - started,
        rss_mib=max(b["worker_rss_mib"] for b in batches),
        wall=wall,
        messages=total,
        late_rate=late / (ends[-1] - ends[half]) if late else 0.0,
        late_cpu_us=sum(b["cpu_s"] for b in late_batches) / max(late, 1) * 1e6,
        progress=tuple(
            (end - started, sum(b["records"] for b in batches[: i + 1]))
            for i, end in enumerate(ends)
            if i >= writing[0]
        ),
    )


def _epoch(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text).timestamp()


def create(bootstrap: str, *names: str, partitions: int = PARTITIONS) -> None:
    """Topics to read from and to copy to."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, partitions, 1) for name in names]).values():
        future.result()


def drop(bootstrap: str, prefix: str) -> None:
    """Topics of a run that is over."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    names = [name for name in admin.list_topics(timeout=10).topics if name.startswith(prefix)]
    for future in (admin.delete_topics(names) if names else {}).values():
        future.result()


def main() -> None:
    """Measure, and print."""
    options = options_of(messages=4_000_000, rounds=3, starts=5).parse_args()
    with own_broker() as (bootstrap, folder):
        measure(bootstrap, folder, options)


def measure(bootstrap: str, folder: Path, options: argparse.Namespace) -> None:
    """All that is measured, in one go."""
    small = options.messages // 10
    create(bootstrap, "large", "small")
    messages.write(bootstrap, "large", options.messages, PARTITIONS)
    messages.write(bootstrap, "small", small, PARTITIONS)
    print(f"{options.messages:,} messages, {PARTITIONS} partitions, {messages.TABLES} tables, {SLOTS} task slots\n")
    print(f"{'round':<8}{'raw k/s':>10}{'ingest k/s':>12}{'ratio':>8}{'raw µs':>9}{'ingest µs':>11}{'whole s':>9}")
    raws, ours = [], []
    for i in range(options.rounds):
        create(bootstrap, f"raw{i}")
        a = raw(bootstrap, "large", f"raw{i}")
        drop(bootstrap, f"raw{i}")
        b = pipeline(bootstrap, "large", f"run{i}", folder)
        drop(bootstrap, f"run{i}")
        raws.append(a)
        ours.append(b)
        print(
            f"{i + 1:<8}{a.rate / 1e3:>10.1f}{b.rate / 1e3:>12.1f}{b.rate / a.rate:>8.2f}"
            f"{a.cpu_us:>9.2f}{b.cpu_us:>11.2f}{b.wall:>9.1f}",
            flush=True,
        )
    starts = []
    for i in range(options.starts):
        starts.append(pipeline(bootstrap, "small", f"start{i}", folder))
        drop(bootstrap, f"start{i}")
    ratios = [b.rate / a.rate for a, b in zip(raws, ours, strict=True)]
    print(f"\nsteady throughput against the raw copy, median of {options.rounds}: {median(ratios):.2f}")
    raw_cpu, our_cpu = median(a.cpu_us for a in raws), median(b.cpu_us for b in ours)
    print(f"worker CPU per message, median: {our_cpu:.2f} µs (raw copy {raw_cpu:.2f} µs)")
    first = [s.first_ack for s in starts]
    spread = f"{min(first):.1f} to {max(first):.1f}"
    print(f"command to first acknowledged record, median of {len(first)}: {median(first):.1f} s ({spread})")
    print(
        f"peak memory of a Python worker: {max(s.rss_mib for s in starts)} MiB for {small:,} messages, "
        f"{max(b.rss_mib for b in ours)} MiB for {options.messages:,}"
    )
    found = {
        "steady throughput by that of the raw copy": ratios,
        "worker CPU, µs a message": [b.cpu_us for b in ours],
        "worker CPU of the raw copy, µs a message": [a.cpu_us for a in raws],
        "memory of a worker, large backlog, MiB": [float(b.rss_mib) for b in ours],
    }
    save(options, "throughput", found, messages=options.messages)
    found = {
        "from command to first acknowledged record, s": first,
        "memory of a worker, small backlog, MiB": [float(s.rss_mib) for s in starts],
    }
    save(options, "throughput", found, messages=small)


if __name__ == "__main__":
    main()
