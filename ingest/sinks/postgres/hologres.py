"""Rows into tables of Alibaba Cloud's Hologres, which speaks PostgreSQL's protocol and changes no types.

Rules: docs/spec/postgres.md#hologres.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from pydantic import Field, field_validator, model_validator

from ingest.component.options import OptionErrors
from ingest.sinks.postgres.options import SqlSinkOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.model.layout import TableLayout
    from ingest.sinks.postgres.dialect import SqlDialect

PREFIX: Final = "table_property."
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_DELETES: Final[Mapping[object, str]] = {"DELETE_ROW_ON_PK": "hard", "IGNORE_DELETE": "ignore"}
"""Words of Alibaba's connector for what becomes of deleted rows."""


class HologresSink(SqlSinkOptions):
    """Options of `sink:` with `type: hologres`."""

    port: ClassVar[int] = 80

    type: Literal["hologres"]
    """`hologres`."""

    strategy: Literal["STANDARD", "BROADEN", "ONLY_BIGINT_OR_TEXT"] = Field(
        "STANDARD", alias="sink.type-normalize-strategy"
    )
    """The types of columns that are made. `STANDARD`: those of the rows. `BROADEN`: `bigint` for integers, `text` for
    CHAR, VARCHAR and STRING, `double precision` for FLOAT and DOUBLE. `ONLY_BIGINT_OR_TEXT`: `bigint` for integers,
    `text` for all else. Hologres changes no types, so a wide column takes changes that would stop the run."""

    table_properties: dict[str, str] = Field(default_factory=dict, alias="table_property.*")
    """Properties of the tables that are made, in Hologres' words: `table_property.distribution_key`,
    `table_property.orientation`, `table_property.binlog.level` and more. Without `distribution_key`, rows are
    distributed by the primary key."""

    @model_validator(mode="before")
    @classmethod
    def _collect(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        found = {key.removeprefix(PREFIX): str(value) for key, value in data.items() if _is_property(key)}
        rest = {key: value for key, value in data.items() if not _is_property(key)}
        return {**rest, f"{PREFIX}*": {**rest.get(f"{PREFIX}*", {}), **found}}

    @field_validator("delete_strategy", mode="before")
    @classmethod
    def _translate(cls, value: object) -> object:
        return _DELETES.get(value, value) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check_properties(self) -> HologresSink:
        odd = [name for name in self.table_properties if _NAME.fullmatch(name) is None]
        if odd:
            raise OptionErrors(*((PREFIX + name, f"{PREFIX}{name} is no name of a property") for name in odd))
        return self

    def check_layout(self, layout: TableLayout) -> list[tuple[str, str]]:
        """Return what of a layout no table can have: names that no property has."""
        odd = [name for name, _ in layout.options if _NAME.fullmatch(name) is None]
        return [("table-options", f"{name[:100]!r} is no name of a property") for name in odd]

    @property
    def dialect(self) -> SqlDialect:
        """What Hologres does otherwise than PostgreSQL."""
        from ingest.sinks.postgres.dialect import HologresDialect  # noqa: PLC0415  (`check` needs no driver)

        return HologresDialect(self.strategy, self.table_properties)


def _is_property(key: str) -> bool:
    return key.startswith(PREFIX) and not key.endswith(".*")
