"""Placeholders `${…}` and secrets, filled into a parsed pipeline file before the models check it.

A value can never become structure: texts are filled in after the YAML is parsed. `${name}` and `${name:-default}` are
from `--set` and `pipeline.variables`; `${secret_values.name}` from the environment or a mounted directory;
`${env:NAME}`; `${file:PATH}`. `$${` is a literal `${`. Messages name placeholders, never what was filled in; secrets
are remembered, so that every later message can mask them. Rules: docs/spec/configuration.md#placeholders.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping as AnyMapping
from collections.abc import Sequence as Names
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ingest.config.document import Document, Mapping, Scalar, Sequence, Value
from ingest.config.redaction import MIN_MASKED, PROPERTIES, always_text, is_option, redact, secrets_in, shown_key
from ingest.config.secrets import SecretError, Secrets, read_text

_PLACEHOLDER: Final = re.compile(r"\$\$\{|\$\{([^${}]*)\}")
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_SECRET_PREFIX: Final = "secret_values."  # noqa: S105  (a prefix, not a secret)


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
    """Fills in placeholders, and collects every secret among them for masking."""

    variables: AnyMapping[str, str]
    environment: AnyMapping[str, str] = field(default_factory=lambda: os.environ)
    secrets: Secrets = field(default_factory=Secrets)

    def fill(self, text: str) -> Filled:
        """Fill in a text's placeholders."""
        if "${" not in text:
            return Filled(text)
        values: list[str] = []
        problems: dict[str, Problem] = {}
        known: dict[str, str | _Missing] = {}

        def value(match: re.Match[str]) -> str:
            name = match.group(1)
            if name is None:
                return "${"
            got = known.get(name)
            if got is None:
                got = known[name] = self._lookup(name)
            if isinstance(got, _Missing):
                if got.text not in problems:
                    problems[got.text] = Problem(got.text, match.start(), match.end() - match.start())
                return match.group(0)
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
        elif name.startswith(_SECRET_PREFIX) and not _NAME.fullmatch(name[len(_SECRET_PREFIX) :]):
            # Not what stands there: it may be the secret itself
            return _Missing("this names no secret: a name has letters, digits, '_', '-' and '.' only")
        elif name.startswith(_SECRET_PREFIX):
            try:
                got, where = self.secrets.find(name[len(_SECRET_PREFIX) :]), ""
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


_MAX_NOTES: Final = 20
"""Number of placeholders of one text that get a note at most."""
_WHOLE: Final = "properties-from-secret"
_SECRET_NAME: Final = "dew.csms.secretName"  # noqa: S105  (an option)
_FIELDS: Final = "dew.csms.decrypt.fields"


class PlaceholderFiller:
    """Filler of the placeholders and secrets of one document."""

    def __init__(
        self,
        document: Document,
        variables: dict[str, str],
        secrets: Secrets,
        environment: AnyMapping[str, str] | None = None,
    ) -> None:
        """`variables` come before those that the file itself has.

        `environment`: that of where the pipeline will run, if not this process's.
        """
        self._document = document
        self._set = variables
        self._secrets = secrets
        self._interpolation = Interpolation(variables, secrets=secrets)
        if environment is not None:
            self._interpolation.environment = environment

    def fill(self, root: Mapping, options: Mapping | None) -> None:
        """Fill in all texts of a file, and remember its secrets.

        `options` is the map of `pipeline:` with flattened keys, or None where the file has none.
        """
        self._interpolation.variables = {**self._variables(options), **self._set}
        self._fill(root)
        if options is not None:
            self._fill(options)
        for section, value in root.items.items():
            self._learn(value if options is None or section != "pipeline" else options, "", _named(value))
        for name, text in self._set.items():
            self._secrets.known.update(secrets_in(name, text))

    def _variables(self, options: Mapping | None) -> dict[str, str]:
        """Return `pipeline.variables`. They may hold secrets and `${env:…}`, but no other variables."""
        variables = None if options is None else options.items.get("variables")
        if not isinstance(variables, Mapping):
            return {}
        self._fill(variables)
        return {k: v.value for k, v in variables.items.items() if isinstance(v, Scalar) and v.value is not None}

    def _fill(self, value: Value) -> None:
        if isinstance(value, Scalar):
            if value.value is not None and value.written is None:
                found = self._interpolation.fill(value.value)
                for problem in found.problems[:_MAX_NOTES]:
                    span = self._document.within(value, problem.at, problem.length)
                    self._document.report(span, problem.why, severity="note")
                value.written, value.value = value.value, found.text
                value.unresolved, value.filled = bool(found.problems), found.values
            return
        for item in value.items.values() if isinstance(value, Mapping) else value.items:
            self._fill(item)

    def _learn(self, value: Value, option: str, named: Names[str]) -> None:
        """Remember the values of options that hold secrets, so that they are masked in all other texts.

        The options in `named` are left out: they hold the name of a key in a secret, not the secret.
        """
        if isinstance(value, Scalar):
            if value.value is not None and option not in named:
                self._secrets.known.update(secrets_in(option, value.value))
        elif isinstance(value, Sequence):
            for item in value.items:
                self._learn(item, option, named)
        else:
            before = ""
            for key, item in value.items.items():
                if before and not is_option(key):
                    self._secrets.known.add(key)  # a secret that is written on the next line looks like a key
                empty = isinstance(item, Scalar) and item.value is None
                before = key if empty and always_text(key) else ""
                self._learn(item, f"{option}.{key}" if option else key, named)

    def reveal(self, section: Mapping) -> None:
        """Put in the values of secrets that have several values.

        Such a secret is a whole set of properties, or it has the keys that the options named in
        `dew.csms.decrypt.fields` hold. Problems are reported to the document. Options that depend on an unknown secret
        are marked as unresolved.
        """
        names = _named(section)
        try:
            if self._open(section, _WHOLE):
                self._put_in(section, self._several(section, _WHOLE), _WHOLE)
        except SecretError as exc:
            self._missing(section, _WHOLE, exc)
            self._wait(section, _WHOLE)
        try:
            if not self._open(section, _FIELDS) or (names and not self._open(section, _SECRET_NAME)):
                return
            values = self._several(section, _SECRET_NAME) if names else {}
        except SecretError as exc:
            self._missing(section, _SECRET_NAME, exc)
            self._wait(section, *names)
            return
        for name in names:
            target = section.items.get(name)
            if not isinstance(target, Scalar) or target.value is None:
                fields = section.items[_FIELDS]
                text = f"{_FIELDS} names {name!r}, which is not given here"
                self._document.report(fields.span, redact(text, fields.filled if isinstance(fields, Scalar) else ()))
            elif target.value not in values:
                # The message does not quote the text: somebody may have written the secret itself there
                self._document.report(target.span, f"the secret has no value under the key that {name} names")
                target.unresolved = True
            else:
                target.value = values[target.value]
                target.filled = (target.value,)

    def _missing(self, section: Mapping, key: str, why: SecretError) -> None:
        """Report that there is no secret of the given name.

        Where a placeholder put the name in, the message does not show it.
        """
        given = section.items[key]
        filled = isinstance(given, Scalar) and given.filled
        text = f"{key}: what placeholders put in here is the name of no secret" if filled else str(why)
        self._document.report(given.span, text, severity="note")

    def holds_secret(self, value: Value) -> bool:
        """Tell whether a text contains a secret that a placeholder put in, or will put in once the secret is set."""
        if not isinstance(value, Scalar):
            return False
        known = [secret for secret in self._secrets.known if len(secret) >= MIN_MASKED]
        return "${secret_values." in (value.written or "") or any(k in text for text in value.filled for k in known)

    def _open(self, section: Mapping, key: str) -> bool:
        """Tell whether the value of an option about secrets is known.

        If not, mark it and all client properties of the section as unresolved.
        """
        if unresolved(section, key):
            self._wait(section, *(name for name in section.items if name.startswith(PROPERTIES)), key)
            return False
        return True

    def _wait(self, section: Mapping, *names: str) -> None:
        """Mark options as unresolved.

        The client's properties are not known yet, so nothing can be reported about these options. The section also gets
        a stand-in for `bootstrap.servers`, so that nobody reports this option as missing.
        """
        for name in names:
            item = section.items.get(name)
            if isinstance(item, Scalar):
                item.unresolved = True
        name = f"{PROPERTIES}bootstrap.servers"
        section.items.setdefault(name, Scalar("unknown:1", section.span))
        section.keys.setdefault(name, section.span)

    def _put_in(self, section: Mapping, values: dict[str, str], option: str) -> None:
        for key, value in values.items():
            name = PROPERTIES + key.removeprefix(PROPERTIES)
            if name in section.items:
                text = f"the secret holds {shown_key(name)!r}, which this file gives as well"
                self._document.report(section.keys[name], text)
                continue
            section.items[name] = Scalar(value, section.items[option].span, filled=(value,))
            section.keys[name] = section.keys[option]

    def _several(self, section: Mapping, key: str) -> dict[str, str]:
        name = _scalar(section, key)
        return {} if name is None else self._secrets.values(name, _scalar(section, "dew.csms.version"))


def unresolved(section: Value, key: str) -> bool:
    """Tell whether an option holds a placeholder that nothing filled in."""
    value = section.items.get(key) if isinstance(section, Mapping) else None
    return isinstance(value, Scalar) and value.unresolved


def _named(section: Value) -> list[str]:
    """Return the names of the options whose values are keys of a secret."""
    fields = _scalar(section, _FIELDS) if isinstance(section, Mapping) else None
    return [name for part in re.split("[,;]", fields or "") if (name := part.strip())]


def _scalar(section: Mapping, key: str) -> str | None:
    value = section.items.get(key)
    return value.value if isinstance(value, Scalar) and not value.unresolved else None
