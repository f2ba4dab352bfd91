"""`make bench`: exactly-once against at-least-once, interleaved, in one run.

Prints steady throughput of both and their ratio, and worker CPU per message of both. See README.md here.
"""

from __future__ import annotations

from statistics import median

import messages
from setting import options_of, own_broker, save
from throughput import PARTITIONS, SLOTS, create, drop, pipeline

GUARANTEES = ("at-least-once", "exactly-once")


def main() -> None:
    """Measure, and print."""
    options = options_of(messages=4_000_000, rounds=3).parse_args()
    print(f"{options.messages:,} messages, {PARTITIONS} partitions, {messages.TABLES} tables, {SLOTS} task slots\n")
    print(f"{'round':<8}{'alo k/s':>10}{'eo k/s':>10}{'ratio':>8}{'alo µs':>9}{'eo µs':>9}")
    ratios = []
    with own_broker() as (bootstrap, folder):
        create(bootstrap, "large")
        messages.write(bootstrap, "large", options.messages, PARTITIONS)
        for i in range(options.rounds):
            done = {}
            # The one that comes second finds another broker: they take turns
            for guarantee in GUARANTEES[:: -1 if i % 2 else 1]:
                sink = f"  sink.delivery-guarantee: {guarantee}\n"
                done[guarantee] = pipeline(bootstrap, "large", f"{guarantee}{i}", folder, sink=sink)
                drop(bootstrap, f"{guarantee}{i}")
            a, b = (done[guarantee] for guarantee in GUARANTEES)
            ratios.append(b.rate / a.rate)
            rates = f"{a.rate / 1e3:>10.1f}{b.rate / 1e3:>10.1f}{ratios[-1]:>8.2f}"
            print(f"{i + 1:<8}{rates}{a.cpu_us:>9.2f}{b.cpu_us:>9.2f}", flush=True)
    print(f"\nexactly-once against at-least-once, steady throughput, median of {options.rounds}: {median(ratios):.2f}")
    found = {"steady throughput, exactly-once by at-least-once": ratios}
    save(options, "delivery", found, messages=options.messages)


if __name__ == "__main__":
    main()
