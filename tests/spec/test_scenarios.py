"""Runs every scenario of this folder, as `ingest test tests/spec` does: messages in, what becomes of them out."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.config.scenario import read
from ingest.native import native
from ingest.testing.scenario_runner import differences

ROOT = Path(__file__).parent.parent.parent
FILES = sorted([*Path(__file__).parent.glob("*.yaml"), *(ROOT / "pipelines" / "tests").glob("*.yaml")])


def test_there_are_scenarios() -> None:
    assert len(FILES) >= 60


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_scenario(file: Path) -> None:
    assert not differences(read(file)), "\n".join(differences(read(file)))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_scenario_without_what_is_in_c(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "BUILT", False)
    assert not differences(read(file)), "\n".join(differences(read(file)))
