"""`ingest json-schema`: the JSON Schema of pipeline files, by which editors complete and check them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import typer

from ingest import errors
from ingest.errors import ProgramMissing

PLACE: Final = Path(".ingest", "pipeline.schema.json")
"""The place of the schema that first pipelines name, seen from their folder."""
_PACKAGED: Final = Path(errors.__file__).with_name("pipeline.schema.json")
_REPOSITORY: Final = Path(errors.__file__).parent.parent / "schemas" / "pipeline.schema.json"

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def json_schema() -> None:
    """Print the JSON Schema of pipeline files, by which editors complete and check them."""
    typer.echo(schema_text(), nl=False)


def schema_text() -> str:
    """Return the schema. Raise ProgramMissing where the package was built without it."""
    for place in (_PACKAGED, _REPOSITORY):
        if place.is_file():
            return place.read_text(encoding="utf-8")
    raise ProgramMissing("this package has no JSON Schema", "install it from a wheel or the source distribution")
