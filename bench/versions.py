"""`.venv/bin/python bench/versions.py OTHER`: this version against another one, interleaved, on one topic, in one run.

OTHER is a checkout of that version in which `make setup` was run. With `--transform` each table has a projection and a
filter of its own. Prints throughput and worker CPU per message (steady, and in the second half of the messages), the
time to the first record and that of the whole run of both, and the ratios of this one to the other pair by pair: what a
change costs. A version whose first batch ends earlier has more of Java's own warming up in its steady state. The figure
"from the later start" begins for both at the same moment after the command: when the later of the two has ended its
first batch. The second halves are alike, too; a round in which no batch begins there has no figure of them.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import messages
import throughput
import transforms
from setting import INGEST, commit_of, options_of, own_broker, save

if TYPE_CHECKING:
    from collections.abc import Mapping

    from throughput import Result


def main() -> None:
    """Measure, and print."""
    arguments = options_of(messages=2_000_000, rounds=5)
    arguments.add_argument("other", type=Path)
    arguments.add_argument("--transform", action="store_true", help="each table has a projection and a filter")
    options = arguments.parse_args()
    ingest = {"other": str(options.other.resolve() / ".venv" / "bin" / "ingest"), "this": INGEST}
    more = transforms.rules(messages.TABLES) if options.transform else ""
    pairs: list[dict[str, Result]] = []
    # `own_broker` sees to this version's archive of Java's classes: without one, the other would start a second later
    subprocess.run([ingest["other"], "warmup"], check=True, stdout=subprocess.DEVNULL, cwd=options.other)
    with own_broker() as (bootstrap, folder):
        os.chdir(folder)  # a worker looks for its modules where it is started, and this is a checkout of one of them
        throughput.create(bootstrap, "large")
        load = messages.Load(drift=not more)  # a rule of one type for the column whose type drifts would end in rejects
        messages.write(bootstrap, "large", options.messages, throughput.PARTITIONS, load=load)
        # The broker's Java is slow until it has compiled what it does often: whoever came first would pay for that
        for name, program in ingest.items():
            throughput.pipeline(bootstrap, "large", f"warm{name}", folder, program=program, more=more)
            throughput.drop(bootstrap, f"warm{name}")
        print(f"{options.messages:,} messages")
        print(f"{'round':<8}{'version':<9}{'k/s':>8}{'late':>8}{'µs':>8}{'late µs':>9}{'first s':>9}{'whole s':>9}")
        for i in range(options.rounds):
            pair = {}
            for name in ("other", "this") if i % 2 else ("this", "other"):
                prefix = f"run{i}{name}"
                pair[name] = found = throughput.pipeline(
                    bootstrap, "large", prefix, folder, program=ingest[name], more=more
                )
                throughput.drop(bootstrap, prefix)
                rates = f"{found.rate / 1e3:>8.1f}{found.late_rate / 1e3:>8.1f}"
                cpu = f"{found.cpu_us:>8.2f}{found.late_cpu_us:>9.2f}"
                print(f"{i + 1:<8}{name:<9}{rates}{cpu}{found.first_ack:>9.2f}{found.wall:>9.1f}", flush=True)
            pairs.append(pair)
    figures_of = {
        "throughput": "rate",
        "throughput in the second half": "late_rate",
        "CPU": "cpu_us",
        "CPU in the second half": "late_cpu_us",
        "first record": "first_ack",
        "whole": "wall",
    }
    found_of = {
        label: [(getattr(p["this"], name), getattr(p["other"], name)) for p in pairs]
        for label, name in figures_of.items()
    }
    found_of["throughput from the later start"] = [_from_the_later_start(pair) for pair in pairs]
    for label, both in found_of.items():
        ratios = sorted(this / other for this, other in both if this and other)
        if not ratios:
            continue
        print(f"{label}, this by other: median {median(ratios):.3f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")
        saved = {f"{label}{' with transforms' if more else ''}, this by other": ratios}
        save(options, "versions", saved, messages=options.messages, against=commit_of(options.other))


def _from_the_later_start(pair: Mapping[str, Result]) -> tuple[float, float]:
    """Return the throughput of this version and of the other from when both have ended their first batch."""
    moment = max(result.progress[0][0] for result in pair.values())
    return pair["this"].rate_from(moment), pair["other"].rate_from(moment)


if __name__ == "__main__":
    main()
