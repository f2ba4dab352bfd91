"""Binding of one rule to one table at one version of its schema.

In: the rule's expressions. Out: SQL over slots instead of columns, the slots of the columns that it needs, and the
schema of the result. Never runs SQL; Spark only analyses it. Errors say which expression is wrong, and where in it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ingest.encode.compiled_transform import METADATA, CompiledTransform, Input, Output, is_ours
from ingest.errors import TransformError
from ingest.expressions.clauses import ALL, Expression
from ingest.model import types
from ingest.model.schema import Column, TableSchema
from ingest.model.table import TableId, show
from ingest.model.types import DataType, NullType
from ingest.transform.expression_binder import ExpressionBinder
from ingest.transform.rules import CompiledRule, Name, RuleErrors
from ingest.transform.spark_types import kept, next_slot, sent, sql_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ingest.schema.routes import TransformRule
    from ingest.transform.analyser import Analyser

_CAST: Final = re.compile(r"\bCAST\s*\(\s*$", re.IGNORECASE)
_AS_STRING: Final = re.compile(r"\s+AS\s+STRING\s*\)", re.IGNORECASE)


class Binder:
    """Binder of one rule to one table."""

    def __init__(
        self, analyser: Analyser, rule: TransformRule, table: TableId, source: TableSchema, *, templates: bool
    ) -> None:
        """Keep the parts. With `templates`, literals become columns, so that many rules share their expressions."""
        self.analyser, self.rule, self.table, self.source = analyser, rule, table, source
        self.templates = templates
        self.errors = RuleErrors(rule, table, source)
        self.expressions = ExpressionBinder(analyser, source, self.errors, templates=templates)

    def compile(self, number: int) -> CompiledRule:
        """Return the rule's transform, with this number, and its SQL. Raise TransformError."""
        rule, expressions = self.rule, self.expressions
        items = rule.projection
        known = [column.name for column in self.source.columns]
        texts = self.project(known)
        order = [*dict.fromkeys(name for i in items for name in (known if i.name == ALL else (i.name,)))] or known
        as_they_come = not items or items[0].name == ALL
        condition = None if rule.filter is None else expressions.bind("filter", "", rule.filter)
        wanted = [sql for sql, _ in expressions.computed.values()]
        result_types = self.analyse(wanted if condition is None else [*wanted, condition[0]])
        if condition is not None and not isinstance(result_types[-1], (type(types.BOOLEAN), NullType)):
            assert rule.filter is not None
            why = f"a filter is true or false, and this is {types.name(result_types[-1])}"
            raise self.errors.error("filter", "", rule.filter.text, 0, len(rule.filter.text), why, rule.filter.at)
        for (name, _), data_type in zip(texts.items(), result_types, strict=False):
            try:
                types.name(kept(data_type))
            except TypeError:
                why = f"a column cannot be of the type {sql_name(data_type)}: cast it to another"
                raise self.errors.error("projection", name, texts[name], 0, len(texts[name]), why) from None
        results: dict[str, str] = {}
        outputs = []
        counts = dict.fromkeys("sldb", 0)
        kinds = dict(zip(expressions.computed, result_types, strict=False))
        for name in dict.fromkeys(item.name for item in items):
            if name in expressions.copies:
                column = expressions.copies[name]
                outputs.append(Output(name, expressions.types[column], "", frozenset({column}), column, column))
            elif name in expressions.computed:
                sql, needs = expressions.computed[name]
                slot = next_slot(counts, kinds[name])
                results[slot] = sent(sql, kinds[name])
                item = next(item for item in reversed(items) if item.name == name)
                texts_of = frozenset() if item.expression is None else self.as_texts(item.expression)
                outputs.append(Output(name, kept(kinds[name]), slot, needs, texts[name], as_texts=texts_of))
        passes = None
        if condition is not None and rule.filter is not None:
            slot = next_slot(counts, types.BOOLEAN)
            results[slot] = f"CAST({condition[0]} AS BOOLEAN)"
            passes = Output("", types.BOOLEAN, slot, condition[1], rule.filter.text)
        schema = self.schema(order, {output.name: output.type for output in outputs})
        decisive = set(() if condition is None else condition[1])
        decisive.update(*map(expressions.sources, schema.primary_key))
        was: Output | None = None
        was_inputs: tuple[Input, ...] = ()
        new = expressions.computed.keys() | expressions.copies.keys()
        if condition is not None and passes is not None and not new & set(schema.primary_key):
            sql, was_inputs = self.of_the_row_before(condition[1])
            if was_inputs:
                was = replace(passes, slot=next_slot(counts, types.BOOLEAN))
                results[was.slot] = f"CAST({sql} AS BOOLEAN)"
        transform = CompiledTransform(
            number, self.table, tuple(expressions.inputs.values()), tuple(outputs), passes,
            None if as_they_come else tuple(order), frozenset(decisive), schema.primary_key, rule.soft_delete,
            was, was_inputs,
        )  # fmt: skip
        return CompiledRule(transform, schema, results, tuple(expressions.called.values()), tuple(expressions.literals))

    def project(self, known: Sequence[str]) -> dict[str, str]:
        """Compute those result columns that are not copies, and return the texts of their expressions by name.

        `known` has the names of the table's columns. Raise TransformError.
        """
        texts: dict[str, str] = {}
        for item in self.rule.projection:
            if item.expression is None:
                if item.name == ALL or item.name in known:
                    continue
                if item.name not in METADATA:
                    raise self.errors.error(
                        "projection",
                        item.name,
                        item.name,
                        0,
                        len(item.name),
                        self.expressions.missing(item.name),
                        item.at,
                    )
                self.expressions.computed[item.name] = self.expressions.bound(
                    item.name, (Name(0, len(item.name), (item.name,)),), "", ""
                )
                texts[item.name] = item.name
            elif (column := self.renamed(item.expression)) is not None:
                self.expressions.copies[item.name] = column
                self.expressions.computed.pop(item.name, None)
            else:
                self.expressions.copies.pop(item.name, None)
                self.expressions.computed[item.name] = self.expressions.bind("projection", item.name, item.expression)
                texts[item.name] = item.expression.text
        return texts

    def as_texts(self, expression: Expression) -> frozenset[str]:
        """Return the columns that an expression uses only as CAST(column AS STRING)."""
        cast: set[str] = set()
        other: set[str] = set()
        for name in self.analyser.names(expression.sql):
            before, after = expression.sql[: name.start], expression.sql[name.stop :]
            is_cast = _CAST.search(before) is not None and _AS_STRING.match(after) is not None
            (cast if is_cast else other).add(".".join(name.parts))
        return frozenset(cast - other)

    def renamed(self, expression: Expression) -> str | None:
        """Return the source column where an expression is only the name of one, else None."""
        names: tuple[Name, ...] = ()
        with suppress(Exception):  # the error is reported where the expression is bound
            names = self.analyser.names(expression.sql)
        if len(names) != 1 or (names[0].start, names[0].stop) != (0, len(expression.sql)):
            return None
        name = ".".join(names[0].parts)
        return name if any(column.name == name for column in self.source.columns) else None

    def of_the_row_before(self, needs: frozenset[str]) -> tuple[str, tuple[Input, ...]]:
        """Return the filter again, over its own slots, for the row before an update.

        Return an empty text where that row has to be computed separately: for user-defined functions, and for columns
        that are not of the table (metadata, time, random numbers).
        """
        if self.expressions.called or any(map(is_ours, needs)) or self.rule.filter is None:
            return "", ()
        again = Binder(self.analyser, self.rule, self.table, self.source, templates=self.templates)
        again.expressions.counts = self.expressions.counts
        again.project([column.name for column in self.source.columns])  # so that literals get the same names again
        sql, _ = again.expressions.bind("filter", "", self.rule.filter)
        return sql, tuple(slot_input for name, slot_input in again.expressions.inputs.items() if name in needs)

    def schema(self, order: Sequence[str], computed: Mapping[str, DataType]) -> TableSchema:
        """Return the columns and the key of the result.

        Raise TransformError where the result lacks a column of the key.
        """
        rule = self.rule
        key = rule.primary_key or self.source.primary_key
        unknown = [name for name in key if name not in order]
        if unknown:
            where = "primary-keys names" if rule.primary_key else "the primary key has"
            msg = (
                f"{rule.place}, table {show(self.table)}: {where} {unknown[0]!r}, but the result has only "
                f"{', '.join(order) or 'no column'}"
            )
            raise TransformError(msg, "take it into the projection, or name other primary-keys")
        nullable = {column.name: column.nullable for column in self.source.columns}
        columns = [
            Column(
                name,
                computed.get(name) or self.expressions.types[name],
                name not in key and (name in computed or nullable[name]),
            )
            for name in order
        ]
        return TableSchema(tuple(columns), key)

    def analyse(self, expressions: list[str]) -> list[DataType]:
        """Return the types of all expressions. Raise TransformError for the first one that Spark refuses."""
        slots = self.expressions.columns()
        if not expressions:
            return []
        try:
            return self.analyser.types_of(expressions, slots)
        except Exception as whole:
            places: list[tuple[str, str, Expression | None]] = [
                ("projection", item.name, item.expression)
                for item in self.rule.projection
                if item.name in self.expressions.computed
            ]
            if self.rule.filter is not None:
                places.append(("filter", "", self.rule.filter))
            for sql, (option, name, expression) in zip(expressions, places, strict=True):
                try:
                    self.analyser.types_of([sql], slots)
                except ValueError as exc:
                    text = name if expression is None else expression.text
                    at = 0 if expression is None else expression.at
                    raise self.errors.error(option, name, text, 0, len(text), str(exc), at) from exc
                except Exception as exc:
                    if expression is None:
                        raise
                    raise self.errors.explained(option, name, expression, exc, self.expressions.shown()) from exc
            raise whole from None
