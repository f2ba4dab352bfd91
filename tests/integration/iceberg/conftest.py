"""The sink on a warehouse in a directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from lake_sink import LakeSink

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[LakeSink]:
    found = LakeSink(tmp_path / "lake")
    yield found
    found.side.close()
