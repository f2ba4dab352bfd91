"""What is installed: the lines of `ingest --version`, and `ingest json-schema`."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Final

import typer

from ingest import __version__, compiled, errors
from ingest.errors import ProgramMissing

_NAMED: Final = ("pyspark", "confluent-kafka", "pyarrow", "pyiceberg", "deltalake", "psycopg")
"""Packages of which an error's report should say the version."""


def version_lines() -> Iterator[str]:
    """Yield the version, the commit that it was built from, and the versions of what it works with."""
    yield f"ingest {__version__}"
    build = files("ingest").joinpath("build.txt")
    commit = build.read_text(encoding="utf-8").strip() if build.is_file() else "a checkout"
    yield f"built from {commit or 'an unknown commit'}, {'with' if compiled.USED else 'without'} native code"
    packages = (f"{name} {installed}" for name in _NAMED if (installed := _version(name)))
    yield ", ".join((f"Python {platform.python_version()}", *packages))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


SCHEMA_PLACE: Final = Path(".ingest", "pipeline.schema.json")
"""The place of the schema that first pipelines name, seen from their folder."""

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def json_schema() -> None:
    """Print the JSON Schema of pipeline files, by which editors complete and check them."""
    typer.echo(schema_text(), nl=False)


def schema_text() -> str:
    """Return the schema. Raise ProgramMissing where the package was built without it."""
    text = packaged_text("pipeline.schema.json", "schemas")
    if not text:
        raise ProgramMissing("this package has no JSON Schema", "install it from a wheel or the source distribution")
    return text


def packaged_text(name: str, folder: str) -> str:
    """Return the text of a file of the package, which a checkout has in a folder; an empty text where there is none."""
    package = Path(errors.__file__).parent
    places = (package / name, package.parent / folder / name)
    return next((place.read_text(encoding="utf-8") for place in places if place.is_file()), "")
