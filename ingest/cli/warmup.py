"""`ingest warmup`: prepares the cache, so that later starts are faster."""

from __future__ import annotations

import typer

from ingest.spark.warmup import write
from ingest.transform.warm import warm

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def warmup() -> None:
    """Write a class-data archive of Spark into the cache: every later run starts seconds earlier.

    Optional; about a minute, and some 70 MB. Repeat it after an update of Java or pyspark.
    """
    written = write(warm)
    typer.echo(f"{written}: {written.stat().st_size >> 20} MiB")
