"""The layouts of tables in `transform:`, beside the sink that would make them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ingest.config.document import Mapping, Scalar, Sequence
from ingest.model.layout import TableLayout, partition_keys, table_options
from ingest.model.text import TextError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingest.config.document import Document, Value
    from ingest.config.wording import Wording
    from ingest.model.layout import PartitionKey
    from ingest.sinks.sink import SinkOptions

KEYS: Final = ("partition-keys", "table-options")
"""Options of a transform that lay a table out."""


def check_layouts(document: Document, wording: Wording, root: Mapping, sink: SinkOptions) -> Iterator[str]:
    """Report layouts that no table of the sink's can have. Yield warnings of those that the sink does not follow."""
    section = root.items.get("transform")
    for entry in section.items if isinstance(section, Sequence) else []:
        if not isinstance(entry, Mapping):
            continue
        given = entry.items
        values = {key: item for key in KEYS if isinstance(item := given.get(key), Scalar) and item.value}
        for key in [key for key in values if key not in sink.lays_out]:
            del values[key]
            text = f"{key} has no effect: {_why(sink)}"
            document.report(entry.keys[key], text, severity="warning")
            yield f"transform: {text}"
        if any(item.unresolved for item in values.values()):
            continue
        for key, why in sink.check_layout(_layout(document, wording, given, values)):
            text = wording.discreet(why, values[key], "transform", key)
            document.report(values[key].span, f"{key}: {text}")


def _layout(document: Document, wording: Wording, given: dict[str, Value], values: dict[str, Scalar]) -> TableLayout:
    """Return the layout of one transform, as far as it is one: the rest is reported, here or by its model."""
    keys, options = (values[key].value or "" if key in values else "" for key in KEYS)
    partitions: tuple[PartitionKey, ...] = ()
    with suppress(TextError):  # the model reports it
        partitions = partition_keys(keys)
    delimiter = given.get("table-options.delimiter")
    try:
        found = table_options(options, (delimiter.value if isinstance(delimiter, Scalar) else None) or ",")
    except TextError as exc:
        value = values["table-options"]
        text = wording.discreet(str(exc), value, "transform", "table-options")
        document.report(document.within(value, exc.at, exc.length), f"table-options: {text}")
        found = ()
    return TableLayout(partitions, found)


def _why(sink: SinkOptions) -> str:
    return "tables of this sink have none" if sink.lays_out else "it is for sinks that create tables"
