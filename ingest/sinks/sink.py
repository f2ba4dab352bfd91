"""What the options of every sink have in common: which schema changes it is to see.

Reference: decisions, "Schema changes".
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

from pydantic import BeforeValidator, Field, field_validator

from ingest.formats.options import Options

FAMILIES: Final = (
    "all", "add", "alter", "create", "drop", "rename", "truncate", "table", "column", "add.column",
    "alter.column.type", "create.table", "drop.column", "drop.table", "rename.column", "truncate.table",
)  # fmt: skip
"""What the two options may hold. Changes that drop or rename do not occur."""


def _split(value: Any) -> Any:  # noqa: ANN401  (whatever the file has)
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


Changes = Annotated[tuple[str, ...], BeforeValidator(_split)]


class SinkOptions(Options):
    """Options that sinks share."""

    formats: ClassVar[str | None] = None
    needs_key: ClassVar[bool] = True
    """Whether only tables with a primary key can be written."""
    most_per_batch: ClassVar[int | None] = None
    """Records of a shard in one batch, where the sink cannot take any number."""

    name: str | None = None
    """A label for logs and metrics."""

    include: Changes = Field((), alias="include.schema.changes")
    """Schema changes that reach the sink, as a list: `create.table`, `add.column`, `alter.column.type`, or families:
    `all`, `table`, `column`, `create`, `add`, `alter`. Default: all that `pipeline.schema.change.behavior` lets
    pass."""

    exclude: Changes = Field((), alias="exclude.schema.changes")
    """Schema changes that do not reach the sink, even where they are included: new columns are left out of its rows,
    and values that its columns cannot take are rejects. What is left out is counted and said."""

    @field_validator("include", "exclude")
    @classmethod
    def _check_changes(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for change in value:
            if change not in FAMILIES:
                msg = f"{change[:60]!r} is no schema change (known: {', '.join(FAMILIES)})"
                raise ValueError(msg)
        return value
