"""`make chaos`: every fault, at full size; what became of each is kept in bench/results/chaos.json and bench/CHAOS.md.

It takes more than an hour, so that faults can be made one by one (`--only`): what became of the others stays.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import traceback
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from storm import Report, Scale
from storms import STORMS

BENCH: Final = Path(__file__).parents[2] / "bench"
KEPT: Final = BENCH / "results" / "chaos.json"
PAGES: Final = BENCH.parent / "tools" / "pages.py"
FULL: Final = Scale(100_000, 20, 20261121)


def main() -> None:
    """Run what was asked for, and write what became of it."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--changes", type=int, default=FULL.changes)
    arguments.add_argument("--moments", type=int, default=FULL.moments)
    arguments.add_argument("--seed", type=int, default=FULL.seed)
    arguments.add_argument("--only", default="", help="names of faults, by commas")
    arguments.add_argument("--guarantee", default="")
    options = arguments.parse_args()
    scale = Scale(options.changes, options.moments, options.seed)
    only = {name for name in options.only.split(",") if name}
    survived = True
    for storm, guarantees in STORMS.items():
        for guarantee in guarantees:
            if (only and storm.__name__ not in only) or (options.guarantee and guarantee != options.guarantee):
                continue
            report = one(storm, guarantee, scale)
            survived = survived and report.survived
            if scale == FULL:  # what is made smaller is for looking
                keep(report)
    sys.exit(not survived)


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


def keep(report: Report) -> None:
    """Put a result in the place of the last one of this fault, and rewrite the page."""
    kept: dict[str, Any] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    command = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    about = next(" ".join((storm.__doc__ or "").split()) for storm in STORMS if storm.__name__ == report.fault)
    told = {"when": when, "commit": commit, "about": about, "survived": report.survived}
    kept[f"{report.fault} {report.guarantee}"] = {**told, **asdict(report)}
    order = [f"{storm.__name__} {guarantee}" for storm, guarantees in STORMS.items() for guarantee in guarantees]
    KEPT.parent.mkdir(exist_ok=True)
    found = {name: kept[name] for name in order if name in kept}
    KEPT.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    subprocess.run([sys.executable, PAGES], check=True)


if __name__ == "__main__":
    main()
