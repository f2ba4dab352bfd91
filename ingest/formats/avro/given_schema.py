"""The check of an Avro schema that a pipeline's file gives, and the names of its fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.component.options import OptionErrors

if TYPE_CHECKING:
    from ingest.schema_registry.options import RegistryOptions


def field_names(text: str | None) -> tuple[str, ...]:
    """Return the names of the fields of a record's schema; none where there is no text, or none that is known yet."""
    if not text or "${" in text:
        return ()
    from ingest.formats.avro.rows import row_of  # noqa: PLC0415  (slow to import, and seldom needed)
    from ingest.formats.avro.schema import SchemaError, parse  # noqa: PLC0415

    try:
        return tuple(one.name for one in row_of(parse(text)).fields)
    except (SchemaError, RecursionError):  # which is an error of its own option
        return ()


def check_given(options: RegistryOptions, *, written: bool, nullable: bool = True) -> None:
    """Raise OptionErrors where the schema of the options cannot be used.

    `written`: a sink writes it; `nullable`: whether it may be a union of the record and null. Only a reader needs the
    defaults: messages that lack a field are read with them.
    """
    text = options.schema_text
    if text is None or "${" in text:
        return
    from ingest.formats.avro.defaults import check_defaults  # noqa: PLC0415  (slow to import, and seldom needed)
    from ingest.formats.avro.rows import row_of  # noqa: PLC0415
    from ingest.formats.avro.schema import SchemaError, parse  # noqa: PLC0415

    try:
        node = parse(text)
        kept = row_of(node) if nullable else node
        why = "" if kept.kind == "record" else f"it is of the type {node.kind!r}, and a row is a record"
        if not written:
            check_defaults(node)
    except (SchemaError, RecursionError) as exc:
        why = str(exc)
    if why:
        key = f"{options.name}.schema"
        raise OptionErrors((key, f"{key}: the schema cannot be used: {why}"))
