"""The sink on Delta tables in a directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from delta_lake import DeltaSinkSide

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[DeltaSinkSide]:
    found = DeltaSinkSide(tmp_path / "lake")
    yield found
    found.side.close()
