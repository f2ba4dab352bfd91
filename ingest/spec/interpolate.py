"""`${…}` in the text of a leaf, after the YAML is parsed: a value can never become structure.

`${name}` and `${name:-default}` from `--set` and `pipeline.variables`; `${secret_values.name}` from the environment or
a mounted directory; `${env:NAME}`; `${file:PATH}`. `$${` is a literal `${`. Reference: decisions, "The pipeline file".
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ingest.spec.secrets import SecretError, Secrets, read_text

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLACEHOLDER: Final = re.compile(r"\$\$\{|\$\{([^${}]*)\}")
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_SECRET: Final = "secret_values."  # noqa: S105  (a prefix, not a secret)
HIDDEN: Final = "********"
"""What stands in the place of a secret."""
MIN_MASKED: Final = 3
"""A secret shorter than this is not masked: it would turn every text into asterisks."""


@dataclass(slots=True)
class Interpolation:
    """Fills placeholders in, and remembers every secret it saw."""

    variables: Mapping[str, str]
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    secrets: Secrets = field(default_factory=Secrets)

    def fill(self, text: str) -> tuple[str, list[str]]:
        """The text with its placeholders filled in, and one problem for each that could not be."""
        problems: list[str] = []

        def value(found: re.Match[str]) -> str:
            name = found.group(1)
            if name is None:
                return "${"
            got = self._lookup(name)
            if isinstance(got, _Missing):
                problems.append(got.text)
                return found.group(0)
            return got

        return (_PLACEHOLDER.sub(value, text), problems) if "${" in text else (text, problems)

    def _lookup(self, expression: str) -> str | _Missing:
        name, has_default, default = expression.partition(":-")
        if name.startswith("env:"):
            variable = name[4:]
            got = self.environment.get(variable)
            where = f"environment variable {variable} is not set"
        elif name.startswith("file:"):
            got, where = read_text(Path(name[5:]).expanduser())
        elif name.startswith(_SECRET):
            try:
                got, where = self.secrets.find(name[len(_SECRET) :]), ""
            except SecretError as exc:
                got, where = None, str(exc)
        elif not _NAME.fullmatch(name):
            return _Missing(f"'${{{expression}}}' is no placeholder; write '$${{' for a literal '${{'")
        else:
            got = self.variables.get(name)
            where = f"variable {name!r} is not set: looked in --set {name}=… and pipeline.variables"
        if got is None and has_default:
            got = default
        return _Missing(where) if got is None else got


@dataclass(frozen=True, slots=True)
class _Missing:
    text: str


def mask(text: str, secrets: set[str] | frozenset[str]) -> str:
    """The text without the secrets in it."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= MIN_MASKED:
            text = text.replace(secret, HIDDEN)
    return text
