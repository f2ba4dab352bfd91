"""Every error that ends a command, the exit code it ends with, and its code: a stable name.

    IngestError                     1   failed
    ├── InternalError               1   bug                     of ours: the only one that shows a stack trace
    ├── PackageError                1   package-bug             of another package's format, sink or source
    ├── DataLoss                    1   data-loss               records that should be read are not there any more
    ├── DirtyData                  65   dirty-data              more rejects than the pipeline tolerates
    ├── SinkDiffers                66   sink-differs            the sink does not have what its source says
    ├── Unavailable                75   unavailable             worth a retry: broker away, timeout
    │   └── CommitOutcomeUnknown        commit-outcome-unknown  of a task: Spark tries it again
    └── ConfigError                78   configuration           something a person has to change first
        ├── PipelineFileError           pipeline-file           the pipeline file, with all of its diagnostics
        ├── CheckpointError             checkpoint              it is damaged, or of another pipeline
        ├── CheckpointInUse        73   checkpoint-in-use       another run has it: the former one is still going on
        ├── ProgramMissing              program-missing         a program or package that has to be installed
        ├── AccessError                 access                  wrong credentials or missing rights
        ├── TopicMissing                topic-missing           a topic that is not there
        ├── Fenced                      fenced                  another run has taken this one's place
        ├── SchemaChangeRefused         schema-change-refused   a change that the pipeline's behaviour forbids
        ├── NoPrimaryKey                no-primary-key          a table that an upsert sink cannot take
        ├── PartitionerError            partitioner             the user's partitioner failed, or gave no partition
        └── TransformError              transform               an expression that a table's columns do not allow

`RowsRefused` of `model/commit.py` (rows-refused) is a ConfigError where it ends a command; before that it makes
rejects. `ScenarioError` of `config/scenario.py` (test-file) is one about a file of `ingest test`.

docs/errors.md says of each code what causes it and what to do; `ingest explain CODE` prints it.

What happens to *data* (a broken message, a value that does not fit) is no exception: see `model/reject.py`.
"""

from __future__ import annotations

import errno
from typing import ClassVar, Final

INTERRUPTED: Final = 130
"""The exit code of a run that a second signal ended at once."""
_DENIED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class IngestError(Exception):
    """What went wrong, where and why (`message`), and what to do about it (`hint`)."""

    exit_code: ClassVar[int] = 1
    code: ClassVar[str] = "failed"
    """Its name in docs/errors.md, which `ingest explain` knows."""

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

    code = "bug"


class PackageError(IngestError):
    """A bug of a format, sink or source of another package. The message names the package."""

    code = "package-bug"


class DataLoss(IngestError):
    """Records that should be read are not there any more."""

    code = "data-loss"


class DirtyData(IngestError):
    """More rejects than the pipeline tolerates."""

    exit_code = 65
    code = "dirty-data"


class SinkDiffers(IngestError):
    """The sink does not have what its source says, of which `ingest verify` has printed the differences."""

    exit_code = 66
    code = "sink-differs"


class Unavailable(IngestError):
    """A failure worth a retry: the broker or another service is away."""

    exit_code = 75
    code = "unavailable"


class CommitOutcomeUnknown(Unavailable):
    """Whether a commit took place is not known, or another attempt took the task over: the next attempt finds out."""

    code = "commit-outcome-unknown"


class ConfigError(IngestError):
    """Something that a person has to change before the next try."""

    exit_code = 78
    code = "configuration"


class PipelineFileError(ConfigError):
    """The pipeline file is wrong; `message` holds its diagnostics, rendered."""

    code = "pipeline-file"


class CheckpointError(ConfigError):
    """The checkpoint is damaged, or belongs to another pipeline."""

    code = "checkpoint"


class CheckpointInUse(ConfigError):
    """Another run has the checkpoint. A scheduled run that finds the former one going on ends with this."""

    exit_code = 73
    code = "checkpoint-in-use"


class ProgramMissing(ConfigError):
    """A program or a package that has to be installed on this machine, or where the workers run."""

    code = "program-missing"


class AccessError(ConfigError):
    """Wrong credentials or missing rights."""

    code = "access"


class TopicMissing(ConfigError):
    """A topic that is not there."""

    code = "topic-missing"


class Fenced(ConfigError):
    """Another run has taken this one's place."""

    code = "fenced"


class SchemaChangeRefused(ConfigError):
    """A schema change that `pipeline.schema.change.behavior` forbids."""

    code = "schema-change-refused"


class NoPrimaryKey(ConfigError):
    """A table that an upsert sink cannot take."""

    code = "no-primary-key"


class PartitionerError(ConfigError):
    """The user's partitioner failed for a record, or gave a partition that its topic does not have."""

    code = "partitioner"

    def read_from(self, topic: str, partition: int, first: int, end: int) -> PartitionerError:
        """Return the same error, with the place of the records that were read last: `end` is the offset after them."""
        offsets = f"offset {first}" if end - first == 1 else f"the offsets {first} to {end - 1}"
        hint = self.hint or "correct the class; nothing of these records is committed"
        return PartitionerError(f"{self.message}; it was read from {topic}[{partition}] at {offsets}", hint)


class TransformError(ConfigError):
    """An expression of a transform that a table's columns do not allow."""

    code = "transform"

    place: tuple[int, str, int, int] | None = None
    """Which entry of `transform:`, which option of it, and where in its text, from character to character."""

    def placed(self, rule: int, option: str, start: int, end: int) -> TransformError:
        """The same, with its place in the file's texts."""
        self.place = (rule, option, start, end)
        return self


def is_denied(exc: BaseException) -> bool:
    """Return whether an error of a file system says that this user may not write there, or that nobody may."""
    return isinstance(exc, PermissionError) or (isinstance(exc, OSError) and exc.errno in _DENIED)


def kinds_of_errors() -> dict[str, type[IngestError]]:
    """Return the classes of errors that have been imported, by their codes."""
    by_code: dict[str, type[IngestError]] = {}
    kinds = [IngestError]
    for kind in kinds:  # grows on the way
        by_code.setdefault(kind.code, kind)
        kinds += kind.__subclasses__()
    return by_code
