"""The check of an Avro schema that a pipeline's file gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.component.options import OptionErrors

if TYPE_CHECKING:
    from ingest.registry.options import RegistryOptions


def check_given(options: RegistryOptions) -> None:
    """Raise OptionErrors where the schema of the options is none of a record."""
    text = options.schema_text
    if text is None or "${" in text:
        return
    from ingest.avro.schema import SchemaError, parse  # noqa: PLC0415  (slow to import, and seldom needed)

    try:
        kind = parse(text).kind
        why = "" if kind == "record" else f"it is of the type {kind!r}, and a row is a record"
    except (SchemaError, RecursionError) as exc:
        why = str(exc)
    if why:
        key = f"{options.name}.schema"
        raise OptionErrors((key, f"{key}: the schema cannot be used: {why}"))
