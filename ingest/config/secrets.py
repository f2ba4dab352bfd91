"""Where secrets come from: the environment, a mounted directory, or a provider that somebody installed.

A provider is a class under the entry point `ingest.secrets`, chosen by the environment variable
`INGEST_SECRETS_PROVIDER` (several by commas). Rules: docs/spec/configuration.md#placeholders.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from ingest.model.text import reason_of

GROUP: Final = "ingest.secrets"
PROVIDERS: Final = "INGEST_SECRETS_PROVIDER"
MAX_FILE: Final = 1 << 16
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_PLAIN: Final = frozenset({"security.protocol", "sasl.mechanism", "sasl.mechanisms", "bootstrap.servers"})
"""Properties that are no secrets even where they come from one."""


class SecretProvider(Protocol):
    """What a secret manager's class has to be: made without arguments, configured by its own environment."""

    def get(self, name: str, version: str | None) -> str | None:
        """A secret's text, None where there is none of this name. May raise anything: its text is shown."""


class SecretError(Exception):
    """A secret that is not there, or cannot be used: why, and where it was looked for."""


@dataclass(slots=True)
class Secrets:
    """Looks up secrets with the providers, and collects every secret found, for masking."""

    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    providers: Sequence[tuple[str, SecretProvider]] = ()
    known: set[str] = field(default_factory=set)

    def find(self, name: str, version: str | None = None) -> str:
        """A secret's text; raises SecretError."""
        text = self._find(name, version)
        self.known.add(text)
        return text

    def _find(self, name: str, version: str | None) -> str:
        if not _NAME.fullmatch(name):
            raise SecretError(f"{name!r} is no name of a secret: letters, digits, '_', '-' and '.' only")
        variable = "INGEST_SECRET_" + re.sub(r"[^A-Z0-9]", "_", name.upper())
        got = self.environment.get(variable)
        if got is not None:
            return got
        places = [f"environment variable {variable}"]
        folder = self.environment.get("INGEST_SECRETS_DIR")
        if folder:
            got, _ = read_text(Path(folder) / name)
            if got is not None:
                return got
            places.append(f"file {Path(folder) / name}")
        for label, provider in self.providers:
            try:
                got = provider.get(name, version)
            except Exception as exc:
                raise SecretError(f"secret {name!r}: provider {label} failed: {type(exc).__name__}: {exc}") from exc
            if got is not None:
                return got
            places.append(f"provider {label}")
        unset = "" if folder else " (INGEST_SECRETS_DIR is not set)"
        raise SecretError(f"secret {name!r} is not set: looked in {' and '.join(places)}{unset}")

    def values(self, name: str, version: str | None = None) -> dict[str, str]:
        """A secret that holds several values: a JSON object of texts, or lines of `key=value`. Raises SecretError."""
        text = self._find(name, version)
        try:
            if text.lstrip().startswith("{"):
                secret = {key: str(value) for key, value in msgspec.json.decode(text, type=dict[str, Any]).items()}
            else:
                secret = dict(_lines(text))
        except (msgspec.DecodeError, ValueError):
            raise SecretError(f"secret {name!r} holds neither a JSON object of texts nor lines of key=value") from None
        self.known.add(text)
        self.known.update(value for key, value in secret.items() if key.removeprefix("properties.") not in _PLAIN)
        return secret


def _lines(text: str) -> list[tuple[str, str]]:
    pairs = []
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, equals, value = line.partition("=")
        if not equals:
            raise ValueError(line)
        pairs.append((key.strip(), value.strip()))
    return pairs


def installed(environment: Mapping[str, str]) -> list[tuple[str, SecretProvider]]:
    """The providers that the environment chooses; raises SecretError for one that is not there or does not start."""
    names = [part.strip() for part in environment.get(PROVIDERS, "").split(",") if part.strip()]
    plugins = {point.name: point for point in entry_points(group=GROUP)} if names else {}
    providers: list[tuple[str, SecretProvider]] = []
    for name in names:
        if name not in plugins:
            known = ", ".join(sorted(plugins)) or "none"
            raise SecretError(f"{PROVIDERS} names {name!r}, which is not installed (installed: {known})")
        try:
            providers.append((name, plugins[name].load()()))
        except Exception as exc:
            raise SecretError(f"the provider of secrets {name!r} does not start: {type(exc).__name__}: {exc}") from exc
    return providers


def read_text(path: Path) -> tuple[str | None, str]:
    """A small file's text without its last line break, or None and why not."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE + 1)
        if len(data) > MAX_FILE:
            return None, f"file {path} is larger than {MAX_FILE} bytes"
        return data.decode().removesuffix("\n").removesuffix("\r"), ""
    except (OSError, UnicodeDecodeError) as exc:
        why = reason_of(exc) if isinstance(exc, OSError) else "not UTF-8"
        return None, f"file {path} cannot be read: {why}"
