"""User-defined functions in expressions. Their annotations say the types of their parameters and their result.

In: a text `module:function`. Out: the function with the types of its parameters and of its result. Imports the user's
module, but never calls the function. A function is called for each row, or once for many rows where its parameters are
Arrow arrays or pandas series.
"""

from __future__ import annotations

import datetime as dt
import inspect
import types as python_types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Final

from ingest.expressions.user_code import CodeError, imported, message_of
from ingest.model import types
from ingest.model.types import ArrayType, DataType, DecimalType, MapType

_TYPES: Final[dict[Any, DataType]] = {
    str: types.STRING,
    int: types.BIGINT,
    float: types.DOUBLE,
    bool: types.BOOLEAN,
    bytes: types.BYTES,
    Decimal: DecimalType(38, 18),
    dt.date: types.DATE,
    dt.datetime: types.TIMESTAMP,
    dt.time: types.parse("TIME(6)"),
}
_BATCHES: Final = {("pyarrow.lib", "Array"): "arrow", ("pandas", "Series"): "pandas"}
"""Classes whose instances hold the values of many rows. The module `pandas.core.series` counts as `pandas`."""


class FunctionError(ValueError):
    """Error about a function that cannot be used. Its text says why."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a function."""

    name: str
    type: DataType | None
    """The parameter's type. None accepts any type that the expression has."""
    nullable: bool
    """True if the parameter accepts null. If not, a null gives the result null, and the function is not called."""
    optional: bool


@dataclass(frozen=True, slots=True)
class Function:
    """A user-defined function."""

    name: str
    python: str
    call: Callable[..., Any]
    takes: tuple[Parameter, ...]
    gives: DataType
    batch: str
    """Kind of batches that the function takes: `arrow` or `pandas`. Empty where it takes one row at a time."""


def load(name: str, python: str) -> Function:
    """Import the module and return the function that `module:function` names.

    Importing runs the user's code. Raise FunctionError where there is no such function, or where its signature is not
    suitable.
    """
    try:
        function = imported(python, "function")
    except CodeError as exc:
        raise FunctionError(str(exc)) from exc
    module_name, _, attribute = python.partition(":")
    if (
        not inspect.isfunction(function)
        or inspect.iscoroutinefunction(function)
        or inspect.isgeneratorfunction(function)
    ):
        raise FunctionError(f"{attribute!r} in module {module_name!r} is no plain Python function")
    return _read(name, python, function)


def _read(name: str, python: str, function: Callable[..., Any]) -> Function:
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as exc:
        raise FunctionError(f"its annotations cannot be understood: {message_of(exc)}") from exc
    takes = []
    batches = set()
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in {parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD}:
            if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is not parameter.empty:
                continue
            msg = f"parameter {parameter.name!r}: a function takes a fixed number of arguments, by their order"
            raise FunctionError(msg)
        if parameter.name not in hints:
            raise FunctionError(f"parameter {parameter.name!r} has no annotation: one is needed to know its type")
        data_type, nullable, batch = _understood(hints[parameter.name], f"parameter {parameter.name!r}")
        batches.add(batch)
        takes.append(Parameter(parameter.name, data_type, nullable, parameter.default is not parameter.empty))
    if "return" not in hints:
        raise FunctionError("it does not say what it gives: def f(…) -> str")
    gives, _, batch = _understood(hints["return"], "what it gives")
    if gives is None:
        raise FunctionError("what it gives: the type of its elements is needed, -> Annotated[…, 'STRING']")
    if batches - {batch}:
        raise FunctionError("a function takes and gives either values, or Arrow arrays, or pandas series")
    if batch and not takes:
        msg = "a function of batches takes at least one argument, or it does not know how many results to give"
        raise FunctionError(msg)
    return Function(name, python, function, tuple(takes), gives, batch)


def _understood(hint: object, what: str) -> tuple[DataType | None, bool, str]:
    """Return the type of an annotation (None for any type), whether it accepts None, and how it takes many rows.

    Raise FunctionError where no column has such a type. `what` names the annotation in the error.
    """
    data_type: DataType | None = None
    if typing.get_origin(hint) is Annotated:
        hint, *more = typing.get_args(hint)
        text = next((item for item in more if isinstance(item, str)), None)
        if text is not None:
            try:
                data_type = types.parse(text.upper())
            except ValueError as exc:
                raise FunctionError(f"{what}: {exc}") from None
    nullable = False
    if typing.get_origin(hint) in {typing.Union, python_types.UnionType}:
        some = [arg for arg in typing.get_args(hint) if arg is not type(None)]
        nullable = len(some) < len(typing.get_args(hint))
        if len(some) > 1:
            raise FunctionError(f"{what}: of several types at once, {hint}")
        inner, deeper, batch = _understood(some[0], what)
        return data_type or inner, nullable or deeper, batch
    batch = _batch_of(hint)
    if data_type is not None or batch:
        return data_type, nullable or bool(batch), batch
    return _type(hint, what), nullable, ""


def _batch_of(hint: object) -> str:
    if not isinstance(hint, type):
        return ""
    for base in hint.__mro__:
        for (module, name), batch in _BATCHES.items():
            if base.__name__ == name and (base.__module__ == module or base.__module__.startswith(f"{module}.")):
                return batch
    return ""


def _type(hint: object, what: str) -> DataType:
    known = _TYPES.get(hint) if isinstance(hint, type) else None
    if known is not None:
        return known
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is list and len(arguments) == 1:
        return ArrayType(_type(arguments[0], what))
    if origin is dict and len(arguments) == 2 and arguments[0] is str:
        return MapType(types.STRING, _type(arguments[1], what))
    shown = getattr(hint, "__name__", str(hint)) if isinstance(hint, type) else str(hint)
    raise FunctionError(f"{what}: no column has the type {shown}; Annotated[{shown}, 'STRING'] says which one is meant")
