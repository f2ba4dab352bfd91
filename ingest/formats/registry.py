"""Components by their names, each loaded when it is asked for: a pipeline has one of each kind, and starts faster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Generic, TypeVar

T = TypeVar("T")


class Registry(Mapping[str, type[T]], Generic[T]):
    """Names, and where the class of each is: `package.module:Class`."""

    def __init__(self, places: Mapping[str, str]) -> None:
        """Load nothing yet."""
        self._places = dict(places)

    def __getitem__(self, name: str) -> type[T]:
        """The class of a name; raises KeyError."""
        module, _, attribute = self._places[name].partition(":")
        found: type[T] = getattr(import_module(module), attribute)
        return found

    def __iter__(self) -> Iterator[str]:
        """The names, in the order in which they were given."""
        return iter(self._places)

    def __len__(self) -> int:
        """How many names there are."""
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        """Whether there is such a name; loads nothing."""
        return name in self._places
