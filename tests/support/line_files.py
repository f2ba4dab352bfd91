"""Pipelines from files into files, in this process: no broker, no Spark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from inmemory import pipeline

from ingest.driver.run_parts import Endpoints
from ingest.testing.in_memory_run import run_in_process

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ingest.testing.in_memory_run import InProcessRun


def run_files(
    pattern: Path, out: Path, source: dict[str, Any], sink: dict[str, Any], look_ahead: int = 1000, **sections: Any
) -> InProcessRun:
    """Run a pipeline that reads these files and writes lines into a directory.

    `look_ahead`: how many records a task looks at when one does not fit its table's schema, that one included.
    """
    made = pipeline(
        source={
            "type": "file", "path": str(pattern), "scan.max.pre.fetch.records": 0, "ingestion.ignore-errors": True,
            **source,
        },
        sink={"type": "file", "path": str(out), **sink},
        **sections,
    )  # fmt: skip
    return run_in_process(made, Endpoints(made.source, made.sink, None), lambda _: None, look_ahead=look_ahead - 1)


def run_lines(
    folder: Path, lines: Sequence[bytes | dict[str, Any]], source: dict[str, Any], sink: dict[str, Any], **sections: Any
) -> InProcessRun:
    """Run a pipeline on lines of a file `t`, into the directory `out`."""
    texts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    (folder / "t.jsonl").write_bytes(b"".join(text + b"\n" for text in texts))
    return run_files(folder / "t.jsonl", folder / "out", source, sink, **sections)


def lines_of(out: Path, table: str) -> list[bytes]:
    """The lines that were written of a table."""
    (file,) = out.glob(f"{table}.*.jsonl")
    return file.read_bytes().splitlines()
