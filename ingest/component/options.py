"""What the options models of components are made of: their parent, and how groups of options are asked.

Keys are as the reference documents spell them; unknown keys are errors.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, NamedTuple, TypeAlias, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationInfo, WithJsonSchema

from ingest.model.text import TextError

if TYPE_CHECKING:
    from ingest.component.files import Files

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
AnyOptions: TypeAlias = Any
"""Options of a component, or the class of them, whose own attributes are asked for."""


def key(attribute: str) -> str:
    """Return the option key of an attribute that has no alias: `group_id` becomes `group-id`."""
    return attribute.replace("_", "-")


class Synonym(NamedTuple):
    """Another key of an option."""

    option: str
    """The key that the option has in its model."""
    deprecated: bool = False
    """True if a file that has the other key gets a warning."""


OPTIONS: Final = ConfigDict(
    frozen=True,
    extra="forbid",
    # Pydantic would quote the value, which may be a secret: errors quote the file themselves, where that is safe
    hide_input_in_errors=True,
    alias_generator=key,
    # Pydantic reads the source files for these descriptions, and a start should not wait for that
    use_attribute_docstrings="INGEST_DOCS" in os.environ,
)
"""The configuration of all models: frozen, unknown keys are errors, and keys are the fields' aliases.

Attribute docstrings are the documentation. They become the fields' descriptions only where the environment has
INGEST_DOCS, which `make docs` sets.
"""


class Options(BaseModel):
    """Parent of the options models of components.

    A group of options that several components have is a model of its own with the same configuration, which their
    classes inherit beside this one. Each class may have the methods of `Said`, and `with_files`, for its own fields.
    """

    model_config = OPTIONS

    codes: ClassVar[Mapping[str, str]] = {}
    """The codes of rejects that only this component makes, each with its meaning."""

    synonyms: ClassVar[Mapping[str, Synonym]] = {}
    """Other keys of options. Where a file has both, the option's own key counts."""

    def for_keys(self) -> Options:
        """Return the options of a format of values for keys that have no options of their own."""
        return self


Said: TypeAlias = Literal["warnings", "notes", "packages", "remarks", "shared_places"]
"""What a class says of its own options, each by a method that returns a list.

- `warnings`: options that are accepted and have no effect. An entry has the key, and the reason.
- `notes`: options whose files are not on this machine. An entry has the key, and the reason why a run would stop.
- `packages`: options that need an optional package. An entry has the key, and the name of the extra that installs it. A
  format's options have an empty key, which stands for the option that names the format.
- `remarks`: options whose text probably does not mean what its author meant. An entry has the key, and a TextError with
  the reason and the place.
- `shared_places`: paths that the driver and its tasks use: on a cluster each machine has to see them.
"""


def said(options: object, what: Said) -> Iterator[Any]:
    """Yield what each class of these options says, those of groups and parents first."""
    for cls in reversed(type(options).__mro__):
        if what in vars(cls):
            yield from vars(cls)[what](options)


def filled(options: T, files: Files) -> T:
    """Return options with what is in the files that they name, by `with_files` of each class; raises IngestError.

    The driver calls this once, before it or a worker connects.
    """
    for cls in reversed(type(options).__mro__):
        if "with_files" in vars(cls):
            options = vars(cls)["with_files"](options, files)
    return options


def holding(options: M, **attributes: object) -> M:
    """Return a copy of options with other values of private attributes."""
    made = options.model_copy()
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


WRITTEN: Final = "written"
"""The name of what a format's model is told at its validation: whether a sink writes the format."""


def is_written(info: ValidationInfo) -> bool:
    """Return whether the options of a format that are being validated are those of a sink."""
    return bool(info.context and info.context.get(WRITTEN))


def label_warning(name: str | None) -> list[tuple[str, str]]:
    """Return the warning of a component that has a name, as `warnings` has it."""
    return [] if name is None else [("name", "name has no effect: it is a label for people")]


class Labelled(BaseModel):
    """Options of a source, or a collector, that may have a name. The name is for people only."""

    model_config = OPTIONS

    name: str | None = None
    """A label for people; it has no effect."""

    def warnings(self) -> list[tuple[str, str]]:
        """Return the options that are accepted but have no effect: for each its key, and why it has none."""
        return label_warning(self.name)


class OptionErrors(ValueError):
    """Error about several options together. `problems` has the option's key and a message for each problem."""

    def __init__(self, *problems: tuple[str, str]) -> None:
        """Keep the options' keys, so that the loader can find their positions in the file."""
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
        raise ValueError("not a duration; write a number and a unit, like '100 ms', '5 s' or '5 min'")
    return int(found.group(1)) * unit


Duration = Annotated[
    float, BeforeValidator(_duration), WithJsonSchema({"type": ["string", "integer"], "examples": ["5 s", "5 min"]})
]
"""Duration in seconds.

It is written as a number and a unit (`5 min`); a number without a unit is milliseconds, as in Flink.
"""


def _split(value: object) -> object:
    """Return the names in a text, in their order. Raise TextError for one that is there twice, or for none."""
    if not isinstance(value, str):
        return value
    names: list[str] = []
    at = 0
    for part in value.split(";"):
        name = part.strip()
        if name in names:
            raise TextError(f"{name[:100]!r} is there twice", at + part.index(name), len(name))
        if name:
            names.append(name)
        at += len(part) + 1
    if not names:
        raise ValueError("names no column; columns are separated by ';'")
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
            raise TextError(f"{name[:100]!r} {what}", at + part.index(name), len(name))
        if name:
            names.append(name)
        at += len(part) + 1
    return tuple(names)
