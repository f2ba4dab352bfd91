"""Options models out of the values of a pipeline file.

In: values with their places. Out: frozen models. What is wrong with a value becomes a diagnostic of the document.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import ValidationError

from ingest.component.options import WRITTEN, AnyOptions, Options, said
from ingest.component.plugins import ComponentError, Registry
from ingest.config.document import Document, Mapping, Scalar, Sequence, Span, Value
from ingest.config.messages import OTHER_CONNECTORS, SINK_NAMES, names, problems, quoted, redacted, source_advice
from ingest.config.redaction import PROPERTIES, shown_key
from ingest.formats import FORMATS, options_of_keys
from ingest.packages import lacking
from ingest.sinks.sink import SinkOptions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic_core import ErrorDetails

    from ingest.config.placeholders import PlaceholderFiller

_VALUE: Final = "value."
"""Beginning of options of the values' format, which may be left out."""
_KEY: Final = "key."
"""Beginning of options of the keys' format."""
_Model = TypeVar("_Model", bound=Options)


class ModelReader:
    """Reader of options models from one document."""

    def __init__(self, document: Document, placeholders: PlaceholderFiller) -> None:
        self._document, self._placeholders = document, placeholders
        self.warnings: list[str] = []
        """Warnings about options so far, each with its section."""
        self._written: dict[str, str] = {}
        """Options of this component that the file spells otherwise: a synonym, or with `key.` or `value.`."""

    def component(self, root: Mapping, section: str, registry: Registry[AnyOptions]) -> AnyOptions:
        """Return the options of a source or sink, of the class that its type names.

        Return None where there is an error.
        """
        value = root.items.get(section)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            self._document.report(value.span, f"{section}: must be a map")
            return None
        kind = value.items.get("type")
        if not isinstance(kind, Scalar) or kind.value is None:
            known = ", ".join(registry.names())
            where = value.keys.get("type", value.keys.get("connector", root.keys[section]))
            how = ": connector is called type here" if "connector" in value.items and "type" not in value.items else ""
            self._document.report(where, f"{section}.type is missing{how} (known: {known})")
            return None
        if kind.unresolved:
            return None
        try:
            cls = registry.find(kind.value)
        except ComponentError as exc:
            self._document.report(kind.span, redacted(f"{section} type {exc}", kind, "type"))
            return None
        if cls is None:
            names = registry.names()
            kind_text = quoted(kind, "type")
            here = SINK_NAMES.get(kind.value.lower()) if section == "sink" else None
            database = source_advice(kind.value) if section == "source" and not kind.filled else ""
            if database:
                text = f"there is no source type {kind_text}{database}"
            elif here:
                text = f"{section} type {kind_text} is called {here} here"
            elif kind.value.lower() in OTHER_CONNECTORS:
                text = f"{section} type {kind_text} is not there yet"
            else:
                near = "" if kind.filled else self._document.suggest(kind.value, names)
                text = f"unknown {section} type {kind_text}{near}"
            self._document.report(kind.span, f"{text} (known: {', '.join(names)})")
            return None
        return self.of_class(cls, value, section)

    def of_class(self, cls: AnyOptions, value: Mapping, section: str) -> AnyOptions:
        """Return a component's options, with its client properties and its format's options checked.

        Return None on an error.
        """
        value = self._shortened(cls, self._by_own_keys(cls, value, section), section)
        connects = "properties" in cls.model_fields
        if connects:
            self._placeholders.reveal(value)
        chosen = None if cls.formats is None else self._chosen(cls, value)
        given = value.items.get("key.format")
        of_key = given.value if isinstance(given, Scalar) else None
        own: dict[str, Any] = {}
        formats: dict[str, Value] = {}
        of_keys = Mapping({}, value.keys.get("key.format", value.span))
        properties: dict[str, str] = {}
        if self._placeholders.holds_secret(value.items.get("path", value)):
            text = (
                "path: a secret is not allowed here: checkpoints keep the names of files; take ${env:…} or a variable"
            )
            self._document.report(value.items["path"].span, text)
        for key, item in value.items.items():
            if connects and key.startswith(PROPERTIES):
                properties[key.removeprefix(PROPERTIES)] = self._text(item, value.keys[key])
            elif self._of_format(cls, key, chosen):
                formats[key] = item
            elif key.startswith(_KEY) and self._of_format(cls, key.removeprefix(_KEY), of_key):
                short = key.removeprefix(_KEY)
                of_keys.items[short], of_keys.keys[short] = item, value.keys[key]
            else:
                own[key] = plain(item)
        if connects:
            own["properties.*"] = properties
        written = section == "sink"
        fmt = None if chosen is None else self._format(chosen, cls.formats, value, formats, written=written)
        model = self.model(cls, value, own, section, with_formats=cls.formats is not None)
        if model is not None and fmt is not None:
            model, wrong = model.with_format(fmt)
            self._report(wrong, value)
        if model is not None and cls.formats is not None:
            model = self._with_keys(model, fmt, of_keys, section, written=written)
        self._report(getattr(model, "wrong_key_fields", ()), value)
        if model is not None:
            self._warn(model, value, section)
            self.note_packages(model, value, section)
        if fmt is not None:
            self._warn(fmt, value, section)
            self.note_packages(fmt, value, section, cls.formats)
        return model

    def _report(self, problems: Iterable[tuple[str, str]], value: Mapping) -> None:
        """Report what is wrong with options of a component: each option, and the reason."""
        for key, text in problems:
            self._document.report(value.keys.get(key, value.span), text)

    @staticmethod
    def _of_format(component: AnyOptions, key: str, chosen: str | None) -> bool:
        """Return whether an option of a component is one of a format: for a sink, of one that is written by options.

        `chosen`: the format that the file names, which may be of another package.
        """
        name = key.split(".", 1)[0]
        if component.formats is None or key in {field.alias for field in component.model_fields.values()}:
            return False
        others = chosen is not None and key.startswith(f"{chosen}.")
        if not issubclass(component, SinkOptions):
            return name in FORMATS or others
        try:
            other = FORMATS[name] if name in FORMATS else FORMATS.find(chosen or "") if others else None
        except ComponentError:  # the check of the option that names it reports this error
            return False
        if other is None:
            return False
        options = other.capabilities.sink_options
        return other.capabilities.takes_sink_options if options is None else key in options

    def _shortened(self, component: AnyOptions, value: Mapping, section: str) -> Mapping:
        """Return a component's options, those of the values' format without `value.`, as Flink spells them."""
        shortened = Mapping({}, value.span)
        for key, item in value.items.items():
            short = key.removeprefix(_VALUE)
            if short == key or not self._of_format(component, short, None):
                short = key
            elif short in value.items:
                text = f"{section}: {shown_key(key)!r} and {shown_key(short)!r} are one option"
                self._document.report(value.keys[key], text)
                continue
            shortened.items[short], shortened.keys[short] = item, value.keys[key]
            if short != key:
                self._written[short] = key
        return shortened

    def _by_own_keys(self, cls: type[Options], value: Mapping, section: str) -> Mapping:
        """Return the map of a component with synonyms replaced by the options' own keys; warn where that is due."""
        self._written = {}
        out = Mapping(dict(value.items), value.span, dict(value.keys))
        for key, (option, deprecated) in cls.synonyms.items():
            if key not in out.items:
                continue
            item, place = out.items.pop(key), out.keys.pop(key, value.span)
            text = f"{key} is an old name of {option}: write that" if deprecated else ""
            if option in out.items:
                text = f"{key} has no effect beside {option}, which means the same"
            else:
                out.items[option], out.keys[option] = item, place
                self._written[option] = key
            if text:
                self._document.report(place, text, severity="warning")
                self.warnings.append(f"{section}: {text}")
        return out

    def _with_keys(
        self, model: AnyOptions, fmt: Options | None, key_options: Mapping, section: str, *, written: bool
    ) -> AnyOptions:
        """Return a component's options with those of its keys' format: its own, or else the ones of the values.

        Return None on an error.
        """
        name = getattr(model, "key_format", None)
        found: Any = None if name is None else FORMATS.find(name)
        cls = options_of_keys(found, written=written)
        if cls is None or name is None:
            what = "without key.format" if name is None else f"with key.format: {name}"
            for key, span in key_options.keys.items():
                self._document.report(span, f"{shown_key(_KEY + key)!r} is not possible {what}")
            return None if key_options.items else model
        if not key_options.items and isinstance(fmt, found):
            return model.with_key_format(fmt.for_keys())
        self._written = {short: _KEY + short for short in key_options.items}
        key_format = self.model(cls, key_options, plain_map(key_options), f"key.{name}", written=written)
        if key_format is None:
            return None
        self.note_packages(key_format, key_options, section)
        return model.with_key_format(key_format)

    def list_of(self, root: Mapping, section: str, cls: type[_Model]) -> list[_Model]:
        """Return a section's entries as models of this class, without those that are wrong."""
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
            model = self.model(cls, item, plain_map(item), section)
            if model is not None:
                out.append(model)
                self._warn(model, item, section)
        return out

    def model(
        self,
        cls: type[_Model],
        where: Mapping,
        values: dict[str, object],
        section: str,
        *,
        with_formats: bool = False,
        written: bool = False,
    ) -> _Model | None:
        """Return the model of these plain values, or None where one is wrong. `where` has the places of the values.

        `written`: they are those of a format that a sink writes.
        """
        try:
            return cls.model_validate(values, context={WRITTEN: written})
        except ValidationError as exc:
            known = names(cls)
            for fmt in FORMATS.values() if with_formats else ():
                known += names(fmt)
            wrong = exc.errors(include_url=False, include_input=False)
        say = partial(problems, self._document, where=where, known=known, section=section)
        reported = dict.fromkeys(p for error in wrong for p in say(error))
        open_ = [key for key, value in where.items.items() if isinstance(value, Scalar) and value.unresolved]
        if open_:
            # An error that disappears without the unknown options may depend on their values, so it is not reported yet
            settled = self._without(cls, values, open_)
            same = {p for error in settled for p in say(error)}
            reported = {p: None for p in reported if p in same and p[0] not in open_}
        for key, span, text in reported:
            name = self._written.get(key, key)
            self._document.report(span, name + text.removeprefix(key) if text.startswith(f"{key}: ") else text)
        return None

    @staticmethod
    def _without(model: type[Options], values: dict[str, object], keys: list[str]) -> list[ErrorDetails]:
        """Return the validation errors that remain when the options with these keys are left out."""
        left = {key: value for key, value in values.items() if key not in keys}
        properties = left.get("properties.*")
        if isinstance(properties, dict):
            left["properties.*"] = {k: v for k, v in properties.items() if PROPERTIES + k not in keys}
        try:
            model.model_validate(left)
        except ValidationError as exc:
            return list(exc.errors(include_url=False, include_input=False))
        return []

    def _format(
        self, name: str, option: str, section: Mapping, options: dict[str, Value], *, written: bool
    ) -> Options | None:
        try:
            cls = FORMATS.find(name)
        except ComponentError:  # the check of the option itself reports this error
            return None
        if cls is None:
            return None
        for key in [k for k in options if not k.startswith(f"{name}.")]:
            text = f"{shown_key(key)!r} is an option of another format than {option}: {name}"
            self._document.report(section.keys[key], text)
            del options[key]
        values = {key: plain(item) for key, item in options.items()}
        return self.model(cls, section, values, name, written=written)

    @staticmethod
    def _chosen(component: AnyOptions, section: Mapping) -> str | None:
        """Return the name of the format of a component's values. Return None where it is not a text."""
        chosen = section.items.get(component.formats)
        name = chosen.value if isinstance(chosen, Scalar) else component.model_fields["value_format"].default
        return name if isinstance(name, str) else None

    def _text(self, item: Value, span: Span) -> str:
        if isinstance(item, Scalar) and item.value is not None:
            return item.value
        instead = "" if not isinstance(item, Scalar) or item.unresolved else ": write '' for an empty one"
        self._document.report(span, f"a client property must be a text or a number{instead}")
        return ""

    def note_packages(self, options: Options, where: Mapping, section: str, format_key: str = "") -> None:
        """Report what is not installed here of the packages that options need. `format_key` names a format's option."""
        for key, extra in said(options, "packages"):
            found = lacking(extra)
            if found is not None:
                span = where.keys.get(key or format_key, where.span)
                self._document.report(span, f"{section}: {found[0]}; {found[1]}", severity="note", of_machine=True)

    def _warn(self, options: Options, where: Mapping, section: str) -> None:
        for key, why in said(options, "warnings"):
            text = redacted(why, where.items.get(key), key)
            self._document.report(where.keys.get(key, where.span), text, severity="warning")
            self.warnings.append(f"{section}: {text}")
        for key, why in said(options, "notes"):
            text = redacted(why, where.items.get(key), key)
            self._document.report(where.keys.get(key, where.span), text, severity="note")
        for key, remark in said(options, "remarks"):
            value = where.items[key]
            assert isinstance(value, Scalar)
            span = self._document.within(value, remark.at, remark.length)
            text = f"{key}: {redacted(str(remark), value, key)}"
            self._document.report(span, text, severity="warning")
            self.warnings.append(f"{section}: {text}")


def plain(value: Value) -> object:
    """Return a value as pydantic takes it: a text, None, or a list or dict of such values."""
    if isinstance(value, Scalar):
        return value.value
    if isinstance(value, Sequence):
        return [plain(item) for item in value.items]
    return plain_map(value)


def plain_map(value: Mapping) -> dict[str, object]:
    """Return a map as pydantic takes it."""
    return {key: plain(item) for key, item in value.items.items()}
