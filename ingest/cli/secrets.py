"""Output of commands about a pipeline, without its secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from ingest.config.masking import mask
from ingest.model.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.config.pipeline import Pipeline


def warner(pipeline: Pipeline) -> Callable[[str], None]:
    """Return a function that prints a warning on standard error, without the pipeline's secrets."""
    return lambda text: typer.echo(f"warning: {one_line(mask(text, pipeline.secrets))}", err=True)
