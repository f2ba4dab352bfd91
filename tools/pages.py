"""`make docs`: the tables of pages that are made from files: figures of benches, faults, decision records.

    bench/README.md       figures from bench/results/*.json, targets from bench/results/targets.json
    bench/CHAOS.md        faults from bench/results/chaos.json
    docs/adr/README.md    titles and states of the records beside it
    docs/metrics.md       metrics of a run
    docs/dirty-data.md    codes of rejects: those of the model, and those that formats and sinks list

A table stands between two comments of its page. With --check: exit code 1 where a page is not what its files say.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, Final

from ingest.formats import FORMATS
from ingest.model.reject import CODES
from ingest.observe.metrics import Metrics
from ingest.observe.observers import Health
from ingest.observe.serving import Family
from ingest.sinks import SINKS

ROOT: Final = Path(__file__).parent.parent
RESULTS: Final = ROOT / "bench" / "results"
OTHERS: Final = frozenset({"chaos", "targets"})
"""Files of results that hold no figures of a bench."""
BEGIN: Final = "<!-- made by tools/pages.py; do not edit -->"
END: Final = "<!-- end -->"
_BETWEEN: Final = re.compile(re.escape(BEGIN) + r".*?" + re.escape(END), re.DOTALL)
_STATUS: Final = re.compile(r"^- Status: (.*?)\n- Date: (\S+)$", re.MULTILINE | re.DOTALL)


def read(name: str) -> dict[str, Any]:
    """Return one file of results."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def figures() -> str:
    """Return the table of all figures: the median of each, its spread, its target, and which code it is of."""
    targets = read("targets")
    lines = ["| bench | what | median | spread | runs | target | commit | date |", "|---|---|---|---|---|---|---|---|"]
    for path in sorted(RESULTS.glob("*.json")):
        if path.stem in OTHERS:
            continue
        for what, found in read(path.stem).items():
            spread = f"{shown(found['low'])} to {shown(found['high'])}" if "low" in found else ""
            size = f", {found['messages']:,} messages" if found.get("messages") else ""
            against = f", other: {found['against']}" if found.get("against") else ""
            target = aim(targets.get(path.stem, {}).get(what), found["median"])
            measured = f"{shown(found['median'])} | {spread} | {found.get('runs', '')}"
            code = f"{found['commit']} | {found['date']}"
            lines.append(f"| {path.stem} | {what}{size}{against} | {measured} | {target} | {code} |")
    return "\n".join(lines)


def shown(number: float) -> str:
    """Return a figure with three digits, or all those before its point."""
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def aim(target: dict[str, float] | None, median: float) -> str:
    """Return a target for people; in bold, with *missed*, where the figure does not reach it."""
    if target is None:
        return ""
    if "least" in target:
        text, reached = f"≥ {shown(target['least'])}", median >= target["least"]
    else:
        text, reached = f"≤ {shown(target['most'])}", median <= target["most"]
    return text if reached else f"**{text}, missed**"


def faults() -> str:
    """Return the table of all faults: what was done, how often, and what became of the changes."""
    lines = [
        "| fault | guarantee | times | changes | missing | twice | out of order | outcome | commit | date |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for found in read("chaos").values():
        name = f"**{found['fault'].replace('_', ' ')}**: {found['about']}"
        counts = " | ".join(f"{found[key]:,}" for key in ("struck", "sent", "missing", "twice", "disorder"))
        outcome = "survived" if found["survived"] else "**not survived**"
        day = found["when"].partition(" ")[0]
        lines.append(f"| {name} | {found['guarantee']} | {counts} | {outcome} | {found['commit']} | {day} |")
    return "\n".join(lines)


def records() -> str:
    """Return the index of the decision records; raises ValueError for one without status and date."""
    lines = ["| date | decision | status |", "|---|---|---|"]
    for path in sorted((ROOT / "docs" / "adr").glob("[0-9]*.md")):
        text = path.read_text(encoding="utf-8")
        found = _STATUS.search(text)
        if found is None or not text.startswith("# "):
            msg = f"{path.name} does not begin with a title, '- Status: …' and '- Date: …'"
            raise ValueError(msg)
        title, status = text.partition("\n")[0].removeprefix("# "), " ".join(found.group(1).split())
        lines.append(f"| {found.group(2)} | [{title}]({path.name}) | {status} |")
    return "\n".join(lines)


def codes() -> str:
    """Return the table of all codes of rejects: each with the formats or sinks that it belongs to, and its meaning."""
    lines = ["| code | only from | means |", "|---|---|---|"]
    lines += [f"| `{code}` | | {meaning} |" for code, meaning in CODES.items()]
    for registry in (FORMATS, SINKS):
        for code, names in registry.codes().items():
            meaning = getattr(registry[names[0]], "codes", {})[code]
            lines.append(f"| `{code}` | {', '.join(f'`{name}`' for name in names)} | {meaning} |")
    return "\n".join(lines)


def metrics() -> str:
    """Return the table of all metrics: the kind of each, its labels beside the pipeline's, and its help text."""
    lines = ["| metric | kind | labels | what |", "|---|---|---|---|"]
    for family in Metrics("", 0, Health(0)).collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = ", ".join(f"`{label}`" for label in (family.labels[1:] if isinstance(family, Family) else ()))
        lines.append(f"| `{name}` | {family.type} | {labels} | {family.documentation} |")
    return "\n".join(lines)


PAGES: Final = {
    "bench/README.md": figures,
    "bench/CHAOS.md": faults,
    "docs/adr/README.md": records,
    "docs/dirty-data.md": codes,
    "docs/metrics.md": metrics,
}


def main() -> int:
    """Write the pages, or check them; return 1 where one is stale."""
    stale = False
    for name, make in PAGES.items():
        page = ROOT / name
        text = page.read_text(encoding="utf-8")
        try:
            made = f"{BEGIN}\n{make()}\n{END}"
        except (ValueError, KeyError) as exc:
            print(f"{name} cannot be made: {exc}")
            stale = True
            continue
        after, places = _BETWEEN.subn(lambda _, made=made: made, text)  # type: ignore[misc]  # mypy: a default of a lambda
        if places != 1:
            print(f"{name} needs one place between '{BEGIN}' and '{END}'")
            stale = True
        elif "--check" not in sys.argv:
            page.write_text(after, encoding="utf-8")
        elif after != text:
            print(f"{name} is not what its files say: run make docs")
            stale = True
    return int(stale)


if __name__ == "__main__":
    sys.exit(main())
