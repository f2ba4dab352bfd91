"""Every error that ends a command, and the exit code it ends with.

    IngestError                     1
    ├── InternalError               1   a bug of ours: the only one that shows a stack trace
    ├── PackageError                1   a bug of another package's format, sink or source
    ├── DataLoss                    1   records that should be read are not there any more
    ├── DirtyData                  65   more rejects than the pipeline tolerates
    ├── Unavailable                75   a failure worth retrying: broker away, timeout
    │   └── CommitOutcomeUnknown        what a task did is not known or was taken over: Spark tries it again
    └── ConfigError                78   something a person has to change first
        ├── PipelineFileError           the pipeline file, with all of its diagnostics
        ├── CheckpointError             the checkpoint is in use, damaged, or of another pipeline
        ├── AccessError                 wrong credentials or missing rights
        ├── TopicMissing                a topic that is not there
        ├── Fenced                      another run has taken this one's place
        ├── SchemaChangeRefused         a change that the pipeline's behaviour forbids
        ├── NoPrimaryKey                a table that an upsert sink cannot take
        ├── PartitionerError            the user's partitioner failed, or gave no partition
        └── TransformError              an expression that a table's columns do not allow

`RowsRefused` of `model/commit.py` is a ConfigError where it ends a command; before that it makes rejects.

What happens to *data* (a broken message, a value that does not fit) is no exception: see `model/reject.py`.
"""

from __future__ import annotations

from typing import Final

INTERRUPTED: Final = 130
"""The exit code of a run that a second signal ended at once."""


class IngestError(Exception):
    """What went wrong, where and why (`message`), and what to do about it (`hint`)."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        """Keep both parts apart, so that the command line can set them on lines of their own."""
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """Both parts on one line, for logs."""
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def __reduce__(self) -> tuple[type[IngestError], tuple[str, str]]:
        """Travel between processes with both parts."""
        return type(self), (self.message, self.hint)


class InternalError(IngestError):
    """A bug of ours."""


class PackageError(IngestError):
    """A bug of a format, sink or source of another package. The message names the package."""


class DataLoss(IngestError):
    """Records that should be read are not there any more."""


class DirtyData(IngestError):
    """More rejects than the pipeline tolerates."""

    exit_code = 65


class Unavailable(IngestError):
    """A failure worth retrying: the broker or another service is away."""

    exit_code = 75


class CommitOutcomeUnknown(Unavailable):
    """Whether a commit took place is not known, or another attempt took the task over: the next attempt finds out."""


class ConfigError(IngestError):
    """Something that a person has to change before the next try."""

    exit_code = 78


class PipelineFileError(ConfigError):
    """The pipeline file is wrong; `message` holds its diagnostics, rendered."""


class CheckpointError(ConfigError):
    """The checkpoint is in use, damaged, or belongs to another pipeline."""


class AccessError(ConfigError):
    """Wrong credentials or missing rights."""


class TopicMissing(ConfigError):
    """A topic that is not there."""


class Fenced(ConfigError):
    """Another run has taken this one's place."""


class SchemaChangeRefused(ConfigError):
    """A schema change that `pipeline.schema.change.behavior` forbids."""


class NoPrimaryKey(ConfigError):
    """A table that an upsert sink cannot take."""


class PartitionerError(ConfigError):
    """The user's partitioner failed for a record, or gave a partition that its topic does not have."""

    def read_from(self, topic: str, partition: int, first: int, end: int) -> PartitionerError:
        """Return the same error, with the place of the records that were read last: `end` is the offset after them."""
        offsets = f"offset {first}" if end - first == 1 else f"the offsets {first} to {end - 1}"
        hint = self.hint or "mend the class; nothing of these records is committed"
        return PartitionerError(f"{self.message}; it was read from {topic}[{partition}] at {offsets}", hint)


class TransformError(ConfigError):
    """An expression of a transform that a table's columns do not allow."""

    place: tuple[int, str, int, int] | None = None
    """Which entry of `transform:`, which option of it, and where in its text, from character to character."""

    def placed(self, rule: int, option: str, start: int, end: int) -> TransformError:
        """The same, with its place in the file's texts."""
        self.place = (rule, option, start, end)
        return self
