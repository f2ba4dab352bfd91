"""The plan of a batch: the rules of all tables in one plan of Spark SQL, between the two Python stages.

In: rules that are bound to tables. Out: a DataFrame. An expression that fails for a row gives a mark for that row, and
never a failed job.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyspark.sql.classic import column as classic
from pyspark.sql.functions import expr

from ingest.encode.compiled_transform import MARKS, CompiledTransforms
from ingest.spark.jvm import jvm_of, parser_of
from ingest.transform.rows import TRANSFORM
from ingest.transform.spark_types import SLOT_TYPES, literal_type, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from ingest.transform.analyser import Analyser
    from ingest.transform.rules import CompiledRule, UdfCall

LAST: Final = "_errors"
"""Column after all results with the errors of user-defined functions. It exists only where there are such functions."""
Stage: TypeAlias = "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]"
FORM: Final = "_form"
"""Column with the number of the row's form. Transforms that differ only in their literals are one form."""
STAGE: Final = "INGEST_STAGE"


class SparkPlan:
    """Maker of plans for batches."""

    def __init__(self, analyser: Analyser) -> None:
        """Keep the part."""
        self._analyser = analyser

    def frame(
        self, transforms: CompiledTransforms, active: Iterable[CompiledRule], tasks: int, read: Stage, write: Stage
    ) -> DataFrame:
        """Return the plan of a batch: the first Python stage, all expressions, the second Python stage.

        `tasks` is the number of partitions.
        """
        slots = "".join(f", {slot} {SLOT_TYPES[slot[0]]}" for slot in transforms.inputs)
        environment = self._analyser.spark.sparkContext.environment
        try:
            # Each stage has its own workers: they import their modules before the fork, and keep their Kafka clients
            environment[STAGE] = "1"
            fed = self._analyser.spark.range(0, tasks, 1, tasks).mapInArrow(read, f"{TRANSFORM} int{slots}")
            environment[STAGE] = "3"
            computed = self.results(transforms, active, fed)
            environment[STAGE] = "2"
            return computed.mapInArrow(write, "outcome binary")
        finally:
            environment.pop(STAGE, None)

    def results(self, transforms: CompiledTransforms, active: Iterable[CompiledRule], fed: DataFrame) -> DataFrame:
        """Return all expressions over the rows of all tables, with marks for expressions that failed.

        Transforms that compute the same are one form. The plan has an expression for each form, not for each table.
        """
        if not transforms.results:
            return fed.selectExpr(TRANSFORM, "0L AS _failed0")
        forms: dict[tuple[Any, ...], list[CompiledRule]] = {}
        for compiled in active:
            forms.setdefault((*sorted(compiled.results.items()), *compiled.called), []).append(compiled)
        fed = fed.selectExpr("*", *self._constants(list(forms.values())))
        by_slot: dict[str, list[tuple[int, str]]] = {slot: [] for slot in transforms.results}
        called: dict[tuple[int, str], list[tuple[int, UdfCall]]] = {}
        for number, (compiled, *_) in enumerate(forms.values()):
            for slot, text in compiled.results.items():
                by_slot[slot].append((number, text))
            for call in compiled.called:
                called.setdefault((call.layer, call.column), []).append((number, call))
        errors = []
        for layer in sorted({layer for layer, _ in called}):
            columns = {column: of for (at, column), of in called.items() if at == layer}
            fed = self._with_calls(fed, columns)
            errors += [f"{column}.e" for column in columns]
        guarded = [self._guarded(slot, by_slot[slot]) for slot in transforms.results]
        last = [expr(f"CONCAT_WS('; ', {', '.join(errors)})").alias(LAST)] if errors else []
        marked = fed.select(TRANSFORM, *guarded, *last)
        values = [f"{slot}.v AS {slot}" for slot in transforms.results]
        masks = []
        for first in range(0, len(transforms.results), MARKS):
            some = transforms.results[first : first + MARKS]
            marks = "+".join(f"IF({slot} IS NULL, {1 << i}L, 0L)" for i, slot in enumerate(some))
            masks.append(f"IF(_transform < 0, 0L, {marks}) AS _failed{first // MARKS}")
        return marked.selectExpr(TRANSFORM, *masks, *values, *([LAST] if errors else []))

    @staticmethod
    def _constants(forms: Sequence[Sequence[CompiledRule]]) -> list[str]:
        """Return columns that depend only on a row's transform: the number of its form, and its literals."""
        size = 1 + max(compiled.transform.number for of in forms for compiled in of)
        numbers: list[Any] = [-1] * size
        literals: dict[str, list[Any]] = {}
        for number, of in enumerate(forms):
            for compiled in of:
                numbers[compiled.transform.number] = number
                for name, value in compiled.literals:
                    literals.setdefault(name, [None] * size)[compiled.transform.number] = value

        def looked_up(values: list[Any], kind: str) -> str:
            # One JSON text is parsed once by Spark; an array of literals would be as many expressions to parse
            return f"get(from_json('{quoted(json.dumps(values))}', 'array<{kind}>'), _transform)"

        form = (
            "IF(_transform < 0, -1, 0)" if len(forms) == 1 else f"IF(_transform < 0, -1, {looked_up(numbers, 'int')})"
        )
        made_of = {
            name: f"IF(_transform < 0, NULL, {looked_up(texts, literal_type(name))})"
            for name, texts in literals.items()
        }
        return [f"{form} AS {FORM}", *(f"{text} AS {name}" for name, text in made_of.items())]

    def _with_calls(self, fed: DataFrame, columns: Mapping[str, Sequence[tuple[int, UdfCall]]]) -> DataFrame:
        """Return the rows with the results of user-defined functions, for the forms that call them.

        Each result has a column of its own. A function is called for a whole batch, before the expressions around the
        calls. So its arguments are guarded before it, and its error counts only where the result is needed.
        """
        guarded, results = [], []
        for column, of in columns.items():
            first_call = of[0][1]
            names = [f"{column}_{i}" for i in range(len(first_call.arguments))]
            for i, name in enumerate(names):
                guarded.append(self._guarded(name, [(number, call.arguments[i]) for number, call in of]))
            numbers = ", ".join(str(number) for number, _ in of)
            wanted = " AND ".join((f"{FORM} IN ({numbers})", *(f"{name} IS NOT NULL" for name in names)))
            call = self._analyser.caller(first_call.function, first_call.takes)
            results.append(call(expr(wanted), *(expr(f"{name}.v") for name in names)).alias(column))
        return fed.select("*", *guarded).select(*fed.columns, *results)

    def _guarded(self, slot: str, of: Sequence[tuple[int, str]]) -> Column:
        """Return a column with a result for all forms: a struct, or null where the computation failed.

        The result itself is the field `v`, which may be null, too.
        """

        def choose(some: Sequence[tuple[int, str]]) -> str:
            if len(some) == 1:
                return some[0][1]
            middle = len(some) // 2
            return f"IF({FORM} < {some[middle][0]}, {choose(some[:middle])}, {choose(some[middle:])})"

        sql = f"named_struct('v', IF({FORM} < 0, NULL, {choose(of)}))"
        jvm = jvm_of(self._analyser.spark.sparkContext)
        parsed = parser_of(self._analyser.spark).parseExpression(sql)
        guard = jvm.org.apache.spark.sql.catalyst.expressions.TryEval(parsed)  # it has no name in SQL
        return classic.Column(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(guard)).alias(slot)
