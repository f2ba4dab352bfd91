"""Rows whose message tells the columns' types: checks each value against its type, and puts converted ones in.

In: a row's JSON text. Out: its JSON text with every value as the JSON of its type, or why the message contradicts
itself. A row in which nothing has to be converted stays the very bytes it came in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from ingest.model import types, values
from ingest.model.event import Declared
from ingest.model.jsontext import fields_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql.types import DataType

    Convert: TypeAlias = Callable[[bytes], bytes]
    """The JSON text of a value, from how the message has it; raises ValueError for what is none of its type."""


class Contradiction(ValueError):
    """A value that is not of the type that its message declares."""


class Typed:
    """The columns of one saying: what they are, and how their values are to be read."""

    def __init__(
        self,
        columns: Mapping[str, tuple[DataType, Convert | None]],
        primary_key: tuple[str, ...] = (),
        *,
        overlay: bool = False,
        as_string: bool = False,
    ) -> None:
        """`columns`: type, and conversion where the message has values in another form."""
        self._columns = columns
        declared = {name: types.STRING if as_string else data_type for name, (data_type, _) in columns.items()}
        self.declared = Declared(declared, primary_key, overlay)

    def image(self, raw: msgspec.Raw) -> msgspec.Raw:
        """The row with converted values; raises Contradiction, or one of MALFORMED."""
        parts: list[bytes] = []
        changed = False
        columns = self._columns
        for name, value in fields_of(raw).items():
            text = bytes(value)
            column = columns.get(name)
            if column is not None and text != b"null":
                data_type, convert = column
                try:
                    found = text if convert is None else convert(text)
                except ValueError:
                    found = b""
                if not found or not values.fits(data_type, found):
                    shown = text[:60].decode("utf-8", "backslashreplace")
                    msg = f"column {name!r} is declared {types.name(data_type)} and holds {shown}"
                    raise Contradiction(msg)
                changed = changed or found is not text
                text = found
            parts.append(msgspec.json.encode(name) + b":" + text)
        return msgspec.Raw(b"{" + b",".join(parts) + b"}") if changed else raw
