"""Inline schemas of messages that name the columns of the primary key, and no types."""

from __future__ import annotations

from typing import Final

from ingest.model.cache import Cache
from ingest.model.change import InlineSchema

_SCHEMAS: Final[Cache[tuple[tuple[str, ...], bool, bool], InlineSchema]] = Cache(10_000, 16 << 20)
"""Such schemas, for all decoders of this process."""


def key_schema(primary_key: tuple[str, ...], *, overlay: bool = False, sparse: bool = False) -> InlineSchema:
    """Return an inline schema with this key. It is made once for all messages that have the same."""
    key = (primary_key, overlay, sparse)
    found = _SCHEMAS.get(key)
    if found is None:
        found = InlineSchema(primary_key=primary_key, overlay=overlay, sparse=sparse)
        _SCHEMAS.put(key, found, 1000 + sum(100 + 4 * len(name) for name in primary_key))
    return found
