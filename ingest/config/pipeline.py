"""The models of a pipeline file.

In: plain values of the file's sections. Out: frozen, checked models. The options of components are in the components'
own files; the models that all pipelines share are here.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit
from zoneinfo import available_timezones

from pydantic import BaseModel, ConfigDict, Field, field_validator

from ingest.component.options import Duration, Options
from ingest.config.redaction import HIDDEN, mask, may_be_secret
from ingest.deadletter.collector import DirtyDataCollector
from ingest.errors import ProgramMissing
from ingest.expressions.clauses import Item, condition, projection
from ingest.expressions.functions import load as load_function
from ingest.expressions.lint import taken
from ingest.expressions.user_code import travelling
from ingest.model.table import SelectorError, TableLayout, partition_keys, selector, table_options
from ingest.model.text import TextError, yaml_text
from ingest.schema.routes import KeyRule, LayoutRule, RouteRule, Rules, TransformRule

if TYPE_CHECKING:
    from ingest.expressions.functions import Function

_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_OFFSET: Final = re.compile(r"Z|(?:UTC|GMT|UT)?(?:[+-]\d{1,2}(?::\d\d){0,2})?")
"""Time zones that need no list: their distance from UTC."""


def _selector(text: str) -> str:
    try:
        selector(text)
    except SelectorError as exc:
        raise ValueError(f"not a table selector: {exc}") from None
    return text


class Route(Options):
    """One entry of `route:`: where the tables that match go."""

    source_table: str
    """Which tables: a regular expression over the whole table id, in which `.` is the separator, `\\.` the regex dot
    and `,` means *or*."""

    sink_table: str = Field(min_length=1)
    """The table, and for Kafka the topic, that they go to. `$1` is a capture group of `source-table`."""

    replace_symbol: str | None = None
    """A text in `sink-table` that stands for the source table's name."""

    description: str | None = None
    """For people."""

    _check_selector = field_validator("source_table")(_selector)

    def warnings(self) -> list[tuple[str, str]]:
        """Return the options that are accepted but have no effect: for each its key, and why it has none."""
        if self.replace_symbol is None or self.replace_symbol in self.sink_table:
            return []
        return [("replace-symbol", "replace-symbol has no effect: sink-table does not contain it")]


class Transform(Options):
    """One entry of `transform:`. The first rule that matches a table counts."""

    source_table: str
    """Which tables, as in `route:`."""

    primary_keys: str | None = None
    """The primary key's columns, separated by commas; for tables whose messages have no key."""

    projection: str | None = None
    """The columns of the result, separated by commas: `\\*` (or `*`) for all of them, a column's name, or an expression
    of Spark SQL's with a name, `UPPER(name) AS name`. Default: all."""

    filter: str | None = None
    """A condition of Spark SQL's. Rows that it is not true for do not reach the sink; an update of a row that begins or
    ceases to pass becomes an insert or a delete."""

    partition_keys: str | None = None
    """The partitions of tables that the sink makes, as a list: `region, day(created_at), bucket(16, id)`. Known are
    `year`, `month`, `day`, `hour`, `bucket(N, …)`, `truncate(N, …)`, as far as the sink has them. A table that is there
    stays as it is."""

    table_options: str | None = None
    """Options of tables that the sink makes, `key=value,…`: properties in a lake, storage parameters in PostgreSQL. A
    table that is there stays as it is."""

    table_options_delimiter: str = Field(",", alias="table-options.delimiter", min_length=1)
    """What is between the entries of `table-options`."""

    converter_after_transform: Literal["SOFT_DELETE"] | None = None
    """`SOFT_DELETE`: a delete becomes an insert of its row; `__data_event_type__` still is `-D` in expressions."""

    description: str | None = None
    """For people."""

    _check_selector = field_validator("source_table")(_selector)

    @property
    def key(self) -> tuple[str, ...]:
        """Return the names of the primary key's columns. Empty where the option is not given."""
        return tuple(part.strip() for part in (self.primary_keys or "").split(",") if part.strip())

    @field_validator("primary_keys")
    @classmethod
    def _check_key(cls, value: str | None) -> str | None:
        seen: set[str] = set()
        at = 0
        for part in (value or "").split(","):
            name = part.strip()
            if name in seen:
                raise TextError(f"{name[:100]!r} is there twice", at + part.index(name), len(name))
            seen.update({name} if name else ())
            at += len(part) + 1
        return value

    @field_validator("projection")
    @classmethod
    def _check_projection(cls, value: str | None) -> str | None:
        if value is not None and value.strip() not in {"*", "\\*"}:
            projection(value)
        return value

    @field_validator("filter")
    @classmethod
    def _check_filter(cls, value: str | None) -> str | None:
        if value is not None:
            condition(value)
        return value

    @field_validator("partition_keys")
    @classmethod
    def _check_partition_keys(cls, value: str | None) -> str | None:
        partition_keys(value or "")
        return value

    @property
    def layout(self) -> TableLayout:
        """How the sink lays out the tables that it makes. Raise TextError for options that are not `key=value`."""
        options = table_options(self.table_options or "", self.table_options_delimiter)
        return TableLayout(partition_keys(self.partition_keys or ""), options)

    def warnings(self) -> list[tuple[str, str]]:
        """Return the options that have no effect: for each its key, and why it has none."""
        if self.table_options is None and "table_options_delimiter" in self.model_fields_set:
            return [("table-options.delimiter", "table-options.delimiter has no effect without table-options")]
        return []

    def rule(self, number: int) -> TransformRule:
        """Return the rule for this entry's rows. `number` is the position of the entry in the list."""
        plain = self.projection is None or self.projection.strip() in {"*", "\\*"}
        items: tuple[Item, ...] = ()
        wanted = None
        if not plain or self.filter is not None:
            items = () if plain or self.projection is None else projection(self.projection)
            wanted = None if self.filter is None else condition(self.filter)
        return TransformRule(
            number, self.source_table, items, wanted, self.key, self.converter_after_transform == "SOFT_DELETE"
        )


class UserFunction(Options):
    """One entry of `pipeline.user-defined-function:`."""

    name: str
    """What the function is called in expressions; case does not matter."""

    python: str
    """`module:function`. The module is looked for beside the pipeline file and where Python finds all others; the
    function's annotations say what it takes and gives."""

    @field_validator("name")
    @classmethod
    def _check_name(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
            raise ValueError("a function's name has letters, digits and '_' only")
        if taken(value):
            raise ValueError(f"{value!r} is a word of Spark SQL, or of Flink SQL, already")
        return value

    def load(self) -> Function:
        """Return the function. Imports its module.

        Raise FunctionError where that fails, or where the function is not suitable.
        """
        return load_function(self.name, self.python)


class MetricsOptions(Options):
    """Options of where metrics and health go."""

    metrics_port: int | None = Field(None, alias="metrics.port", ge=0, le=65_535)
    """A port that answers to `/metrics` (Prometheus), `/livez` and `/readyz`. 0 takes any, and says which.
    Default: none. `--metrics` wins."""

    metrics_host: str = Field("0.0.0.0", alias="metrics.host", min_length=1)  # noqa: S104  (it is asked from elsewhere)
    """The address on which that port listens."""

    metrics_password: str | None = Field(None, alias="metrics.password", min_length=1)
    """A password without which that port does not answer to `/metrics`, and says no reasons: HTTP Basic, with the user
    `ingest`. Take a secret: `${secret_values.…}`."""

    metrics_file: str | None = Field(None, alias="metrics.file", min_length=1)
    """A file that gets the metrics every few seconds and at the end, for the text-file collector of a node exporter."""

    metrics_push: str | None = Field(None, alias="metrics.push-url")
    """A push gateway of Prometheus' that gets the metrics when the run begins, every minute, and when it ends:
    `http://gateway:9091`, also with `user:password@`. For runs that are over before anyone asks."""

    metrics_otlp: str | None = Field(None, alias="metrics.otlp-url")
    """A collector of OpenTelemetry that gets the metrics every minute and at the end, by OTLP over HTTP:
    `http://collector:4318/v1/metrics`. Interval, headers and certificates are those of OpenTelemetry's own
    variables, as `OTEL_METRIC_EXPORT_INTERVAL`. It needs the package opentelemetry-sdk:
    `pip install 'ingest[opentelemetry]'`."""

    metrics_tables: int = Field(1_000, alias="metrics.max-tables", ge=0)
    """Tables that have metrics of their own; those of all others are added up as `(others)`."""

    liveness_deadline: Duration = Field(300.0, alias="liveness.deadline", gt=0)
    """`/livez` fails when for so long no batch completed and the run has not waited for anything either."""

    def packages(self) -> list[tuple[str, str]]:
        """Return the options that need packages which may be missing: for each its key, and the name of the extra."""
        return [] if self.metrics_otlp is None else [("metrics.otlp-url", "opentelemetry")]

    @field_validator("metrics_push")
    @classmethod
    def _check_url(cls, value: str | None) -> str | None:
        if value is not None and not is_gateway(value):
            raise ValueError("a push gateway is at a URL like http://gateway:9091")
        return value

    @field_validator("metrics_otlp")
    @classmethod
    def _check_collector(cls, value: str | None) -> str | None:
        if value is not None and (not is_gateway(value) or "@" in urlsplit(value).netloc):
            msg = "a collector is at a URL like http://c:4318/v1/metrics; passwords are in OTEL_EXPORTER_OTLP_HEADERS"
            raise ValueError(msg)
        return value


def is_gateway(text: str) -> bool:
    """Return whether a text is the URL of a server."""
    try:
        url = urlsplit(text)
        return url.scheme in {"http", "https"} and bool(url.hostname) and url.port != 0
    except ValueError:
        return False


class PipelineOptions(MetricsOptions):
    """The entries of `pipeline:`. Keys with dots may be written nested."""

    name: str = "pipeline"
    """The pipeline's name: its checkpoint, its consumer group. Default: the file's name without its ending."""

    parallelism: int | None = Field(None, ge=1, le=10_000)
    """How many tasks work at once, and may change between runs. Default: as many as Spark had slots when the checkpoint
    was made."""

    batch_interval: Duration = Field(0.0, ge=0)
    """At least this long from the start of one batch to the next. Zero: a batch starts as soon as there are records."""

    behavior: Literal["ignore", "lenient", "try_evolve", "evolve", "exception"] = Field(
        "lenient", alias="schema.change.behavior"
    )
    """What to do when a table changes. `ignore`: only new tables reach the sink, new columns are left out and counted.
    `lenient`, `evolve`: apply it (a new column is last and nullable, a missing one stays and is null), and stop where
    the sink's table cannot take it. `try_evolve`: leave a column out instead that the sink's table cannot take, and
    count its values; one that does not fit a column as it is becomes null. `exception`: stop at
    anything but a new table."""

    route_mode: Literal["ALL_MATCH", "FIRST_MATCH"] = Field("ALL_MATCH", alias="route-mode")
    """Whether a table goes to the sink tables of all the routes that match, or of the first only."""

    local_time_zone: str = Field("UTC", alias="local-time-zone")
    """The time zone of functions of time in `transform`: `UTC`, `Europe/Berlin` or `+02:00`. The machine's own does not
    matter."""

    functions: tuple[UserFunction, ...] = Field((), alias="user-defined-function")
    """Functions of your own for expressions in `transform`: a list of `name` and `python: module:function`."""

    max_tables: int = Field(10_000, ge=1)
    """More tables than this are rejects: a cap against runaway or hostile input."""

    max_columns: int = Field(2_000, ge=1)
    """A row that would give its table more columns than this is a reject."""

    collector: DirtyDataCollector | None = Field(None, alias="dirty-data.collector")
    """Where rejects go, beside being counted; its own options are below. Default: a warning for each of the first."""

    variables: dict[str, str] = Field(default_factory=dict, alias="variables")
    """Values for `${name}` placeholders; `--set name=value` wins."""

    @field_validator("name")
    @classmethod
    def _check_name(cls, value: str) -> str:
        if not _NAME.fullmatch(value) or value.strip(".") == "":
            raise ValueError("a pipeline's name has letters, digits, '.', '_' and '-' only")
        return value

    @field_validator("local_time_zone")
    @classmethod
    def _check_zone(cls, value: str) -> str:
        names = set() if _OFFSET.fullmatch(value) else available_timezones()
        if names and value not in names:
            near = get_close_matches(value, names, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"{value[:100]!r} is no time zone, like 'UTC', 'Europe/Berlin' or '+02:00'{hint}")
        return value


class Pipeline(BaseModel):
    """A pipeline file after the check, with all placeholders filled in."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: Any
    """Options of the source, an instance of a class in `ingest.sources.SOURCES`."""
    sink: Any
    """Options of the sink, an instance of a class in `ingest.sinks.SINKS`."""
    route: tuple[Route, ...] = ()
    transform: tuple[Transform, ...] = ()
    pipeline: PipelineOptions
    warnings: tuple[str, ...] = Field(default=(), exclude=True)
    """Warnings for the file's author. They do not stop a run."""
    secrets: frozenset[str] = Field(default=frozenset(), exclude=True, repr=False)
    file: str = Field(default="FILE", exclude=True)
    """The file, as it was named. Of a text that is in no file what stands for one."""
    folder: Any = Field(default=None, exclude=True)
    """Directory of the file, as a Path. None for a text that is in no file."""

    lacking: str = Field(default="", exclude=True)
    """What is not installed on this machine of the packages that the pipeline needs; empty where all are."""

    def require_packages(self) -> None:
        """Raise ProgramMissing where a package that the pipeline needs is not installed on this machine."""
        if self.lacking:
            raise ProgramMissing(self.lacking, "install it, then run the pipeline again")

    def describe(self) -> dict[str, str]:
        """Return the options that are set, by their place in the file and as it writes them, without any secret.

        People and checkpoints read it.
        """
        out: dict[str, str] = {}

        def add(prefix: str, value: object) -> None:
            if isinstance(value, BaseModel):
                for attribute in sorted(value.model_fields_set):
                    alias = type(value).model_fields[attribute].alias or attribute
                    if alias != "*format":
                        add(f"{prefix}.{alias}", getattr(value, attribute))
                    else:
                        add(prefix, value.__dict__[attribute])
            elif isinstance(value, dict):
                for key, item in value.items():
                    add(f"{prefix.removesuffix('*')}{'' if prefix.endswith('*') else '.'}{key}", item)
            elif isinstance(value, tuple):
                for i, item in enumerate(value):
                    add(f"{prefix}[{i}]", item)
            elif value is not None:
                hide = may_be_secret(prefix.partition(".")[2])
                out[prefix] = HIDDEN if hide else mask(yaml_text(value), self.secrets)

        for section in ("source", "sink", "route", "transform", "pipeline"):
            add(section, getattr(self, section))
        return out

    @property
    def functions(self) -> tuple[Function, ...]:
        """Return the user-defined functions, ready to be sent to workers.

        Raise FunctionError where one cannot be loaded.
        """
        if not self.pipeline.functions:
            return ()
        functions = tuple(entry.load() for entry in self.pipeline.functions)
        travelling((function.call.__module__ for function in functions), self.folder)
        return functions

    @property
    def rules(self) -> Rules:
        """Return the rules for whole tables: routes, keys and transforms."""
        return Rules(
            tuple(RouteRule(r.source_table, r.sink_table, r.replace_symbol) for r in self.route),
            self.pipeline.route_mode == "FIRST_MATCH",
            tuple(KeyRule(t.source_table, t.key) for t in self.transform),
            tuple(t.rule(i) for i, t in enumerate(self.transform)),
            tuple(LayoutRule(t.source_table, t.layout) for t in self.transform),
        )
