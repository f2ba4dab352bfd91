"""Compiler of rules to programs, and of all programs to one Spark plan. It runs on the driver.

In: rules and the schemas of tables. Out: a program for each table, and a DataFrame between the two Python stages.
Spark's own parser finds the names of columns in an expression; the module `binder` replaces them. An expression that
fails for a row gives a mark for that row, and never a failed job.
"""

from __future__ import annotations

import json
import re
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyspark.sql import types as spark

from ingest.encode.compiled_transform import MARKS, CompiledTransforms, together
from ingest.errors import ConfigError, TransformError
from ingest.model import types
from ingest.model.cache import Cache
from ingest.model.data_type import NullType
from ingest.model.table import show
from ingest.schema.routes import rule_of
from ingest.spark.readable import readable
from ingest.transform.binder import Binder, CompiledRule, Name, UdfCall, literal_type, quoted
from ingest.transform.rows import BATCH_ROWS, PROGRAM
from ingest.transform.spark_types import from_spark, sql_name, to_spark
from ingest.transform.user_functions import caller

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from ingest.expressions.functions import Function
    from ingest.model.data_type import DataType
    from ingest.model.reject import Failure
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.schema.evolve import SourceTable
    from ingest.schema.routes import TransformRule

CONF: Final = {
    "spark.sql.caseSensitive": "true",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
    "spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1),
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.python.sql.dataFrameDebugging.enabled": "false",
}
"""Settings of Spark SQL that the plan needs.

Subexpression elimination is off: a value that several expressions share would fail outside of their guards. Among equal
keys of a map the last one wins, as in Flink. Batches have no limit of bytes: with one, Spark would measure all columns
after each row, which costs more than all its other work here. The first stage limits their size.
"""

LAST: Final = "_said"
"""Column after all results with the errors of user-defined functions. It exists only where there are such functions."""
Stage: TypeAlias = "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]"
FORM: Final = "_form"
"""Column with the number of the row's form. Programs that differ only in their literals are one form."""
_TYPES: Final = {"s": "string", "l": "bigint", "d": "double", "b": "boolean"}
_MAX_KEPT: Final = 20_000
STAGE: Final = "INGEST_STAGE"


class Compiler:
    """Compiler of rules. It asks Spark, and waits for Spark's start at the first question."""

    def __init__(
        self,
        rules: Sequence[TransformRule],
        zone: str,
        spark: Callable[[], SparkSession],
        functions: Iterable[Function] = (),
    ) -> None:
        """Keep the parts.

        `zone` is the value of `pipeline.local-time-zone`. `spark` is a function that waits until there is a session.
        """
        self.functions = {function.name.lower(): function for function in functions}
        self._callers: dict[tuple[str, tuple[str, ...]], tuple[int, Any]] = {}
        self._rules = rules
        self._zone = zone
        self._start = spark
        self._session: SparkSession | None = None
        self._names: Cache[str, tuple[Name, ...]] = Cache(_MAX_KEPT, 64 << 20)
        self._slots: Cache[tuple[str, ...], Any] = Cache(1000, 64 << 20)
        self._types: Cache[tuple[tuple[str, ...], tuple[str, ...]], list[DataType]] = Cache(_MAX_KEPT, 64 << 20)
        self._made: dict[tuple[TableId, TableSchema], CompiledRule] = {}
        self._numbers: dict[TableId, int] = {}
        self._rule: dict[TableId, TransformRule | None] = {}

    @property
    def spark(self) -> SparkSession:
        """The Spark session, with the settings that the plan needs.

        The first use waits for it. Raises ConfigError where a user-defined function has the name of one of Spark's.
        """
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
        """Return the schema of a table's rows after its rule. Return None where no rule changes them.

        Raise TransformError.
        """
        rule = self._rule_of(table)
        return None if rule is None else self._compile(rule, table, source).schema

    def programs(self, sources: Mapping[TableId, SourceTable]) -> CompiledTransforms:
        """Return the programs of all tables whose rows a rule changes."""
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

    def _compile(self, rule: TransformRule, table: TableId, source: TableSchema) -> CompiledRule:
        known = self._made.get((table, source))
        if known is None:
            number = self._numbers.setdefault(table, len(self._numbers))
            known = self._compiled(rule, table, source, number)
            for old in [key for key in self._made if key[0] == table]:
                _check_key(rule, self._made.pop(old), known, old[1], source)
            self._made[table, source] = known
        return known

    def _compiled(self, rule: TransformRule, table: TableId, source: TableSchema, number: int) -> CompiledRule:
        """Return a rule bound to a table, with columns in place of literals where that changes no result.

        Many rules share their expressions then. Literals stay where decimals are involved, because the number of digits
        of a result depends on the literal.
        """
        with suppress(TransformError):  # the second try below reports the error with the author's own literals
            made = Binder(self, rule, table, source, templates=True).compile(number)
            if not made.literals:
                return made
            program = made.program
            involved = [*(given.type for given in program.inputs), *(output.type for output in program.outputs)]
            if not any("decimal" in sql_name(data_type) for data_type in involved):
                return made
        return Binder(self, rule, table, source, templates=False).compile(number)

    def names(self, sql: str) -> tuple[Name, ...]:
        """Return the names in an expression that may be columns, with their places.

        Raise ValueError for queries and aggregates. Errors of py4j and Spark pass through.
        """
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
                own |= {parts[0]}  # the variable of a lambda; its place is the whole lambda
                continue
            found.append(Name(start, stop, parts))
        both = [name for name in found if name.parts[0] in own]
        names = tuple(sorted((n for n in found if n not in both), key=lambda n: n.start))
        return self._names.put(sql, names, 500 + 4 * len(sql) + 300 * len(names))

    def number(self, function: Function, takes: Sequence[DataType]) -> int:
        """Return the number of a user-defined function for arguments of these types.

        The same function and types have the same number.
        """
        key = _key(function.name.lower(), takes)
        known = self._callers.get(key)
        if known is None:
            from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf  # noqa: PLC0415  (slow to import)

            gives = spark.StructType([
                spark.StructField("ok", spark.BooleanType()), spark.StructField("v", to_spark(function.gives)),
                spark.StructField("e", spark.StringType()),
            ])  # fmt: skip
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # pyspark warns that it prefers annotations to an explicit type
                made = arrow_udf(caller(function, takes), gives, ArrowUDFType.SCALAR)
            known = self._callers[key] = (len(self._callers), made)
        return known[0]

    def types_of(self, expressions: Sequence[str], slots: tuple[str, ...]) -> list[DataType]:
        """Return the types of expressions over `slots`: names of slots, and columns written `name type`.

        Raise ValueError for expressions that need several rows or are not deterministic. Errors of Spark pass through.
        """
        known = self._types.get((tuple(expressions), slots))
        if known is not None:
            return known
        base = self._slots.get(slots)
        if base is None:
            columns = ", ".join(slot if " " in slot else f"{slot} {_TYPES[slot[0]]}" for slot in slots)
            made = self.spark.createDataFrame([], columns or "nothing int")
            base = self._slots.put(slots, made, 10_000 + 500 * len(slots))
        made = base.selectExpr(*(f"{sql} AS c{i}" for i, sql in enumerate(expressions)))
        plan = made._jdf.queryExecution().analyzed()  # noqa: SLF001  (the kind of plan cannot be found in another way)
        below = base._jdf.queryExecution().analyzed().getClass().getName()  # noqa: SLF001
        inner = plan.children()
        if plan.getClass().getSimpleName() != "Project" or inner.apply(0).getClass().getName() != below:
            msg = "an expression is computed from one row: no aggregates, no windows, nothing that makes several rows"
            raise ValueError(msg)
        values = plan.expressions()
        if not all(values.apply(i).deterministic() for i in range(values.size())):
            msg = "a function here gives another result each time it is called"
            raise ValueError(msg)
        found = [from_spark(field.dataType) for field in made.schema.fields]
        size = 500 + sum(300 + 4 * len(text) for text in (*expressions, *slots))
        return self._types.put((tuple(expressions), slots), found, size)

    # -- what failed -------------------------------------------------------------------------------------------------

    def why(self, failed: Failure) -> str:
        """Return Spark's reason why an expression fails for a row, or an empty text where Spark gives none.

        In a batch a failed expression gives only a mark, so this computes it again for that row alone. The
        text is empty, too, for an expression with a user-defined function: results of calls exist in a batch only.
        """
        made = next((m for (table, _), m in self._made.items() if table == failed.table), None)
        sql = None if made is None else made.results.get(failed.slot)
        if made is None or sql is None or any(call.column in sql for call in made.called):
            return ""
        values = [(slot, _TYPES[slot[0]], value) for slot, value in failed.values.items()]
        values += [(name, literal_type(name), value) for name, value in made.literals]
        import pyarrow as pa  # noqa: PLC0415  (slow to import)

        try:
            # Spark computes a single local row while it makes the plan, so that no job is needed
            kinds = {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64(), "boolean": pa.bool_()}
            columns = {name: pa.array([value], kinds.get(kind, pa.int32())) for name, kind, value in values}
            row = self.spark.createDataFrame(pa.table({"one": pa.array([1]), **columns}))
            row.selectExpr(f"{sql} AS result").collect()
        except Exception as exc:  # noqa: BLE001  (any exception is the answer to the question)
            return readable(exc)
        return ""

    # -- all tables --------------------------------------------------------------------------------------------------

    def frame(self, programs: CompiledTransforms, tasks: int, read: Stage, write: Stage) -> DataFrame:
        """Return the plan of a batch: the first Python stage, all expressions, the second Python stage.

        `tasks` is the number of partitions.
        """
        slots = "".join(f", {slot} {_TYPES[slot[0]]}" for slot in programs.inputs)
        environment = self.spark.sparkContext.environment
        try:
            # Each stage has its own workers: they import their modules before the fork, and keep their Kafka clients
            environment[STAGE] = "1"
            fed = self.spark.range(0, tasks, 1, tasks).mapInArrow(read, f"{PROGRAM} int{slots}")
            environment[STAGE] = "3"
            computed = self.results(programs, fed)
            environment[STAGE] = "2"
            return computed.mapInArrow(write, "outcome binary")
        finally:
            environment.pop(STAGE, None)

    def results(self, programs: CompiledTransforms, fed: DataFrame) -> DataFrame:
        """Return all expressions over the rows of all tables, with marks for expressions that failed.

        Programs that compute the same are one form. The plan has as many expressions as there are forms, not as tables.
        """
        from pyspark.sql.functions import expr  # noqa: PLC0415  (slow to import)

        if not programs.results:
            return fed.selectExpr(PROGRAM, "0L AS _failed0")
        active = [made for made in self._made.values() if programs.of.get(made.program.table) == made.program]
        forms: dict[tuple[Any, ...], list[CompiledRule]] = {}
        for made in active:
            forms.setdefault((*sorted(made.results.items()), *made.called), []).append(made)
        fed = fed.selectExpr("*", *self._constants(list(forms.values())))
        by_slot: dict[str, list[tuple[int, str]]] = {slot: [] for slot in programs.results}
        called: dict[tuple[int, str], list[tuple[int, UdfCall]]] = {}
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
        marked = fed.select(PROGRAM, *guarded, *last)
        values = [f"{slot}.v AS {slot}" for slot in programs.results]
        masks = []
        for first in range(0, len(programs.results), MARKS):
            some = programs.results[first : first + MARKS]
            marks = "+".join(f"IF({slot} IS NULL, {1 << i}L, 0L)" for i, slot in enumerate(some))
            masks.append(f"IF(_program < 0, 0L, {marks}) AS _failed{first // MARKS}")
        return marked.selectExpr(PROGRAM, *masks, *values, *([LAST] if said else []))

    @staticmethod
    def _constants(forms: Sequence[Sequence[CompiledRule]]) -> list[str]:
        """Return columns that depend only on a row's program: the number of its form, and its literals."""
        size = 1 + max(made.program.number for of in forms for made in of)
        numbers: list[Any] = [-1] * size
        literals: dict[str, list[Any]] = {}
        for number, of in enumerate(forms):
            for made in of:
                numbers[made.program.number] = number
                for name, value in made.literals:
                    literals.setdefault(name, [None] * size)[made.program.number] = value

        def looked_up(values: list[Any], kind: str) -> str:
            # One JSON text is parsed once by Spark; an array of literals would be as many expressions to parse
            return f"get(from_json('{quoted(json.dumps(values))}', 'array<{kind}>'), _program)"

        form = "IF(_program < 0, -1, 0)" if len(forms) == 1 else f"IF(_program < 0, -1, {looked_up(numbers, 'int')})"
        made_of = {
            name: f"IF(_program < 0, NULL, {looked_up(texts, literal_type(name))})" for name, texts in literals.items()
        }
        return [f"{form} AS {FORM}", *(f"{text} AS {name}" for name, text in made_of.items())]

    def _with_calls(self, fed: DataFrame, columns: Mapping[str, Sequence[tuple[int, UdfCall]]]) -> DataFrame:
        """Return the rows with the results of user-defined functions, for the forms that call them.

        Each result has a column of its own. A function is called for a whole batch, before the expressions around the
        calls. So its arguments are guarded before it, and its error counts only where the result is needed.
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
        """Return a column with a result for all forms: a struct, or null where the computation failed.

        The result itself is the field `v`, which may be null, too.
        """
        from pyspark.sql.classic.column import Column  # noqa: PLC0415  (slow to import)

        def choose(some: Sequence[tuple[int, str]]) -> str:
            if len(some) == 1:
                return some[0][1]
            middle = len(some) // 2
            return f"IF({FORM} < {some[middle][0]}, {choose(some[:middle])}, {choose(some[middle:])})"

        sql = f"named_struct('v', IF({FORM} < 0, NULL, {choose(of)}))"
        jvm: Any = self.spark.sparkContext._jvm  # noqa: SLF001  (Spark's TryEval has no name in SQL)
        parsed = self.spark._jsparkSession.sessionState().sqlParser().parseExpression(sql)  # noqa: SLF001
        guard = jvm.org.apache.spark.sql.catalyst.expressions.TryEval(parsed)
        return Column(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(guard)).alias(slot)


def _check_key(
    rule: TransformRule, before: CompiledRule, after: CompiledRule, was: TableSchema, now: TableSchema
) -> None:
    """Raise TransformError where a computed key could have another text than before for the same row.

    The result of any function may depend on the type of its argument. So no column that a key is computed from may get
    another type, unless the expression takes it as text.
    """
    known = {output.name: output.type for output in before.program.outputs if output.copy_of is None}
    types_were = {column.name: column.type for column in was.columns}
    types_are = {column.name: column.type for column in now.columns}
    for output in after.program.outputs:
        if output.name not in after.program.key or output.copy_of is not None or output.name not in known:
            continue
        moved = [(name, types_were[name], types_are[name]) for name in sorted(output.needs & types_were.keys())]
        moved = [step for step in moved if not _is_steady(*step[1:], as_text=step[0] in output.as_texts)]
        if not moved and types.sort_of(known[output.name]) != types.sort_of(output.type):
            moved = [(output.name, known[output.name], output.type)]
        for name, old, new in moved[:1]:
            msg = (
                f"{rule.place}, table {show(after.program.table)}: the key column {output.name!r} is computed by "
                f"{output.text}, and {name!r} was {types.name(old)} and is now {types.name(new)}: rows that were "
                "written before could get other keys"
            )
            hint = f"take it as CAST({name} AS STRING), which is one text for whole numbers and texts, and start anew"
            if name in output.as_texts:  # a number with a fraction has another text in each type
                hint = f"declare {name} STRING in scan.value.initial-schemas.ddls, and start anew"
            elif name == output.name:
                hint = f"make its result a text, CAST({output.text} AS STRING), and start anew"
            raise TransformError(msg, hint)


def _is_steady(old: DataType, new: DataType, *, as_text: bool) -> bool:
    """Tell whether an expression gives the same result for a value after the type of its column changed."""
    if old == new or isinstance(old, NullType) or (types.is_text(old) and types.is_text(new)):
        return True
    return as_text and all(types.is_text(t) or types.is_whole(t) for t in (old, new))


def _key(function: str, takes: Sequence[DataType]) -> tuple[str, tuple[str, ...]]:
    return function, tuple(sql_name(data_type) for data_type in takes)


_LEAVES: Final = frozenset({
    "Literal", "UnresolvedAttribute", "UnresolvedNamedLambdaVariable", "UnresolvedFunction", "CurrentTime",
})  # fmt: skip
_ARROW: Final = re.compile(r"->")
