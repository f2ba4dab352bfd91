"""Output of commands about a pipeline, without its secrets."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from ingest.config.masking import mask
from ingest.errors import IngestError
from ingest.model.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ingest.config.pipeline import Pipeline


@contextmanager
def masked_errors(secrets: frozenset[str]) -> Iterator[None]:
    """Let errors leave without these secrets, which a client's message may hold."""
    try:
        yield
    except IngestError as exc:
        raise type(exc)(mask(exc.message, secrets), mask(exc.hint, secrets)) from exc


def warner(pipeline: Pipeline) -> Callable[[str], None]:
    """Return a function that prints a warning on standard error, without the pipeline's secrets."""
    return lambda text: typer.echo(f"warning: {one_line(mask(text, pipeline.secrets))}", err=True)
