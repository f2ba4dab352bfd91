"""Requests to the run that uses a checkpoint, and its answers: how another command reaches a run, wherever it is.

    requests/N.request     what is asked: tables whose rows are to be read again
    requests/N.answer      what the run says to it; the request is gone then

A run looks for them before it plans a batch, so that a request outlives a run that is killed: the next one takes it.
Rule: docs/spec/mysql.md#rows-that-are-read-again.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from ingest.errors import CheckpointError

if TYPE_CHECKING:
    from ingest.checkpoint.storage import Storage

FOLDER: Final = "requests"
_KEPT: Final = 20
"""Answers that are kept where nobody has taken them."""


_Kind = TypeVar("_Kind", "BackfillRequest", "Answer")


class BackfillRequest(msgspec.Struct, frozen=True):
    """A request to read rows again."""

    tables: list[str]
    """Ids of source tables, as people write them; none: all."""


class Answer(msgspec.Struct, frozen=True):
    """The answer of a run."""

    run: int
    tables: list[str] = []
    """The tables that are read again; none where that is refused."""
    refused: str = ""
    """Why it is refused."""
    hint: str = ""


def ask(storage: Storage, request: BackfillRequest) -> str:
    """Leave a request; returns its name. Raise CheckpointError."""
    name = f"{time.time_ns()}-{os.getpid()}"
    storage.write(f"{FOLDER}/{name}.request", msgspec.json.encode(request))
    return name


def asked(storage: Storage) -> list[tuple[str, BackfillRequest]]:
    """Return the requests that nobody has answered, with their names, the oldest first. Raise CheckpointError."""
    out = []
    for file in sorted(storage.names(FOLDER)):
        name, dot, kind = file.rpartition(".")
        if dot and kind == "request" and not name.startswith("."):
            found = storage.read(f"{FOLDER}/{file}")
            if found is not None:  # it may have been withdrawn
                out.append((name, _read(storage, file, found, BackfillRequest)))
    return out


def answer(storage: Storage, name: str, given: Answer) -> None:
    """Answer a request. Raise CheckpointError."""
    storage.write(f"{FOLDER}/{name}.answer", msgspec.json.encode(given))
    withdraw(storage, name)
    for old in sorted(one for one in storage.names(FOLDER) if one.endswith(".answer"))[:-_KEPT]:
        storage.remove(f"{FOLDER}/{old}")


def answered(storage: Storage, name: str) -> Answer | None:
    """Return the answer to a request, once; None where there is none yet. Raise CheckpointError."""
    file = f"{name}.answer"
    found = storage.read(f"{FOLDER}/{file}")
    if found is None:
        return None
    given = _read(storage, file, found, Answer)
    storage.remove(f"{FOLDER}/{file}")
    return given


def withdraw(storage: Storage, name: str) -> None:
    """Take a request back. Raise CheckpointError."""
    storage.remove(f"{FOLDER}/{name}.request")


def _read(storage: Storage, file: str, data: bytes, kind: type[_Kind]) -> _Kind:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError as exc:
        msg = f"checkpoint {storage.where} is damaged: {FOLDER}/{file}: {exc}"
        raise CheckpointError(msg, f"remove {FOLDER}/{file}") from exc
