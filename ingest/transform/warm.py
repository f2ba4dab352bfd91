"""A sample of the work of a pipeline with transforms, so that a warm-up keeps the classes that it loads.

In: a session. Out: nothing; Catalyst, code generation and Arrow have been used once. It is not run at the start of a
pipeline: on two cores, which are busy then, it saved no time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ingest.expressions.clauses import condition, projection
from ingest.model import types
from ingest.model.schema import Column, TableSchema
from ingest.schema.evolve import SourceTable
from ingest.schema.routes import TransformRule
from ingest.transform.compiler import TransformCompiler
from ingest.transform.rows import layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ingest.encode.compiled_transform import CompiledTransforms
    from ingest.spark.session import Session

_TABLE: Final = ("warm",)
_SCHEMA: Final = TableSchema(
    (
        Column("id", types.BIGINT, nullable=False),
        Column("s", types.STRING),
        Column("d", types.DOUBLE),
        Column("b", types.BOOLEAN),
        Column("p", types.parse("DECIMAL(10,2)")),
        Column("t", types.TIMESTAMP),
    ),
    ("id",),
)
_PROJECTION: Final = (
    "*, UPPER(s) || '-' || CAST(id AS STRING) AS a, d * 2 AS x, id + 1 AS n, NOT b AS y, p * 2 AS q, "
    "DATE_FORMAT(t, 'yyyy') AS z, COALESCE(s, 'x') AS c, CASE WHEN id > 1 THEN 1 ELSE 2 END AS w, CAST(s AS INT) AS f"
)


def warm(session: Session) -> None:
    """Run a plan like that of a batch, over a few rows."""
    rule = TransformRule(0, "warm", projection(_PROJECTION), condition("id >= 0 AND s LIKE 'w%'"))
    compiler = TransformCompiler([rule], "UTC", session.sql)
    shaped = compiler.shape(_TABLE, _SCHEMA)
    output = None if shaped is None else shaped.schema
    transforms = compiler.transforms({_TABLE: SourceTable(_SCHEMA, (_TABLE,), key_from_message=False, output=output)})
    session.run_frame(compiler.frame(transforms, 1, _fed(transforms), _drained), "")


def _fed(transforms: CompiledTransforms) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        schema = layout(transforms)
        values = {pa.int32(): 0, pa.int64(): 1, pa.string(): "1", pa.float64(): 1.5, pa.bool_(): True}
        yield pa.RecordBatch.from_arrays(
            [pa.array([values[field.type]] * 3, field.type) for field in schema], schema=schema
        )

    return stage


def _drained(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = sum(batch.num_rows for batch in batches)
    yield pa.RecordBatch.from_pydict({"outcome": pa.array([str(rows).encode()], pa.binary())})
