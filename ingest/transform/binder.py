"""Binding of one rule to one table at one version of its schema.

In: the rule's expressions. Out: SQL over slots instead of columns, the slots of the columns that it needs, and the
schema of the result. Never runs SQL; Spark only analyses it. Errors say which expression is wrong, and where in it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from ingest.encode.compiled_transform import METADATA, CompiledTransform, Input, Output, is_ours, slot_of
from ingest.errors import TransformError
from ingest.expressions import units
from ingest.expressions.clauses import ALL, Call, calls, template
from ingest.expressions.rewrites import DICE, NOW
from ingest.model import types
from ingest.model.data_type import ArrayType, BinaryType, MapType, NullType, StructType, TimestampType
from ingest.model.schema import Column, TableSchema
from ingest.model.table import show
from ingest.spark.readable import place_of, readable
from ingest.transform.spark_types import VARIANT, sql_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ingest.expressions.clauses import Expression
    from ingest.model.data_type import DataType
    from ingest.model.table import TableId
    from ingest.schema.routes import TransformRule
    from ingest.transform.compiler import Compiler

_Where: TypeAlias = "tuple[str, str, Expression | None]"
_MAX_SQL: Final = 1 << 20
_CAST: Final = re.compile(r"\bCAST\s*\(\s*$", re.IGNORECASE)
_AS_STRING: Final = re.compile(r"\s+AS\s+STRING\s*\)", re.IGNORECASE)
_JSON: Final = (
    "map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSSX', "
    "'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')"
)


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


_Place: TypeAlias = "Name | Literal | Call"


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

    program: CompiledTransform
    schema: TableSchema
    results: dict[str, str]
    """SQL of each result, by its slot."""
    called: tuple[UdfCall, ...]
    literals: tuple[tuple[str, str | int], ...]
    """The columns that stand for literals in the expressions, each with its literal."""


class Binder:
    """Binder of one rule to one table."""

    def __init__(
        self, compiler: Compiler, rule: TransformRule, table: TableId, source: TableSchema, *, templates: bool
    ) -> None:
        """Keep the parts. With `templates`, literals become columns, so that many rules share their expressions."""
        self.compiler, self.rule, self.table, self.source = compiler, rule, table, source
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

    def compile(self, number: int) -> CompiledRule:
        """Return the rule's program, with this number, and its SQL. Raise TransformError."""
        rule = self.rule
        items = rule.projection
        known = [column.name for column in self.source.columns]
        texts = self.project(known)
        order = [*dict.fromkeys(name for i in items for name in (known if i.name == ALL else (i.name,)))] or known
        as_they_come = not items or items[0].name == ALL
        condition = None if rule.filter is None else self.expression("filter", "", rule.filter)
        wanted = [sql for sql, _ in self.computed.values()]
        found = self.analyse(wanted if condition is None else [*wanted, condition[0]])
        if condition is not None and not isinstance(found[-1], (type(types.BOOLEAN), NullType)):
            assert rule.filter is not None
            why = f"a filter is true or false, and this is {types.name(found[-1])}"
            raise self.error("filter", "", rule.filter.text, 0, len(rule.filter.text), why, rule.filter.at)
        for (name, _), data_type in zip(texts.items(), found, strict=False):
            try:
                types.name(_kept(data_type))
            except TypeError:
                why = f"a column cannot be of the type {sql_name(data_type)}: cast it to another"
                raise self.error("projection", name, texts[name], 0, len(texts[name]), why) from None
        results: dict[str, str] = {}
        outputs = []
        counts = dict.fromkeys("sldb", 0)
        kinds = dict(zip(self.computed, found, strict=False))
        for name in dict.fromkeys(item.name for item in items):
            if name in self.copies:
                column = self.copies[name]
                outputs.append(Output(name, self.types[column], "", frozenset({column}), column, column))
            elif name in self.computed:
                sql, needs = self.computed[name]
                slot = self.slot(counts, kinds[name])
                results[slot] = _sent(sql, kinds[name])
                item = next(item for item in reversed(items) if item.name == name)
                texts_of = frozenset() if item.expression is None else self.as_texts(item.expression)
                outputs.append(Output(name, _kept(kinds[name]), slot, needs, texts[name], as_texts=texts_of))
        passes = None
        if condition is not None and rule.filter is not None:
            slot = self.slot(counts, types.BOOLEAN)
            results[slot] = f"CAST({condition[0]} AS BOOLEAN)"
            passes = Output("", types.BOOLEAN, slot, condition[1], rule.filter.text)
        schema = self.schema(order, {output.name: output.type for output in outputs})
        decisive = set(() if condition is None else condition[1])
        for name in schema.primary_key:
            decisive |= self.computed[name][1] if name in self.computed else {self.copies.get(name, name)}
        was: Output | None = None
        was_inputs: tuple[Input, ...] = ()
        made = self.computed.keys() | self.copies.keys()
        if condition is not None and passes is not None and not made & set(schema.primary_key):
            sql, was_inputs = self.of_the_row_before(condition[1])
            if was_inputs:
                was = replace(passes, slot=self.slot(counts, types.BOOLEAN))
                results[was.slot] = f"CAST({sql} AS BOOLEAN)"
        program = CompiledTransform(
            number, self.table, tuple(self.inputs.values()), tuple(outputs), passes,
            None if as_they_come else tuple(order), frozenset(decisive), schema.primary_key, rule.soft_delete,
            was, was_inputs,
        )  # fmt: skip
        return CompiledRule(program, schema, results, tuple(self.called.values()), tuple(self.literals))

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
                    raise self.error(
                        "projection", item.name, item.name, 0, len(item.name), self.missing(item.name), item.at
                    )
                self.computed[item.name] = self.bound(item.name, (Name(0, len(item.name), (item.name,)),), "", "")
                texts[item.name] = item.name
            elif (column := self.renamed(item.expression)) is not None:
                self.copies[item.name] = column
                self.computed.pop(item.name, None)
            else:
                self.copies.pop(item.name, None)
                self.computed[item.name] = self.expression("projection", item.name, item.expression)
                texts[item.name] = item.expression.text
        return texts

    def as_texts(self, expression: Expression) -> frozenset[str]:
        """Return the columns that an expression uses only as CAST(column AS STRING)."""
        cast: set[str] = set()
        other: set[str] = set()
        for name in self.compiler.names(expression.sql):
            before, after = expression.sql[: name.start], expression.sql[name.stop :]
            is_cast = _CAST.search(before) is not None and _AS_STRING.match(after) is not None
            (cast if is_cast else other).add(".".join(name.parts))
        return frozenset(cast - other)

    def renamed(self, expression: Expression) -> str | None:
        """Return the source column where an expression is only the name of one, else None."""
        names: tuple[Name, ...] = ()
        with suppress(Exception):  # the error is reported where the expression is bound
            names = self.compiler.names(expression.sql)
        if len(names) != 1 or (names[0].start, names[0].stop) != (0, len(expression.sql)):
            return None
        name = ".".join(names[0].parts)
        return name if any(column.name == name for column in self.source.columns) else None

    def of_the_row_before(self, needs: frozenset[str]) -> tuple[str, tuple[Input, ...]]:
        """Return the filter again, over its own slots, for the row before an update.

        Return an empty text where that row has to be computed separately: for user-defined functions, and for columns
        that are not of the table (metadata, time, random numbers).
        """
        if self.called or any(map(is_ours, needs)) or self.rule.filter is None:
            return "", ()
        again = Binder(self.compiler, self.rule, self.table, self.source, templates=self.templates)
        again.counts = self.counts
        again.project([column.name for column in self.source.columns])  # so that literals get the same names again
        sql, _ = again.expression("filter", "", self.rule.filter)
        return sql, tuple(given for name, given in again.inputs.items() if name in needs)

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
                name, computed.get(name) or self.types[name], name not in key and (name in computed or nullable[name])
            )
            for name in order
        ]
        return TableSchema(tuple(columns), key)

    @staticmethod
    def slot(counts: dict[str, int], data_type: DataType) -> str:
        """Return the next free slot for values of a type, and count it."""
        kind = slot_of(data_type)
        counts[kind] += 1
        return f"{kind}{counts[kind] - 1}"

    def expression(self, option: str, name: str, expression: Expression) -> tuple[str, frozenset[str]]:
        """Return an expression as SQL over slots, and the source columns that it needs. Raise TransformError."""
        literals: tuple[tuple[str, str | int], ...] = ()
        if self.templates:
            sql, literals = template(expression.sql)
            expression = replace(expression, sql=sql)
        try:
            names = self.compiler.names(expression.sql)
            made = calls(expression.sql, self.compiler.functions) if self.compiler.functions else ()
        except ValueError as exc:
            raise self.error(option, name, expression.text, 0, len(expression.text), str(exc), expression.at) from exc
        except Exception as exc:
            raise self.explained(option, name, expression, exc) from exc
        standing = dict(literals)
        places = [Literal(n.start, n.stop, standing[n.parts[0]]) if n.parts[0] in standing else n for n in names]
        return self.bound(expression.sql, (*places, *made), option, name, expression)

    def bound(
        self, sql: str, given: Sequence[_Place], option: str, name: str, expression: Expression | None = None
    ) -> tuple[str, frozenset[str]]:
        """Return SQL with slots in place of names, and the source columns that it needs.

        Results of calls replace the calls of user-defined functions. Raise TransformError.
        """
        needs: set[str] = set()
        places = sorted(given, key=lambda place: (place.start, -place.stop))
        made = self.rendered(sql, (0, len(sql)), places, needs, (option, name, expression))
        if len(made) > _MAX_SQL:
            raise self.error(option, name, sql, 0, len(sql), "too long with all that it refers to")
        return made, frozenset(needs)

    def rendered(
        self, sql: str, part: tuple[int, int], places: Sequence[_Place], needs: set[str], where: _Where
    ) -> str:
        """Return a part of an expression with slots. Add the source columns in it to `needs`. Raise TransformError."""
        out: list[str] = []
        at, end = part
        for given in places:
            if given.start < at or given.stop > end:
                continue  # outside of this part, or inside a call that is already replaced
            if isinstance(given, Call):
                out += (sql[at : given.start], self.call(sql, given, places, needs, where))
                at = given.stop
                continue
            if isinstance(given, Literal):
                column = f"{'_text' if isinstance(given.value, str) else '_number'}{len(self.literals)}"
                self.literals.append((column, given.value))
                out += (sql[at : given.start], column)
                at = given.stop
                continue
            head, *rest = given.parts
            dotted = ".".join(given.parts)
            if head in self.computed and head not in self.types:
                made, of = self.computed[head]
                made = f"({made})"
                needs |= of
            elif head in self.copies and head not in self.types:
                head = self.copies[head]
                made = self.column(head)
                needs.add(head)
            elif rest and dotted in self.types and types.is_text(self.types.get(head, types.STRING)):
                made, rest = self.column(dotted), []
                needs.add(dotted)
            elif head in self.types or is_ours(head):
                if rest and types.is_text(self.types.get(head, types.STRING)):
                    raise self.misnamed(sql, given, _no_fields(head), where)
                made = self.column(head)
                needs.add(head)
            else:
                raise self.misnamed(sql, given, self.missing(head), where)
            out += (sql[at : given.start], made, *(f".`{part}`" for part in rest))
            at = given.stop
        return "".join((*out, sql[at:end]))

    def misnamed(self, sql: str, given: Name, why: str, where: _Where) -> TransformError:
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

    def call(self, sql: str, given: Call, places: Sequence[_Place], needs: set[str], where: _Where) -> str:
        """Return SQL for the result of a call. The call itself is computed before the expression around it.

        Raise TransformError for a wrong number of arguments, for wrong types, and for a call in a lambda.
        """
        option, name, expression = where
        function = self.compiler.functions[given.function]
        text = sql if expression is None else expression.text
        begin = 0 if expression is None else expression.at

        def wrong(why: str) -> TransformError:
            same = expression is not None and expression.sql == text
            start, length = (given.start, given.stop - given.start) if same else (0, len(text))
            return self.error(option, name, text, start, length, f"function {function.name}: {why}", begin)

        least = sum(not parameter.optional for parameter in function.takes)
        if not least <= len(given.arguments) <= len(function.takes):
            counts = f"{least}" if least == len(function.takes) else f"{least} to {len(function.takes)}"
            raise wrong(f"takes {counts} arguments, not {len(given.arguments)}")
        if given.in_lambda:
            raise wrong("cannot be called in a lambda, nor with one")
        arguments = [self.rendered(sql, part, places, needs, where) for part in given.arguments]
        try:
            found = self.compiler.types_of(arguments, self.columns()) if arguments else []
        except ValueError as exc:
            raise wrong(str(exc)) from exc
        except Exception as exc:
            if expression is None:
                raise
            raise self.explained(option, name, expression, exc) from exc
        takes = [p.type or (types.STRING if isinstance(t, NullType) else t)
                 for p, t in zip(function.takes, found, strict=False)]  # fmt: skip
        sent = tuple(
            sql if want == is_so else f"CAST({sql} AS {sql_name(want)})"
            for sql, want, is_so in zip(arguments, takes, found, strict=True)
        )
        known = self.called.get((given.function, sent))
        if known is None:
            layer = 1 + max((c.layer for c in self.called.values() for a in sent if c.column in a), default=0)
            kind = f"u{self.compiler.number(function, takes)}_{layer}"
            count = sum(called.column.rpartition("_")[0] == kind for called in self.called.values())
            known = UdfCall(f"{kind}_{count}", given.function, tuple(takes), sent, layer)
            self.called[given.function, sent] = known
        return f"IF({known.column}.ok, {known.column}.v, raise_error('{known.column}'))"

    def columns(self) -> tuple[str, ...]:
        """Return the columns that expressions may use so far: slots, literals and results of calls.

        The compiler needs them to find the types of expressions. A slot is its name only; the others are `name type`.
        """
        gives = {
            called.column: sql_name(self.compiler.functions[called.function].gives) for called in self.called.values()
        }
        made = (f"{column} struct<ok: boolean, v: {given}, e: string>" for column, given in gives.items())
        literals = (f"{name} {literal_type(name)}" for name, _ in self.literals)
        return (*sorted(given.slot for given in self.inputs.values()), *literals, *made)

    def column(self, name: str) -> str:
        """Return a column as SQL over slots. It gets a slot where it has none yet."""
        known = self.inputs.get(name)
        if known is None:
            data_type = self.types.get(name)
            if data_type is None:
                data_type = types.BIGINT if name == NOW else types.DOUBLE if name.startswith(DICE) else types.STRING
            known = self.inputs[name] = Input(name, data_type, self.slot(self.counts, data_type))
        return _received(known.slot, known.type)

    def analyse(self, expressions: list[str]) -> list[DataType]:
        """Return the types of all expressions. Raise TransformError for the first one that Spark refuses."""
        slots = self.columns()
        if not expressions:
            return []
        try:
            return self.compiler.types_of(expressions, slots)
        except Exception as whole:
            given: list[tuple[str, str, Expression | None]] = [
                ("projection", item.name, item.expression)
                for item in self.rule.projection
                if item.name in self.computed
            ]
            if self.rule.filter is not None:
                given.append(("filter", "", self.rule.filter))
            for sql, (option, name, expression) in zip(expressions, given, strict=True):
                try:
                    self.compiler.types_of([sql], slots)
                except ValueError as exc:
                    text = name if expression is None else expression.text
                    at = 0 if expression is None else expression.at
                    raise self.error(option, name, text, 0, len(text), str(exc), at) from exc
                except Exception as exc:
                    if expression is None:
                        raise
                    raise self.explained(option, name, expression, exc) from exc
            raise whole from None

    # -- errors ------------------------------------------------------------------------------------------------------

    def missing(self, name: str) -> str:
        """Return why a name is unknown, with the most similar known name."""
        from difflib import get_close_matches  # noqa: PLC0415

        names = {known.casefold(): known for known in (*self.computed, *self.types)}
        near = get_close_matches(name.casefold(), names, 1)
        hint = f", did you mean {names[near[0]]!r}?" if near else ""
        shown = ", ".join(column.name for column in self.source.columns)
        return f"table {show(self.table)} has no column {name!r}{hint} (it has {shown or 'none'})"

    def explained(self, option: str, name: str, expression: Expression, exc: Exception) -> TransformError:
        """Return the error for an exception of Spark about an expression, without Spark's plan."""
        text = expression.text
        start, length = 0, len(text)
        if "[INVALID_EXTRACT_BASE_FIELD_TYPE]" in str(exc):
            base = next((text for text in re.findall(r'from "([^"]+)"', str(exc))), "")
            return self.error(option, name, text, 0, length, _no_fields(self.shown().get(base, base)), expression.at)
        if units.NO_TIME_OF_DAY in str(exc) and '"TIME(' in str(exc):
            return self.error(option, name, text, 0, length, units.of_a_time(text), expression.at)
        place = place_of(exc)
        if place is not None and expression.sql == text and "\n" not in text:
            start, length = min(place, length), 1
        return self.error(option, name, text, start, length, readable(exc, self.shown()), expression.at)

    def shown(self) -> dict[str, str]:
        """Return the names of columns by the SQL that stands for them."""
        given = self.inputs.values()
        return {**{i.slot: i.name for i in given}, **{_received(i.slot, i.type): i.name for i in given}}

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


def _no_fields(name: str) -> str:
    """Return why a value has no fields, and what the author can write instead."""
    return (
        f"{name!r} is no object here but a value without fields: nested values are texts unless "
        f"json.infer-schema.flatten-nested-columns.enable makes columns of them; "
        f"JSON_VALUE({name}, '$.field') takes one out"
    )


def _received(slot: str, data_type: DataType) -> str:
    """Return SQL that turns a slot's value into a value of the column's own type."""
    if slot[0] in "db" or data_type == types.BIGINT or types.is_text(data_type):
        return slot
    if isinstance(data_type, NullType):
        return "CAST(NULL AS STRING)"
    if isinstance(data_type, BinaryType):
        return f"unbase64({slot})"
    if isinstance(data_type, (ArrayType, MapType, StructType)):
        return f"from_json({slot}, '{quoted(sql_name(data_type))}')"
    return f"CAST({slot} AS {sql_name(data_type)})"


def literal_type(column: str) -> str:
    """Return the SQL type of a column that stands for a literal."""
    return "string" if column.startswith("_text") else "int"


def quoted(text: str) -> str:
    """Return a text as it stands between quotes in SQL."""
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _sent(sql: str, data_type: DataType) -> str:
    """Return SQL that turns an expression's result into a value of its slot's type."""
    slot = slot_of(data_type)
    if slot == "l":
        return f"CAST({sql} AS BIGINT)"
    if slot in "db":
        return sql
    if isinstance(data_type, BinaryType):
        return f"base64({sql})"
    if isinstance(data_type, TimestampType):
        return f"CAST(unix_micros({sql}) AS STRING)"
    if data_type == VARIANT or isinstance(data_type, (ArrayType, MapType, StructType)):
        return f"to_json({sql}, {_JSON})"
    return f"CAST({sql} AS STRING)"


def _kept(data_type: DataType) -> DataType:
    """Return the type of the column that a result becomes. A VARIANT becomes a STRING."""
    return types.STRING if data_type == VARIANT else data_type
