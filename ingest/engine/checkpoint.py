"""What a run leaves for the next one: positions, counters, schemas, in plain files.

    checkpoint.json        identity and fingerprint
    lock                   held by the run that owns the checkpoint, and by its Java process
    run                    the number of the newest run
    batches/N.plan         ranges, topic ids, schema version: written before any task starts
    batches/N.done         positions reached, counters: written when the batch is over
    schemas/V.json         what version V changed; every hundredth holds everything

Files appear whole or not at all. A plan without a done is run again: nothing of a batch is lost with its driver.
"""

from __future__ import annotations

import fcntl
import os
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import orjson

from ingest.errors import CheckpointError
from ingest.flow.evolve import Schemas, SourceTable
from ingest.model.schema import TableSchema

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ingest.flow.evolve import Evolution
    from ingest.flow.route import Rules
    from ingest.kafka.admin import Split

FORMAT: Final = 1
KEEP_BATCHES: Final = 20
SNAPSHOT_EVERY: Final = 100
DYING_S: Final = 15.0
"""How long a start waits for the remains of a killed run to go away, in seconds."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One planned batch."""

    number: int
    run: int
    ids: Mapping[str, str]
    ranges: Mapping[Split, tuple[int, int]]
    schema_version: int


@dataclass(slots=True)
class Progress:
    """Where the pipeline stands after a batch."""

    batch: int = 0
    positions: dict[Split, int] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    shards: dict[Split, int] = field(default_factory=dict)
    errors: int = 0
    """Rejects that count against the tolerance, over all runs."""


class Checkpoint:
    """An open checkpoint in a local directory; this process is its only user until `close`."""

    def __init__(self, root: Path) -> None:
        """Open or create; raises CheckpointError when it is in use, damaged, or cannot be written."""
        self.root = root
        try:
            for folder in ("batches", "schemas"):
                (root / folder).mkdir(parents=True, exist_ok=True)
            self.lock = _lock(root / "lock")
        except OSError as exc:
            msg = f"cannot use checkpoint {root}: {exc.strerror}"
            raise CheckpointError(msg, "choose another place with --checkpoint") from exc
        try:
            self.run = int(self._read("run") or b"0") + 1
            self._write("run", str(self.run).encode())
            self.meta: dict[str, Any] = orjson.loads(self._read("checkpoint.json") or b"{}")
            if self.meta.get("format", FORMAT) != FORMAT:
                msg = f"checkpoint {root} was written by a newer version (format {self.meta['format']})"
                raise CheckpointError(msg, "run it with that version")
        except (ValueError, OSError) as exc:
            raise self._damaged("checkpoint.json or run", exc) from exc

    def _damaged(self, what: str, exc: Exception) -> CheckpointError:
        return CheckpointError(
            f"checkpoint {self.root} is damaged: {what}: {exc}", "restore it, or start over with another --checkpoint"
        )

    @property
    def id(self) -> str:
        """The checkpoint's identity, for whatever must not be mixed up with another's."""
        return str(self.meta["id"])

    def bind(self, fingerprint: Mapping[str, Mapping[str, Any]]) -> None:
        """Take possession for a pipeline, or see that it is the same one; raises CheckpointError."""
        if "id" not in self.meta:
            self.meta = {"format": FORMAT, "id": uuid.uuid4().hex, "fingerprint": fingerprint}
            self._write("checkpoint.json", orjson.dumps(self.meta, option=orjson.OPT_INDENT_2))
            return
        for section, expected in self.meta["fingerprint"].items():
            for key, value in expected.items():
                now = fingerprint.get(section, {}).get(key)
                if now != value:
                    msg = (
                        f"checkpoint {self.root} belongs to a pipeline with another {section} {key}: {value}, now {now}"
                    )
                    hint = "its positions mean nothing here: use another pipeline.name, or another --checkpoint"
                    raise CheckpointError(msg, hint)

    # -- batches -----------------------------------------------------------------------------------------------------

    def progress(self) -> tuple[Progress, Batch | None]:
        """Where the last finished batch ended, and the planned batch that is not finished, if there is one."""
        numbers: dict[str, list[int]] = {"done": [], "plan": []}
        for path in (self.root / "batches").iterdir():
            stem, _, kind = path.name.partition(".")
            if kind in numbers and stem.isdigit():
                numbers[kind].append(int(stem))
        try:
            done = max(numbers["done"], default=-1)
            progress = self._progress(done)
            planned = max(numbers["plan"], default=-1)
            return progress, self._batch(planned) if planned > done else None
        except (ValueError, KeyError, TypeError) as exc:
            raise self._damaged("batches", exc) from exc

    def _progress(self, number: int) -> Progress:
        if number < 0:
            return Progress()
        stored = orjson.loads(self._read(f"batches/{number}.done") or b"")
        return Progress(
            number,
            {(t, p): at for t, p, at, _ in stored["positions"]},
            stored["ids"],
            {(t, p): shard for t, p, _, shard in stored["positions"]},
            stored["errors"],
        )

    def _batch(self, number: int) -> Batch:
        stored = orjson.loads(self._read(f"batches/{number}.plan") or b"")
        ranges = {(t, p): (start, end) for t, p, start, end in stored["ranges"]}
        return Batch(number, stored["run"], stored["ids"], ranges, stored["schema_version"])

    def plan(self, batch: Batch) -> None:
        """Store a plan; only then may its tasks start."""
        ranges = [[t, p, start, end] for (t, p), (start, end) in batch.ranges.items()]
        plan = {"run": batch.run, "ids": batch.ids, "schema_version": batch.schema_version, "ranges": ranges}
        self._write(f"batches/{batch.number}.plan", orjson.dumps(plan))

    def done(self, progress: Progress, counts: Mapping[str, Any]) -> None:
        """Store where the pipeline stands now, and forget old batches."""
        positions = [[t, p, at, progress.shards.get((t, p), 0)] for (t, p), at in progress.positions.items()]
        done = {
            "run": self.run,
            "ids": progress.ids,
            "errors": progress.errors,
            "counts": counts,
            "positions": positions,
        }
        self._write(f"batches/{progress.batch}.done", orjson.dumps(done))
        old = progress.batch - KEEP_BATCHES
        for kind in ("plan", "done"):
            (self.root / "batches" / f"{old}.{kind}").unlink(missing_ok=True)

    # -- schemas -----------------------------------------------------------------------------------------------------

    def schemas(self, rules: Rules) -> Schemas:
        """The newest version of all schemas, with the targets that the rules give the tables now."""
        versions = sorted(int(p.stem) for p in (self.root / "schemas").glob("*.json") if p.stem.isdigit())
        sources: dict[tuple[str, ...], SourceTable] = {}
        sinks: dict[tuple[str, ...], TableSchema] = {}
        try:
            stored = {v: orjson.loads(self._read(f"schemas/{v}.json") or b"") for v in versions}
            first = max((v for v in versions if stored[v]["full"]), default=0)
            for version in versions:
                if version < first:
                    continue
                for table, value in stored[version]["sources"]:
                    schema = TableSchema.from_json(value)
                    sources[tuple(table)] = SourceTable(schema, rules.targets(tuple(table)), value["key_from_message"])
                for table, value in stored[version]["sinks"]:
                    sinks[tuple(table)] = TableSchema.from_json(value)
        except (ValueError, KeyError, TypeError) as exc:
            raise self._damaged("schemas", exc) from exc
        return Schemas(versions[-1] if versions else 0, sources, sinks)

    def store(self, evolution: Evolution) -> None:
        """Store a version of the schemas: what it changed, or everything now and then."""
        version = evolution.schemas.version
        full = version % SNAPSHOT_EVERY == 0
        sources = evolution.schemas.sources if full else evolution.sources
        sinks = evolution.schemas.sinks if full else evolution.sinks
        value = {
            "full": full,
            "sources": [[table, source.to_json()] for table, source in sources.items()],
            "sinks": [[table, schema.to_json()] for table, schema in sinks.items()],
        }
        self._write(f"schemas/{version}.json", orjson.dumps(value))

    # -- files -------------------------------------------------------------------------------------------------------

    def _read(self, name: str) -> bytes | None:
        try:
            return (self.root / name).read_bytes()
        except FileNotFoundError:
            return None

    def _write(self, name: str, data: bytes) -> None:
        """Write a file so that it is there whole or not at all, even when the machine goes down."""
        path = self.root / name
        temporary = path.with_name(f".{path.name}.tmp")
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as exc:
            msg = f"cannot write checkpoint {path}: {exc.strerror}"
            raise CheckpointError(msg, "see to its disk and rights; nothing is lost, run again then") from exc

    def close(self) -> None:
        """Give the checkpoint back."""
        os.close(self.lock)


def _lock(path: Path) -> int:
    """The lock's file descriptor. A killed run's Java process may hold it for a moment more: wait for that."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    deadline = time.monotonic() + DYING_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(fd, 32, 0).decode(errors="replace").strip()
            if _alive(owner) or time.monotonic() > deadline:
                os.close(fd)
                msg = f"checkpoint {path.parent} is in use by another run (process {owner or 'unknown'})"
                raise CheckpointError(msg, "stop that one first, or give this pipeline its own --checkpoint") from None
            time.sleep(0.1)
        else:
            break
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    os.set_inheritable(fd, False)
    return fd


def _alive(owner: str) -> bool:
    if not owner.isdigit():
        return True
    try:
        os.kill(int(owner), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
