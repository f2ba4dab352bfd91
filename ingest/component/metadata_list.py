"""The option `metadata.list` of sources and sinks: what of a record is a column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.model.text import TextError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


def metadata_names(text: str, known: Collection[str], others: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names in a text, which are separated by commas.

    Raise TextError for a name that is there twice, or is not `known`; `others` says of some names why they are not.
    """
    at = 0
    names: list[str] = []
    for part in text.split(","):
        name = part.strip()
        if name and (name not in known or name in names):
            what = "is there twice" if name in names else f"is none of {', '.join(known)}"
            if name in others and name not in known:
                what = f"{others[name]} (possible: {', '.join(known)})"
            msg = f"{name[:100]!r} {what}"
            raise TextError(msg, at + part.index(name), len(name))
        if name:
            names.append(name)
        at += len(part) + 1
    return tuple(names)
