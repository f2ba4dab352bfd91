"""What sinks have in common: options, what a sink does as data, options of sinks of tables, and the simplest writer.

Rules: docs/spec/schema-changes.md#which-events-reach-the-sink, docs/spec/sinks.md#deleted-rows-of-tables,
#changes-that-come-out-of-order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, field_validator, model_validator

from ingest.component.options import OPTIONS, OptionErrors, Options, label_warning
from ingest.model.commit import CommitScope, ResumePoint
from ingest.model.numbers import Numbers
from ingest.model.table import TableId, show

FAMILIES: Final = (
    "all", "add", "alter", "create", "drop", "rename", "truncate", "table", "column", "add.column",
    "alter.column.type", "create.table", "drop.column", "drop.table", "rename.column", "truncate.table",
)  # fmt: skip
"""Names of schema changes that the two options may hold. Changes that drop or rename do not occur."""


def _split(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


Changes = Annotated[tuple[str, ...], BeforeValidator(_split)]


@dataclass(frozen=True)
class SinkCapabilities:
    """What a sink does with rows, by its options: the driver and tasks go by it, whatever the sink is."""

    needs_key: bool = True
    """Only tables with a primary key can be written."""
    writes_keys: bool | None = None
    """Records are found again by their key, so that a row has to keep it. None: as `needs_key` says."""
    key_format: str | None = None
    """The format of keys, where an option chooses one."""
    changelog: bool = True
    """An insert is written otherwise than an update, or the row before a change is shown."""
    supersedes: bool = False
    """A row that comes again takes the place of the one that is there, so that the last state stays."""
    keeps_states: bool = False
    """Its tables keep each state of a row, so that one that comes again is there twice."""
    writes_parts: bool = False
    """Of a row it writes the columns that came, and leaves the others as they are."""
    sequence_by: str | None = None
    """The column that says which of two changes of a row is the newer one."""
    guarantee: Literal["none", "at-least-once", "exactly-once"] = "at-least-once"
    numbers: Numbers = Numbers.TEXTS
    """What becomes of a number that no binary number is."""
    infinite_times: bool = False
    """Times have `infinity` and `-infinity`."""
    most_per_batch: int | None = None
    """Records of a shard in one batch, where the sink cannot take any number."""
    rest_s: float = 0.0
    """The time in seconds between two batches that begin when all was read: where each batch costs something."""
    holds_back: bool = False
    """Writers hold records back by their keys, so that they pass through Python."""
    lays_out: tuple[str, ...] = ()
    """Those of `partition-keys` and `table-options` that the sink follows in tables that it makes: `check_layout`
    returns what of a layout no table can have, as pairs of the option and the reason."""
    packages: tuple[str, ...] = ()
    """The names of the extras that the sink needs (`ingest.packages.EXTRAS`)."""
    names_code: bool = False
    """An option names code of the user's: `load_code` imports it and returns what is wrong with it, as pairs of the
    option and the reason; `packed(folder)` returns the options with the code, for workers, and raises ConfigError."""

    def __post_init__(self) -> None:
        if self.writes_keys is None:
            object.__setattr__(self, "writes_keys", self.needs_key)


class SinkOptions(Options):
    """Options that sinks share."""

    name: str | None = None
    """A label for people; it has no effect."""

    formats: ClassVar[str | None] = None

    @property
    def capabilities(self) -> SinkCapabilities:
        """What the sink does, by these options. A class variable does where no option bears on it."""
        return SinkCapabilities()

    def warnings(self) -> list[tuple[str, str]]:
        """Return the options that are accepted but have no effect: for each its key, and why it has none."""
        return label_warning(self.name)

    def packages(self) -> list[tuple[str, str]]:
        """Return the options that need packages which may be missing: for each its key, and the name of the extra."""
        return [("type", name) for name in self.capabilities.packages]

    parallelism: int | None = Field(None, alias="sink.parallelism", ge=1, le=10_000)
    """How many tasks write at once, at most."""

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
                raise ValueError(f"{change[:60]!r} is no schema change (known: {', '.join(FAMILIES)})")
        return value

    def place_of(self, _table: TableId) -> str:
        """Return where a sink table's rows are; empty where nothing but its id says that."""
        return ""

    def prefix(self, _pipeline: str) -> str | None:
        """Return what the names of its transactions begin with; None where it has none."""
        return None

    @property
    def chosen_formats(self) -> tuple[Any, ...]:
        """The options of the formats of values and, where they have any, of keys."""
        return ()

    def unregistered(self) -> Self:
        """Return these options for rows that are written nowhere: no schema registry is asked."""
        return self


class PlainWriter(ABC):
    """The base of writers whose tasks always start where the plan says."""

    failures = 0
    leaving_out: None = None
    by_one: None = None
    reporting: None = None

    def begin(self, _scope: CommitScope) -> ResumePoint | None:
        """Return None: it starts where the plan says."""
        return None

    def delivered(self) -> list[Any]:
        """Return nothing for the driver."""
        return []

    @abstractmethod
    def abort(self) -> None:
        """Give up what was written since the last commit."""

    def close(self) -> None:
        """Give up what was not committed: there is no connection."""
        self.abort()


class RowOptions(BaseModel):
    """Options of a sink whose tables can lose rows, and that can compare a change with the row that is there."""

    model_config = OPTIONS

    delete_strategy: Literal["hard", "soft", "ignore"] = Field("hard", alias="sink.delete-strategy")
    """The fate of a row that is deleted at the source. `hard`: it is removed. `soft`: it stays, and its column
    `sink.delete-column` becomes true, until a row of that key comes again. `ignore`: nothing, it stays as it was."""

    delete_column: str = Field("_deleted", alias="sink.delete-column", min_length=1)
    """With `soft`: the column that says whether a row is deleted. It is added to the tables."""

    sequence_by: str | None = Field(None, alias="sink.sequence-by", min_length=1)
    """The column that says which of two changes of a row is the newer one, such as a version or a time. A change whose
    value is smaller than the one of the row is left out, and counted. Needs `sink.delete-strategy: soft` or `ignore`.
    Default: changes count in the order in which they come."""

    @model_validator(mode="after")
    def _check_deletes(self) -> Self:
        if "delete_column" in self.model_fields_set and self.deleted is None:
            raise OptionErrors(("sink.delete-column", "sink.delete-column needs sink.delete-strategy: soft"))
        return self

    @property
    def removes_rows(self) -> bool:
        """True if nothing is left of a row that is deleted."""
        return self.delete_strategy == "hard"

    @property
    def deleted(self) -> str | None:
        """The column that says of a row that it is deleted; None where no row stays for that."""
        return self.delete_column if self.delete_strategy == "soft" else None

    @model_validator(mode="after")
    def _check_sequence(self) -> Self:
        if self.sequence_by is not None and self.removes_rows:
            text = (
                "sink.sequence-by needs sink.delete-strategy: soft, or ignore: with hard, an older change would bring a"
                " row back that is gone"
            )
            raise OptionErrors(("sink.sequence-by", text))
        return self


def no_sequence(table: TableId, by: str) -> str:
    """Return what is said of a table that lacks the column."""
    return (
        f"the table {show(table)} has no column {by!r} (sink.sequence-by): its changes count in the order in which they"
        " come"
    )
