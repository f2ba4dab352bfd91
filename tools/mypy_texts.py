"""A plugin of mypy: no text of ingest shows None, True, False or b'' where a type says that it might.

It looks at what f-strings and `str.format` put into texts. `ingest.model.text` has `yaml_text` for values of any type
and `reason_of` for errors of files; where a value is always there, say so to mypy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy.plugin import MethodContext, Plugin
from mypy.types import Instance, LiteralType, NoneType, ProperType, Type, UnionType, get_proper_type

if TYPE_CHECKING:
    from collections.abc import Callable

_WORDS: Final = frozenset({"builtins.bool", "builtins.bytes", "builtins.bytearray", "builtins.memoryview"})
_PACKAGE: Final = "ingest/"


def word_of_python(found: Type) -> str:
    """Return the type whose values a text would show as Python writes them; an empty text if there is none."""
    kind: ProperType = get_proper_type(found)
    if isinstance(kind, UnionType):
        return next(filter(None, map(word_of_python, kind.items)), "")
    if isinstance(kind, NoneType):
        return "None"
    if isinstance(kind, LiteralType):
        return word_of_python(kind.fallback)
    return kind.type.name if isinstance(kind, Instance) and kind.type.fullname in _WORDS else ""


def _check(context: MethodContext) -> Type:
    if context.api.path.startswith(_PACKAGE):
        for found in context.arg_types[0] if context.arg_types else ():
            if word := word_of_python(found):
                context.api.fail(f"this text may show a value of {word} as Python writes it", context.context)
    return context.default_return_type


class Texts(Plugin):
    """Looks at each value that is formatted."""

    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        """Return what looks at a call of a method, which each value of an f-string is to mypy."""
        return _check if fullname == "builtins.str.format" else None


def plugin(_version: str) -> type[Plugin]:
    """Return the plugin, for mypy."""
    return Texts
