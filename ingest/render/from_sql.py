"""A script of Flink SQL as a pipeline file.

In: a `Script`. Out: the text of a pipeline that `ingest check` accepts, and what of the script it does not have, each
with its line. Rules: docs/spec/command-line.md#commands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ingest.config.loader import load_text
from ingest.config.redaction import PLACEHOLDERS, is_secret, may_be_secret
from ingest.errors import ConfigError
from ingest.expressions.clauses import condition, projection
from ingest.expressions.lint import unknown_functions
from ingest.expressions.words import RESERVED
from ingest.formats import OF_ROWS
from ingest.formats.avro.table_writer import record_of
from ingest.model.reject import RowError
from ingest.model.text import TextError, one_line
from ingest.model.types import quoted
from ingest.render.first_pipeline import SCHEMA_LINE, Answers, sink_lines
from ingest.render.yaml_text import scalar
from ingest.schema.ddl import parse_tables
from ingest.schema.sql_script import Left, Script, ScriptColumn, ScriptTable, SelectItem, SqlCopy, Token
from ingest.sinks import SINKS

_READ: Final = ("kafka", "upsert-kafka")
_NEEDED: Final = {"properties.bootstrap.servers": "bootstrap", "topic": "topic"}
"""Options that a table of Kafka has to have, and the variables in their place where a script does not say them."""
_BARE: Final = re.compile(r"(?:VAR)?CHAR", re.IGNORECASE)
_AGGREGATES: Final = frozenset({
    "COUNT", "SUM", "AVG", "MIN", "MAX", "COLLECT", "LISTAGG", "FIRST_VALUE", "LAST_VALUE", "ROW_NUMBER", "RANK",
    "DENSE_RANK", "LAG", "LEAD", "STDDEV_POP", "STDDEV_SAMP", "VAR_POP", "VAR_SAMP", "VARIANCE", "TUMBLE",
    "TUMBLE_START", "TUMBLE_END", "TUMBLE_ROWTIME", "HOP", "HOP_START", "HOP_END", "SESSION", "SESSION_START",
    "SESSION_END", "OVER",
})  # fmt: skip


@dataclass(slots=True)
class Turned:
    """A pipeline, and what it lacks of the script."""

    text: str
    left: list[Left]


@dataclass(slots=True)
class _Section:
    """Options of a source or a sink; the lines of the script where they stand."""

    options: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)

    def set(self, name: str, value: str, line: int) -> None:
        self.options[name], self.lines[name] = value, line


_Line: TypeAlias = "tuple[str, _Section | None, str]"
"""A line of the file, and the option of the script that it holds."""


def pipeline_of(script: Script, name: str) -> Turned:
    """Return the pipeline of a script; `name` is the file's, for messages. Raise ConfigError where there is none."""
    return _Turning(script, name).turned()


class _Turning:
    def __init__(self, script: Script, name: str) -> None:
        self._script = script
        self._file = name
        self._left = [*script.left]
        self._copy = self._chosen()
        self._source = self._table(self._copy.source, "read")
        sink_tables = [table for table in script.tables if table.name[-1] == self._copy.sink[-1]]
        self._sink = sink_tables[0] if sink_tables else None
        self._from, self._to = _Section(), _Section()

    def turned(self) -> Turned:
        connector = _value(self._source, "connector")
        if connector not in _READ:
            msg = (
                f"{self._file}:{self._source.line}: table {self._source.name[-1]} has the connector {connector[:60]!r}"
            )
            raise ConfigError(
                msg, "a pipeline reads Kafka: kafka or upsert-kafka; take the query that reads such a table"
            )
        self._take_options(self._source, self._from)
        kind = self._take_sink()
        items = self._items()
        where = self._expression(self._copy.where, self._copy.line, "WHERE") if self._copy.where else ""
        if where and not self._is_right(where, self._copy.line, filtered=True):
            where = ""
        self._declare()
        rest = [*self._route(kind), *self._transform(kind, items, where)]
        while True:
            lines: list[_Line | str] = [
                *self._lines("source", connector, self._from),
                "",
                *self._lines("sink", kind, self._to),
                *rest,
            ]
            text = "\n".join(line for line, _, _ in _placed(lines)) + "\n"
            wrong = self._wrong(text, lines)
            if not wrong:
                break
            for section, option, why in wrong:
                if option in _NEEDED and "${" not in section.options[option]:  # examples have words for people there
                    section.options[option] = f"${{{_NEEDED[option]}}}"
                else:
                    del section.options[option]
                self._leave(section.lines[option], f"{option}: {why}")
        self._left.sort()
        return Turned(text, self._left)

    def _leave(self, line: int, what: str) -> None:
        untranslated = Left(line, one_line(what)[:300])
        if untranslated not in self._left:
            self._left.append(untranslated)

    # -- which tables ------------------------------------------------------------------------------------------------

    def _chosen(self) -> SqlCopy:
        """Return the copy that becomes the pipeline; one that is made up where the script has tables only."""
        copies, tables = self._script.copies, self._script.tables
        for other in copies[1:]:
            self._leave(
                other.line, f"INSERT INTO {other.sink[-1]}: a pipeline has one source and one sink; make another"
            )
        if copies:
            return copies[0]
        if not tables:
            msg = f"{self._file} has no CREATE TABLE … WITH that a pipeline could be made of"
            raise ConfigError(msg, "give a file with the tables, and INSERT INTO … SELECT where it has one")
        first, others = tables[0], tables[1:]
        star = (SelectItem((), "*", first.line),)
        for table in others[1:]:
            self._leave(table.line, f"table {table.name[-1]}: no INSERT INTO says what becomes of it")
        sink = others[0].name if others else ("print",)
        what = (
            f"rows of {first.name[-1]} go to {sink[-1]}" if others else "rows are printed: name a sink in their place"
        )
        self._leave(first.line, f"there is no INSERT INTO: {what}")
        return SqlCopy(sink, first.name, first.line, star)

    def _table(self, name: tuple[str, ...], what: str) -> ScriptTable:
        tables = [table for table in self._script.tables if table.name[-1] == name[-1]]
        if not tables:
            msg = f"{self._file}:{self._copy.line}: table {name[-1][:100]!r}, which is {what}, is not in the script"
            raise ConfigError(msg, "add its CREATE TABLE … WITH")
        return tables[0]

    # -- options -----------------------------------------------------------------------------------------------------

    def _take_options(self, table: ScriptTable, section: _Section) -> None:
        """Take a table's options, but its connector, with placeholders for secrets."""
        decrypted = _value(table, "dew.csms.decrypt.fields").replace(";", ",").split(",")
        for option, (text, line) in table.options.items():
            value = text
            if option == "connector":
                continue
            hidden = is_secret(option) or (may_be_secret(option) and "jaas" in option)
            if hidden and option not in decrypted and value and not PLACEHOLDERS.fullmatch(value):
                secret = re.sub(r"[^a-z0-9]+", "_", option.removeprefix("properties.").lower()).strip("_")
                self._leave(line, f"{option}: its value is a secret; give it as INGEST_SECRET_{secret.upper()}")
                value = f"${{secret_values.{secret}}}"
            section.set(option, value, line)

        for option in _NEEDED if _value(table, "connector") in _READ else ():
            if option not in section.options and not (option == "topic" and "topic-pattern" in section.options):
                name = _NEEDED[option]
                section.set(option, f"${{{name}}}", table.line)
                what = f"table {table.name[-1]}: the script does not say its {option}; give it by --set {name}=…"
                self._leave(table.line, what)

    def _take_sink(self) -> str:
        """Take the sink's options; return its type."""
        kind = "print" if self._sink is None else _value(self._sink, "connector")
        if self._sink is None or kind == "print":
            return "print"
        if kind not in SINKS or kind in {"file", "values"}:
            known = ", ".join(sink_type for sink_type in SINKS if sink_type not in {"file", "values"})
            what = f"table {self._sink.name[-1]}: there is no sink {kind[:60]!r} (known: {known}); rows are printed"
            self._leave(self._sink.line, what)
            return "print"
        self._take_options(self._sink, self._to)
        for option in ("tablename", "tableName", "table-name"):
            self._to.options.pop(option, None)
        return kind

    def _lines(self, section: str, kind: str, of: _Section) -> Iterator[_Line]:
        if section == "source":
            yield SCHEMA_LINE, None, ""
            yield (f"# Made of {one_line(self._file)}. Every option: ingest explain OPTION.", None, "")
        yield f"{section}:", None, ""
        yield f"  type: {scalar(kind)}", None, ""
        for option, value in of.options.items():
            yield f"  {scalar(option)}: {scalar(value)}", of, option
        if section == "sink" and kind not in {"print", "kafka", "upsert-kafka"}:
            options = {*of.options}
            for line in sink_lines(Answers("", "", None, "", kind)):
                if line.strip().partition(":")[0] not in options:
                    yield line, None, ""

    def _wrong(self, text: str, lines: Sequence[_Line | str]) -> list[tuple[_Section, str, str]]:
        """Return the options that a check refuses, each with its section and the reason.

        Raise ConfigError where it refuses something else.
        """
        loaded = load_text(self._file, text, "from-sql")
        errors = [problem for problem in loaded.diagnostics if problem.severity == "error"]
        placed = _placed(lines)
        problems: dict[tuple[int, str], tuple[_Section, str, str]] = {}
        for error in errors:
            _, section, option = placed[error.line - 1]
            if section is not None:
                problems[id(section), option] = (section, option, error.message)
        if errors and not problems:
            shown = "\n".join(problem.text() for problem in errors)
            raise ConfigError(
                f"{self._file} makes no valid pipeline:\n{shown}", "correct the script, or write the pipeline by hand"
            )
        return [*problems.values()]

    # -- columns -----------------------------------------------------------------------------------------------------

    @property
    def _format(self) -> str:
        return _value(self._source, "value.format") or _value(self._source, "format")

    def _declare(self) -> None:
        """Give the source its columns, where its messages do not say them, and the columns of the record."""
        source = self._source
        names = [column.metadata for column in source.columns if column.kind == "metadata"]
        if names:
            self._from.set("metadata.list", ", ".join(dict.fromkeys(names)), source.line)
        physical = [column for column in source.columns if column.kind == "physical"]
        if not physical or self._format not in OF_ROWS or source.more:
            return
        topics = [topic for topic in self._from.options.get("topic", "").split(";") if topic]
        if not topics or "${" in topics[0]:
            self._leave(
                source.line, f"columns of {source.name[-1]}: they come from the messages, as the topic is not known"
            )
            return
        columns = [f"{_quoted(column.name)} {self._type(column)}" for column in physical]
        key = [name for name in source.primary_key if name in {column.name for column in physical}]
        rest = [f"PRIMARY KEY ({', '.join(map(_quoted, key))}) NOT ENFORCED"] if key else []
        ddls = "; ".join(f"CREATE TABLE {_quoted(topic)} ({', '.join([*columns, *rest])})" for topic in topics)
        if self._format == "avro" and not any(name.endswith("avro.schema") for name in self._from.options):
            self._from.set("value.avro.schema", self._avro(ddls), source.line)
            return
        self._from.set("scan.value.initial-schemas.ddls", ddls, source.line)

    def _type(self, column: ScriptColumn) -> str:
        if _BARE.fullmatch(column.text):
            self._leave(
                column.line, f"{column.name} {column.text}: it is STRING here, and one character long in Flink SQL"
            )
            return "STRING"
        return column.text

    def _avro(self, ddls: str) -> str:
        """Return the schema that Flink derives of these columns."""
        try:
            schema = next(iter(parse_tables(ddls).values()))
            text = json.dumps(record_of(schema.columns, ("", "record")))
        except (TextError, RowError) as exc:
            msg = f"{self._file}:{self._source.line}: table {self._source.name[-1]}: {exc}"
            raise ConfigError(msg, "correct its columns") from exc
        return re.sub(r'"(?:local-)?timestamp-micros"', '"timestamp-millis"', text)

    def _items(self) -> list[tuple[str, str]] | None:
        """Return the columns of the result: their expressions and names. None where all columns are as they come."""
        source, sink = self._source, self._sink
        out: list[tuple[str, str]] = []
        plain = True
        for item in self._copy.items:
            if not item.tokens:
                for column in source.columns:
                    text = self._column(column)
                    if text:
                        out.append((text, column.name))
                        plain = plain and column.kind == "physical"
                continue
            if len(item.tokens) > 1 or item.tokens[0].name not in {column.name for column in source.columns}:
                plain = False
            text = self._expression(item.tokens, item.line, "SELECT")
            if text and self._is_right(f"{text} AS c", item.line):
                out.append((text, item.name))
        columns = [column for column in sink.columns if not column.virtual] if sink is not None else []
        targets = [*self._copy.columns] or [column.name for column in columns]
        listed = not source.more and bool(source.columns)
        names = targets if len(targets) == len(out) and listed and not (sink and sink.more) else []
        if targets and listed and not names:
            what = f"INSERT INTO {self._copy.sink[-1]}: {len(targets)} columns there, {len(out)} here; names stay"
            self._leave(self._copy.line, what)
        if sink is not None and columns:
            self._record_columns(columns)
        out = [(text, names[i] if names else name or f"column_{i + 1}") for i, (text, name) in enumerate(out)]
        moved = {column.name: column.metadata for column in columns if column.kind == "metadata"}
        out = [(text, moved.get(name, name)) for text, name in out]
        physical = [column.name for column in source.columns if column.kind == "physical"]
        same = plain and [name for _, name in out] == physical and [_bare(text) for text, _ in out] == physical
        star = any(not item.tokens for item in self._copy.items)
        if same or (star and not out):
            return None
        if star and (source.more or not physical):
            out = [("*", "*"), *((text, name) for text, name in out if _bare(text) != name)]
        return out

    def _record_columns(self, given: Sequence[ScriptColumn]) -> None:
        """Set `metadata.list`: the METADATA columns of the sink's table, which become parts of the Kafka record."""
        names = [column.metadata for column in given if column.kind == "metadata"]
        if names and _value(self._sink, "connector") in _READ:
            self._to.set("metadata.list", ", ".join(names), given[0].line)

    def _column(self, column: ScriptColumn) -> str:
        """Return the expression of a column of the source; empty where it has none."""
        if column.kind == "physical":
            return _quoted(column.name)
        if column.kind == "metadata":
            return _quoted(column.metadata)
        text = self._expression(column.expression, column.line, column.name)
        return text if text and self._is_right(f"{text} AS c", column.line) else ""

    def _expression(self, tokens: Sequence[Token], line: int, what: str) -> str:
        """Return an expression over the columns that the pipeline has; empty where it cannot have one."""
        shown = one_line(self._script.text[tokens[0].start : tokens[-1].end])[:100]
        for i, token in enumerate(tokens):
            called = i + 1 < len(tokens) and tokens[i + 1].word == "("
            if token.word in _AGGREGATES and (called or token.word == "OVER"):
                self._leave(line, f"{shown}: there are no aggregates and windows")
                return ""
            if token.word == "PROCTIME" and called:
                self._leave(line, f"{what} AS {shown}: there is no time of processing")
                return ""
            if token.word == "SELECT":
                self._leave(line, f"{shown}: there are no queries in expressions")
                return ""
        out: list[str] = []
        columns = {column.name: column for column in self._source.columns}
        tables = {self._copy.alias or self._source.name[-1], self._source.name[-1]}
        at, end = 0, tokens[0].start
        while at < len(tokens):
            token = tokens[at]
            named = token.kind in {"word", "quoted"}
            out.append(" " * (token.start > end))
            if named and at + 2 < len(tokens) and tokens[at + 1].word == "." and not _follows_dot(tokens, at):
                if token.name in tables and token.name not in columns:
                    end, at = tokens[at + 2].start, at + 2
                    continue
                if token.name not in columns:
                    self._leave(line, f"{shown}: {token.name} is another table")
                    return ""
            column = columns.get(token.name) if named and not _follows_dot(tokens, at) else None
            calls = at + 1 < len(tokens) and tokens[at + 1].word == "("
            if column is None or calls:
                out.append(token.text)
            elif column.kind == "metadata":
                out.append(_quoted(column.metadata))
            elif column.kind == "computed":
                inner = self._expression(column.expression, column.line, column.name)
                if not inner:
                    return ""
                out.append(f"({inner})")
            else:
                out.append(_quoted(column.name))
            end, at = token.end, at + 1
        return "".join(out).strip()

    def _is_right(self, text: str, line: int, *, filtered: bool = False) -> bool:
        """Return whether an expression can be used; leave one that cannot."""
        try:
            if filtered:
                condition(text)
            else:
                projection(text)
            wrong = next(unknown_functions(text, ()), None)
        except TextError as exc:
            wrong = exc
        if wrong is not None:
            self._leave(line, f"{text.removesuffix(' AS c')[:100]}: {wrong}")
        return wrong is None

    # -- routes and transforms ---------------------------------------------------------------------------------------

    def _route(self, kind: str) -> list[str]:
        """Return the route to the sink's table."""
        topic = self._to.options.get("topic", "")
        if kind == "upsert-kafka":
            self._to.options.pop("topic", None)
            same = topic == _value(self._source, "topic")
            target = self._copy.sink[-1] if same or not topic else topic
            if same:
                what = f"topic {topic}: it is read already, and no pipeline reads what it writes; the sink has {target}"
                self._leave(self._sink.line if self._sink is not None else self._copy.line, what)
        elif kind in {"print", "kafka"}:
            if kind == "kafka" and topic and topic == _value(self._source, "topic"):
                self._to.set("topic", self._copy.sink[-1], self._to.lines["topic"])
                what = f"topic {topic}: it is read already, and no pipeline reads what it writes; the sink has another"
                self._leave(self._to.lines["topic"], what)
            return []
        else:
            target = ".".join(self._copy.sink[-2:])
        plain = re.sub(r"[$\\]", "_", target)
        return ["", "route:", "  - source-table: \\.*", f"    sink-table: {scalar(plain)}"]

    def _transform(self, kind: str, items: list[tuple[str, str]] | None, where: str) -> list[str]:
        keyed = kind not in {"print", "kafka"}
        key = self._sink.primary_key if self._sink is not None and self._sink.primary_key else self._source.primary_key
        declared = key == self._source.primary_key and items is None
        named = None if items is None else {name for _, name in items}
        lacks = [name for name in key if named is not None and name not in named and "*" not in named]
        if lacks:
            self._leave(
                self._copy.line, f"PRIMARY KEY ({', '.join(key)}): {', '.join(lacks)} is no column of the result"
            )
        keys = key if keyed and key and not declared and not lacks and self._format in OF_ROWS else ()
        if items is None and not where and not keys:
            return []
        out = ["", "transform:", "  - source-table: \\.*"]
        if items is None:
            out.append("    projection: \\*")
        else:
            shown = [r"\*" if name == "*" else _named(text, name) for text, name in items]
            out.append("    projection: >-")
            out += [f"      {text}{',' if i < len(shown) - 1 else ''}" for i, text in enumerate(shown)]
        if where:
            out.append(f"    filter: {scalar(where)}")
        if keys:
            out.append(f"    primary-keys: {scalar(', '.join(keys))}")
        return out


def _placed(lines: Sequence[_Line | str]) -> list[_Line]:
    return [(line, None, "") if isinstance(line, str) else line for line in lines]


def _value(table: ScriptTable | None, option: str) -> str:
    return "" if table is None else table.options.get(option, ("", 0))[0]


def _quoted(name: str) -> str:
    """Return a name as expressions and DDL have it: in quotes where it may mean something else."""
    return f"`{name.replace('`', '``')}`" if name.upper() in _WORDS else quoted(name)


_WORDS: Final = RESERVED | {
    "TIMESTAMP", "DATE", "TIME", "OFFSET", "PARTITION", "USER", "TO", "VALUE", "YEAR", "MONTH", "DAY", "HOUR", "MINUTE",
    "SECOND", "PRIMARY", "KEY", "ROW", "CURRENT_DATE", "BY", "INDEX", "DEFAULT", "CHECK",
}  # fmt: skip
"""Words that are written in quotes where they are names."""


def _bare(text: str) -> str:
    return text[1:-1].replace("``", "`") if text.startswith("`") and text.endswith("`") and len(text) > 1 else text


def _named(text: str, name: str) -> str:
    return text if _bare(text) == name else f"{text} AS {_quoted(name)}"


def _follows_dot(tokens: Sequence[Token], at: int) -> bool:
    return at > 0 and tokens[at - 1].word == "."
