"""The words that `ingest explain` knows, with their texts: options, components, codes and exit codes.

Models have the texts of their options only where INGEST_DOCS is set before they are imported.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import ingest.config.scenario
import ingest.model.commit  # noqa: F401  (both have kinds of errors)
from ingest.cli.installation import packaged_text
from ingest.config.pipeline import PipelineOptions, Route, Transform, UserFunction
from ingest.deadletter.collector import DirtyDataCollector
from ingest.errors import kinds_of_errors
from ingest.formats import FORMATS
from ingest.model.reject import CODES
from ingest.model.text import yaml_text
from ingest.sinks import SINKS
from ingest.sources import SOURCES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingest.component.options import AnyOptions

_EXIT_CODES: Final = {
    "0": "Done; also after a graceful shutdown: SIGTERM finishes the batch in progress.",
    "1": "Failed: data loss, a bug, or differences in `ingest test`. The last lines say which.",
    "2": "Wrong use of the command line.",
    "65": "Too much dirty data: `ingest letters list FILE` shows it. The limit is ingestion.error-tolerance.",
    "73": "Another run has the checkpoint: a scheduled run ends with this while the one before it is still running.",
    "75": "Worth a retry: a broker or another service is unavailable. The next run resumes from the checkpoint.",
    "78": "A person has to change something: the file, credentials, rights, a topic or a primary key that is missing.",
    "130": "A second signal ended the run at once; the next run repeats the batch in progress.",
}
_LINK: Final = re.compile(r"\[([^\]]*)\]\(([^)#]*)(#[^)]*)?\)")


def entries() -> Iterator[tuple[str, str]]:
    """Yield a name and a text for each word that has one. The word is the last one of the name: `sink option type`."""
    for kind, registry in (("source", SOURCES), ("format", FORMATS), ("sink", SINKS)):
        for name, model in registry.items():
            yield f"{kind} {name}", _component(kind, name, model)
    sections: list[tuple[str, AnyOptions]] = [
        *((f"source {name}", model) for name, model in SOURCES.items()),
        *((f"format {name}", model) for name, model in FORMATS.items()),
        *((f"sink {name}", model) for name, model in SINKS.items()),
        ("route", Route),
        ("transform", Transform),
        ("pipeline", PipelineOptions),
        ("pipeline dirty-data.collector", DirtyDataCollector),
        ("pipeline user-defined-function", UserFunction),
    ]
    owners: dict[tuple[str, str, str], list[str]] = {}
    for section, model in sections:
        for key, text in _options(model).items():
            owners.setdefault((section.partition(" ")[0], key, text), []).append(section)
    for (_, key, text), found in owners.items():
        yield f"{found[0]} option {key}", f"{key} (option of {_called(found)})\n{text}"
    pages = explanations()
    for code, meaning in CODES.items():
        yield f"code {code}", _code(f"{code} (code of rejects)", pages.get(code, meaning))
    for registry in (FORMATS, SINKS):
        for code, names in registry.codes().items():
            meaning = registry[names[0]].codes[code]
            yield f"code {code}", _code(f"{code} (code of rejects, of {', '.join(names)})", pages.get(code, meaning))
    for code, error in sorted(kinds_of_errors().items()):
        yield f"code {code}", _code(f"{code} (error that ends a command)", pages.get(code, error.__doc__ or ""))
    for number, meaning in _EXIT_CODES.items():
        yield f"exit code {number}", f"{number} (exit code)\n    {meaning}"


def _code(head: str, text: str) -> str:
    return "\n".join([head, *(f"    {line}".rstrip() for line in text.splitlines())])


def _called(sections: list[str]) -> str:
    kind, _, _ = sections[0].partition(" ")
    names = [name for name in (section.partition(" ")[2] for section in sections) if name]
    return f"{kind} type {', '.join(names)}" if names else f"section {kind}:"


def _component(kind: str, name: str, model: AnyOptions) -> str:
    about = (model.__doc__ or "").strip().partition("\n\n")[0]
    keys = "\n".join(f"    {key}" for key in _options(model))
    return f"{name} ({kind})\n    {about}\n  Options:\n{keys}"


def _options(model: AnyOptions) -> dict[str, str]:
    """Return the text of each option of a model, by its key."""
    out = {}
    for attribute, field in model.model_fields.items():
        key = field.alias or attribute
        if key == "*format":
            continue
        default = (
            ""
            if field.is_required() or field.default in (None, "", ())
            else f"\n    Default: {yaml_text(field.default)}"
        )
        needed = "\n    It has to be given." if field.is_required() else ""
        text = "\n".join(f"    {line}" for line in (field.description or "").split("\n"))
        out[key] = text + default + needed
    return out


def _told(link: re.Match[str]) -> str:
    """Return a link as plain text: with its page, where that is another one."""
    text, page = link[1], link[2]
    return f"{text} (docs/{page})" if page else text


def explanations() -> dict[str, str]:
    """Return what the page says of each code, as plain text, with lines as the page has them."""
    texts = {}
    for section in re.split(r"^### ", packaged_text("errors.md", "docs"), flags=re.MULTILINE)[1:]:
        code, _, text = section.partition("\n")
        text = text.partition("\n## ")[0]
        texts[code.strip()] = _LINK.sub(_told, text).replace("**", "").strip()
    return texts
