"""What errors of the library of Delta tables mean for a run.

In: an exception of a call of the library, or of Arrow's on a file of a table. Out: the error of a run, with words for
a person. Texts of the library may have a trace of its own, which is left out.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
from deltalake.exceptions import CommitFailedError, DeltaError, DeltaProtocolError, TableNotFoundError

from ingest.errors import AccessError, ConfigError, IngestError, Unavailable, is_denied
from ingest.model.text import one_line, reason_and_file

_DENIED: Final = re.compile(
    r"[Ss]tatus(?: code)?:? 40[13]\b|\b401 Unauthorized|Unauthenticated|PermissionDenied|Permission denied"
    r"|AccessDenied|Forbidden|Operation not permitted|Read-only file system"
)
_OPTIONS: Final = re.compile(
    r"Generic Config error|Failed to parse config|Unable to recognise URL|must be specified|builder error"
    r"|Invalid \S+ Catalog|endpoint is missing|invalid config|NoSuchBucket|ContainerNotFound"
)
"""Texts for options of the storage, or a place, that mean nothing to the library."""
_AWAY: Final = re.compile(
    r"object store|performing \w+ request|Generic \w+ error(?! ↳ Unable to walk)|IO error|[Tt]imed? ?out"
)
"""Texts for a storage that does not answer, inside of errors about a table."""
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_TRACE: Final = re.compile(r"(?:\s+0: (?:<unknown>|\S+::)|: ParsedLogPath \{).*", re.DOTALL)
_MOST: Final = 500

_DAMAGED: Final = (
    "see what was changed in the folder of the table; restore it from a copy. Nothing of the batch is lost"
)


def failure_of(exc: BaseException, what: str, place: str) -> IngestError | None:
    """Return the error of a run for one of a call; None for an exception that is none of the library's.

    `what`: what was done, as in "cannot make the table". `place`: the warehouse, for people.
    """
    text = _text(exc)
    msg = f"cannot {what} in {place}: {text}"
    if type(exc).__name__ == "PanicException":  # the library's own, which no module exports
        return ConfigError(f"cannot {what} in {place}: the library deltalake failed: {text}", _DAMAGED)
    if not isinstance(exc, (DeltaError, OSError, EOFError, ValueError, pa.ArrowException)):
        return None
    if isinstance(exc, TableNotFoundError):
        hint = "restore it; or start over with another --checkpoint, and the table is made again"
        return ConfigError(f"cannot {what}: it is not in {place} any more: {text}", hint)
    if isinstance(exc, CommitFailedError):
        return Unavailable(msg, "another writer is faster again and again; the next run goes on")
    if isinstance(exc, DeltaProtocolError):
        return ConfigError(msg, "write to another table: this one needs what this tool does not do")
    if is_denied(exc) or _DENIED.search(text):
        return AccessError(msg, "see storage.properties.*, and the rights of this user there")
    if _OPTIONS.search(text):
        return ConfigError(msg, "see `warehouse` and storage.properties.*")
    if _is_damage(exc, text):
        return ConfigError(msg, _DAMAGED)
    return Unavailable(msg, "see whether the storage answers, and whether there is room; nothing is lost")


def _is_damage(exc: BaseException, text: str) -> bool:
    """Return whether the storage did answer, and what is there is no table or no file of one."""
    if isinstance(exc, (FileNotFoundError, NotADirectoryError, EOFError, ValueError)) or "(os error 20)" in text:
        return True
    if isinstance(exc, OSError) and not isinstance(exc, pa.ArrowException):
        return False
    return not _AWAY.search(text)


def _text(exc: BaseException) -> str:
    return one_line(" ".join(_TRACE.sub("", _COLOURS.sub("", reason_and_file(exc))).split()))[:_MOST]
