"""Questions about expressions that Spark answers: names in them, their types. It runs on the driver.

In: SQL. Out: places of names, and types. Nothing is computed.
"""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Final

from pyspark.sql import types as spark
from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf

from ingest.errors import ConfigError
from ingest.model.cache import Cache
from ingest.spark.jvm import analysed, jvm_of, parser_of
from ingest.transform.rows import BATCH_ROWS
from ingest.transform.rules import Name
from ingest.transform.spark_types import SLOT_TYPES, from_spark, sql_name, to_spark
from ingest.transform.user_functions import caller

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from ingest.expressions.functions import Function
    from ingest.model.types import DataType

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

_MAX_KEPT: Final = 20_000
_LEAVES: Final = frozenset(
    {"Literal", "UnresolvedAttribute", "UnresolvedNamedLambdaVariable", "UnresolvedFunction", "CurrentTime"}
)
_ARROW: Final = re.compile(r"->")


class Analyser:
    """Analyser of expressions. It waits for Spark's start at the first question."""

    def __init__(self, zone: str, spark: Callable[[], SparkSession], functions: Iterable[Function] = ()) -> None:
        """Keep the parts.

        `zone` is the value of `pipeline.local-time-zone`. `spark` is a function that waits until there is a session.
        """
        self.functions = {function.name.lower(): function for function in functions}
        self._callers: dict[tuple[str, tuple[str, ...]], tuple[int, Callable[..., Column]]] = {}
        self._zone = zone
        self._start = spark
        self._session: SparkSession | None = None
        self._names: Cache[str, tuple[Name, ...]] = Cache(_MAX_KEPT, 64 << 20)
        self._slots: Cache[tuple[str, ...], DataFrame] = Cache(1000, 64 << 20)
        self._types: Cache[tuple[tuple[str, ...], tuple[str, ...]], list[DataType]] = Cache(_MAX_KEPT, 64 << 20)

    @property
    def spark(self) -> SparkSession:
        """The Spark session, with the settings that the plan needs.

        The first use waits for it. Raises ConfigError where a user-defined function has the name of one of Spark's.
        """
        if self._session is None:
            self._session = self._start()
            for key, value in {**CONF, "spark.sql.session.timeZone": self._zone}.items():
                self._session.conf.set(key, value)
            jvm = jvm_of(self._session.sparkContext)
            taken = jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.functionSet()
            for name, function in self.functions.items():
                if taken.contains(jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name)):
                    msg = f"pipeline.user-defined-function: Spark SQL has a function {function.name!r} of its own"
                    raise ConfigError(msg, "give yours another name")
        return self._session

    def names(self, sql: str) -> tuple[Name, ...]:
        """Return the names in an expression that may be columns, with their places.

        Raise ValueError for queries and aggregates. Errors of py4j and Spark pass through.
        """
        cached = self._names.get(sql)
        if cached is not None:
            return cached
        leaves = parser_of(self.spark).parseExpression(sql).collectLeaves()
        all_names = []
        variables: set[str] = set()
        for i in range(leaves.size()):
            leaf = leaves.apply(i)
            kind = leaf.getClass().getSimpleName()
            if kind not in _LEAVES:
                raise ValueError("an expression is computed from one row: no queries, no aggregates")
            if kind not in {"UnresolvedAttribute", "UnresolvedNamedLambdaVariable"}:
                continue
            origin = leaf.origin()
            start, stop = origin.startIndex().get(), origin.stopIndex().get() + 1
            parts = tuple(leaf.nameParts().mkString("\0").split("\0"))
            if _ARROW.search(sql, start, stop):
                variables |= {parts[0]}  # the variable of a lambda; its place is the whole lambda
                continue
            all_names.append(Name(start, stop, parts))
        bound = [name for name in all_names if name.parts[0] in variables]
        names = tuple(sorted((n for n in all_names if n not in bound), key=lambda n: n.start))
        return self._names.put(sql, names, 500 + 4 * len(sql) + 300 * len(names))

    def number(self, function: Function, takes: Sequence[DataType]) -> int:
        """Return the number of a user-defined function for arguments of these types.

        The same function and types have the same number.
        """
        key = _key(function.name.lower(), takes)
        numbered = self._callers.get(key)
        if numbered is None:
            gives = spark.StructType(
                [
                    spark.StructField("ok", spark.BooleanType()),
                    spark.StructField("v", to_spark(function.gives)),
                    spark.StructField("e", spark.StringType()),
                ]
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # pyspark warns that it prefers annotations to an explicit type
                arrow_function = arrow_udf(caller(function, takes), gives, ArrowUDFType.SCALAR)
            numbered = self._callers[key] = (len(self._callers), arrow_function)
        return numbered[0]

    def types_of(self, expressions: Sequence[str], slots: tuple[str, ...]) -> list[DataType]:
        """Return the types of expressions over `slots`: names of slots, and columns written `name type`.

        Raise ValueError for expressions that need several rows or are not deterministic. Errors of Spark pass through.
        """
        cached = self._types.get((tuple(expressions), slots))
        if cached is not None:
            return cached
        base = self._slots.get(slots)
        if base is None:
            columns = ", ".join(slot if " " in slot else f"{slot} {SLOT_TYPES[slot[0]]}" for slot in slots)
            frame = self.spark.createDataFrame([], columns or "nothing int")
            base = self._slots.put(slots, frame, 10_000 + 500 * len(slots))
        frame = base.selectExpr(*(f"{sql} AS c{i}" for i, sql in enumerate(expressions)))
        plan = analysed(frame)  # the kind of plan cannot be found in another way
        below = analysed(base).getClass().getName()
        inner = plan.children()
        if plan.getClass().getSimpleName() != "Project" or inner.apply(0).getClass().getName() != below:
            msg = "an expression is computed from one row: no aggregates, no windows, nothing that makes several rows"
            raise ValueError(msg)
        values = plan.expressions()
        if not all(values.apply(i).deterministic() for i in range(values.size())):
            raise ValueError("a function here gives another result each time it is called")
        types = [from_spark(field.dataType) for field in frame.schema.fields]
        size = 500 + sum(300 + 4 * len(text) for text in (*expressions, *slots))
        return self._types.put((tuple(expressions), slots), types, size)

    def caller(self, function: str, takes: Sequence[DataType]) -> Callable[..., Column]:
        """Return what calls a user-defined function for arguments of these types, once it has a number."""
        return self._callers[_key(function, takes)][1]


def _key(function: str, takes: Sequence[DataType]) -> tuple[str, tuple[str, ...]]:
    return function, tuple(sql_name(data_type) for data_type in takes)
