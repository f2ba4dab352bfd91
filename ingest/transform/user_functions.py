"""Calls of user-defined functions for a batch of rows, on a worker.

In: a function with its types, and Arrow arrays of arguments. Out: a struct for each row with a result or an error. An
error in the function is a failed row, and never a failed batch.
"""

from __future__ import annotations

from contextlib import suppress
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type

from ingest.expressions.user_code import message_of
from ingest.model.types import DataType, DecimalType
from ingest.transform.spark_types import to_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ingest.expressions.functions import Function


def caller(function: Function, takes: Sequence[DataType]) -> Callable[..., pa.Array]:
    """Return a function that calls a user-defined function for a batch of rows.

    Its argument `wanted` tells for which rows; the others are the arguments of the user's function. It returns a struct
    for each row: whether there is a result (`ok`), the result (`v`), and the error (`e`).
    """
    gives = to_arrow_type(to_spark(function.gives), timezone="UTC")
    call_rows = _by_row if not function.batch else _by_batch
    scale = function.gives.scale if isinstance(function.gives, DecimalType) else None
    strict = tuple(not p.nullable for p in function.takes[: len(takes)])
    call, name, batch = function.call, function.name, function.batch

    def results(wanted: pa.Array, *arguments: pa.Array) -> pa.Array:
        if batch and wanted.true_count == len(wanted):
            with suppress(Exception):  # the calls below find the row with the error
                column = _called(call, batch, arguments)
                if column.type == gives and len(column) == len(wanted):
                    return pa.StructArray.from_arrays(
                        [pa.repeat(True, len(wanted)), column, pa.nulls(len(wanted), pa.string())], ["ok", "v", "e"]
                    )
        rows = [i for i, is_wanted in enumerate(wanted.to_pylist()) if is_wanted]
        ok: list[bool] = [False] * len(wanted)
        why: list[str | None] = [None] * len(wanted)
        values: list[Any] = [None] * len(wanted)
        for i, value, error in call_rows(call, batch, arguments, rows, strict, gives, scale):
            values[i], why[i], ok[i] = value, None if error is None else f"{name}: {error}", error is None
        return pa.StructArray.from_arrays(
            [pa.array(ok, pa.bool_()), pa.array(values, gives), pa.array(why, pa.string())], ["ok", "v", "e"]
        )

    return results


def _by_row(
    call: Callable[..., Any],
    _batch: str,
    arguments: Sequence[pa.Array],
    rows: Sequence[int],
    strict: Sequence[bool],
    gives: pa.DataType,
    scale: int | None,
) -> Iterator[tuple[int, object, str | None]]:
    """Call the function once for each row. Yield the row's index, its result, and its error as text."""
    columns = [argument.to_pylist() for argument in arguments]
    for i in rows:
        values = [column[i] for column in columns]
        if any(value is None and is_strict for value, is_strict in zip(values, strict, strict=True)):
            yield i, None, None
            continue
        try:
            yield i, _fitting(call(*values), gives, scale), None
        except Exception as exc:  # noqa: BLE001  (any error of the user's code belongs to this row)
            yield i, None, message_of(exc)


def _by_batch(
    call: Callable[..., Any],
    batch: str,
    arguments: Sequence[pa.Array],
    rows: Sequence[int],
    strict: Sequence[bool],
    gives: pa.DataType,
    scale: int | None,
) -> Iterator[tuple[int, object, str | None]]:
    """Call the function for all rows at once. Yield each row's index, its result, and its error as text.

    Where the call fails, it is repeated for each half of the rows, until the wrong row is alone.
    """
    if not rows:
        return
    some = [argument.take(pa.array(rows)) for argument in arguments]
    try:
        values = _called(call, batch, some).to_pylist()
        if len(values) != len(rows):
            msg = f"it gave {len(values)} results for {len(rows)} rows"
            raise ValueError(msg)  # noqa: TRY301  (it belongs to the row if that is the only one)
        fitting = [_fitting(value, gives, scale) for value in values]
    except Exception as exc:  # noqa: BLE001  (any error of the user's code belongs to these rows)
        if len(rows) == 1:
            yield rows[0], None, message_of(exc)
            return
        middle = len(rows) // 2
        yield from _by_batch(call, batch, arguments, rows[:middle], strict, gives, scale)
        yield from _by_batch(call, batch, arguments, rows[middle:], strict, gives, scale)
    else:
        for i, value in zip(rows, fitting, strict=True):
            yield i, value, None


def _called(call: Callable[..., Any], batch: str, arguments: Sequence[pa.Array]) -> pa.Array:
    """Return the result of a function that takes many rows."""
    if batch == "arrow":
        result = call(*arguments)
        return result.combine_chunks() if isinstance(result, pa.ChunkedArray) else result
    return pa.Array.from_pandas(call(*(argument.to_pandas() for argument in arguments)))


def _fitting(value: object, gives: pa.DataType, scale: int | None) -> object:
    """Return a result as Arrow accepts it. Raise TypeError where it has another type."""
    if value is None:
        return None
    kind = _PLAIN.get(str(gives))
    if kind is not None and type(value) is kind and kind is not int:
        return value
    if scale is not None and isinstance(value, Decimal) and value.is_finite():
        value = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _WIDE)
    try:
        if isinstance(value, bool) and not pa.types.is_boolean(gives):
            raise pa.ArrowTypeError
        pa.scalar(value, gives)
    except pa.ArrowException as exc:
        raise TypeError(f"it gave {value!r}, which is no {gives}") from exc
    return value


_PLAIN: Final = {"string": str, "double": float, "bool": bool, "binary": bytes, "int64": int}
_WIDE: Final = Context(prec=80)
