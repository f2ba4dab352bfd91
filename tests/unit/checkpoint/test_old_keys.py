"""Which tables of a kept pipeline may have rows under keys that are written otherwise now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ingest.checkpoint.checkpoint import Checkpoint
from ingest.checkpoint.old_keys import old_keys
from ingest.checkpoint.storage import LocalStorage
from ingest.model import types
from ingest.model.schema import Column, TableSchema
from ingest.schema.evolve import Policy, Schemas, evolve
from ingest.schema.routes import Rules

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        (["BIGINT", "STRING"], "in the topics of a.b (k BIGINT -> STRING)"),
        (["DATE", "TIMESTAMP"], "in the topics of a.b (k DATE -> TIMESTAMP)"),
        (["DOUBLE"], "in the topics of a.b (k DOUBLE)"),
        (["DECIMAL(10,2)"], "in the topics of a.b (k DECIMAL(10,2))"),
        (["STRING"], "If messages of these tables have numbers or booleans in their keys"),
        (["INT", "BIGINT"], None),
        (["NULL", "BIGINT"], None),
        (["DECIMAL(38,0)"], None),
    ],
)
def test_keys_that_had_the_text_of_their_type(kinds: list[str], told: str | None, tmp_path: Path) -> None:
    checkpoint = Checkpoint(LocalStorage(tmp_path / "c"))
    checkpoint.begin({})
    checkpoint.bind({})
    schemas = Schemas()
    for kind in kinds:
        seen = TableSchema((Column("k", types.parse(kind), nullable=False), Column("n", types.parse(kind))), ("k",))
        evolution = evolve(schemas, [(("a", "b"), seen)], Rules(), Policy())
        checkpoint.store(evolution)
        schemas = evolution.schemas
    found = old_keys(checkpoint)
    checkpoint.close()
    assert len(found) == (told is not None)
    assert told is None or told in found[0]
