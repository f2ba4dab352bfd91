"""The archive of Spark's classes belongs to one installation."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING

from ingest.spark import archive

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_an_archive_is_of_one_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(name: str) -> SimpleNamespace:
        (tmp_path / name / "jars").mkdir(parents=True, exist_ok=True)
        return SimpleNamespace(origin=str(tmp_path / name / "__init__.py"))

    monkeypatch.setattr(archive, "find_spec", lambda _: installed("here"))
    first = archive.path()
    assert archive.path() == first
    # The same place, installed anew: its jars are newer, so Java would refuse the archive
    os.utime(tmp_path / "here" / "jars", ns=(1, 1))
    again = archive.path()
    assert again != first
    assert again.name.rpartition("-")[0] == first.name.rpartition("-")[0]
    monkeypatch.setattr(archive, "find_spec", lambda _: installed("there"))
    assert archive.path().name.rpartition("-")[0] != first.name.rpartition("-")[0]
