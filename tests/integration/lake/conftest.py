"""Both lakes, in a directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from any_lake import KINDS, lake_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from any_lake import AnyLakeSink


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def sink(kind: str, tmp_path: Path) -> Iterator[AnyLakeSink]:
    found = lake_of(kind, tmp_path / "lake")
    yield found
    found.side.close()
