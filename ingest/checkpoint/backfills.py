"""Backfills in a checkpoint: notes of those that were begun, and requests to the run that uses the checkpoint.

    backfills/N.note       tables, where their rows go, where the pipeline was, whether it came to its end
    backfills/N/           plans and progress of that backfill, as of any run
    requests/N.request     what is asked: tables whose rows are to be read again
    requests/N.answer      what the run says to it; the request is gone then

A run looks for requests before it plans a batch, so that a request outlives a run that is killed: the next one takes
it. Rule: docs/spec/mysql.md#rows-that-are-read-again.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
import orjson

from ingest.errors import CheckpointError

if TYPE_CHECKING:
    from ingest.checkpoint.checkpoint import Checkpoint
    from ingest.checkpoint.storage import Storage
    from ingest.model.record import Split
    from ingest.model.table import TableId

FOLDER: Final = "backfills"


@dataclass(slots=True)
class BackfillNote:
    """A backfill."""

    tables: tuple[TableId, ...]
    places: list[list[str]]
    """The sink tables that its rows go to, each with where the sink has it."""
    ends: dict[Split, int]
    """The positions of the pipeline when it began."""
    finished: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        ends = [[topic, p, at] for (topic, p), at in self.ends.items()]
        return {"tables": self.tables, "places": self.places, "ends": ends, "finished": self.finished}


def backfill_notes(checkpoint: Checkpoint) -> dict[int, BackfillNote]:
    """Return the backfills of a checkpoint by their numbers. Raises CheckpointError."""
    out = {}
    for name in checkpoint.storage.names(FOLDER):
        number = name.removesuffix(".note")
        if name == number or not number.isdigit():
            continue
        try:
            stored = orjson.loads(checkpoint.storage.read(f"{FOLDER}/{name}") or b"")
            ends = {(topic, p): at for topic, p, at in stored["ends"]}
            tables = tuple(tuple(table) for table in stored["tables"])
            out[int(number)] = BackfillNote(tables, stored["places"], ends, stored["finished"])
        except (ValueError, KeyError, TypeError) as exc:
            raise checkpoint.damaged(f"{FOLDER}/{name}", exc) from exc
    return dict(sorted(out.items()))


def store_note(checkpoint: Checkpoint, number: int, note: BackfillNote) -> None:
    """Store a backfill. Raises CheckpointError where a newer run has taken over."""
    checkpoint.refuse_newer_run()
    checkpoint.storage.write(f"{FOLDER}/{number}.note", orjson.dumps(note.to_json()))


_REQUESTS: Final = "requests"
_KEPT: Final = 20
"""Answers that are kept until their commands read them."""


_Kind = TypeVar("_Kind", "BackfillRequest", "Answer")


class BackfillRequest(msgspec.Struct, frozen=True):
    """A request to read rows again."""

    tables: list[str]
    """Ids of source tables, as people write them; none: all."""


class Answer(msgspec.Struct, frozen=True):
    """A run's answer to a backfill request."""

    run: int
    tables: list[str] = []
    """The tables that are read again; none where that is refused."""
    refused: str = ""
    """Why it is refused."""
    hint: str = ""


def ask(storage: Storage, request: BackfillRequest) -> str:
    """Store a backfill request for the run that uses the checkpoint.

    Return the request's name. Raise CheckpointError.
    """
    name = f"{time.time_ns()}-{os.getpid()}"
    storage.write(f"{_REQUESTS}/{name}.request", msgspec.json.encode(request))
    return name


def asked(storage: Storage) -> list[tuple[str, BackfillRequest]]:
    """Return the requests without an answer, with their names, the oldest first. Raise CheckpointError."""
    out = []
    for file in sorted(storage.names(_REQUESTS)):
        name, dot, kind = file.rpartition(".")
        if dot and kind == "request" and not name.startswith("."):
            data = storage.read(f"{_REQUESTS}/{file}")
            if data is not None:  # it may have been withdrawn
                out.append((name, _read(storage, file, data, BackfillRequest)))
    return out


def answer(storage: Storage, name: str, reply: Answer) -> None:
    """Answer a request. Raise CheckpointError."""
    storage.write(f"{_REQUESTS}/{name}.answer", msgspec.json.encode(reply))
    withdraw(storage, name)
    for old in sorted(file for file in storage.names(_REQUESTS) if file.endswith(".answer"))[:-_KEPT]:
        storage.remove(f"{_REQUESTS}/{old}")


def answered(storage: Storage, name: str) -> Answer | None:
    """Return and remove the run's answer to a request; None before the run has answered. Raise CheckpointError."""
    file = f"{name}.answer"
    data = storage.read(f"{_REQUESTS}/{file}")
    if data is None:
        return None
    reply = _read(storage, file, data, Answer)
    storage.remove(f"{_REQUESTS}/{file}")
    return reply


def withdraw(storage: Storage, name: str) -> None:
    """Withdraw a request that no run has answered. Raise CheckpointError."""
    storage.remove(f"{_REQUESTS}/{name}.request")


def _read(storage: Storage, file: str, data: bytes, kind: type[_Kind]) -> _Kind:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError as exc:
        msg = f"checkpoint {storage.where} is damaged: {_REQUESTS}/{file}: {exc}"
        raise CheckpointError(msg, f"remove {_REQUESTS}/{file}") from exc
