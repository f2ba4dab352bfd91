"""`${…}` in the text of a leaf, after the YAML is parsed: a value can never become structure.

`${name}` and `${name:-default}` from `--set` and `pipeline.variables`; `${secret_values.name}` from the environment or
a mounted directory; `${env:NAME}`; `${file:PATH}`. `$${` is a literal `${`. Messages name placeholders, never
what was filled in. Rules: docs/spec/configuration.md#placeholders.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ingest.config.secrets import SecretError, Secrets, read_text

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLACEHOLDER: Final = re.compile(r"\$\$\{|\$\{([^${}]*)\}")
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_SECRET: Final = "secret_values."  # noqa: S105  (a prefix, not a secret)


NOT_SET: Final = ("variable ", "environment variable ")
"""How the reasons begin of placeholders whose values come with the file; secrets come from elsewhere."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A placeholder that could not be filled in: why, and where in the text."""

    why: str
    at: int
    length: int


@dataclass(frozen=True, slots=True)
class Filled:
    """A text with its placeholders filled in, what was put in, and what could not be."""

    text: str
    values: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(slots=True)
class Interpolation:
    """Fills placeholders in, and remembers every secret it saw."""

    variables: Mapping[str, str]
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    secrets: Secrets = field(default_factory=Secrets)

    def fill(self, text: str) -> Filled:
        """Fill in a text's placeholders."""
        if "${" not in text:
            return Filled(text)
        values: list[str] = []
        problems: dict[str, Problem] = {}
        known: dict[str, str | _Missing] = {}

        def value(found: re.Match[str]) -> str:
            name = found.group(1)
            if name is None:
                return "${"
            got = known.get(name)
            if got is None:
                got = known[name] = self._lookup(name)
            if isinstance(got, _Missing):
                if got.text not in problems:
                    problems[got.text] = Problem(got.text, found.start(), found.end() - found.start())
                return found.group(0)
            values.append(got)
            return got

        return Filled(_PLACEHOLDER.sub(value, text), tuple(values), tuple(problems.values()))

    def _lookup(self, expression: str) -> str | _Missing:
        name, has_default, default = expression.partition(":-")
        if name.startswith("env:") and _NAME.fullmatch(name[4:]):
            got = self.environment.get(name[4:])
            where = f"environment variable {name[4:]} is not set"
        elif name.startswith("file:"):
            got, where = read_text(Path(name[5:]).expanduser())
        elif name.startswith(_SECRET) and not _NAME.fullmatch(name[len(_SECRET) :]):
            # Not what stands there: it may be the secret itself
            return _Missing("this names no secret: a name has letters, digits, '_', '-' and '.' only")
        elif name.startswith(_SECRET):
            try:
                got, where = self.secrets.find(name[len(_SECRET) :]), ""
            except SecretError as exc:
                got, where = None, str(exc)
        elif not _NAME.fullmatch(name):
            # Not what stands there: it may be a part of a password
            return _Missing("this is no placeholder (${name}, ${name:-default}); write '$${' for a literal '${'")
        else:
            got = self.variables.get(name)
            where = f"variable {name!r} is not set: looked in --set {name}=… and pipeline.variables"
        if got is None and has_default:
            got = default
        if got is not None and any(c == "\0" or "\ud800" <= c <= "\udfff" for c in got):
            got, where = None, f"the value of {name!r} is no text: it has bytes that are not UTF-8, or NUL"
        return _Missing(where) if got is None else got


@dataclass(frozen=True, slots=True)
class _Missing:
    text: str
