"""Compiler of rules to transforms, and of all transforms to one Spark plan. It runs on the driver.

In: rules and the schemas of tables. Out: a transform for each table, and a DataFrame between the two Python stages.
Spark's own parser finds the names of columns in an expression; the module `binder` replaces them.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ingest.encode.compiled_transform import CompiledTransforms, together
from ingest.errors import TransformError
from ingest.schema.evolve import Shaped, SourceTable
from ingest.schema.routes import TransformRule, rule_of
from ingest.spark.readable import readable
from ingest.transform.analyser import Analyser
from ingest.transform.binder import Binder
from ingest.transform.rules import CompiledRule, check_key
from ingest.transform.runner import LocalTransformRunner, SparkTransformRunner
from ingest.transform.spark_plan import SparkPlan, Stage
from ingest.transform.spark_types import SLOT_TYPES, literal_type, sql_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from ingest.expressions.functions import Function
    from ingest.model.reject import Failure
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.spark.session import Session


class TransformCompiler:
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
        self._rules = rules
        self._analyser = Analyser(zone, spark, functions)
        self._plan = SparkPlan(self._analyser)
        self._made: dict[tuple[TableId, TableSchema], CompiledRule] = {}
        self._numbers: dict[TableId, int] = {}
        self._rule: dict[TableId, TransformRule | None] = {}

    @property
    def spark(self) -> SparkSession:
        """The Spark session, with the settings that the plan needs. The first use waits for it."""
        return self._analyser.spark

    def runner(self, session: Session, shards: int) -> SparkTransformRunner:
        """Return what runs tasks with these transforms as Spark jobs."""
        return SparkTransformRunner(session, self, shards)

    def local_runner(self) -> LocalTransformRunner:
        """Return what runs both stages of them in this process."""
        return LocalTransformRunner(self)

    def shape(self, table: TableId, source: TableSchema) -> Shaped | None:
        """Return the schema of a table's rows after its rule, with the columns that it passes on. None: there is none.

        Raise TransformError.
        """
        rule = self._rule_of(table)
        if rule is None:
            return None
        compiled = self._compile(rule, table, source)
        of: dict[str, str | None] = {column.name: column.name for column in source.columns}
        of |= {output.name: output.copy_of for output in compiled.transform.outputs}
        copies = ((column.name, of.get(column.name)) for column in compiled.schema.columns)
        return Shaped(compiled.schema, tuple((name, passed) for name, passed in copies if passed is not None))

    def transforms(self, sources: Mapping[TableId, SourceTable]) -> CompiledTransforms:
        """Return the transforms of all tables whose rows a rule changes."""
        compiled = [
            self._compile(rule, table, source.schema)
            for table, source in sources.items()
            if source.output is not None and (rule := self._rule_of(table)) is not None
        ]
        return together((rule.transform for rule in compiled), has_errors=any(rule.called for rule in compiled))

    def _rule_of(self, table: TableId) -> TransformRule | None:
        if table not in self._rule:
            self._rule[table] = rule_of(self._rules, table)
        return self._rule[table]

    # -- one rule for one table --------------------------------------------------------------------------------------

    def _compile(self, rule: TransformRule, table: TableId, source: TableSchema) -> CompiledRule:
        compiled = self._made.get((table, source))
        if compiled is None:
            number = self._numbers.setdefault(table, len(self._numbers))
            compiled = self._compiled(rule, table, source, number)
            for old in [key for key in self._made if key[0] == table]:
                check_key(rule, self._made.pop(old), compiled, old[1], source)
            self._made[table, source] = compiled
        return compiled

    def _compiled(self, rule: TransformRule, table: TableId, source: TableSchema, number: int) -> CompiledRule:
        """Return a rule bound to a table, with columns in place of literals where that changes no result.

        Many rules share their expressions then. Literals stay where decimals are involved, because the number of digits
        of a result depends on the literal.
        """
        with suppress(TransformError):  # the second try below reports the error with the author's own literals
            compiled = Binder(self._analyser, rule, table, source, templates=True).compile(number)
            if not compiled.literals:
                return compiled
            transform = compiled.transform
            involved = [*(column.type for column in transform.inputs), *(output.type for output in transform.outputs)]
            if not any("decimal" in sql_name(data_type) for data_type in involved):
                return compiled
        return Binder(self._analyser, rule, table, source, templates=False).compile(number)

    # -- what failed -------------------------------------------------------------------------------------------------

    def why(self, failed: Failure) -> str:
        """Return Spark's reason why an expression fails for a row, or an empty text where Spark gives none.

        In a batch a failed expression gives only a mark, so this computes it again for that row alone. The
        text is empty, too, for an expression with a user-defined function: results of calls exist in a batch only.
        """
        compiled = next((m for (table, _), m in self._made.items() if table == failed.table), None)
        sql = None if compiled is None else compiled.results.get(failed.slot)
        if compiled is None or sql is None or any(call.column in sql for call in compiled.called):
            return ""
        values = [(slot, SLOT_TYPES[slot[0]], value) for slot, value in failed.values.items()]
        values += [(name, literal_type(name), value) for name, value in compiled.literals]
        return self._why(sql, values)

    def _why(self, sql: str, values: Sequence[tuple[str, str, Any]]) -> str:
        """Return Spark's reason for one expression, whose columns have these names, types and values."""
        try:
            # Spark computes a single local row while it makes the plan, so that no job is needed
            kinds = {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64(), "boolean": pa.bool_()}
            columns = {name: pa.array([value], kinds.get(kind, pa.int32())) for name, kind, value in values}
            row = self._analyser.spark.createDataFrame(pa.table({"one": pa.array([1]), **columns}))
            row.selectExpr(f"{sql} AS result").collect()
        except Exception as exc:  # noqa: BLE001  (any exception is the answer to the question)
            return readable(exc)
        return ""

    # -- all tables --------------------------------------------------------------------------------------------------

    def frame(self, transforms: CompiledTransforms, tasks: int, read: Stage, write: Stage) -> DataFrame:
        """Return the plan of a batch: the first Python stage, all expressions, the second Python stage.

        `tasks` is the number of partitions.
        """
        return self._plan.frame(transforms, self._active(transforms), tasks, read, write)

    def results(self, transforms: CompiledTransforms, fed: DataFrame) -> DataFrame:
        """Return all expressions over the rows of all tables, with marks for expressions that failed."""
        return self._plan.results(transforms, self._active(transforms), fed)

    def _active(self, transforms: CompiledTransforms) -> list[CompiledRule]:
        return [
            compiled
            for compiled in self._made.values()
            if transforms.of.get(compiled.transform.table) == compiled.transform
        ]
