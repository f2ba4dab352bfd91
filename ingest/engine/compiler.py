"""Rules become programs, and programs one plan of Spark's for all tables, on the driver.

In: rules, the schemas of tables. Out: what each rule computes for a table, with types, and a DataFrame between the two
Python stages. Names are resolved here: Spark's own parser says where in an expression a column is named, and that name
is replaced by the slot that the column travels in. An expression that fails for a row gives a mark, not a failed job.
"""

from __future__ import annotations

import json
import re
import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from ingest.errors import ConfigError, TransformError
from ingest.flow.expressions import ALL, DICE, NOW, Call, calls, template
from ingest.flow.functions import caller
from ingest.flow.route import rule_of
from ingest.flow.transform import MARKS, METADATA, Input, Output, Program, Programs, is_ours, slot_of, together
from ingest.model import types
from ingest.model.schema import Column, TableSchema
from ingest.model.table import show

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from ingest.flow.evolve import SourceTable
    from ingest.flow.expressions import Expression
    from ingest.flow.functions import Function
    from ingest.flow.route import TransformRule
    from ingest.model.table import TableId

CONF: Final = {
    "spark.sql.caseSensitive": "true",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.python.sql.dataFrameDebugging.enabled": "false",
}
"""What Spark SQL has to be set to. What is computed for several expressions at once would fail outside of their own
guard, so that nothing is."""

LAST: Final = "_said"
"""After all results, where there are functions of the user's own: what went wrong in them."""
Stage: TypeAlias = "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]"
FORM: Final = "_form"
"""Programs that differ in their literals only are one form; this tells which one a row is for."""
_Where: TypeAlias = "tuple[str, str, Expression | None]"
META: Final = ("_program", "_head", "_at", "_what", "_text", "_key")
_TYPES: Final = {"s": "string", "l": "bigint", "d": "double", "b": "boolean"}
_META_TYPES: Final = "_program int, _head int, _at bigint, _what int, _text binary, _key binary"
_MAX_SQL: Final = 1 << 20
_MAX_KEPT: Final = 20_000
STAGE: Final = "INGEST_STAGE"
_JSON: Final = (
    "map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSSX', "
    "'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')"
)
_SAID: Final = re.compile(r"^\[[A-Z_.0-9]+\] ")


@dataclass(frozen=True, slots=True)
class _Name:
    """Where in an expression something is named that may be a column."""

    start: int
    stop: int
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Literal:
    """Where an expression has a column in the place of a literal."""

    start: int
    stop: int
    value: str | int


_Place: TypeAlias = "_Name | _Literal | Call"


@dataclass(frozen=True, slots=True)
class _Called:
    """One call of a function of the user's own in a rule, whose results are a column of their own."""

    column: str
    function: str
    takes: tuple[DataType, ...]
    arguments: tuple[str, ...]
    """SQL over slots, and over the columns of calls in a lower layer."""
    layer: int


@dataclass(frozen=True, slots=True)
class _Made:
    """What became of a rule for a table."""

    program: Program
    schema: TableSchema
    results: dict[str, str]
    """By slot: SQL."""
    called: tuple[_Called, ...]
    literals: tuple[tuple[str, str | int], ...]
    """Columns that its expressions have in the place of literals, and those."""


class Compiler:
    """Makes programs; asks Spark, which has to have started by the time of the first question."""

    def __init__(
        self,
        rules: Sequence[TransformRule],
        zone: str,
        spark: Callable[[], SparkSession],
        functions: Iterable[Function] = (),
    ) -> None:
        """`zone`: what `pipeline.local-time-zone` says; `spark`: waits until there is a session."""
        self.functions = {function.name.lower(): function for function in functions}
        self._callers: dict[tuple[str, tuple[str, ...]], tuple[int, Any]] = {}
        self._rules = rules
        self._zone = zone
        self._start = spark
        self._session: SparkSession | None = None
        self._names: dict[str, tuple[_Name, ...]] = {}
        self._slots: dict[tuple[str, ...], Any] = {}
        self._types: dict[tuple[tuple[str, ...], tuple[str, ...]], list[DataType]] = {}
        self._made: dict[tuple[TableId, TableSchema], _Made] = {}
        self._numbers: dict[TableId, int] = {}
        self._rule: dict[TableId, TransformRule | None] = {}

    @property
    def spark(self) -> SparkSession:
        """Spark SQL."""
        if self._session is None:
            self._session = self._start()
            for key, value in {**CONF, "spark.sql.session.timeZone": self._zone}.items():
                self._session.conf.set(key, value)
            jvm: Any = self._session._jvm  # noqa: SLF001
            taken = jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.functionSet()
            for name, function in self.functions.items():
                if taken.contains(jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name)):
                    msg = f"pipeline.user-defined-function: Spark SQL has a function {function.name!r} of its own"
                    raise ConfigError(msg, "give yours another name")
        return self._session

    def shape(self, table: TableId, source: TableSchema) -> TableSchema | None:
        """The columns and the key that a table's rows have after its rule; None where no rule changes them.

        Raises TransformError.
        """
        rule = self._rule_of(table)
        return None if rule is None else self._compile(rule, table, source).schema

    def programs(self, sources: Mapping[TableId, SourceTable]) -> Programs:
        """The programs of all tables whose rows a rule changes."""
        made = [
            self._compile(rule, table, source.schema)
            for table, source in sources.items()
            if source.output is not None and (rule := self._rule_of(table)) is not None
        ]
        return together((one.program for one in made), told=any(one.called for one in made))

    def _rule_of(self, table: TableId) -> TransformRule | None:
        if table not in self._rule:
            self._rule[table] = rule_of(self._rules, table)
        return self._rule[table]

    # -- one rule for one table --------------------------------------------------------------------------------------

    def _compile(self, rule: TransformRule, table: TableId, source: TableSchema) -> _Made:
        known = self._made.get((table, source))
        if known is None:
            for old in [key for key in self._made if key[0] == table]:
                del self._made[old]
            number = self._numbers.setdefault(table, len(self._numbers))
            known = self._made[table, source] = self._compiled(rule, table, source, number)
        return known

    def _compiled(self, rule: TransformRule, table: TableId, source: TableSchema, number: int) -> _Made:
        """A rule for a table, with its literals apart where that changes nothing: many rules share expressions then.

        A literal is not a column of its type where decimals are: their results have as many digits as the literal.
        """
        with suppress(TransformError):  # what is wrong with the rule itself is told below, in its own words
            made = _Rule(self, rule, table, source, templates=True).compile(number)
            if not made.literals:
                return made
            program = made.program
            involved = [*(given.type for given in program.inputs), *(output.type for output in program.outputs)]
            if not any("decimal" in data_type.simpleString() for data_type in involved):
                return made
        return _Rule(self, rule, table, source, templates=False).compile(number)

    def names(self, sql: str) -> tuple[_Name, ...]:
        """Where an expression names what may be a column; raises py4j's and Spark's errors, or ValueError."""
        known = self._names.get(sql)
        if known is not None:
            return known
        parser = self.spark._jsparkSession.sessionState().sqlParser()  # noqa: SLF001
        leaves = parser.parseExpression(sql).collectLeaves()
        found = []
        own: set[str] = set()
        for i in range(leaves.size()):
            leaf = leaves.apply(i)
            kind = leaf.getClass().getSimpleName()
            if kind not in _LEAVES:
                msg = "an expression is computed from one row: no queries, no aggregates"
                raise ValueError(msg)
            if kind not in {"UnresolvedAttribute", "UnresolvedNamedLambdaVariable"}:
                continue
            origin = leaf.origin()
            start, stop = origin.startIndex().get(), origin.stopIndex().get() + 1
            parts = tuple(leaf.nameParts().mkString("\0").split("\0"))
            if _ARROW.search(sql, start, stop):
                own |= {parts[0]}  # the variable of a lambda, which spans all of it
                continue
            found.append(_Name(start, stop, parts))
        both = [name for name in found if name.parts[0] in own]
        names = self._names[sql] = tuple(sorted((n for n in found if n not in both), key=lambda n: n.start))
        return names

    def number(self, function: Function, takes: Sequence[DataType]) -> int:
        """Which of the functions that are called this is, for arguments of these types."""
        key = _key(function.name.lower(), takes)
        known = self._callers.get(key)
        if known is None:
            from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf  # noqa: PLC0415  (slow to import)

            gives = StructType([
                StructField("ok", types.BOOLEAN), StructField("v", function.gives), StructField("e", types.STRING),
            ])  # fmt: skip
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it would rather have annotations than be told
                made = arrow_udf(caller(function, takes), gives, ArrowUDFType.SCALAR)
            known = self._callers[key] = (len(self._callers), made)
        return known[0]

    def types_of(self, expressions: Sequence[str], slots: tuple[str, ...]) -> list[DataType]:
        """The types of expressions over slots, and columns `name type`; raises what Spark raises, and ValueError."""
        known = self._types.get((tuple(expressions), slots))
        if known is not None:
            return known
        base = self._slots.get(slots)
        if base is None:
            columns = ", ".join(slot if " " in slot else f"{slot} {_TYPES[slot[0]]}" for slot in slots)
            base = self._slots[slots] = self.spark.createDataFrame([], columns or "nothing int")
        made = base.selectExpr(*(f"{sql} AS c{i}" for i, sql in enumerate(expressions)))
        plan = made._jdf.queryExecution().analyzed()  # noqa: SLF001  (what kind of plan it is has no other way)
        below = base._jdf.queryExecution().analyzed().getClass().getName()  # noqa: SLF001
        inner = plan.children()
        if plan.getClass().getSimpleName() != "Project" or inner.apply(0).getClass().getName() != below:
            msg = "an expression is computed from one row: no aggregates, no windows, nothing that makes several rows"
            raise ValueError(msg)
        values = plan.expressions()
        if not all(values.apply(i).deterministic() for i in range(values.size())):
            msg = "a function here gives another result each time it is called"
            raise ValueError(msg)
        if len(self._types) > _MAX_KEPT:
            self._types.clear()
            self._names.clear()
        found = self._types[tuple(expressions), slots] = [field.dataType for field in made.schema.fields]
        return found

    # -- all tables --------------------------------------------------------------------------------------------------

    def frame(self, programs: Programs, tasks: int, feed: Stage, drain: Stage) -> DataFrame:
        """The plan of a batch: the first Python stage, all expressions, the second one."""
        slots = "".join(f", {slot} {_TYPES[slot[0]]}" for slot in programs.inputs)
        environment = self.spark.sparkContext.environment
        try:
            # Each stage has workers of its own, which import what it needs before they fork, and keep their clients
            environment[STAGE] = "1"
            fed = self.spark.range(0, tasks, 1, tasks).mapInArrow(feed, _META_TYPES + slots)
            environment[STAGE] = "3"
            computed = self.results(programs, fed)
            environment[STAGE] = "2"
            return computed.mapInArrow(drain, "outcome binary")
        finally:
            environment.pop(STAGE, None)

    def results(self, programs: Programs, fed: DataFrame) -> DataFrame:
        """All expressions over the rows of all tables, each with marks for those that failed.

        Programs that compute the same are one form, and the expressions of a plan are as many as there are forms.
        """
        from pyspark.sql.functions import expr  # noqa: PLC0415  (slow to import)

        if not programs.results:
            return fed.selectExpr(*META)
        active = [made for made in self._made.values() if programs.of.get(made.program.table) == made.program]
        forms: dict[tuple[Any, ...], list[_Made]] = {}
        for made in active:
            forms.setdefault((*sorted(made.results.items()), *made.called), []).append(made)
        fed = fed.selectExpr("*", *self._constants(list(forms.values())))
        by_slot: dict[str, list[tuple[int, str]]] = {slot: [] for slot in programs.results}
        called: dict[tuple[int, str], list[tuple[int, _Called]]] = {}
        for number, (made, *_) in enumerate(forms.values()):
            for slot, text in made.results.items():
                by_slot[slot].append((number, text))
            for one in made.called:
                called.setdefault((one.layer, one.column), []).append((number, one))
        said = []
        for layer in sorted({layer for layer, _ in called}):
            columns = {column: of for (at, column), of in called.items() if at == layer}
            fed = self._with_calls(fed, columns)
            said += [f"{column}.e" for column in columns]
        guarded = [self._guarded(slot, by_slot[slot]) for slot in programs.results]
        last = [expr(f"CONCAT_WS('; ', {', '.join(said)})").alias(LAST)] if said else []
        marked = fed.select(*META, *guarded, *last)
        values = [f"{slot}.v AS {slot}" for slot in programs.results]
        masks = []
        for first in range(0, len(programs.results), MARKS):
            some = programs.results[first : first + MARKS]
            marks = "+".join(f"IF({slot} IS NULL, {1 << i}L, 0L)" for i, slot in enumerate(some))
            masks.append(f"IF(_program < 0, 0L, {marks}) AS _failed{first // MARKS}")
        return marked.selectExpr(*META, *masks, *values, *([LAST] if said else []))

    @staticmethod
    def _constants(forms: Sequence[Sequence[_Made]]) -> list[str]:
        """Columns that a row has by its program: which form that is, and its literals."""
        size = 1 + max(made.program.number for of in forms for made in of)
        numbers: list[Any] = [-1] * size
        literals: dict[str, list[Any]] = {}
        for number, of in enumerate(forms):
            for made in of:
                numbers[made.program.number] = number
                for name, value in made.literals:
                    literals.setdefault(name, [None] * size)[made.program.number] = value

        def looked_up(values: list[Any], kind: str) -> str:
            # As one text, which Spark reads once: as many literals would be as many expressions to be parsed
            return f"get(from_json('{_quoted(json.dumps(values))}', 'array<{kind}>'), _program)"

        form = "IF(_program < 0, -1, 0)" if len(forms) == 1 else f"IF(_program < 0, -1, {looked_up(numbers, 'int')})"
        made_of = {
            name: f"IF(_program < 0, NULL, {looked_up(texts, _literal_type(name))})" for name, texts in literals.items()
        }
        return [f"{form} AS {FORM}", *(f"{text} AS {name}" for name, text in made_of.items())]

    def _with_calls(self, fed: DataFrame, columns: Mapping[str, Sequence[tuple[int, _Called]]]) -> DataFrame:
        """The rows with the results of calls, for the forms that make them; each result has a column of its own.

        A call is made for a whole batch and whatever stands around it, so its arguments are guarded before it, and what
        went wrong in it is no error until its result is needed.
        """
        from pyspark.sql.functions import expr  # noqa: PLC0415  (slow to import)

        guarded, results = [], []
        for column, of in columns.items():
            one = of[0][1]
            names = [f"{column}_{i}" for i in range(len(one.arguments))]
            for i, name in enumerate(names):
                guarded.append(self._guarded(name, [(number, call.arguments[i]) for number, call in of]))
            numbers = ", ".join(str(number) for number, _ in of)
            wanted = " AND ".join((f"{FORM} IN ({numbers})", *(f"{name} IS NOT NULL" for name in names)))
            _, call = self._callers[_key(one.function, one.takes)]
            results.append(call(expr(wanted), *(expr(f"{name}.v") for name in names)).alias(column))
        return fed.select("*", *guarded).select(*fed.columns, *results)

    def _guarded(self, slot: str, of: Sequence[tuple[int, str]]) -> Any:  # noqa: ANN401  (a Column)
        """A result for all forms, null where its computation failed; where it is null itself, `v` in it is."""
        from pyspark.sql.classic.column import Column  # noqa: PLC0415  (slow to import)

        def choose(some: Sequence[tuple[int, str]]) -> str:
            if len(some) == 1:
                return some[0][1]
            middle = len(some) // 2
            return f"IF({FORM} < {some[middle][0]}, {choose(some[:middle])}, {choose(some[middle:])})"

        sql = f"named_struct('v', IF({FORM} < 0, NULL, {choose(of)}))"
        jvm: Any = self.spark.sparkContext._jvm  # noqa: SLF001  (what follows has no name in SQL)
        parsed = self.spark._jsparkSession.sessionState().sqlParser().parseExpression(sql)  # noqa: SLF001
        guard = jvm.org.apache.spark.sql.catalyst.expressions.TryEval(parsed)
        return Column(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(guard)).alias(slot)


def _key(function: str, takes: Sequence[DataType]) -> tuple[str, tuple[str, ...]]:
    return function, tuple(data_type.simpleString() for data_type in takes)


_LEAVES: Final = frozenset({
    "Literal", "UnresolvedAttribute", "UnresolvedNamedLambdaVariable", "UnresolvedFunction", "CurrentTime",
})  # fmt: skip
_ARROW: Final = re.compile(r"->")


class _Rule:
    """One rule on its way to a program."""

    def __init__(
        self, compiler: Compiler, rule: TransformRule, table: TableId, source: TableSchema, *, templates: bool
    ) -> None:
        """`templates`: whether literals become columns."""
        self.compiler, self.rule, self.table, self.source = compiler, rule, table, source
        self.templates = templates
        self.literals: list[tuple[str, str | int]] = []
        self.types: dict[str, DataType] = {column.name: column.type for column in source.columns}
        self.types.update((name, types.STRING) for name in METADATA if name not in self.types)
        self.inputs: dict[str, Input] = {}
        self.counts = dict.fromkeys("sldb", 0)
        self.computed: dict[str, tuple[str, frozenset[str]]] = {}
        """By name: SQL over slots, and the source columns in it."""
        self.called: dict[tuple[str, tuple[str, ...]], _Called] = {}
        """By function and arguments."""

    def compile(self, number: int) -> _Made:
        rule = self.rule
        items = rule.projection
        known = [column.name for column in self.source.columns]
        texts: dict[str, str] = {}
        for item in items:
            if item.expression is None:
                if item.name == ALL or item.name in known:
                    continue
                if item.name not in METADATA:
                    raise self.error(
                        "projection", item.name, item.name, 0, len(item.name), self.missing(item.name), item.at
                    )
                self.computed[item.name] = self.bound(item.name, (_Name(0, len(item.name), (item.name,)),), "", "")
                texts[item.name] = item.name
            else:
                self.computed[item.name] = self.expression("projection", item.name, item.expression)
                texts[item.name] = item.expression.text
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
                why = f"a column cannot be of the type {data_type.simpleString()}: cast it to another"
                raise self.error("projection", name, texts[name], 0, len(texts[name]), why) from None
        results: dict[str, str] = {}
        outputs = []
        counts = dict.fromkeys("sldb", 0)
        for (name, (sql, needs)), data_type in zip(self.computed.items(), found, strict=False):
            slot = self.slot(counts, data_type)
            results[slot] = _sent(sql, data_type)
            outputs.append(Output(name, _kept(data_type), slot, needs, texts[name]))
        passes = None
        if condition is not None and rule.filter is not None:
            slot = self.slot(counts, types.BOOLEAN)
            results[slot] = f"CAST({condition[0]} AS BOOLEAN)"
            passes = Output("", types.BOOLEAN, slot, condition[1], rule.filter.text)
        schema = self.schema(order, {output.name: output.type for output in outputs})
        decisive = set(() if condition is None else condition[1])
        for name in schema.primary_key:
            decisive |= self.computed[name][1] if name in self.computed else {name}
        program = Program(
            number, self.table, tuple(self.inputs.values()), tuple(outputs), passes,
            None if as_they_come else tuple(order), frozenset(decisive), schema.primary_key, rule.soft_delete,
        )  # fmt: skip
        return _Made(program, schema, results, tuple(self.called.values()), tuple(self.literals))

    def schema(self, order: Sequence[str], computed: Mapping[str, DataType]) -> TableSchema:
        """The result's columns and key."""
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
        """The next free slot for values of a type."""
        kind = slot_of(data_type)
        counts[kind] += 1
        return f"{kind}{counts[kind] - 1}"

    def expression(self, option: str, name: str, expression: Expression) -> tuple[str, frozenset[str]]:
        """An expression over slots, and the source columns that it needs; raises TransformError."""
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
        places = [_Literal(n.start, n.stop, standing[n.parts[0]]) if n.parts[0] in standing else n for n in names]
        return self.bound(expression.sql, (*places, *made), option, name, expression)

    def bound(
        self, sql: str, given: Sequence[_Place], option: str, name: str, expression: Expression | None = None
    ) -> tuple[str, frozenset[str]]:
        """The SQL with slots in the place of names and of calls of the user's own functions."""
        needs: set[str] = set()
        places = sorted(given, key=lambda place: (place.start, -place.stop))
        made = self.rendered(sql, (0, len(sql)), places, needs, (option, name, expression))
        if len(made) > _MAX_SQL:
            raise self.error(option, name, sql, 0, len(sql), "too long with all that it refers to")
        return made, frozenset(needs)

    def rendered(
        self, sql: str, part: tuple[int, int], places: Sequence[_Place], needs: set[str], where: _Where
    ) -> str:
        """A part of an expression, with slots; adds the source columns in it to `needs`."""
        out: list[str] = []
        at, end = part
        option, name, expression = where
        for given in places:
            if given.start < at or given.stop > end:
                continue  # outside of this part, or in a call that was dealt with
            if isinstance(given, Call):
                out += (sql[at : given.start], self.call(sql, given, places, needs, where))
                at = given.stop
                continue
            if isinstance(given, _Literal):
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
            elif head in self.types or is_ours(head):
                made = self.column(head)
                needs.add(head)
            elif dotted in self.types:
                made, rest = self.column(dotted), []
                needs.add(dotted)
            else:
                text = sql if expression is None else expression.text
                same = expression is not None and expression.sql == expression.text
                start, length = (given.start, given.stop - given.start) if same else (0, len(text))
                raise self.error(
                    option, name, text, start, length, self.missing(head), 0 if expression is None else expression.at
                )
            out += (sql[at : given.start], made, *(f".`{part}`" for part in rest))
            at = given.stop
        return "".join((*out, sql[at:end]))

    def call(self, sql: str, given: Call, places: Sequence[_Place], needs: set[str], where: _Where) -> str:
        """The result of a call, which is computed before the expression that it stands in."""
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
            sql if want == is_so else f"CAST({sql} AS {want.simpleString()})"
            for sql, want, is_so in zip(arguments, takes, found, strict=True)
        )
        known = self.called.get((given.function, sent))
        if known is None:
            layer = 1 + max((c.layer for c in self.called.values() for a in sent if c.column in a), default=0)
            kind = f"u{self.compiler.number(function, takes)}_{layer}"
            count = sum(called.column.rpartition("_")[0] == kind for called in self.called.values())
            known = _Called(f"{kind}_{count}", given.function, tuple(takes), sent, layer)
            self.called[given.function, sent] = known
        return f"IF({known.column}.ok, {known.column}.v, raise_error('{known.column}'))"

    def columns(self) -> tuple[str, ...]:
        """What expressions may be made of so far, for the compiler to find their types."""
        gives = {
            called.column: self.compiler.functions[called.function].gives.simpleString()
            for called in self.called.values()
        }
        made = (f"{column} struct<ok: boolean, v: {given}, e: string>" for column, given in gives.items())
        literals = (f"{name} {_literal_type(name)}" for name, _ in self.literals)
        return (*sorted(given.slot for given in self.inputs.values()), *literals, *made)

    def column(self, name: str) -> str:
        """A column as SQL over slots; takes a slot for it where it has none yet."""
        known = self.inputs.get(name)
        if known is None:
            data_type = self.types.get(name)
            if data_type is None:
                data_type = types.BIGINT if name == NOW else types.DOUBLE if name.startswith(DICE) else types.STRING
            known = self.inputs[name] = Input(name, data_type, self.slot(self.counts, data_type))
        return _received(known.slot, known.type)

    def analyse(self, expressions: list[str]) -> list[DataType]:
        """The types of all expressions; raises TransformError for the first that Spark does not take."""
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
        """Why a name is none."""
        from difflib import get_close_matches  # noqa: PLC0415

        names = [*self.types, *self.computed]
        near = get_close_matches(name, names, 1)
        hint = f", did you mean {near[0]!r}?" if near else ""
        shown = ", ".join(column.name for column in self.source.columns)
        return f"table {show(self.table)} has no column {name!r}{hint} (it has {shown or 'none'})"

    def explained(self, option: str, name: str, expression: Expression, exc: Exception) -> TransformError:
        """Spark's words about an expression, without its plan."""
        said = str(exc).split("\n", 1)[0]
        found = getattr(exc, "getMessageParameters", None)
        parameters = {} if found is None else (found() or {})
        if "[PARSE_SYNTAX_ERROR]" in str(exc):
            said = f"syntax error at {parameters.get('error', 'its end')}"
        elif not said.strip():
            said = next((line for line in str(exc).splitlines() if line.strip()), type(exc).__name__)
        said = _SAID.sub("", said).split("; line ")[0].split(" SQLSTATE")[0].strip()
        for given in self.inputs.values():
            said = said.replace(f'"{given.slot}"', f'"{given.name}"').replace(f"`{given.slot}`", f"`{given.name}`")
        return self.error(option, name, expression.text, 0, len(expression.text), said, expression.at)

    def error(
        self, option: str, name: str, text: str, start: int, length: int, why: str, at: int = 0
    ) -> TransformError:
        """The error of an expression, with a line below it that marks the place. `at`: where the text begins."""
        rule = self.rule
        what = f"{rule.place}.{option}" + (f", column {name!r}" if name else "")
        shown = text.replace("\n", " ")
        length = max(1, min(length, len(shown) - start))
        return TransformError(
            f"{what}, table {show(self.table)}: {why}\n  {shown}\n  {' ' * start}{'^' * length}",
            "correct the expression; ingest plan shows what each rule makes of each table",
        ).placed(rule.number, option, at + start, at + start + length)


def _received(slot: str, data_type: DataType) -> str:
    """A slot as an expression of the column's own type."""
    if slot[0] in "db" or data_type == types.BIGINT or types.is_text(data_type):
        return slot
    if isinstance(data_type, NullType):
        return "CAST(NULL AS STRING)"
    if isinstance(data_type, BinaryType):
        return f"unbase64({slot})"
    if isinstance(data_type, (ArrayType, MapType, StructType)):
        return f"from_json({slot}, '{_quoted(data_type.simpleString())}')"
    return f"CAST({slot} AS {data_type.simpleString()})"


def _literal_type(column: str) -> str:
    return "string" if column.startswith("_text") else "int"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _sent(sql: str, data_type: DataType) -> str:
    """An expression's result as it travels back."""
    slot = slot_of(data_type)
    if slot == "l":
        return f"CAST({sql} AS BIGINT)"
    if slot in "db":
        return sql
    if isinstance(data_type, BinaryType):
        return f"base64({sql})"
    if isinstance(data_type, TimestampType):
        return f"CAST(unix_micros({sql}) AS STRING)"
    if isinstance(data_type, (ArrayType, MapType, StructType, VariantType)):
        return f"to_json({sql}, {_JSON})"
    return f"CAST({sql} AS STRING)"


def _kept(data_type: DataType) -> DataType:
    """The type of the column that a result becomes."""
    if isinstance(data_type, VariantType):
        return types.STRING
    if isinstance(data_type, StringType) and not types.is_text(data_type):
        return types.STRING
    return data_type
