"""Runs every scenario of this folder, as `ingest test tests/scenarios` does: messages in, what becomes of them out."""

from __future__ import annotations

from pathlib import Path

import pytest
from scenario_files import FILES, OF_PIPELINES, has_expressions, name

from ingest.config.scenario import read
from ingest.native import native
from ingest.testing.scenario_runner import differences

ALL = [*FILES, *OF_PIPELINES]
computed = pytest.mark.parametrize("file", [f for f in ALL if has_expressions(f)], ids=name)
others = pytest.mark.parametrize("file", [f for f in ALL if not has_expressions(f)], ids=name)


def test_there_are_scenarios() -> None:
    assert len(FILES) >= 100
    folder = Path(__file__).parent
    assert sorted(folder.rglob("*.yaml")) == FILES, "a scenario is in the folder of its topic"
    assert not (folder.parent / "spec").exists()


@others
def test_scenario(file: Path) -> None:
    assert not differences(read(file)), "\n".join(differences(read(file)))


@computed
@pytest.mark.usefixtures("java")
def test_scenario_with_expressions(file: Path) -> None:
    test_scenario(file)


@others
def test_scenario_without_native_code(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "BUILT", False)
    test_scenario(file)


@computed
@pytest.mark.usefixtures("java")
def test_scenario_with_expressions_without_native_code(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    test_scenario_without_native_code(file, monkeypatch)
