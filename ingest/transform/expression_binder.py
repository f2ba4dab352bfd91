"""Binding of expressions to the columns of one table.

In: expressions. Out: SQL over slots instead of columns, and the slots of the columns that it needs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ingest.encode.compiled_transform import METADATA, Input, is_ours
from ingest.expressions.clauses import Call, Expression, calls, template
from ingest.expressions.rewrites import DICE, NOW
from ingest.model import types
from ingest.model.types import DataType, NullType
from ingest.transform.rules import Literal, Place, RuleErrors, UdfCall, Where, no_fields
from ingest.transform.spark_types import literal_type, next_slot, received, sql_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.errors import TransformError
    from ingest.model.schema import TableSchema
    from ingest.transform.analyser import Analyser

_MAX_SQL: Final = 1 << 20


class ExpressionBinder:
    """Binder of the expressions of one rule, which share slots, literals and calls."""

    def __init__(self, analyser: Analyser, source: TableSchema, errors: RuleErrors, *, templates: bool) -> None:
        """Keep the parts. With `templates`, literals become columns, so that many rules share their expressions."""
        self.analyser, self.errors = analyser, errors
        self.templates = templates
        self.literals: list[tuple[str, str | int]] = []
        self.types: dict[str, DataType] = {column.name: column.type for column in source.columns}
        self.types.update((name, types.STRING) for name in METADATA if name not in self.types)
        self.inputs: dict[str, Input] = {}
        self.counts = dict.fromkeys("sldb", 0)
        self.computed: dict[str, tuple[str, frozenset[str]]] = {}
        """Computed columns by name: their SQL over slots, and the source columns that they need."""
        self.copies: dict[str, str] = {}
        """Renamed columns: the source column by the new name."""
        self.called: dict[tuple[str, tuple[str, ...]], UdfCall] = {}
        """Calls by function and arguments, so that equal calls are made once."""

    def bind(self, option: str, name: str, expression: Expression) -> tuple[str, frozenset[str]]:
        """Return an expression as SQL over slots, and the source columns that it needs. Raise TransformError."""
        literals: tuple[tuple[str, str | int], ...] = ()
        if self.templates:
            sql, literals = template(expression.sql)
            expression = replace(expression, sql=sql)
        try:
            names = self.analyser.names(expression.sql)
            function_calls = calls(expression.sql, self.analyser.functions) if self.analyser.functions else ()
        except ValueError as exc:
            raise self.errors.error(
                option, name, expression.text, 0, len(expression.text), str(exc), expression.at
            ) from exc
        except Exception as exc:
            raise self.errors.explained(option, name, expression, exc, self.shown()) from exc
        values = dict(literals)
        places = [Literal(n.start, n.stop, values[n.parts[0]]) if n.parts[0] in values else n for n in names]
        return self.bound(expression.sql, (*places, *function_calls), option, name, expression)

    def bound(
        self, sql: str, unsorted: Sequence[Place], option: str, name: str, expression: Expression | None = None
    ) -> tuple[str, frozenset[str]]:
        """Return SQL with slots in place of names, and the source columns that it needs.

        Results of calls replace the calls of user-defined functions. Raise TransformError.
        """
        needs: set[str] = set()
        places = sorted(unsorted, key=lambda place: (place.start, -place.stop))
        slotted = self.rendered(sql, (0, len(sql)), places, needs, (option, name, expression))
        if len(slotted) > _MAX_SQL:
            raise self.errors.error(option, name, sql, 0, len(sql), "too long with all that it refers to")
        return slotted, frozenset(needs)

    def rendered(self, sql: str, part: tuple[int, int], places: Sequence[Place], needs: set[str], where: Where) -> str:
        """Return a part of an expression with slots. Add the source columns in it to `needs`. Raise TransformError."""
        out: list[str] = []
        at, end = part
        for place in places:
            if place.start < at or place.stop > end:
                continue  # outside of this part, or inside a call that is already replaced
            if isinstance(place, Call):
                out += (sql[at : place.start], self.call(sql, place, places, needs, where))
                at = place.stop
                continue
            if isinstance(place, Literal):
                column = f"{'_text' if isinstance(place.value, str) else '_number'}{len(self.literals)}"
                self.literals.append((column, place.value))
                out += (sql[at : place.start], column)
                at = place.stop
                continue
            head, *rest = place.parts
            dotted = ".".join(place.parts)
            if head in self.computed and head not in self.types:
                column_sql, sources = self.computed[head]
                column_sql = f"({column_sql})"
                needs |= sources
            elif head in self.copies and head not in self.types:
                head = self.copies[head]
                column_sql = self.column(head)
                needs.add(head)
            elif rest and dotted in self.types and types.is_text(self.types.get(head, types.STRING)):
                column_sql, rest = self.column(dotted), []
                needs.add(dotted)
            elif head in self.types or is_ours(head):
                if rest and types.is_text(self.types.get(head, types.STRING)):
                    raise self.errors.misnamed(sql, place, no_fields(head), where)
                column_sql = self.column(head)
                needs.add(head)
            else:
                raise self.errors.misnamed(sql, place, self.missing(head), where)
            out += (sql[at : place.start], column_sql, *(f".`{part}`" for part in rest))
            at = place.stop
        return "".join((*out, sql[at:end]))

    def call(self, sql: str, place: Call, places: Sequence[Place], needs: set[str], where: Where) -> str:
        """Return SQL for the result of a call. The call itself is computed before the expression around it.

        Raise TransformError for a wrong number of arguments, for wrong types, and for a call in a lambda.
        """
        option, name, expression = where
        function = self.analyser.functions[place.function]
        text = sql if expression is None else expression.text
        begin = 0 if expression is None else expression.at

        def wrong(why: str) -> TransformError:
            same = expression is not None and expression.sql == text
            start, length = (place.start, place.stop - place.start) if same else (0, len(text))
            return self.errors.error(option, name, text, start, length, f"function {function.name}: {why}", begin)

        least = sum(not parameter.optional for parameter in function.takes)
        if not least <= len(place.arguments) <= len(function.takes):
            counts = f"{least}" if least == len(function.takes) else f"{least} to {len(function.takes)}"
            raise wrong(f"takes {counts} arguments, not {len(place.arguments)}")
        if place.in_lambda:
            raise wrong("cannot be called in a lambda, nor with one")
        arguments = [self.rendered(sql, part, places, needs, where) for part in place.arguments]
        try:
            argument_types = self.analyser.types_of(arguments, self.columns()) if arguments else []
        except ValueError as exc:
            raise wrong(str(exc)) from exc
        except Exception as exc:
            if expression is None:
                raise
            raise self.errors.explained(option, name, expression, exc, self.shown()) from exc
        takes = [
            p.type or (types.STRING if isinstance(t, NullType) else t)
            for p, t in zip(function.takes, argument_types, strict=False)
        ]
        sent = tuple(
            sql if want == is_so else f"CAST({sql} AS {sql_name(want)})"
            for sql, want, is_so in zip(arguments, takes, argument_types, strict=True)
        )
        udf_call = self.called.get((place.function, sent))
        if udf_call is None:
            layer = 1 + max((c.layer for c in self.called.values() for a in sent if c.column in a), default=0)
            kind = f"u{self.analyser.number(function, takes)}_{layer}"
            count = sum(called.column.rpartition("_")[0] == kind for called in self.called.values())
            udf_call = UdfCall(f"{kind}_{count}", place.function, tuple(takes), sent, layer)
            self.called[place.function, sent] = udf_call
        return f"IF({udf_call.column}.ok, {udf_call.column}.v, raise_error('{udf_call.column}'))"

    def columns(self) -> tuple[str, ...]:
        """Return the columns that expressions may use so far: slots, literals and results of calls.

        The analyser needs them to find the types of expressions. A slot is its name only; the others are `name type`.
        """
        gives = {
            called.column: sql_name(self.analyser.functions[called.function].gives) for called in self.called.values()
        }
        results = (f"{column} struct<ok: boolean, v: {value_type}, e: string>" for column, value_type in gives.items())
        literals = (f"{name} {literal_type(name)}" for name, _ in self.literals)
        return (*sorted(source.slot for source in self.inputs.values()), *literals, *results)

    def column(self, name: str) -> str:
        """Return a column as SQL over slots. It gets a slot where it has none yet."""
        column_input = self.inputs.get(name)
        if column_input is None:
            data_type = self.types.get(name)
            if data_type is None:
                data_type = types.BIGINT if name == NOW else types.DOUBLE if name.startswith(DICE) else types.STRING
            column_input = self.inputs[name] = Input(name, data_type, next_slot(self.counts, data_type))
        return received(column_input.slot, column_input.type)

    def shown(self) -> dict[str, str]:
        """Return the names of columns by the SQL that stands for them."""
        inputs = self.inputs.values()
        return {**{i.slot: i.name for i in inputs}, **{received(i.slot, i.type): i.name for i in inputs}}

    def sources(self, name: str) -> frozenset[str]:
        """Return the source columns that a result column is made of."""
        computed = self.computed.get(name)
        return frozenset({self.copies.get(name, name)}) if computed is None else computed[1]

    def missing(self, name: str) -> str:
        """Return why a name is unknown, with the most similar known name."""
        return self.errors.missing(name, (*self.computed, *self.types))
