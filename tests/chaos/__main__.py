"""`make chaos`: every fault, at full size; what became of each goes to bench/CHAOS.md."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import traceback
from datetime import UTC, datetime
from pathlib import Path

from rig import Report
from storms import STORMS, Scale

OUT = Path(__file__).parents[2] / "bench" / "CHAOS.md"
_HEAD = """\
# What was done to it, and what became of it

Written by `make chaos` on {when}, at commit {commit}: {changes:,} numbered changes for each fault (fewer where the
table says so), seed {seed}. A reader of committed records runs beside each. Exactly-once survives a fault with nothing
missing, nothing twice and each key in its order; at-least-once with nothing missing.

| fault | guarantee | happened | changes | missing | twice | out of order | outcome |
|---|---|---|---|---|---|---|---|
"""


def main() -> None:
    """Run what was asked for, and write what became of it."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--changes", type=int, default=100_000)
    arguments.add_argument("--moments", type=int, default=20)
    arguments.add_argument("--seed", type=int, default=20261121)
    arguments.add_argument("--only", default="", help="names of faults, by commas; nothing is written then")
    arguments.add_argument("--guarantee", default="")
    options = arguments.parse_args()
    scale = Scale(options.changes, options.moments, options.seed)
    only = {name for name in options.only.split(",") if name}
    reports = []
    for storm, guarantees in STORMS.items():
        for guarantee in guarantees:
            if (only and storm.__name__ not in only) or (options.guarantee and guarantee != options.guarantee):
                continue
            reports.append(one(storm, guarantee, scale))
            if not only:
                write(reports, scale)
    sys.exit(not all(report.survived for report in reports))


def one(storm: object, guarantee: str, scale: Scale) -> Report:
    """One fault, under one guarantee."""
    name = storm.__name__  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / name.replace("_", "-")
        place.mkdir()
        try:
            report: Report = storm(place, guarantee, scale)  # type: ignore[operator]
        except Exception as exc:  # noqa: BLE001  (the other faults shall have their turn)
            traceback.print_exc()
            report = Report(name, guarantee, notes=[f"the fault could not be provoked: {exc}"[:300]])
    report.fault = name
    print(
        f"{name} ({guarantee}): {'survived' if report.survived else 'NOT SURVIVED'}; happened {report.struck} times, "
        f"{report.sent} changes, {report.missing} missing, {report.twice} twice, {report.disorder} out of order, "
        f"{report.seconds:.0f} s"
    )
    for note in report.notes:
        print(f"    {note}")
    sys.stdout.flush()
    return report


def write(reports: list[Report], scale: Scale) -> None:
    """The results, as far as there are any."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    text = _HEAD.format(when=when, commit=commit.strip(), changes=scale.changes, seed=scale.seed)
    for r in reports:
        outcome = "survived" if r.survived else "**not survived**"
        text += (
            f"| {r.fault.replace('_', ' ')} | {r.guarantee} | {r.struck} | {r.sent:,} | {r.missing} | {r.twice} | "
            f"{r.disorder} | {outcome} |\n"
        )
    for r in reports:
        doc = next(storm.__doc__ or "" for storm in STORMS if storm.__name__ == r.fault)
        text += f"\n## {r.fault.replace('_', ' ')}, {r.guarantee}\n{doc}\n\n"
        text += "".join(f"    {note.splitlines()[0]}\n" for note in r.notes)
    OUT.write_text(text)


if __name__ == "__main__":
    main()
