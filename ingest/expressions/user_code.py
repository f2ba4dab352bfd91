"""Code of the user's that a pipeline file names as `module:name`: importing it, and its way to workers.

In: such a text. Out: what it names. Importing runs the user's module; nothing in it is called here.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

PLACE: Final = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)", re.ASCII)
"""`module:name`, the module with its package."""
_SAID: Final = 300


class CodeError(ValueError):
    """Error about code of the user's that cannot be used. Its text says why."""


def imported(place: str, what: str) -> Any:
    """Import a module and return what `module:name` names in it; `what` that should be, for errors.

    Raise CodeError where there is no such thing, or where the module cannot be imported.
    """
    match = PLACE.fullmatch(place)
    if match is None:
        raise CodeError(f"{place!r} is not module:{what}")
    module_name, name = match.groups()
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as exc:
        raise CodeError(f"module {module_name!r} cannot be imported: {message_of(exc)}") from exc
    if getattr(module, name, None) is None:
        raise CodeError(f"module {module_name!r} has no {what} {name!r}")
    return getattr(module, name)


def travelling(modules: Iterable[str], folder: Path | None) -> None:
    """Make modules of the user's travel to workers by value, so that workers need no files.

    These are the named ones, where they are below the directory of the pipeline file, and all loaded modules in that
    directory.
    """
    if folder is None:
        return
    from pyspark import cloudpickle  # noqa: PLC0415  (few runs need it)

    register: Callable[[Any], None] = cloudpickle.register_pickle_by_value
    home = folder.resolve()
    for module in [*sys.modules.values()]:
        file = getattr(module, "__file__", None)
        if file is not None and Path(file).resolve().parent == home and module.__name__ != "__main__":
            register(module)
    for module in {name: sys.modules[name] for name in modules}.values():
        file = getattr(module, "__file__", None)
        if file is not None and Path(file).resolve().is_relative_to(home) and "site-packages" not in Path(file).parts:
            register(module)


def message_of(exc: BaseException) -> str:
    """Return the error's class and the first line of its text, as one line of at most 300 characters."""
    text = str(exc).strip().splitlines()
    return f"{type(exc).__name__}{': ' + text[0] if text else ''}"[:_SAID]
