"""A repository of pipelines: its files, to begin with.

In: nothing but the version. Out: texts by path. All of them work as they are: the pipeline is checked, its test passes,
and the workflow runs both.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Final

_FILES: Final = {
    ".github/workflows/pipelines.yaml": "workflow.yaml",
    ".gitignore": "gitignore",
    ".pre-commit-config.yaml": "pre-commit.yaml",
    "README.md": "README.md",
    "pipelines/kubernetes.yaml": "kubernetes.yaml",
    "pipelines/orders.yaml": "pipeline.yaml",
    "requirements.txt": "requirements.txt",
    "tests/orders.yaml": "test.yaml",
}
"""The paths, each with the name of its text in `repository_files/`."""


def repository_files(version: str) -> Mapping[str, str]:
    """Return the texts of all files, by their paths; `version` is that of this package."""
    folder = files("ingest.render") / "repository_files"
    texts = {path: (folder / name).read_text(encoding="utf-8") for path, name in _FILES.items()}
    return {path: text.replace("VERSION", version) for path, text in texts.items()}
