"""The option `key.fields` of sources and sinks: the columns that records' keys consist of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator, WithJsonSchema

from ingest.model.text import TextError

if TYPE_CHECKING:
    from collections.abc import Iterable


def _split(value: object) -> object:
    """Return the names in a text, in their order. Raise TextError for one that is there twice, or for none."""
    if not isinstance(value, str):
        return value
    names: list[str] = []
    at = 0
    for part in value.split(";"):
        name = part.strip()
        if name in names:
            msg = f"{name[:100]!r} is there twice"
            raise TextError(msg, at + part.index(name), len(name))
        if name:
            names.append(name)
        at += len(part) + 1
    if not names:
        msg = "names no column; columns are separated by ';'"
        raise ValueError(msg)
    return tuple(names)


KeyFields = Annotated[
    tuple[str, ...], BeforeValidator(_split), WithJsonSchema({"type": "string", "examples": ["user_id;item_id"]})
]
"""Names of columns, separated by `;`, each once."""


def unprefixed(names: Iterable[str], prefix: str) -> list[tuple[str, str]]:
    """Return what is wrong with columns of a key that do not begin with the keys' prefix: option, and reason."""
    return [
        ("key.fields", f"key.fields: {name[:100]!r} does not begin with key.fields-prefix {prefix[:100]!r}")
        for name in names
        if not name.startswith(prefix) or name == prefix
    ]
