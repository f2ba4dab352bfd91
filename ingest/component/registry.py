"""Components by their names, each loaded when it is asked for: a pipeline has one of each kind, and starts faster.

Those of other packages are found by their entry points, and only where the package's own has no such name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ingest.model.text import one_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


class ComponentError(ValueError):
    """A component of another package that cannot be used: which, and why."""


class Registry(Mapping[str, type[T]], Generic[T]):
    """The components that come with the package: names, and where the class of each is, `package.module:Class`.

    `find` and `names` know those of other packages as well.
    """

    def __init__(self, group: str, base: str, needed: Sequence[str], places: Mapping[str, str]) -> None:
        """Load nothing yet.

        Those of others have entry points in `group`, are of the class `base` (a place as in `places`), and have the
        attributes `needed`.
        """
        self._group = group
        self._base = base
        self._needed = needed
        self._places = dict(places)
        self._others: dict[str, list[EntryPoint]] | None = None

    def __getitem__(self, name: str) -> type[T]:
        """The class of a name; raises KeyError."""
        found: type[T] = _load(self._places[name])
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

    def find(self, name: str) -> type[T] | None:
        """The class of a name, here or in another package; None where nobody has it. Raises ComponentError."""
        if name in self._places:
            return self[name]
        entries = self._installed().get(name)
        if not entries:
            return None
        if len(entries) > 1:
            packages = ", ".join(_package(entry) for entry in entries)
            msg = f"{name!r} is in several packages: {packages}; uninstall all but one"
            raise ComponentError(msg)
        (entry,) = entries
        what = f"{name!r} of the package {_package(entry)}"
        try:
            found: type[T] = entry.load()
        except Exception as exc:
            msg = f"{what} cannot be loaded: {type(exc).__name__}: {one_line(str(exc))[:200]}"
            raise ComponentError(msg) from exc
        if not (isinstance(found, type) and issubclass(found, _load(self._base))):
            msg = f"{what} is no {self._base.partition(':')[2]}: {entry.value}"
            raise ComponentError(msg)
        missing = [attribute for attribute in self._needed if not hasattr(found, attribute)]
        if missing:
            msg = f"{what} lacks {', '.join(missing)}: {entry.value}"
            raise ComponentError(msg)
        return found

    def names(self) -> list[str]:
        """All names: those that come with the package, then the others."""
        return [*self._places, *sorted(self._installed().keys() - self._places.keys())]

    def _installed(self) -> dict[str, list[EntryPoint]]:
        if self._others is None:
            from importlib.metadata import entry_points  # noqa: PLC0415  (slow, and few need it)

            self._others = {}
            for entry in set(entry_points(group=self._group)):
                self._others.setdefault(entry.name, []).append(entry)
        return self._others


def _load(place: str) -> Any:  # noqa: ANN401  (a class)
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


def _package(entry: EntryPoint) -> str:
    return entry.module.partition(".")[0] if entry.dist is None else entry.dist.name
