"""Pipelines in memory whose messages have their schemas in a registry."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from ingest.config.scenario import read
from ingest.testing.scenario_runner import differences

if TYPE_CHECKING:
    from pathlib import Path

    from schema_registry import Registry

    Pairs = list[tuple[bytes | None, bytes | None]]


def becomes(folder: Path, server: Registry, name: str, pairs: Pairs, source: dict[str, Any], **expected: Any) -> str:
    """What differs from what is expected of messages with keys and values of bytes, in a pipeline in memory."""
    text = {None: None}
    messages = [
        {
            "topic": "orders",
            **({} if key is None else {"key-base64": base64.b64encode(key).decode()}),
            **({"value": text[None]} if value is None else {"value-base64": base64.b64encode(value).decode()}),
        }
        for key, value in pairs
    ]
    registered = {f"{name}.url": server.url} if name.endswith("-confluent") else {}
    scenario = {
        "pipeline": {"source": {"value.format": name, **registered, **source}, "sink": expected.pop("sink", {})},
        "messages": messages,
        **expected,
    }
    file = folder / "scenario.yaml"
    file.write_text(json.dumps(scenario))
    return "\n".join(differences(read(file)))
