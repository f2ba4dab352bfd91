"""Every option of the reference has a scenario, or another test, that sets it.

An option belongs to the class that defines it: options that several components share are set by a test of one of them.
A scenario, and any other YAML file of the tests, counts where it sets the option in the section of such a component.
Code of a test counts where one of its texts, other than its description, sets an option of that name.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel
from ruamel.yaml import YAML

from ingest.config.pipeline import PipelineOptions, Route, Transform, UserFunction
from ingest.deadletter.collector import DirtyDataCollector
from ingest.formats import FORMATS
from ingest.sinks import SINKS
from ingest.sources import SOURCES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingest.component.options import Options

ROOT = next(folder for folder in Path(__file__).parents if (folder / "pyproject.toml").is_file())
COLLECTOR = "dirty-data.collector"
FUNCTIONS = "user-defined-function"
SECTIONS: dict[str, type[Options]] = {
    **{f"source {name}": model for name, model in SOURCES.items()},
    **{f"sink {name}": model for name, model in SINKS.items()},
    **{f"format {name}": model for name, model in FORMATS.items()},
    "route": Route, "transform": Transform, "pipeline": PipelineOptions,
    COLLECTOR: DirtyDataCollector, FUNCTIONS: UserFunction,
}  # fmt: skip


def owners(model: type[Options]) -> dict[str, str]:
    """The class that defines each option of a model, by the option's key in the reference."""
    classes = [cls for cls in model.__mro__ if issubclass(cls, BaseModel)]
    keys = {name: field.alias or name for name, field in model.model_fields.items()}
    return {
        key: next(cls.__name__ for cls in classes if name in cls.__annotations__)
        for name, key in keys.items()
        if key not in {"*format", COLLECTOR}
    }


OWNERS = {section: owners(model) for section, model in SECTIONS.items()}
OPTIONS = sorted({(owner, key) for found in OWNERS.values() for key, owner in found.items()})


def settings(pipeline: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Section and key of each option that a pipeline sets."""
    for part, default in (("source", "kafka"), ("sink", "upsert-kafka")):
        found = pipeline.get(part)
        if isinstance(found, dict):
            component = f"{part} {found.get('type', default)}"
            yield from ((component, str(key)) for key in found)
            yield from ((f"format {name}", str(key)) for name in FORMATS for key in found)
    for part in ("route", "transform"):
        entries = pipeline.get(part)
        for entry in entries if isinstance(entries, list) else ():
            yield from ((part, str(key)) for key in entry if isinstance(entry, dict))
    for key, value in flat(pipeline.get("pipeline")):
        yield "pipeline", key
        if key.startswith(f"{COLLECTOR}."):
            yield COLLECTOR, key.removeprefix(f"{COLLECTOR}.")
        if key.startswith("variables."):
            yield "pipeline", "variables"
        if key == FUNCTIONS and isinstance(value, list):
            yield from ((FUNCTIONS, str(name)) for entry in value if isinstance(entry, dict) for name in entry)


def flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The keys of a map with those of maps in it, joined by dots."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from flat(inner, f"{prefix}.{key}" if prefix else str(key))
    elif prefix:
        yield prefix, value


@cache
def in_files() -> dict[tuple[str, str], list[str]]:
    """The YAML files that set each option, by the option's class and key."""
    out: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in sorted([*(ROOT / "tests").rglob("*.yaml"), *(ROOT / "pipelines").rglob("*.yaml")]):
        try:
            document = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
        except Exception:  # noqa: BLE001, S112  (what it raises for the files that are about what is no YAML)
            continue
        if isinstance(document, dict):
            inline = document.get("pipeline") if "messages" in document else document
            for section, key in set(settings(inline)) if isinstance(inline, dict) else ():
                known = OWNERS.get(section, {})
                name = key if key in known else next((k for k in known if k[-1] == "*" and key.startswith(k[:-1])), "")
                if name:
                    out[known[name], name].append(path.stem)
    return out


@cache
def texts() -> tuple[tuple[str, str], ...]:
    """File and text of each constant in the tests' code that is no description of it."""
    out = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        about = {
            node.body[0].value
            for node in ast.walk(tree)
            if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and isinstance(node.body[0], ast.Expr)
        }
        if path != Path(__file__):
            out += [
                (path.stem, node.value)
                for node in ast.walk(tree)
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in about
            ]
    return tuple(out)


def setters(owner: str, key: str) -> list[str]:
    """The tests that set an option."""
    found = in_files().get((owner, key), [])
    if found:
        return found
    name = re.escape(key[:-1]) + r"[\w.-]+" if key.endswith(".*") else re.escape(key)
    word = re.compile(rf"(?<![\w.-])(?:{re.escape(COLLECTOR)}\.)?{name}(?:['\"]?\s*:|\Z)")
    return sorted({name for name, text in texts() if word.search(text)})


@pytest.fixture(scope="module")
def searched() -> None:
    """All files of the tests, read."""
    in_files()
    texts()


@pytest.mark.usefixtures("searched")
@pytest.mark.parametrize(("owner", "key"), OPTIONS, ids=lambda part: part)
def test_every_option_of_the_reference_is_set_by_a_test(owner: str, key: str) -> None:
    assert setters(owner, key), f"no test sets {key} of {owner}: write a scenario that shows what it does"


@pytest.mark.usefixtures("searched")
def test_an_option_that_no_test_sets_would_be_found() -> None:
    assert not setters("KafkaSource", "scan.no-such" + ".option")
    assert setters("Route", "sink-table")
    assert not in_files().get(("Route", "projection"))  # it is an option of another section
