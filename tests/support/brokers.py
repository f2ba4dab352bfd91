"""Brokers of the tests' own, one process each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from harness import free_port

from ingest.sandbox import broker as sandbox

if TYPE_CHECKING:
    from pathlib import Path

FOR_MINUTES: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options of a Java that lives for minutes and has little to do: it is not worth the good compiler's work."""


def broker(folder: Path, port: int | None = None, heap: str = "512m", **more: Any) -> sandbox.Broker:
    """Start the sandbox's broker in a folder, and return it when it answers; `sandbox.down` ends it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", " ".join(FOR_MINUTES))
        return sandbox.up(folder, port or free_port(), heap, **more)
