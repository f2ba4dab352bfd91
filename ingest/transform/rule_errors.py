"""Errors in the expressions of a rule: which expression is wrong for which table, and where in it."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeAlias

from ingest.errors import TransformError
from ingest.expressions import units
from ingest.model.table import show
from ingest.spark.readable import place_of, readable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ingest.expressions.clauses import Expression
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.schema.routes import TransformRule
    from ingest.transform.compiled_rule import Name

Where: TypeAlias = "tuple[str, str, Expression | None]"
"""The option that an expression is in, the result column that it computes, and the expression itself."""


class RuleErrors:
    """Errors of one rule for one table."""

    def __init__(self, rule: TransformRule, table: TableId, source: TableSchema) -> None:
        """Keep the parts."""
        self.rule, self.table, self.source = rule, table, source

    def missing(self, name: str, known: Iterable[str]) -> str:
        """Return why a name is unknown, with the most similar known name."""
        names = {one.casefold(): one for one in known}
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
            found = re.search(rf"(?<![\w.`]){path}(?![\w`])", text)
            start, length = (0, len(text)) if found is None else (found.start(), found.end() - found.start())
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
