"""The sinks of both lakes, for what is the same in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from delta_lake import DeltaSinkSide
from lake_sink import LakeSink

if TYPE_CHECKING:
    from pathlib import Path

AnyLakeSink: TypeAlias = LakeSink | DeltaSinkSide
KINDS: Final[dict[str, type[AnyLakeSink]]] = {"iceberg": LakeSink, "delta": DeltaSinkSide}


def lake_of(kind: str, folder: Path, **more: Any) -> AnyLakeSink:
    """The sink of a lake; `more` is more of its options."""
    return KINDS[kind](folder, **more)
