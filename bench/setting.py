"""What the benchmarks share: a broker of their own, the pipeline that they run, a run in the background, and `save`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import psutil

from ingest.sandbox import broker
from ingest.sandbox.process import any_port
from ingest.spark import archive

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

RESULTS: Final = Path(__file__).parent / "results"
INGEST = str(Path(sys.executable).with_name("ingest"))
_KAFKA = """\
source:
  type: kafka
  properties.bootstrap.servers: {bootstrap}
  topic: {topic}
  scan.startup.mode: earliest-offset
"""
_PIPELINE = """\
{origin}{source}sink:
  type: {kind}
  properties.bootstrap.servers: {bootstrap}
  sink.topic.partitions: {partitions}
{sink}route:
  - source-table: \\.*
    sink-table: {into}.{table}
    replace-symbol: <>
"""


@contextmanager
def own_broker() -> Iterator[tuple[str, Path]]:
    """The address of a broker that nobody else uses, and a folder; both are gone afterwards. Caches are warm."""
    if not archive.path().is_file():
        subprocess.run([INGEST, "warmup"], check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        before = psutil.cpu_times()
        try:
            yield broker.up(folder / "kafka", any_port()).bootstrap, folder
        finally:
            broker.down(folder / "kafka", wipe=True)
        print(f"({_stolen(before, psutil.cpu_times()):.0%} of the processors' time went to others)", flush=True)


def _stolen(before: Any, after: Any) -> float:
    """The share of the processors' time that a virtual machine's host gave to others: such a run says little."""
    stolen = getattr(after, "steal", 0.0) - getattr(before, "steal", 0.0)
    return float(stolen / max(sum(after[:8]) - sum(before[:8]), 0.001))


def pipeline_file(  # noqa: PLR0913  (each is one piece of the file)
    folder: Path,
    bootstrap: str,
    topic: str,
    into: str,
    partitions: int,
    more: str = "",
    *,
    source: str = "",
    sink: str = "",
    table: str = "<>",
    kind: str = "upsert-kafka",
    origin: str = "",
) -> Path:
    """A pipeline from a topic to a topic for each table, `<into>.<table>`; `source`, `sink`: more lines.

    `kind`: the sink's type. `origin`: the whole `source:`, where it is no topic.
    """
    file = folder / f"{into}.yaml"
    file.write_text(
        _PIPELINE.format(
            bootstrap=bootstrap,
            origin=origin or _KAFKA.format(bootstrap=bootstrap, topic=topic),
            into=into,
            partitions=partitions,
            source=source,
            sink=sink,
            table=table,
            kind=kind,
        )
        + more
    )
    return file


def start(file: Path, folder: Path) -> subprocess.Popen[bytes]:
    """Run a pipeline until it is told to stop; its log is the file `log` in the folder."""
    with (folder / "log").open("w") as log:
        return subprocess.Popen(
            [INGEST, "run", str(file), "--checkpoint", str(folder / "ck"), "--master", "local[2]"],
            stderr=log, stdout=subprocess.DEVNULL,
        )  # fmt: skip


def options_of(**defaults: int) -> argparse.ArgumentParser:
    """Return a parser of a bench's options: numbers with their defaults, and `--save`."""
    arguments = argparse.ArgumentParser()
    for name, default in defaults.items():
        arguments.add_argument(f"--{name}", type=int, default=default)
    arguments.add_argument("--save", action="store_true", help="Put the figures into bench/results (see README.md).")
    return arguments


def save(options: argparse.Namespace, bench: str, figures: Mapping[str, Sequence[float]], **about: int | str) -> None:
    """Put figures, by what they are, in the place of earlier ones in `results/<bench>.json`, where `--save` was given.

    Of each its median, its spread, the commit and the day are kept; `about`: more to tell of it, e.g. `messages`.
    """
    if not options.save:
        return
    path = RESULTS / f"{bench}.json"
    kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    commit, day = commit_of(RESULTS), datetime.now(UTC).strftime("%Y-%m-%d")
    for what, values in figures.items():
        spread = {"low": _rounded(min(values)), "high": _rounded(max(values))} if len(values) > 1 else {}
        found = {"median": _rounded(median(values)), **spread, "runs": len(values), **about}
        kept[what] = {**found, "commit": commit, "date": day}
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _rounded(number: float) -> float:
    return float(f"{number:.4g}")


def commit_of(place: Path) -> str:
    """Return the commit of a checkout, with `-dirty` where its files differ from it; results do not count."""

    def git(*words: str) -> str:
        command = ["git", *words]
        return subprocess.run(command, cwd=place, capture_output=True, text=True, check=True).stdout.strip()

    top = git("rev-parse", "--show-toplevel")
    changed = git("-C", top, "status", "--porcelain", "--untracked-files=no", "--", ".", ":!bench/results")
    return git("rev-parse", "--short=7", "HEAD") + ("-dirty" if changed else "")
