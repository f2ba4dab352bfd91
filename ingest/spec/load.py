"""The text of a pipeline file → a Pipeline, or everything that is wrong with it.

In: a path and variables. Out: the frozen model and its diagnostics. Starts no client, no Java.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from ingest.errors import ConfigError, PipelineFileError
from ingest.formats import FORMATS
from ingest.formats.options import OptionErrors
from ingest.formats.registry import ComponentError
from ingest.kafka.properties import PropertyError
from ingest.model.text import TextError
from ingest.sinks import SINKS
from ingest.sinks.dirty_data import DirtyDataCollector
from ingest.sources import SOURCES
from ingest.spec import elsewhere
from ingest.spec.diagnostics import Diagnostic, did_you_mean, render
from ingest.spec.document import MAX_BYTES, Document, Mapping, Scalar, Sequence, Span, Value
from ingest.spec.interpolate import Interpolation
from ingest.spec.pipeline import Pipeline, PipelineOptions, Route, Transform, UserFunction
from ingest.spec.secrets import SecretError, Secrets, installed
from ingest.spec.visible import mask, opaque, secrets_in, sensitive, shown_key, without

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ingest.formats.registry import Registry

_SECTIONS: Final = ("source", "sink", "route", "transform", "pipeline")
_PREFIXED: Final = "properties."
_COLLECTOR: Final = "dirty-data.collector."
_FUNCTIONS: Final = "user-defined-function"
_START: Final = Span(1, 1, 1)
_LONGEST: Final = 100
"""Characters of a value that a message quotes."""
_MOST_NOTES: Final = 20
"""Placeholders of one text that notes are about."""
_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Loaded:
    """What became of a file: `pipeline` is None where there is an error."""

    pipeline: Pipeline | None
    diagnostics: list[Diagnostic]


def load(path: Path, variables: dict[str, str] | None = None, secrets: Secrets | None = None) -> Loaded:
    """Read, fill in and check a pipeline file. A placeholder that nothing fills in is a note."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        text = data.decode()
    except (OSError, UnicodeDecodeError) as exc:
        why = (exc.strerror or str(exc)) if isinstance(exc, OSError) else "it is not UTF-8"
        return Loaded(None, [Diagnostic(str(path), 1, 1, 1, "error", f"cannot read the file: {why}")])
    loader = _Loader(Document(str(path), text), variables or {}, secrets or Secrets(), path.resolve().parent)
    return loader.load(path.stem)


def load_text(
    name: str, text: str, stem: str, variables: dict[str, str] | None = None, folder: Path | None = None
) -> Loaded:
    """As `load`, for a text that is not a file of its own; `name` is what errors call it."""
    return _Loader(Document(name, text), variables or {}, Secrets(), folder).load(stem)


def load_strictly(path: Path, variables: dict[str, str] | None = None) -> Pipeline:
    """The pipeline, ready to run, asking providers for secrets; raises PipelineFileError, for notes as well."""
    try:
        secrets = Secrets(providers=installed(os.environ))
    except SecretError as exc:
        raise ConfigError(str(exc), "see the documentation of secrets") from exc
    loaded = load(path, variables, secrets)
    if loaded.pipeline is None or any(d.severity != "warning" for d in loaded.diagnostics):
        # What a check can leave open a run cannot
        errors = [replace(d, severity="error") if d.severity == "note" else d for d in loaded.diagnostics]
        raise PipelineFileError(render(errors))
    return loaded.pipeline


def locate(path: Path, rule: int, option: str, start: int, end: int, message: str) -> Diagnostic | None:
    """An error in the text of a transform's option, with its place in the file; None where it cannot be told."""
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
    def __init__(self, document: Document, variables: dict[str, str], secrets: Secrets, folder: Path | None) -> None:
        self._document = document
        self._folder = folder
        self._set = variables
        self._secrets = secrets
        self._interpolation = Interpolation(variables, secrets=secrets)
        self._warnings: list[str] = []

    def load(self, stem: str) -> Loaded:
        root = self._document.root
        report = self._document.report
        if root is None or not isinstance(root, Mapping):
            if not self._document.diagnostics:
                report(_START, "a pipeline file is a map with the keys source and sink")
            return self._loaded(None)
        options = self._flat(root.items.get("pipeline"))
        self._interpolation.variables = {**self._variables(options), **self._set}
        self._fill(root)
        if options is not None:
            self._fill(options)
        for section, value in root.items.items():
            self._learn(value if options is None or section != "pipeline" else options, "", self._named(value))
        for name, text in self._set.items():
            self._secrets.known.update(secrets_in(name, text))
        for key, span in root.keys.items():
            if key not in _SECTIONS:
                hint = self._document.suggest(key, _SECTIONS)
                report(span, f"unknown section {shown_key(key)!r}{hint} (known: {', '.join(_SECTIONS)})")
        for key in ("source", "sink"):
            if key not in root.items:
                report(_START, f"section {key!r} is missing")
        source = self._component(root, "source", SOURCES)
        sink = self._component(root, "sink", SINKS)
        routes = self._list(root, "route", Route)
        transforms = self._list(root, "transform", Transform)
        if options is None:
            options = Mapping({}, _START)
        options.items.setdefault("name", Scalar(stem, _START))
        collector = self._collector(options, sink)
        self._check_calls(root, options.items.get(_FUNCTIONS))
        functions = self._functions(options)
        settings = self._model(PipelineOptions, options, self._plain(options), "pipeline")
        if source is None or sink is None or settings is None or self._has_errors():
            return self._loaded(None)
        self._check_files(root, source, sink)
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
                folder=self._folder,
                warnings=tuple(self._warnings),
            )
        )

    def _loaded(self, pipeline: Pipeline | None) -> Loaded:
        return Loaded(pipeline, self._document.findings(self._secrets.known))

    def _has_errors(self) -> bool:
        return any(d.severity == "error" for d in self._document.diagnostics)

    # -- filling in --------------------------------------------------------------------------------------------------

    def _flat(self, value: Value | None) -> Mapping | None:
        """`pipeline:` with nested keys joined by dots; `variables` stays a map of its own."""
        if value is None or (isinstance(value, Scalar) and value.value is None):
            return None
        if not isinstance(value, Mapping):
            self._document.report(value.span, "pipeline: must be a map")
            return None
        out = Mapping({}, value.span)

        def add(mapping: Mapping, prefix: str) -> None:
            for key, item in mapping.items.items():
                name, span = prefix + key, mapping.keys[key]
                if isinstance(item, Mapping) and name != "variables" and not opaque(name):
                    add(item, f"{name}.")
                elif name in out.items:
                    self._document.report(span, f"duplicate key {name!r}, first given in line {out.keys[name].line}")
                else:
                    out.items[name], out.keys[name] = item, span

        add(value, "")
        return out

    def _variables(self, options: Mapping | None) -> dict[str, str]:
        """`pipeline.variables`; they may hold secrets and `${env:…}`, but no other variables."""
        variables = None if options is None else options.items.get("variables")
        if not isinstance(variables, Mapping):
            return {}
        self._fill(variables)
        return {k: v.value for k, v in variables.items.items() if isinstance(v, Scalar) and v.value is not None}

    def _fill(self, value: Value) -> None:
        if isinstance(value, Scalar):
            if value.value is not None and value.written is None:
                found = self._interpolation.fill(value.value)
                for problem in list({p.why: p for p in found.problems}.values())[:_MOST_NOTES]:
                    span = self._document.within(value, problem.at, problem.length)
                    self._document.report(span, problem.why, severity="note")
                value.written, value.value = value.value, found.text
                value.unresolved, value.filled = bool(found.problems), found.values
            return
        for item in value.items.values() if isinstance(value, Mapping) else value.items:
            self._fill(item)

    def _learn(self, value: Value, option: str, named: list[str] | tuple[str, ...] = ()) -> None:
        """Remember what options that hold secrets have, so that it is masked wherever else it turns up.

        Those `named` hold the key of a secret.
        """
        if isinstance(value, Scalar):
            if value.value is not None and option not in named:
                self._secrets.known.update(secrets_in(option, value.value))
        elif isinstance(value, Sequence):
            for item in value.items:
                self._learn(item, option, named)
        else:
            for key, item in value.items.items():
                self._learn(item, f"{option}.{key}" if option else key, named)

    def _given(self, value: Value | None, section: str, key: str) -> str:
        """A value as messages name it: not with what placeholders put in, and not where it may be a secret."""
        if not isinstance(value, Scalar) or value.value is None:
            return "this" if value is not None and not isinstance(value, Scalar) else "null"
        text = value.value if value.written is None else value.written
        if not self._document.visible.value(*_place(section, key), text):
            return "the value"
        return repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")

    def _discreet(self, message: str, value: Value | None, section: str, key: str) -> str:
        """What a validator says of a value, without what must not be shown of that."""
        if not isinstance(value, Scalar) or value.value is None:
            return message
        message = without(message, value.filled)
        written = value.value if value.written is None else value.written
        return message if self._document.visible.value(*_place(section, key), written) else without(message, [written])

    # -- models ------------------------------------------------------------------------------------------------------

    def _plain(self, value: Value) -> Any:  # noqa: ANN401  (what pydantic takes)
        if isinstance(value, Scalar):
            return value.value
        if isinstance(value, Sequence):
            return [self._plain(item) for item in value.items]
        return {key: self._plain(item) for key, item in value.items.items()}

    def _component(self, root: Mapping, section: str, registry: Registry[Any]) -> Any:  # noqa: ANN401
        """A source or sink: its class by its type, its format's options set apart."""
        value = root.items.get(section)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            self._document.report(value.span, f"{section}: must be a map")
            return None
        kind = value.items.get("type")
        if not isinstance(kind, Scalar) or kind.value is None:
            known = ", ".join(registry.names())
            where = value.keys.get("type", root.keys[section])
            self._document.report(where, f"{section}.type is missing (known: {known})")
            return None
        if kind.unresolved:
            return None
        try:
            cls = registry.find(kind.value)
        except ComponentError as exc:
            self._document.report(kind.span, f"{section} type {exc}")
            return None
        if cls is None:
            names = registry.names()
            given = self._given(kind, section, "type")
            if kind.value.lower() in elsewhere.CONNECTORS:
                text = f"{section} type {given} is not there yet"
            else:
                text = f"unknown {section} type {given}{self._document.suggest(kind.value, names)}"
            self._document.report(kind.span, f"{text} (known: {', '.join(names)})")
            return None
        return self._of_class(cls, value, section)

    def _of_class(self, cls: Any, value: Mapping, section: str) -> Any:  # noqa: ANN401
        """A component's options, its client properties and its format's options set apart."""
        connects = "properties" in cls.model_fields
        self._document.visible.allow(_names(cls))
        if connects:
            self._reveal(value)
        chosen = None if cls.formats is None else self._chosen(cls, value)
        own: dict[str, Any] = {}
        formats: dict[str, Value] = {}
        properties: dict[str, str] = {}
        for key, item in value.items.items():
            if connects and key.startswith(_PREFIXED):
                properties[key.removeprefix(_PREFIXED)] = self._text(item, value.keys[key])
            elif cls.formats is not None and (key.split(".", 1)[0] in FORMATS or key.startswith(f"{chosen}.")):
                formats[key] = item
            else:
                own[key] = self._plain(item)
        if connects:
            own["properties.*"] = properties
        fmt = None if chosen is None else self._format(chosen, cls.formats, value, formats)
        model = self._model(cls, value, own, section, with_formats=cls.formats is not None)
        if model is not None and fmt is not None:
            model, problems = model.with_format(fmt)
            for key, text in problems:
                self._document.report(value.keys.get(key, value.span), text)
        if model is not None:
            self._warn(model.warnings(), value, section)
        return model

    def _warn(self, warnings: Iterable[tuple[str, str]], where: Mapping, section: str) -> None:
        for key, text in warnings:
            self._document.report(where.keys.get(key, where.span), text, severity="warning")
            self._warnings.append(f"{section}: {text}")

    def _collector(self, options: Mapping, sink: Any) -> DirtyDataCollector | None:  # noqa: ANN401  (a sink's options)
        """`pipeline.dirty-data.collector.*`, taken out of the pipeline's options."""
        names = [name for name in options.items if name.startswith(_COLLECTOR)]
        if not names:
            return None
        first = options.keys[names[0]]
        found = Mapping({}, first)
        for name in names:
            short = name.removeprefix(_COLLECTOR)
            found.items[short], found.keys[short] = options.items.pop(name), options.keys[name]
        collector: DirtyDataCollector | None = self._of_class(
            DirtyDataCollector, found, "pipeline.dirty-data.collector"
        )
        lost = collector is not None and collector.type == "kafka" and not collector.properties
        if lost and sink is not None and "properties" not in type(sink).model_fields:
            option = "dirty-data.collector.properties.bootstrap.servers"
            self._document.report(first, f"dead letters need {option}: the sink is no Kafka cluster")
        return collector

    def _functions(self, options: Mapping) -> tuple[UserFunction, ...]:
        """`pipeline.user-defined-function`, taken out of the pipeline's options, with what can be called only."""
        given = options.items.pop(_FUNCTIONS, None)
        if given is None:
            return ()
        if self._folder is not None and str(self._folder) not in sys.path:
            sys.path.append(str(self._folder))  # last, so that no file here stands in for a module of Python's own
        models = [*self._list(Mapping({_FUNCTIONS: given}, given.span), _FUNCTIONS, UserFunction)]
        if self._has_errors() or not isinstance(given, Sequence):
            return ()
        names: set[str] = set()
        for model, item in zip(models, given.items, strict=True):
            assert isinstance(item, Mapping)
            if model.name.lower() in names:
                self._document.report(item.items["name"].span, f"a function {model.name!r} is there already")
            names.add(model.name.lower())
            python = item.items["python"]
            if isinstance(python, Scalar) and python.unresolved:
                continue
            try:
                model.load()
            except ValueError as exc:
                text = self._discreet(f"function {model.name!r}: {exc}", python, _FUNCTIONS, "python")
                self._document.report(python.span, text)
        return tuple(models)

    def _check_calls(self, root: Mapping, given: Value | None) -> None:
        """Expressions call functions that there are: Spark's, Flink's or the pipeline's own."""
        entries = given.items if isinstance(given, Sequence) else []
        names = (entry.items.get("name") for entry in entries if isinstance(entry, Mapping))
        own = {str(name.value).lower() for name in names if isinstance(name, Scalar)}
        transforms = root.items.get("transform")
        for rule in transforms.items if isinstance(transforms, Sequence) else []:
            for option in ("projection", "filter"):
                text = rule.items.get(option) if isinstance(rule, Mapping) else None
                if not isinstance(text, Scalar) or not text.value or text.unresolved or text.value in {"*", "\\*"}:
                    continue
                from ingest.flow.lint import unknown_functions  # noqa: PLC0415  (few pipelines need it)

                for error in unknown_functions(text.value, own):
                    self._document.report(self._document.within(text, error.at, error.length), f"{option}: {error}")

    def _check_files(self, root: Mapping, source: Any, sink: Any) -> None:  # noqa: ANN401  (options models)
        """A pipeline that reads files must not write among them."""
        if source.type == "file" == sink.type and source.matches(sink.example()):
            section = root.items["sink"]
            if _unresolved(root.items["source"], "path") or _unresolved(section, "path"):
                return
            span = section.items["path"].span if isinstance(section, Mapping) else section.span
            self._document.report(
                span, "the pipeline would read what it writes: source.path matches files in sink.path"
            )

    def _reveal(self, section: Mapping) -> None:
        """Put in what secrets with several values hold: whole sets of properties, and fields that name a key."""
        whole, one, named = "properties-from-secret", "dew.csms.secretName", "dew.csms.decrypt.fields"
        names = self._named(section)
        try:
            if self._open(section, whole):
                self._put_in(section, self._several(section, whole), whole)
        except SecretError as exc:
            self._document.report(section.items[whole].span, str(exc), severity="note")
            self._wait(section, whole)
        try:
            if not self._open(section, named) or (names and not self._open(section, one)):
                return
            values = self._several(section, one) if names else {}
        except SecretError as exc:
            self._document.report(section.items[one].span, str(exc), severity="note")
            self._wait(section, *names)
            return
        for name in names:
            target = section.items.get(name)
            if not isinstance(target, Scalar) or target.value is None:
                text = self._discreet(
                    f"{named} names {name!r}, which is not given here", section.items[named], "", named
                )
                self._document.report(section.items[named].span, text)
            elif target.value not in values:
                # Not what is given: where somebody wrote the secret itself, it would show
                self._document.report(target.span, f"the secret has no value under the key that {name} names")
                target.unresolved = True
            else:
                target.value = values[target.value]
                target.filled = (target.value,)

    def _open(self, section: Mapping, key: str) -> bool:
        """Whether it is known what an option about secrets says; where not, what hangs on it has to wait."""
        if _unresolved(section, key):
            self._wait(section, *(name for name in section.items if name.startswith(_PREFIXED)), key)
            return False
        return True

    def _wait(self, section: Mapping, *names: str) -> None:
        """What the client would be is not known, so nothing can be said about these options."""
        for name in names:
            item = section.items.get(name)
            if isinstance(item, Scalar):
                item.unresolved = True
        name = f"{_PREFIXED}bootstrap.servers"
        section.items.setdefault(name, Scalar("unknown:1", section.span))
        section.keys.setdefault(name, section.span)

    def _put_in(self, section: Mapping, values: dict[str, str], option: str) -> None:
        for key, value in values.items():
            name = _PREFIXED + key.removeprefix(_PREFIXED)
            if name in section.items:
                text = f"the secret holds {shown_key(name)!r}, which this file gives as well"
                self._document.report(section.keys[name], text)
                continue
            section.items[name] = Scalar(value, section.items[option].span, filled=(value,))
            section.keys[name] = section.keys[option]

    def _named(self, section: Value) -> list[str]:
        """The options that name a key of a secret."""
        fields = self._scalar(section, "dew.csms.decrypt.fields") if isinstance(section, Mapping) else None
        return [name for part in re.split("[,;]", fields or "") if (name := part.strip())]

    def _several(self, section: Mapping, key: str) -> dict[str, str]:
        name = self._scalar(section, key)
        return {} if name is None else self._secrets.values(name, self._scalar(section, "dew.csms.version"))

    @staticmethod
    def _scalar(section: Mapping, key: str) -> str | None:
        value = section.items.get(key)
        return value.value if isinstance(value, Scalar) and not value.unresolved else None

    def _text(self, item: Value, span: Span) -> str:
        if isinstance(item, Scalar) and item.value is not None:
            return item.value
        self._document.report(span, "a client property must be a text or a number")
        return ""

    @staticmethod
    def _chosen(component: Any, section: Mapping) -> str | None:  # noqa: ANN401  (an options model)
        """The name of the format that a component's values are in."""
        chosen = section.items.get(component.formats)
        name = chosen.value if isinstance(chosen, Scalar) else component.model_fields["value_format"].default
        return name if isinstance(name, str) else None

    def _format(self, name: str, option: str, section: Mapping, options: dict[str, Value]) -> BaseModel | None:
        try:
            cls = FORMATS.find(name)
        except ComponentError:  # which the option itself says
            return None
        if cls is None:
            return None
        self._document.visible.allow(_names(cls))
        for key in [k for k in options if not k.startswith(f"{name}.")]:
            text = f"{shown_key(key)!r} is an option of another format than {option}: {name}"
            self._document.report(section.keys[key], text)
            del options[key]
        plain = {key: self._plain(item) for key, item in options.items()}
        return self._model(cls, section, plain, name)

    def _list(self, root: Mapping, section: str, cls: type[_Model]) -> Iterable[_Model]:
        value = root.items.get(section)
        if value is None or (isinstance(value, Scalar) and value.value is None):
            return []
        if not isinstance(value, Sequence):
            self._document.report(value.span, f"{section}: must be a list")
            return []
        out = []
        for item in value.items:
            if not isinstance(item, Mapping):
                self._document.report(item.span, f"an entry of {section}: must be a map")
                continue
            model = self._model(cls, item, self._plain(item), section)
            if model is not None:
                out.append(model)
                self._warn(model.warnings(), item, section)  # type: ignore[attr-defined]  # they are all `Options`
        return out

    def _model(
        self,
        cls: type[_Model],
        where: Mapping,
        plain: dict[str, Any],
        section: str,
        *,
        with_formats: bool = False,
    ) -> _Model | None:
        try:
            return cls.model_validate(plain)
        except ValidationError as exc:
            known = _names(cls)
            for fmt in FORMATS.values() if with_formats else ():
                known += _names(fmt)
            problems = dict.fromkeys(p for error in exc.errors() for p in self._problems(error, where, known, section))
        open_ = [key for key, value in where.items.items() if isinstance(value, Scalar) and value.unresolved]
        if open_:
            # What is not wrong without the options that are not known yet hangs on them: it has to wait
            settled = self._without(cls, plain, open_)
            same = {p for error in settled for p in self._problems(error, where, known, section)}
            problems = {p: None for p in problems if p in same and p[0] not in open_}
        for _, span, text in problems:
            self._document.report(span, text)
        return None

    @staticmethod
    def _without(model: type[BaseModel], plain: dict[str, Any], keys: list[str]) -> list[Any]:
        """What is wrong when these options are left out."""
        left = {key: value for key, value in plain.items() if key not in keys}
        if "properties.*" in left:
            properties = left["properties.*"].items()
            left["properties.*"] = {k: v for k, v in properties if _PREFIXED + k not in keys}
        try:
            model.model_validate(left)
        except ValidationError as exc:
            return list(exc.errors())
        return []

    def _problems(self, error: Any, where: Mapping, known: list[str], section: str) -> list[tuple[str, Span, str]]:  # noqa: ANN401
        """What an error of pydantic's is about: for each problem the option, where it stands, and what to say."""
        path = [str(part) for part in error["loc"]]
        key = path[0] if path else ""
        inner = error.get("ctx", {}).get("error")
        if isinstance(inner, (PropertyError, OptionErrors)):
            prefix = _PREFIXED if isinstance(inner, PropertyError) else ""
            return [self._together(prefix + name, text, where, section) for name, text in inner.problems]
        value = where.items.get(key)
        if isinstance(value, Mapping) and len(path) > 1:
            value = value.items.get(path[1], value)
        place = where.keys.get(key, where.span)
        if error["type"] == "extra_forbidden":
            text = f"unknown option {shown_key(key)!r} in {section}"
            nested = _nested(key, value, known)
            return [(key, place, text + (nested or self._document.suggest(key, known)))]
        if error["type"] == "missing":
            return [(key, where.span, f"option {key!r} is missing in {section}")]
        span = value.span if value is not None else place
        if isinstance(inner, TextError) and isinstance(value, Scalar):
            span = self._document.within(value, inner.at, inner.length)
        said = _say(error, value, self._given(value, section, key), key)
        return [(key, span, f"{key}: {self._discreet(said, value, section, key)}")]

    def _together(self, key: str, text: str, where: Mapping, section: str) -> tuple[str, Span, str]:
        """A problem that a validator found among several options."""
        value = where.items.get(key)
        if isinstance(value, Scalar) and not sensitive(key):  # of those no validator says more than what is wrong
            shown = self._document.visible.value(*_place(section, key), value.written or "")
            text = without(text, value.filled) if shown else mask(text, [value.written or ""])
        if shown_key(key) != key:
            text = mask(text, [key, key.removeprefix(_PREFIXED)])
        return key, where.keys.get(key, where.span), text


def _names(cls: type[BaseModel]) -> list[str]:
    """The keys of a model's options."""
    return [f.alias or n for n, f in cls.model_fields.items() if f.alias not in {"*format", "properties.*"}]


def _place(section: str, key: str) -> tuple[str, str]:
    """A part of the file, by what messages call it, as a section and an option in it."""
    if section == _FUNCTIONS:
        return "pipeline", f"{_FUNCTIONS}.{key}"
    root = section.partition(".")[0]
    return (root if root in _SECTIONS else "source"), key


def _unresolved(section: Value, key: str) -> bool:
    value = section.items.get(key) if isinstance(section, Mapping) else None
    return isinstance(value, Scalar) and value.unresolved


def _nested(key: str, value: Value | None, known: list[str]) -> str:
    """What to write in the place of keys that are nested where they are to be joined by dots."""
    while isinstance(value, Mapping) and value.items and not opaque(key):
        below, value = next(iter(value.items.items()))
        key = f"{key}.{below}"
        if key in known or (key.startswith(_PREFIXED) and not isinstance(value, Mapping)):
            return f": options are not nested here, write {shown_key(key)}: … in one line"
    return ""


def _say(error: Any, value: Value | None, given: str, key: str) -> str:  # noqa: ANN401
    """Pydantic's message, in the words of the file."""
    kind, ctx = error["type"], error.get("ctx", {})
    if kind == "literal_error":
        expected = str(ctx["expected"])
        options = [word.strip(" '\"") for word in expected.replace(" or ", ",").split(",")]
        word = (value.value if isinstance(value, Scalar) else None) or ""
        if key.endswith(".format") and word.lower() in elsewhere.FORMATS:
            return f"{given} is a format that is not there yet (possible: {expected})"
        return f"{given} is not possible{did_you_mean(word[:100], options)} (possible: {expected})"
    if kind in {"int_parsing", "int_type", "int_from_float", "int_parsing_size"}:
        return f"{given} is not a whole number"
    if kind in {"bool_parsing", "bool_type"}:
        return f"{given} is neither true nor false"
    if kind == "string_type":
        return f"{given} is not a text"
    return str(error["msg"]).removeprefix("Value error, ")
