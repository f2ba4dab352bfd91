"""Rules that are bound to tables: what one consists of, its errors, and changes that would give rows other keys."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeAlias

from ingest.errors import TransformError
from ingest.expressions import units
from ingest.model import types
from ingest.model.table import TableId, show
from ingest.model.types import DataType, NullType
from ingest.spark.readable import place_of, readable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ingest.encode.compiled_transform import CompiledTransform
    from ingest.expressions.clauses import Call, Expression
    from ingest.model.schema import TableSchema
    from ingest.schema.routes import TransformRule


@dataclass(frozen=True, slots=True)
class Name:
    """Place in an expression that has a name, which may be that of a column."""

    start: int
    stop: int
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """Place in an expression that has a column instead of a literal."""

    start: int
    stop: int
    value: str | int


Place: TypeAlias = "Name | Literal | Call"
"""Place in an expression that is replaced."""


@dataclass(frozen=True, slots=True)
class UdfCall:
    """One call of a user-defined function in a rule. Its results form a column of their own."""

    column: str
    function: str
    takes: tuple[DataType, ...]
    arguments: tuple[str, ...]
    """SQL of the arguments, over slots and over the columns of calls in lower layers."""
    layer: int


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """Result of binding a rule to a table."""

    transform: CompiledTransform
    schema: TableSchema
    results: dict[str, str]
    """SQL of each result, by its slot."""
    called: tuple[UdfCall, ...]
    literals: tuple[tuple[str, str | int], ...]
    """The columns that stand for literals in the expressions, each with its literal."""


Where: TypeAlias = "tuple[str, str, Expression | None]"
"""The option that an expression is in, the result column that it computes, and the expression itself."""


class RuleErrors:
    """Errors of one rule for one table."""

    def __init__(self, rule: TransformRule, table: TableId, source: TableSchema) -> None:
        """Keep the parts."""
        self.rule, self.table, self.source = rule, table, source

    def missing(self, name: str, known: Iterable[str]) -> str:
        """Return why a name is unknown, with the most similar known name."""
        names = {spelling.casefold(): spelling for spelling in known}
        near = get_close_matches(name.casefold(), names, 1)
        hint = f", did you mean {names[near[0]]!r}?" if near else ""
        shown = ", ".join(column.name for column in self.source.columns)
        return f"table {show(self.table)} has no column {name!r}{hint} (it has {shown or 'none'})"

    def explained(
        self, option: str, name: str, expression: Expression, exc: Exception, columns: Mapping[str, str]
    ) -> TransformError:
        """Return the error for an exception of Spark about an expression, without Spark's plan.

        `columns` has the names of columns by the SQL that stands for them.
        """
        text = expression.text
        start, length = 0, len(text)
        if "[INVALID_EXTRACT_BASE_FIELD_TYPE]" in str(exc):
            base = next((text for text in re.findall(r'from "([^"]+)"', str(exc))), "")
            return self.error(option, name, text, 0, length, no_fields(columns.get(base, base)), expression.at)
        if units.NO_TIME_OF_DAY in str(exc) and '"TIME(' in str(exc):
            return self.error(option, name, text, 0, length, units.of_a_time(text), expression.at)
        place = place_of(exc)
        if place is not None and expression.sql == text and "\n" not in text:
            start, length = min(place, length), 1
        return self.error(option, name, text, start, length, readable(exc, columns), expression.at)

    def misnamed(self, sql: str, given: Name, why: str, where: Where) -> TransformError:
        """Return the error of a wrong name.

        Where the SQL is not the author's text, the name is searched for in the author's text.
        """
        option, name, expression = where
        text = sql if expression is None else expression.text
        start, length = given.start, given.stop - given.start
        if text != sql:
            path = r"\s*\.\s*".join(map(re.escape, given.parts))
            match = re.search(rf"(?<![\w.`]){path}(?![\w`])", text)
            start, length = (0, len(text)) if match is None else (match.start(), match.end() - match.start())
        return self.error(option, name, text, start, length, why, 0 if expression is None else expression.at)

    def error(
        self, option: str, name: str, text: str, start: int, length: int, why: str, at: int = 0
    ) -> TransformError:
        """Return the error of an expression, with a line below it that marks the place.

        `start` and `length` are the place in `text`, in characters. `at` is the position of `text` in the option.
        """
        rule = self.rule
        what = f"{rule.place}.{option}" + (f", column {name!r}" if name else "")
        shown = text.replace("\n", " ")
        length = max(1, min(length, len(shown) - start))
        return TransformError(
            f"{what}, table {show(self.table)}: {why}\n  {shown}\n  {' ' * start}{'^' * length}",
            "correct the expression; ingest plan shows what each rule makes of each table",
        ).placed(rule.number, option, at + start, at + start + length)


def no_fields(name: str) -> str:
    """Return why a value has no fields, and what the author can write instead."""
    return (
        f"{name!r} is no object here but a value without fields: nested values are texts unless "
        f"json.infer-schema.flatten-nested-columns.enable makes columns of them; "
        f"JSON_VALUE({name}, '$.field') takes one out"
    )


def check_key(
    rule: TransformRule, before: CompiledRule, after: CompiledRule, was: TableSchema, now: TableSchema
) -> None:
    """Raise TransformError where a computed key could have another text than before for the same row.

    The result of any function may depend on the type of its argument. So no column that a key is computed from may get
    another type, unless the expression takes it as text.
    """
    known = {output.name: output.type for output in before.transform.outputs if output.copy_of is None}
    types_were = {column.name: column.type for column in was.columns}
    types_are = {column.name: column.type for column in now.columns}
    for output in after.transform.outputs:
        if output.name not in after.transform.key or output.copy_of is not None or output.name not in known:
            continue
        moved = [(name, types_were[name], types_are[name]) for name in sorted(output.needs & types_were.keys())]
        moved = [step for step in moved if not _is_steady(*step[1:], as_text=step[0] in output.as_texts)]
        if not moved and types.sort_of(known[output.name]) != types.sort_of(output.type):
            moved = [(output.name, known[output.name], output.type)]
        for name, old, new in moved[:1]:
            msg = (
                f"{rule.place}, table {show(after.transform.table)}: the key column {output.name!r} is computed by "
                f"{output.text}, and {name!r} was {types.name(old)} and is now {types.name(new)}: rows that were "
                "written before could get other keys"
            )
            hint = f"take it as CAST({name} AS STRING), which is one text for whole numbers and texts, and start over"
            if name in output.as_texts:  # a number with a fraction has another text in each type
                hint = f"declare {name} STRING in scan.value.initial-schemas.ddls, and start over"
            elif name == output.name:
                hint = f"make its result a text, CAST({output.text} AS STRING), and start over"
            raise TransformError(msg, hint)


def _is_steady(old: DataType, new: DataType, *, as_text: bool) -> bool:
    """Tell whether an expression gives the same result for a value after the type of its column changed."""
    if old == new or isinstance(old, NullType) or (types.is_text(old) and types.is_text(new)):
        return True
    return as_text and all(types.is_text(t) or types.is_whole(t) for t in (old, new))
