"""Registry that finds components by their names.

In: a name. Out: the component's class. A component is imported only when it is asked for: a pipeline uses one of each
kind, so the program starts faster. Components of other packages are found by their entry points; they never replace a
component of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Generic, TypeVar

from ingest.errors import IngestError, InternalError, PackageError
from ingest.model.text import one_line, reason_of
from ingest.packages import failed_import

T = TypeVar("T")
_KINDS: Final = {"ingest.formats": "format", "ingest.sinks": "sink", "ingest.sources": "source"}
"""Groups of entry points, and the kind of component that each holds."""


class ComponentError(ValueError):
    """Error about a component of another package that cannot be used. Its text says which one, and why."""


class Registry(Mapping[str, type[T]], Generic[T]):
    """Map from the names of this package's components to their classes.

    The map (`registry[name]`, iteration, length) has this package's components only. `find` and `names` also cover
    those of other packages.
    """

    def __init__(
        self,
        group: str,
        base: str,
        needed: Sequence[str],
        places: Mapping[str, str],
        claims: Callable[[type[T]], Iterable[tuple[str, str]]] = lambda _: (),
    ) -> None:
        """`places` maps each name to the place of a class, `package.module:Class`; nothing is imported yet.

        Components of other packages have entry points in `group`. They must derive from the class at the place `base`
        and have all attributes in `needed`; a field of an options model counts as one. `claims` returns those
        capabilities of a class that need a method, each with the method.
        """
        self._group = group
        self._base = base
        self._needed = needed
        self._claims = claims
        self._places = dict(places)
        self._others: dict[str, list[EntryPoint]] | None = None

    def __getitem__(self, name: str) -> type[T]:
        """Return the class with this name, from this package. Raise KeyError where there is none."""
        found: type[T] = _load(self._places[name])
        return found

    def __iter__(self) -> Iterator[str]:
        """Yield the names of this package's components, in the order in which they were given."""
        return iter(self._places)

    def __len__(self) -> int:
        """Return the number of this package's components."""
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        """Tell whether this package has a component with this name. Imports nothing."""
        return name in self._places

    def find(self, name: str) -> type[T] | None:
        """Return the class with this name, from this or another package, or None where no package has it.

        Raise ComponentError where several packages have the name, or where the class cannot be loaded or is not a
        component of this kind.
        """
        if name in self._places:
            return self[name]
        entries = self._installed().get(name)
        if not entries:
            return None
        if len(entries) > 1:
            packages = ", ".join(_package(entry) for entry in entries)
            raise ComponentError(f"{name!r} is in several packages: {packages}; uninstall all but one")
        (entry,) = entries
        what = f"{name!r} of the package {_package(entry)}"
        try:
            found: type[T] = entry.load()
        except Exception as exc:
            raise ComponentError(f"{what} cannot be loaded: {type(exc).__name__}: {one_line(str(exc))[:200]}") from exc
        if not (isinstance(found, type) and issubclass(found, _load(self._base))):
            raise ComponentError(f"{what} is no {self._base.partition(':')[2]}: {entry.value}")
        fields = getattr(found, "model_fields", ())  # pydantic makes no class attributes of them
        missing = [name for name in self._needed if name not in fields and not hasattr(found, name)]
        if missing:
            raise ComponentError(f"{what} lacks {', '.join(missing)}: {entry.value}")
        for ability, method in self._claims(found):
            if not hasattr(found, method):
                msg = f"{what} has the capability {ability}, and lacks the method {method}: {entry.value}"
                raise ComponentError(msg)
        return found

    def names(self) -> list[str]:
        """Return all names: first those of this package, then those of other packages in alphabetical order."""
        return [*self._places, *sorted(self._installed().keys() - self._places.keys())]

    def codes(self) -> dict[str, list[str]]:
        """Return the codes of rejects that components list in `codes`, each with the names of its components.

        Raise ComponentError as `find` does.
        """
        found: dict[str, list[str]] = {}
        for name in self.names():
            cls: Any = self.find(name)
            for code in cls.codes:
                found.setdefault(code, []).append(name)
        return found

    def _installed(self) -> dict[str, list[EntryPoint]]:
        if self._others is None:
            self._others = {}
            for entry in set(entry_points(group=self._group)):
                self._others.setdefault(entry.name, []).append(entry)
        return self._others


def _load(place: str) -> type[Any]:
    module, _, attribute = place.partition(":")
    found: type[Any] = getattr(import_module(module), attribute)
    return found


def _package(entry: EntryPoint) -> str:
    return entry.module.partition(".")[0] if entry.dist is None else entry.dist.name


def package_of(module: str) -> str | None:
    """Return a description of the package that a module belongs to, if the package has components; else None.

    The text is like `the package acme-ingest (format databus-json, sink sqlite)`. None is also for modules of ingest.
    """
    top = module.partition(".")[0]
    found = [
        (kind, entry)
        for group, kind in _KINDS.items()
        for entry in sorted(set(entry_points(group=group)), key=lambda entry: entry.name)
        if entry.module.partition(".")[0] == top
    ]
    if not found or top == __name__.partition(".")[0]:
        return None
    return f"the package {_package(found[0][1])} ({', '.join(f'{kind} {entry.name}' for kind, entry in found)})"


def failure_of(exc: Exception, what: str, hint: str) -> IngestError:
    """Return the error for an exception that nobody expected: whose bug it is, in which function.

    It is ProgramMissing for an optional package that is not installed. It is a PackageError if code of another
    package's component raised the exception or is on the way to it, or if the exception is about an attribute that an
    object of the package lacks. It is an InternalError if not. `what` failed, for an InternalError; `hint` says where
    the stack trace is.
    """
    missing = failed_import(exc)
    if missing is not None:
        return missing
    text = f"{type(exc).__name__}: {reason_of(exc)}"
    at, frames = exc.__traceback__, []
    while at is not None:
        frames.append(at.tb_frame)
        at = at.tb_next
    places = [(str(frame.f_globals.get("__name__")), frame.f_code.co_qualname) for frame in reversed(frames)]
    if isinstance(exc, AttributeError) and exc.obj is not None:
        owner = exc.obj if isinstance(exc.obj, type) else type(exc.obj)
        places.insert(0, (owner.__module__, owner.__qualname__))
    for module, name in places:
        package = package_of(module)
        if package is not None:
            return PackageError(f"{package} failed in {name}: {text}", f"tell the authors of that package; {hint}")
    return InternalError(f"{what} failed: {text}", hint)


def wrong_result(component: object, text: str) -> IngestError:
    """Return the error for a component that does other than it owes; `text` says what, and begins with its name."""
    package = package_of(type(component).__module__)
    if package is None:
        return InternalError(text)
    return PackageError(f"{text}: this is a bug of {package}", "tell the authors of that package")
