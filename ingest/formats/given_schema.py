"""The check of an Avro schema that a pipeline's file gives, and the names and types of its fields."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ingest.component.options import OptionErrors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.model.data_type import DataType
    from ingest.registry.options import RegistryOptions


@lru_cache(maxsize=16)
def field_types(text: str, *, of_envelopes: bool = False) -> Mapping[str, DataType]:
    """Return the types of the columns of a given schema, as its messages declare them; none where it cannot be used.

    `of_envelopes`: it is one of Debezium's envelopes.
    """
    from ingest.avro.messages import EnvelopeSchema, RowSchema  # noqa: PLC0415  (`check` needs none of this)
    from ingest.avro.schema import SchemaError, parse  # noqa: PLC0415

    try:
        return (EnvelopeSchema if of_envelopes else RowSchema)(parse(text)).declared.types
    except (SchemaError, RecursionError):
        return {}  # each row is a reject, which says why


def field_names(text: str | None) -> tuple[str, ...]:
    """Return the names of the fields of a record's schema; none where there is no text, or none that is known yet."""
    if not text or "${" in text:
        return ()
    from ingest.avro.schema import SchemaError, parse  # noqa: PLC0415  (slow to import, and seldom needed)

    try:
        return tuple(one.name for one in parse(text).fields)
    except (SchemaError, RecursionError):  # which is an error of its own option
        return ()


def check_given(options: RegistryOptions, *, written: bool) -> None:
    """Raise OptionErrors where the schema of the options cannot be used. `written`: a sink writes it.

    Only a reader needs the defaults: messages that lack a field are read with them.
    """
    text = options.schema_text
    if text is None or "${" in text:
        return
    from ingest.avro.defaults import check_defaults  # noqa: PLC0415  (slow to import, and seldom needed)
    from ingest.avro.schema import SchemaError, parse  # noqa: PLC0415

    try:
        node = parse(text)
        why = "" if node.kind == "record" else f"it is of the type {node.kind!r}, and a row is a record"
        if not written:
            check_defaults(node)
    except (SchemaError, RecursionError) as exc:
        why = str(exc)
    if why:
        key = f"{options.name}.schema"
        raise OptionErrors((key, f"{key}: the schema cannot be used: {why}"))
