"""What every options model of a component has in common: the reference documents' keys, and nothing unknown."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, PrivateAttr, WithJsonSchema

if TYPE_CHECKING:
    from ingest.model.text import TextError


def key(attribute: str) -> str:
    """The option key of an attribute where no alias says otherwise: `group_id` is `group-id`."""
    return attribute.replace("_", "-")


class Options(BaseModel):
    """Frozen; unknown keys are errors; keys are aliases; attribute docstrings are the documentation.

    They are the fields' descriptions where the environment has INGEST_DOCS, as `make docs` sets it.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        # Errors are shown by what the file says, if at all
        hide_input_in_errors=True,
        alias_generator=key,
        # Pydantic reads the sources for them, which a start need not wait for
        use_attribute_docstrings="INGEST_DOCS" in os.environ,
    )

    def warnings(self) -> list[tuple[str, str]]:
        """Options that are understood and do nothing: the key to point at, and why."""
        return []

    def remarks(self) -> list[tuple[str, TextError]]:
        """Places in options' texts that probably mean something else than was meant: the key, and what and where."""
        return []


class Labelled(Options):
    """Options of what may have a name, which is for people only."""

    name: str | None = None
    """A label for people; it has no effect."""

    def warnings(self) -> list[tuple[str, str]]:
        """What the file says and what does nothing."""
        found = super().warnings()
        if self.name is not None:
            found.append(("name", "name has no effect: it is a label for people"))
        return found


class TypedOptions(Options):
    """Options of a format whose messages may declare their columns' types."""

    _declared: Mapping[tuple[str, ...], frozenset[str]] = PrivateAttr(default_factory=dict)

    def beside(self, declared: Mapping[tuple[str, ...], frozenset[str]]) -> Self:
        """Make the same options for a pipeline that declares types itself, of these columns of each table."""
        made = self.model_copy()
        made._declared = declared  # noqa: SLF001  (its own)
        return made

    def declared(self, table: tuple[str, ...]) -> frozenset[str]:
        """Name the columns of a table that are of the types that the pipeline declares, whatever messages say."""
        return self._declared.get(table, _NONE)


_NONE: Final[frozenset[str]] = frozenset()


class OptionErrors(ValueError):
    """What is wrong with options together: for each the option to point at, and why."""

    def __init__(self, *problems: tuple[str, str]) -> None:
        """Keep the options' keys, so that their positions in the file can be found."""
        super().__init__("; ".join(text for _, text in problems))
        self.problems = problems


_UNITS: Final = {
    "ms": 0.001, "millis": 0.001, "millisecond": 0.001, "milliseconds": 0.001,
    "s": 1, "sec": 1, "secs": 1, "second": 1, "seconds": 1,
    "m": 60, "min": 60, "minute": 60, "minutes": 60,
    "h": 3600, "hour": 3600, "hours": 3600, "d": 86400, "day": 86400, "days": 86400,
}  # fmt: skip
_DURATION: Final = re.compile(r"(-?\d+)\s*([a-z]*)")


def _duration(value: object) -> float:
    if isinstance(value, (int, float)):
        return float(value)
    found = _DURATION.fullmatch(str(value).strip().lower())
    unit = None if found is None else _UNITS.get(found.group(2) or "ms")
    if found is None or unit is None:
        msg = "not a duration; write a number and a unit, like '100 ms', '5 s' or '5 min'"
        raise ValueError(msg)
    return int(found.group(1)) * unit


Duration = Annotated[
    float, BeforeValidator(_duration), WithJsonSchema({"type": ["string", "integer"], "examples": ["5 s", "5 min"]})
]
"""Seconds, written as a number and a unit (`5 min`); a bare number is milliseconds, as in Flink."""
