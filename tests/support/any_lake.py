"""The sinks of both lakes, for what is the same in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from delta_lake import DeltaLake, DeltaSinkSide
from lake import Lake
from lake_sink import LakeSink

if TYPE_CHECKING:
    from pathlib import Path

AnyLakeSink: TypeAlias = LakeSink | DeltaSinkSide
KINDS: Final[dict[str, type[AnyLakeSink]]] = {"iceberg": LakeSink, "delta": DeltaSinkSide}


def place_of(kind: str, folder: Path) -> dict[str, str]:
    """The options of a sink with its tables in a directory."""
    option = {"iceberg": "catalog.properties.warehouse", "delta": "warehouse"}[kind]
    return {"type": kind, option: str(folder)}


def lake_at(kind: str, folder: Path) -> Lake | DeltaLake:
    """The tables in a directory, as another engine reads them."""
    return DeltaLake(folder) if kind == "delta" else Lake(folder)


def lake_of(kind: str, folder: Path, **more: Any) -> AnyLakeSink:
    """The sink of a lake; `more` is more of its options."""
    return KINDS[kind](folder, **more)
