"""The files that a run leaves for the next one: positions, counters, schemas.

    checkpoint.json        identity and fingerprint
    lock                   held by the run that owns a local checkpoint, and by its Java process
    runs/N                 one for each run: the options it had, without secrets
    batches/N.R.plan       ranges, topic ids, schema version: written by run R before any task starts
    batches/N.commit       of a sink whose driver commits: what the batch adds to tables, positions reached
    batches/N.R.done       positions reached, counters, last batches of tables: written by run R when the batch is over
    schemas/V.json         what version V changed; every hundredth holds everything
    source/NAME.json       of a source with a state: parts of it that are too large for each batch
    partitions.json        of topics of the sink: id, and over how many partitions keys are hashed
    replays/               replays of dead letters
    backfills/             backfills of tables (backfill.py)
    starts/N, ends/N       when run N began, and how it ended (run_status.py)
    places.json            where the rows of source tables go, and where earlier ones are lacking

Files appear whole or not at all. A plan without a done is run again, unless its commit is there: then that is carried
out, as often as a crash comes in between. One run only can write the commit of a batch. Where
there is no lock, a run that finds a newer one's number stops before it plans; what it has written until then has its
own number in its name, and of two files of one batch the newer run's counts.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from ingest.checkpoint.storage import Overlay
from ingest.errors import CheckpointError
from ingest.model.schema import TableSchema
from ingest.model.text import yaml_text
from ingest.schema.evolve import Schemas, SourceTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ingest.checkpoint.storage import Storage
    from ingest.model.record import Split
    from ingest.model.table import TableId
    from ingest.schema.evolve import Evolution
    from ingest.schema.routes import Rules

FORMAT: Final = 1
KEYS: Final = 2
"""The way in which keys of records are written. Checkpoints of versions before 0.1.0 have another, or none."""
KEEP_BATCHES: Final = 20
KEEP_RUNS: Final = 20
SNAPSHOT_EVERY: Final = 100


Place = tuple[str, str]
"""A sink table, and where the sink has it."""


class KeptPlaces(NamedTuple):
    """The places where rows of a source table go: those that have all of them, and those that lack the earlier ones."""

    whole: list[Place]
    lacking: list[Place]


class KeptPartitions(NamedTuple):
    """A topic of the sink, and over how many partitions its keys are hashed."""

    id: str
    partitions: int


@dataclass(frozen=True, slots=True)
class Batch:
    """A planned batch: its number, ranges and the source's state."""

    number: int
    run: int
    ids: Mapping[str, str]
    ranges: Mapping[Split, tuple[int, int]]
    schema_version: int
    shards: Mapping[Split, int]
    """The shard of each split, by which what comes from it is written."""
    prefix: str | None = None
    """The prefix of the sink's transactional ids; None where it has none."""
    time: int = 0
    """The time when it was planned, in milliseconds since 1970."""
    source_state: Any = None
    """The state of the source at that time (`sources/stateful.py`); None where it has none."""

    def by_shard(self) -> dict[int, dict[Split, tuple[int, int]]]:
        """Return the ranges of each shard."""
        out: dict[int, dict[Split, tuple[int, int]]] = {}
        for split, span in self.ranges.items():
            out.setdefault(self.shards[split], {})[split] = span
        return dict(sorted(out.items()))


@dataclass(slots=True)
class Progress:
    """The state of the pipeline after a batch."""

    batch: int = 0
    positions: dict[Split, int] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    shards: dict[Split, int] = field(default_factory=dict)
    errors: int = 0
    """Rejects that count against the tolerance, over all runs."""
    marks: list[Any] = field(default_factory=list)
    """What the sink keeps of the tables that were written to."""
    source_state: Any = None
    """The state of the source (`sources/stateful.py`); None where it has none."""


class Checkpoint:
    """An open checkpoint. `begin` makes this process the one that may write to it, until `close`."""

    def __init__(self, storage: Storage) -> None:
        """Read the checkpoint's header. Raise CheckpointError if it is damaged, or newer than this version."""
        self.storage = storage
        self.where = storage.where
        self.run = 0
        self.batches = "batches"
        """The folder of plans and progress: a replay has one of its own."""
        self._documents: set[str] | None = None
        """Names of stored parts of the source's state; None before the first look."""
        self._named: set[str] = set()
        """Names of stored documents that the state refers to."""
        self._unused: dict[str, int | None] = {}
        """Names of documents that the state no longer refers to, with the first batch stored without them."""
        self._kept: list[tuple[int, str]] = []
        """Files of batches that are deleted later."""
        try:
            self.meta: dict[str, Any] = orjson.loads(storage.read("checkpoint.json") or b"{}")
            if self.meta.get("format", FORMAT) != FORMAT:
                msg = f"checkpoint {self.where} was written by a newer version (format {self.meta['format']})"
                raise CheckpointError(msg, "run it with that version")
            if self.meta and self.meta.get("keys") != KEYS:
                msg = f"checkpoint {self.where} was written by a version before 0.1.0, which no release can go on from"
                raise CheckpointError(msg, "start over with another --checkpoint")
        except (ValueError, AttributeError) as exc:
            raise self.damaged("checkpoint.json", exc) from exc

    def begin(self, note: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """Assign the next run number and store a note with it. Return the previous run's note, which None keeps."""
        run = self.newest_run
        before: Mapping[str, Any] = {}
        try:
            before = orjson.loads(self.storage.read(f"runs/{run}") or b"{}")
        except ValueError as exc:
            raise self.damaged(f"runs/{run}", exc) from exc
        while True:
            run += 1
            if self.storage.create(f"runs/{run}", orjson.dumps(before if note is None else note)):
                break
        self.run = run
        if self.run > KEEP_RUNS:
            self.storage.remove(f"runs/{self.run - KEEP_RUNS}")
        return before

    @property
    def newest_run(self) -> int:
        """The number of the newest run."""
        return max(self._numbers("runs"), default=0)

    def refuse_newer_run(self) -> None:
        """Raise CheckpointError where a newer run has taken the checkpoint over; a local one is locked instead."""
        if self.storage.lock is None and self.newest_run > self.run:
            msg = f"checkpoint {self.where} was taken over by a newer run than this one (number {self.run})"
            raise CheckpointError(msg, "nothing is lost; see that only one of them is started")

    def _numbers(self, folder: str, ending: str = "") -> list[int]:
        stems = [name.removesuffix(ending) for name in self.storage.names(folder) if name.endswith(ending)]
        return sorted(int(stem) for stem in stems if stem.isdigit())

    def damaged(self, what: str, exc: Exception) -> CheckpointError:
        """Return the error for a file that cannot be read."""
        return CheckpointError(
            f"checkpoint {self.where} is damaged: {what}: {exc}", "restore it, or start over with another --checkpoint"
        )

    @property
    def exists(self) -> bool:
        """True if a pipeline has used the checkpoint."""
        return "id" in self.meta

    @property
    def id(self) -> str:
        """The checkpoint's identity, for whatever must not be mixed up with another's."""
        return str(self.meta["id"])

    def bind(self, fingerprint: Mapping[str, Mapping[str, Any]]) -> None:
        """Bind an unused checkpoint to a pipeline. Raise CheckpointError if it belongs to another one."""
        if "id" not in self.meta:
            self.meta = {"format": FORMAT, "id": uuid.uuid4().hex, "keys": KEYS, "fingerprint": fingerprint}
            self.storage.write("checkpoint.json", orjson.dumps(self.meta, option=orjson.OPT_INDENT_2))
            return
        for section, expected in self.meta["fingerprint"].items():
            for key, value in expected.items():
                now = fingerprint.get(section, {}).get(key)
                if now != value:
                    both = f"{yaml_text(value)}, now {yaml_text(now)}"
                    msg = f"checkpoint {self.where} is of a pipeline with another {section} {key}: {both}"
                    hint = "its positions mean nothing here: use another pipeline.name, or another --checkpoint"
                    raise CheckpointError(msg, hint)

    # -- batches -----------------------------------------------------------------------------------------------------

    @property
    def scope(self) -> str:
        """The owner of progress that a sink keeps with the data: this checkpoint, a replay or a backfill of it."""
        return self.id if self.batches == "batches" else f"{self.id}.{self.batches.replace('/', '-')}"

    def _files(self, ending: str) -> list[tuple[int, int]]:
        """Batch and run of each file of a kind, in their order."""
        files = []
        for name in self.storage.names(self.batches):
            if name.endswith(ending):
                number, _, run = name.removesuffix(ending).partition(".")
                if number.isdigit() and (run.isdigit() or not run):
                    files.append((int(number), int(run or 0)))
                    self._kept.append((int(number), name))
        return sorted(files)

    def progress(self) -> tuple[Progress, Batch | None]:
        """Return the progress after the last finished batch, and the planned batch that is not finished, or None."""
        try:
            self._kept = []
            self._files(".commit")  # they are forgotten with the others
            done = max(self._files(".done"), default=(-1, 0))
            progress = self._progress(*done)
            planned = max(self._files(".plan"), default=(-1, 0))
            return progress, self._batch(*planned) if planned[0] > done[0] else None
        except (ValueError, KeyError, TypeError) as exc:
            raise self.damaged("batches", exc) from exc

    def _progress(self, number: int, run: int) -> Progress:
        return Progress() if number < 0 else _progress(number, self._done(number, run))

    def _done(self, number: int, run: int) -> dict[str, Any]:
        stored: dict[str, Any] = orjson.loads(self.storage.read(f"{self.batches}/{number}.{run}.done") or b"")
        return stored

    def last_done(self) -> tuple[int | None, int | None, dict[str, Any] | None]:
        """Return when progress was stored last (ms since 1970), the backlog in records then, and the lag of a database.

        None stands for what is not known.
        """
        try:
            newest = max(self._files(".done"), default=None)
            if newest is None:
                return None, None, None
            stored = self._done(*newest)
            return stored["time"], stored["waiting"], stored["lag"]
        except (ValueError, KeyError, TypeError) as exc:
            raise self.damaged("batches", exc) from exc

    def _batch(self, number: int, run: int) -> Batch:
        stored = orjson.loads(self.storage.read(f"{self.batches}/{number}.{run}.plan") or b"")
        ranges = {(t, p): (start, end) for t, p, start, end, _ in stored["ranges"]}
        shards = {(t, p): shard for t, p, _, _, shard in stored["ranges"]}
        return Batch(
            number,
            run,
            stored["ids"],
            ranges,
            stored["schema_version"],
            shards,
            stored["prefix"],
            stored["time"],
            stored.get("source_state"),
        )

    def plan(self, batch: Batch) -> None:
        """Store a plan; only then may its tasks start. Raises CheckpointError where a newer run has taken over."""
        self.refuse_newer_run()
        plan = {
            "ids": batch.ids,
            "schema_version": batch.schema_version,
            "prefix": batch.prefix,
            "time": batch.time,
            "ranges": [[t, p, start, end, batch.shards[t, p]] for (t, p), (start, end) in batch.ranges.items()],
            **_with_state(batch.source_state),
        }
        self._write(batch.number, f"{batch.number}.{batch.run}.plan", plan)

    def done(
        self,
        progress: Progress,
        counts: Mapping[str, Any],
        waiting: int | None = None,
        lag: Mapping[str, Any] | None = None,
    ) -> None:
        """Store where the pipeline stands now, and forget old batches; raises CheckpointError as `plan` does.

        `waiting`: the backlog in records, for people; None where not counted. `lag`: that of a database.
        """
        self.refuse_newer_run()
        for_people = {"counts": counts, "time": int(time.time() * 1000), "waiting": waiting, "lag": lag}
        self._write(progress.batch, f"{progress.batch}.{self.run}.done", {**_stored(progress), **for_people})
        old = [(number, name) for number, name in self._kept if number <= progress.batch - KEEP_BATCHES]
        for entry in old:
            self.storage.remove(f"{self.batches}/{entry[1]}")
            self._kept.remove(entry)
        for document, since in [*self._unused.items()]:
            if since is None:
                self._unused[document] = progress.batch
            elif since <= progress.batch - KEEP_BATCHES:
                self.storage.remove(f"source/{document}.json")
                del self._unused[document]
                self._documents = self._documents and self._documents - {document}

    def decide(self, progress: Progress, additions: list[Any]) -> None:
        """Store a batch's commit: its additions to the sink's tables, and the progress after it.

        Raises CheckpointError where another run has done so.
        """
        name = f"{progress.batch}.commit"
        if not self.storage.create(
            f"{self.batches}/{name}", orjson.dumps({**_stored(progress), "additions": additions})
        ):
            msg = f"batch {progress.batch} of checkpoint {self.where} was committed by another run than this one"
            raise CheckpointError(msg, "nothing is lost; see that only one of them is started")
        self._kept.append((progress.batch, name))

    def decided(self, number: int) -> tuple[Progress, list[Any]] | None:
        """Return a batch's stored commit: progress and additions to the sink's tables; None without one."""
        stored = self.storage.read(f"{self.batches}/{number}.commit")
        try:
            value = None if stored is None else orjson.loads(stored)
            return None if value is None else (_progress(number, value), value["additions"])
        except (ValueError, KeyError, TypeError) as exc:
            raise self.damaged(f"{self.batches}/{number}.commit", exc) from exc

    def _write(self, number: int, name: str, value: object) -> None:
        self.storage.write(f"{self.batches}/{name}", orjson.dumps(value))
        self._kept.append((number, name))

    def state(self) -> dict[str, Any]:
        """Return the files that say where the last finished batch ended, as JSON has values, by their names."""
        done = max(self._files(".done"), default=None)
        names = ["checkpoint.json", "places.json", "partitions.json", f"runs/{self.newest_run}"]
        names += [] if done is None else [f"{self.batches}/{done[0]}.{done[1]}.done"]
        documents = [f"source/{name}.json" for name in self._document_names()]
        files: dict[str, Any] = {}
        for name in [*names, *documents, *(f"schemas/{v}.json" for v in reversed(self.version_numbers()))]:
            data = self.storage.read(name)
            if data is None:
                continue
            try:
                files[name] = orjson.loads(data)
                if name.startswith("schemas/") and files[name]["full"]:
                    break  # it holds everything that older versions say
            except (ValueError, KeyError, TypeError) as exc:
                raise self.damaged(name, exc) from exc
        return files

    # -- schemas -----------------------------------------------------------------------------------------------------

    def schemas(self, rules: Rules) -> Schemas:
        """Return the newest version of all schemas, with the targets that the rules give the tables now."""
        versions = self.version_numbers()
        sources: dict[tuple[str, ...], SourceTable] = {}
        sinks: dict[tuple[str, ...], TableSchema] = {}
        try:
            stored = {v: orjson.loads(self.storage.read(f"schemas/{v}.json") or b"") for v in versions}
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
            raise self.damaged("schemas", exc) from exc
        return Schemas(versions[-1] if versions else 0, sources, sinks)

    def version_numbers(self) -> list[int]:
        """Return the numbers of all stored schema versions, in order."""
        return self._numbers("schemas", ".json")

    def versions(self) -> Iterator[tuple[int, int, dict[TableId, TableSchema], dict[TableId, TableSchema]]]:
        """Yield each version of the schemas: number, time in milliseconds, and the source and sink tables it changed.

        Versions that hold everything give everything. Raises CheckpointError.
        """
        for version in self.version_numbers():
            try:
                stored = orjson.loads(self.storage.read(f"schemas/{version}.json") or b"")
                sources = {tuple(table): TableSchema.from_json(value) for table, value in stored["sources"]}
                sinks = {tuple(table): TableSchema.from_json(value) for table, value in stored["sinks"]}
                time_ms: int = stored["time"]
            except (ValueError, KeyError, TypeError) as exc:
                raise self.damaged(f"schemas/{version}.json", exc) from exc
            yield version, time_ms, sources, sinks

    def store(self, evolution: Evolution) -> None:
        """Store a version of the schemas: what it changed, or everything now and then."""
        version = evolution.schemas.version
        full = version % SNAPSHOT_EVERY == 0
        sources = evolution.schemas.sources if full else evolution.sources
        sinks = evolution.schemas.sinks if full else evolution.sinks
        value = {
            "full": full,
            "time": int(time.time() * 1000),
            "sources": [[table, source.to_json()] for table, source in sources.items()],
            "sinks": [[table, schema.to_json()] for table, schema in sinks.items()],
        }
        self.storage.write(f"schemas/{version}.json", orjson.dumps(value))

    # -- the source's documents ---------------------------------------------------------------------------------------

    def keep_documents(self, documents: Mapping[str, Any]) -> None:
        """Store the documents of the source's state that are not stored yet. Raise CheckpointError as `plan` does."""
        if self._documents is None:
            self._documents = set(self._document_names())
            # What an earlier run has left: those of kinds that the state has (`history-…`), not what people have given
            kinds = {name.partition("-")[0] for name in documents}
            self._named = {name for name in self._documents if name.partition("-")[0] in kinds}
        self._unused.update(dict.fromkeys(self._named - documents.keys() - self._unused.keys()))
        self._unused = {name: since for name, since in self._unused.items() if name not in documents}
        self._named = {*documents}
        for name in [name for name in documents if name not in self._documents]:
            self.refuse_newer_run()
            self.storage.write(f"source/{name}.json", orjson.dumps(documents[name]))
            self._documents.add(name)

    def documents(self) -> dict[str, Any]:
        """Return the stored parts of the source's state by their names; raises CheckpointError."""
        documents = {}
        for name in self._document_names():
            data = self.storage.read(f"source/{name}.json")
            if data is None:
                continue  # a run has just removed it, and nothing that is stored names it any more
            try:
                documents[name] = orjson.loads(data)
            except ValueError as exc:
                raise self.damaged(f"source/{name}.json", exc) from exc
        return documents

    def _document_names(self) -> list[str]:
        return [name.removesuffix(".json") for name in self.storage.names("source") if name.endswith(".json")]

    # -- places of tables ----------------------------------------------------------------------------------------------

    @property
    def untouched(self) -> bool:
        """True if nothing that is written stays: this is a plan."""
        return isinstance(self.storage, Overlay)

    def places(self) -> dict[str, KeptPlaces]:
        """Return the stored places of rows in the sink, by their source table's id as text. Raise CheckpointError."""
        try:
            stored = orjson.loads(self.storage.read("places.json") or b"{}")
            return {table: KeptPlaces(*([(t, p) for t, p in places] for places in of)) for table, of in stored.items()}
        except (ValueError, TypeError, AttributeError) as exc:
            raise self.damaged("places.json", exc) from exc

    def keep_places(self, places: Mapping[str, KeptPlaces]) -> None:
        """Store the places of all source tables, replacing former ones. Raise CheckpointError as `plan` does."""
        self.refuse_newer_run()
        self.storage.write("places.json", orjson.dumps({table: [*kept] for table, kept in places.items()}))

    # -- partitions of the sink's topics ---------------------------------------------------------------------------

    def partitions(self) -> dict[str, KeptPartitions]:
        """Return the number of partitions that keys are hashed over, by topic of the sink. Raise CheckpointError."""
        try:
            stored = orjson.loads(self.storage.read("partitions.json") or b"{}")
            return {topic: KeptPartitions(str(of), int(count)) for topic, (of, count) in stored.items()}
        except (ValueError, TypeError, AttributeError) as exc:
            raise self.damaged("partitions.json", exc) from exc

    def keep_partitions(self, partitions: Mapping[str, KeptPartitions]) -> None:
        """Store the numbers of partitions of all topics, replacing former ones.

        Raise CheckpointError as `plan` does.
        """
        self.refuse_newer_run()
        self.storage.write("partitions.json", orjson.dumps({topic: [*kept] for topic, kept in partitions.items()}))

    def close(self) -> None:
        """Release the checkpoint."""
        self.storage.close()


def _stored(progress: Progress) -> dict[str, Any]:
    """Return progress as plain values for a checkpoint's file."""
    positions = [[t, p, at, progress.shards.get((t, p), 0)] for (t, p), at in progress.positions.items()]
    stored = {"ids": progress.ids, "errors": progress.errors, "positions": positions, "marks": progress.marks}
    return {**stored, **_with_state(progress.source_state)}


def _with_state(state: Any) -> dict[str, Any]:
    return {} if state is None else {"source_state": state}


def _progress(number: int, stored: Mapping[str, Any]) -> Progress:
    """Return the progress that a file of a batch has."""
    return Progress(
        number,
        {(t, p): at for t, p, at, _ in stored["positions"]},
        stored["ids"],
        {(t, p): shard for t, p, _, shard in stored["positions"]},
        stored["errors"],
        stored["marks"],
        stored.get("source_state"),
    )
