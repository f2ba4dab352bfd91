"""The part that is alike in sources which read records of a pipeline's source once more: a backfill, a replay.

Such records become rows as the pipeline's do. Both packages that have such a source share this file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from ingest.formats import Format
    from ingest.formats.metadata_columns import ExtraColumns
    from ingest.model.reject import IgnoredErrors
    from ingest.schema.infer import Inference
    from ingest.sources import Source


@dataclass(frozen=True)
class DerivedSource:
    """A source whose records are read as those of the pipeline's."""

    source: Source
    """The pipeline's source."""

    sample_size: ClassVar[int] = 0
    row_letters: ClassVar[None] = None

    @property
    def format(self) -> Format:
        """The pipeline's."""
        return self.source.format

    @property
    def extra(self) -> ExtraColumns:
        """The pipeline's."""
        return self.source.extra

    @property
    def ignored_errors(self) -> IgnoredErrors:
        """The pipeline's."""
        return self.source.ignored_errors

    def inference(self, max_columns: int) -> Inference:
        """Return the pipeline's inference."""
        return self.source.inference(max_columns)
