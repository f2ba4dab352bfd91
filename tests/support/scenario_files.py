"""The scenarios of the project, and which of them need Spark."""

from __future__ import annotations

import re
from pathlib import Path

_ROOT = Path(__file__).parents[2]
FILES = sorted((_ROOT / "tests" / "scenarios").glob("*/*.yaml"))
OF_PIPELINES = sorted((_ROOT / "pipelines" / "tests").glob("*.yaml"))
"""Those of the pipelines that are examples."""


def name(file: Path) -> str:
    """Return a scenario's topic and name."""
    return f"{file.parent.name}/{file.stem}"


def has_expressions(file: Path) -> bool:
    """Return whether a scenario computes something, as Spark SQL does; its pipeline may be a file of its own."""
    text = file.read_text(encoding="utf-8")
    pipeline = re.search(r"^pipeline: (\S+\.yaml)$", text, re.MULTILINE)
    if pipeline is not None:
        text += (file.parent / pipeline[1]).read_text(encoding="utf-8")
    return re.search(r"(?<!-)\b(?:projection|filter):", text) is not None
