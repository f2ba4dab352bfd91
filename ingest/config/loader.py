"""The loader of pipeline files.

In: a path and variables. Out: the frozen model and its diagnostics; the model is None where there is an error. Starts
neither a Kafka client nor Java.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ingest.config.diagnostics import Diagnostic, render
from ingest.config.document import MAX_BYTES, MAX_FOUND, Document, Mapping, Scalar, Sequence, Span, Value
from ingest.config.messages import redacted
from ingest.config.models import ModelReader, plain_map
from ingest.config.pipeline import Pipeline, PipelineOptions, Route, Transform, UserFunction
from ingest.config.placeholders import PlaceholderFiller, unresolved
from ingest.config.redaction import PROPERTIES, SECTIONS, SEEN, always_text, shown_key
from ingest.config.secrets import SecretError, Secrets, installed
from ingest.deadletter.collector import DirtyDataCollector
from ingest.errors import ConfigError, PipelineFileError
from ingest.expressions.lint import unknown_functions
from ingest.kafka.properties import KRB5
from ingest.model.table import PartitionKey, TableLayout, partition_keys, table_options
from ingest.model.text import TextError, reason_of
from ingest.sinks import SINKS
from ingest.sources import SOURCES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Mapping as AnyMapping
    from pathlib import Path

    from ingest.component.options import AnyOptions

_COLLECTOR: Final = "dirty-data.collector."
_FUNCTIONS: Final = "user-defined-function"
_LAYOUT: Final = ("partition-keys", "table-options")
"""Options of a transform that lay a table out."""
_START: Final = Span(1, 1, 1)


@dataclass(frozen=True, slots=True)
class Loaded:
    """Result of loading a file: `pipeline` is None where there is an error."""

    pipeline: Pipeline | None
    diagnostics: list[Diagnostic]


def load(
    path: Path,
    variables: dict[str, str] | None = None,
    secrets: Secrets | None = None,
    environment: AnyMapping[str, str] | None = None,
    *,
    code: bool = True,
) -> Loaded:
    """Read a pipeline file, fill in its placeholders, and check it.

    Errors are diagnostics of the result; nothing is raised. A placeholder that nothing fills in is a note, not an
    error. `environment`: that of where the pipeline will run, if not this process's. `code`: whether modules that the
    file names are imported, which runs them.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        text = data.decode()
    except (OSError, UnicodeDecodeError) as exc:
        why = reason_of(exc) if isinstance(exc, OSError) else "it is not UTF-8"
        return Loaded(None, [Diagnostic(str(path), 1, 1, 1, "error", f"cannot read the file: {why}")])
    document, folder = Document(str(path), text), path.resolve().parent
    loader = _Loader(document, variables or {}, secrets or Secrets(), folder, environment, code=code)
    return loader.load(path.stem)


def load_text(
    name: str, text: str, stem: str, variables: dict[str, str] | None = None, folder: Path | None = None
) -> Loaded:
    """Load a pipeline from a text that is not a file of its own.

    Errors name the file `name`. `stem` is the pipeline's default name. `folder` is the directory of user-defined
    functions.
    """
    return _Loader(Document(name, text), variables or {}, Secrets(), folder).load(stem)


def load_checked(path: Path, variables: dict[str, str] | None = None) -> Pipeline:
    """Return the pipeline of a file, whose placeholders may lack values. Raise PipelineFileError for errors."""
    loaded = load(path, variables)
    if loaded.pipeline is None:
        text = "\n".join(d.text() for d in loaded.diagnostics if d.severity == "error")
        raise PipelineFileError(text, f"ingest check {path} says all that is wrong")
    return loaded.pipeline


def load_strictly(path: Path, variables: dict[str, str] | None = None) -> Pipeline:
    """Return the pipeline ready to run, with secrets from the installed providers.

    Raise PipelineFileError for errors and for notes, and ConfigError where the providers cannot be loaded.
    """
    try:
        secrets = Secrets(providers=installed(os.environ))
    except SecretError as exc:
        raise ConfigError(str(exc), "see the documentation of secrets") from exc
    loaded = load(path, variables, secrets)
    errors = [replace(d, severity="error") if d.severity == "note" else d for d in loaded.diagnostics]
    if loaded.pipeline is None or any(d.severity == "error" and not d.of_machine for d in errors):
        # A check accepts placeholders without a value, but a run needs every value
        raise PipelineFileError(render(errors))
    return loaded.pipeline.model_copy(update={"lacking": render([d for d in errors if d.of_machine])})


def locate(path: Path, rule: int, option: str, start: int, end: int, message: str) -> Diagnostic | None:
    """Return an error about the text of a transform's option, with its position in the file.

    `start` and `end` are character positions in the option's text. Return None where the file cannot be read or has no
    such option any more.
    """
    try:
        document = Document(str(path), path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None
    root = document.root
    rules = root.items.get("transform") if isinstance(root, Mapping) else None
    entry = rules.items[rule] if isinstance(rules, Sequence) and rule < len(rules.items) else None
    value = entry.items.get(option) if isinstance(entry, Mapping) else None
    if not isinstance(value, Scalar):
        return None
    span = document.within(value, start, end - start)
    document.diagnostics.clear()
    document.report(span, message)
    return document.findings()[0]


class _Loader:
    def __init__(
        self,
        document: Document,
        variables: dict[str, str],
        secrets: Secrets,
        folder: Path | None,
        environment: AnyMapping[str, str] | None = None,
        *,
        code: bool = True,
    ) -> None:
        self._document = document
        self._code = code
        self._folder = folder
        self._secrets = secrets
        self._placeholders = PlaceholderFiller(document, variables, secrets, environment)
        self._models = ModelReader(document, self._placeholders)

    def load(self, stem: str) -> Loaded:
        root = self._document.root
        report = self._document.report
        if root is None or not isinstance(root, Mapping):
            if not self._document.diagnostics:
                report(_START, "a pipeline file is a map with the keys source and sink")
            return self._loaded(None)
        options = self._flat(root.items.get("pipeline"))
        self._placeholders.fill(root, options)
        for key, span in root.keys.items():
            if key not in SECTIONS:
                hint = self._document.suggest(key, SECTIONS)
                report(span, f"unknown section {shown_key(key)!r}{hint} (known: {', '.join(SECTIONS)})")
        for key in ("source", "sink"):
            if key not in root.items:
                report(_START, f"section {key!r} is missing")
        source = self._models.component(root, "source", SOURCES)
        sink = self._models.component(root, "sink", SINKS)
        routes = self._models.list_of(root, "route", Route)
        transforms = self._models.list_of(root, "transform", Transform)
        if sink is not None:
            self._models.warnings += self._check_layouts(root, sink)
        if options is None:
            options = Mapping({}, _START)
        options.items.setdefault("name", Scalar(stem, _START))
        collector = self._collector(options, sink)
        self._check_code(root, sink)
        self._check_calls(root, options.items.get(_FUNCTIONS))
        functions = self._functions(options)
        settings = self._models.model(PipelineOptions, options, plain_map(options), "pipeline")
        if settings is not None:
            self._models.note_packages(settings, options, "pipeline")
        if source is None or sink is None or settings is None or self._has_errors():
            return self._loaded(None)
        self._check_files(root, source, sink)
        self._check_kerberos(root, {"source": source, "sink": sink, "pipeline": collector})
        if self._has_errors():
            return self._loaded(None)
        settings = settings.model_copy(update={"collector": collector, "functions": functions})
        return self._loaded(
            Pipeline.model_construct(
                source=source,
                sink=sink,
                route=tuple(routes),
                transform=tuple(transforms),
                pipeline=settings,
                secrets=frozenset(self._secrets.known),
                file=self._document.file,
                folder=self._folder,
                warnings=tuple(self._models.warnings),
            )
        )

    def _loaded(self, pipeline: Pipeline | None) -> Loaded:
        SEEN.update(self._secrets.known)
        return Loaded(pipeline, self._document.findings(self._secrets.known))

    def _has_errors(self) -> bool:
        return any(d.severity == "error" for d in self._document.diagnostics)

    # -- filling in --------------------------------------------------------------------------------------------------

    def _flat(self, value: Value | None) -> Mapping | None:
        """Return the map of `pipeline:` with nested keys joined by dots; `variables` stays a map.

        Return None where there is none.
        """
        if value is None or (isinstance(value, Scalar) and value.value is None):
            return None
        if not isinstance(value, Mapping):
            self._document.report(value.span, "pipeline: must be a map")
            return None
        out = Mapping({}, value.span)

        def add(mapping: Mapping, prefix: str) -> None:
            for key, item in mapping.items.items():
                name, span = prefix + key, mapping.keys[key]
                if isinstance(item, Mapping) and name != "variables" and not always_text(name):
                    add(item, f"{name}.")
                elif name in out.items:
                    self._document.report(span, f"duplicate key {name!r}, first given in line {out.keys[name].line}")
                else:
                    out.items[name], out.keys[name] = item, span

        add(value, "")
        return out

    def _collector(self, options: Mapping, sink: AnyOptions) -> DirtyDataCollector | None:
        """Remove `dirty-data.collector.*` from the pipeline's options, and return it as a model.

        Return None where it is not given.
        """
        names = [name for name in options.items if name.startswith(_COLLECTOR)]
        if not names:
            return None
        first = options.keys[names[0]]
        found = Mapping({}, first)
        for name in names:
            short = name.removeprefix(_COLLECTOR)
            found.items[short], found.keys[short] = options.items.pop(name), options.keys[name]
        collector: DirtyDataCollector | None = self._models.of_class(
            DirtyDataCollector, found, "pipeline.dirty-data.collector"
        )
        lost = collector is not None and collector.type == "kafka" and not collector.properties
        if lost and sink is not None and "properties" not in type(sink).model_fields:
            option = "dirty-data.collector.properties.bootstrap.servers"
            self._document.report(first, f"dead letters need {option}: the sink is no Kafka cluster")
        return collector

    def _functions(self, options: Mapping) -> tuple[UserFunction, ...]:
        """Remove `user-defined-function` from the pipeline's options, and return the functions that can be loaded.

        The directory of the pipeline file becomes part of Python's search path.
        """
        given = options.items.pop(_FUNCTIONS, None)
        if given is None:
            return ()
        self._search_folder()
        models = [*self._models.list_of(Mapping({_FUNCTIONS: given}, given.span), _FUNCTIONS, UserFunction)]
        if self._has_errors() or not isinstance(given, Sequence):
            return ()
        names: set[str] = set()
        for model, item in zip(models, given.items, strict=True):
            assert isinstance(item, Mapping)
            if model.name.lower() in names:
                self._document.report(item.items["name"].span, f"a function {model.name!r} is there already")
            names.add(model.name.lower())
            python = item.items["python"]
            if not self._code or (isinstance(python, Scalar) and python.unresolved):
                continue
            try:
                model.load()
            except ValueError as exc:
                text = redacted(str(exc), python, "python")
                self._document.report(python.span, f"function {model.name!r}: {text}")
        return tuple(models)

    def _search_folder(self) -> None:
        """Let Python look for modules in the directory of the pipeline file, too."""
        if self._code and self._folder is not None and str(self._folder) not in sys.path:
            sys.path.append(str(self._folder))  # last, so that no file in this directory replaces a module of Python

    def _check_code(self, root: Mapping, sink: AnyOptions) -> None:
        """Import the code of the user's that options of the sink name; report what cannot be used."""
        section = root.items.get("sink")
        if not self._code or sink is None or not isinstance(section, Mapping) or not sink.capabilities.names_code:
            return
        self._search_folder()
        for key, text in sink.load_code():
            if not unresolved(section, key):
                said = redacted(text, section.items.get(key), key)
                self._document.report(section.items[key].span, f"{key}: {said}")

    def _check_layouts(self, root: Mapping, sink: AnyOptions) -> Iterator[str]:
        """Report layouts that no table of the sink can have. Yield warnings of those that the sink does not follow."""
        section, lays_out = root.items.get("transform"), sink.capabilities.lays_out
        why = "tables of this sink have none" if lays_out else "it is for sinks that create tables"
        for entry in section.items if isinstance(section, Sequence) else []:
            if not isinstance(entry, Mapping):
                continue
            options = entry.items
            values = {key: item for key in _LAYOUT if isinstance(item := options.get(key), Scalar) and item.value}
            for key in [key for key in values if key not in lays_out]:
                del values[key]
                text = f"{key} has no effect: {why}"
                self._document.report(entry.keys[key], text, severity="warning")
                yield f"transform: {text}"
            if any(item.unresolved for item in values.values()):
                continue
            for key, problem in sink.check_layout(self._layout(options, values)) if lays_out else ():
                self._document.report(values[key].span, f"{key}: {redacted(problem, values[key], key)}")

    def _layout(self, options: dict[str, Value], values: dict[str, Scalar]) -> TableLayout:
        """Return the layout of one transform, as far as it is one: the rest is reported, here or by its model."""
        keys, entries = (values[key].value or "" if key in values else "" for key in _LAYOUT)
        partitions: tuple[PartitionKey, ...] = ()
        with suppress(TextError):  # the model reports it
            partitions = partition_keys(keys)
        delimiter = options.get("table-options.delimiter")
        try:
            layout = table_options(entries, (delimiter.value if isinstance(delimiter, Scalar) else None) or ",")
        except TextError as exc:
            value = values["table-options"]
            text = redacted(str(exc), value, "table-options")
            self._document.report(self._document.within(value, exc.at, exc.length), f"table-options: {text}")
            layout = ()
        return TableLayout(partitions, layout)

    def _check_calls(self, root: Mapping, given: Value | None) -> None:
        """Report each call of an unknown function in an expression.

        Known are the functions of Spark, of Flink, and of the pipeline itself.
        """
        entries = given.items if isinstance(given, Sequence) else []
        names = (entry.items.get("name") for entry in entries if isinstance(entry, Mapping))
        own = {str(name.value).lower() for name in names if isinstance(name, Scalar)}
        transforms = root.items.get("transform")
        guesses = MAX_FOUND
        for rule in transforms.items if isinstance(transforms, Sequence) else []:
            for option in ("projection", "filter"):
                text = rule.items.get(option) if isinstance(rule, Mapping) else None
                if not isinstance(text, Scalar) or not text.value or text.unresolved or text.value in {"*", "\\*"}:
                    continue
                for error in unknown_functions(text.value, own, guesses):
                    guesses -= 1
                    said = str(error)
                    if guesses >= 0:  # errors over this limit are only counted
                        said = redacted(said, text, option)
                    span = self._document.within(text, error.at, error.length)
                    self._document.report(span, f"{option}: {said}")

    def _check_kerberos(self, root: Mapping, sides: dict[str, Any]) -> None:
        """Report an error where two sides name different files as krb5.conf: a process reads one only."""
        given = {name: side.properties[KRB5] for name, side in sides.items() if KRB5 in getattr(side, "properties", {})}
        first = next(iter(given), "")
        for name, place in given.items():
            section = root.items[name]
            if place == given[first] or "${" in place or "${" in given[first]:
                continue
            where = section.keys.get(PROPERTIES + KRB5) if isinstance(section, Mapping) else None
            text = f"{PROPERTIES}{KRB5} names another file in {first}; put the realms of both into one file"
            self._document.report(where or root.keys[name], text)

    def _check_files(self, root: Mapping, source: AnyOptions, sink: AnyOptions) -> None:
        """Report an error where a pipeline would read the files that it writes."""
        if source.type == "file" == sink.type and source.matches(sink.example()):
            section = root.items["sink"]
            if unresolved(root.items["source"], "path") or unresolved(section, "path"):
                return
            span = section.items["path"].span if isinstance(section, Mapping) else section.span
            self._document.report(
                span, "the pipeline would read what it writes: source.path matches files in sink.path"
            )
