"""A checkpoint outside of a run: what is in it, and other positions for the next run.

In: an open checkpoint, and for what only the cluster knows the source's coordinator. Out: values to print.
Rules: docs/spec/delivery.md#a-pipeline-file-that-changes.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ingest.checkpoint.checkpoint import Checkpoint, Progress
from ingest.checkpoint.hadoop_storage import HadoopStorage, started_hadoop
from ingest.checkpoint.run_status import has_notes, standing_of, status
from ingest.checkpoint.storage import LocalStorage
from ingest.errors import CheckpointError, ConfigError
from ingest.model.record import Split, is_another
from ingest.paths import is_remote
from ingest.schema.routes import Rules
from ingest.sources.stateful import SourceState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ingest.model.standing import Standing
    from ingest.sources.kafka.coordinator import KafkaSourceCoordinator

Target: TypeAlias = "tuple[Literal['earliest', 'latest'], None] | tuple[Literal['timestamp', 'offset'], int]"
"""A place to set positions to; timestamps are milliseconds since 1970."""


@contextmanager
def opened(where: str, conf: Mapping[str, str], *, write: bool, begun: bool = True) -> Iterator[Checkpoint]:
    """Yield a checkpoint; with `write`, nobody else may use it meanwhile.

    Raises CheckpointError if there is none, unless it need not have `begun`: then it may only tell of failed starts.
    """
    if not is_remote(where):
        if begun and not (Path(where) / "checkpoint.json").is_file():
            raise _nothing(where)
        storage = LocalStorage(Path(where), lock=write)
        try:
            yield Checkpoint(storage)
        finally:
            storage.close()
        return
    with started_hadoop("ingest checkpoint", conf) as hadoop:
        checkpoint = Checkpoint(HadoopStorage(where, *hadoop, make=write))
        if not checkpoint.exists and (begun or not has_notes(checkpoint)):
            raise _nothing(where)
        yield checkpoint


def _nothing(where: str) -> CheckpointError:
    return CheckpointError(
        f"there is no checkpoint at {where}",
        "give a checkpoint's place, or a pipeline file (its checkpoint is .ingest/<pipeline name>, or --checkpoint)",
    )


def overview(checkpoint: Checkpoint, source: KafkaSourceCoordinator | None) -> dict[str, Any]:
    """Return everything that an operator asks first, in plain values; with a source, how far its splits are behind."""
    progress, unfinished = checkpoint.progress()
    ends: Mapping[Split, int] = {}
    database: dict[str, Any] | None = None
    if (standing := standing_of(checkpoint, progress)) is not None:
        now = _standing_now(checkpoint, progress, source)
        unknown = {} if now is not None else dict.fromkeys(("lag_bytes", "lag_s", "seconds_left"))
        database = {**(now or standing).to_json(), **unknown}
    elif source is not None:
        topics = source.topics({topic for topic, _ in progress.positions})
        known = [(t, p) for t, p in progress.positions if t in topics and p < topics[t].partitions]
        ends = source.resolve(known, "latest")
    schemas = checkpoint.schemas(Rules())
    life = status(checkpoint)
    positions = []
    for (topic, partition), offset in sorted(progress.positions.items()):
        end = ends.get((topic, partition))
        positions.append(
            {
                "topic": topic,
                "partition": partition,
                "offset": offset,
                "end": end,
                "lag": None if end is None else max(0, end - offset),
                "shard": progress.shards.get((topic, partition)),
                "topic_id": progress.ids.get(topic),
            }
        )
    return {
        "checkpoint": checkpoint.where,
        "id": checkpoint.id,
        "fingerprint": checkpoint.meta["fingerprint"],
        "runs": checkpoint.newest_run,
        **{name: life[name] for name in ("state", "process", "host", "started", "ended", "last_write")},
        "batch": progress.batch,
        "unfinished_batch": None if unfinished is None else unfinished.number,
        "errors": progress.errors,
        "schema_version": schemas.version,
        "tables": len(schemas.sources),
        "lacking": [
            {"table": table, "sink_table": target, "place": place}
            for table, location in sorted(checkpoint.places().items())
            for target, place in location.lacking
        ],
        "key_partitions": [
            {"topic": topic, "topic_id": hashed.id, "partitions": hashed.partitions}
            for topic, hashed in sorted(checkpoint.partitions().items())
        ],
        "positions": positions,
        "standing": database,
    }


def _standing_now(checkpoint: Checkpoint, progress: Progress, source: KafkaSourceCoordinator | None) -> Standing | None:
    """Return where the reading of a database stands, with how far its log is now; None where it cannot be asked."""
    if source is None or source.stateful is None or source.probe is None:
        return None
    keeper, probe = source.stateful, source.probe
    try:
        keeper.restore(SourceState(progress.source_state, checkpoint.documents()))
        ends = probe.ask(progress.positions)
    finally:
        probe.close()
    return None if ends is None else keeper.standing(progress.positions, ends)


def exported(checkpoint: Checkpoint, source: KafkaSourceCoordinator | None) -> dict[str, Any]:
    """Return the overview, and the state that a plan goes on from: after the last batch that was finished.

    It has positions, schemas and options without secrets, and no record.
    """
    return {**overview(checkpoint, source), "state": checkpoint.state()}


def as_offsets(checkpoint: Checkpoint) -> str:
    """Return the positions as `scan.startup.specific-offsets` takes them, for another pipeline to start from.

    Of a database they are options of its source.
    """
    progress, _ = checkpoint.progress()
    if (standing := standing_of(checkpoint, progress)) is not None:
        at = "scan.startup.specific-offset"
        return f"scan.startup.mode: specific-offset\n{at}.file: {standing.file}\n{at}.pos: {standing.offset}"
    parts = [f"topic:{t},partition:{p},offset:{at}" for (t, p), at in sorted(progress.positions.items())]
    return ";".join(parts)


@dataclass(frozen=True, slots=True)
class Move:
    """A position that a reset changes. `new` minus `old` is how many offsets are skipped, or negative: read again."""

    topic: str
    partition: int
    old: int | None
    new: int


@dataclass(frozen=True, slots=True)
class Reset:
    """The effect of a reset: the progress to store, and what is different in it."""

    progress: Progress
    moves: Sequence[Move]
    errors: int
    """Counted errors that are forgotten."""
    dropped_batch: int | None
    """A planned batch that is given up: its ranges are planned again from the positions."""
    partitions: Mapping[str, int] = field(default_factory=dict)
    """By topic of the sink whose number of partitions is taken again: the number over which keys were hashed."""


def plan_reset(
    checkpoint: Checkpoint,
    source: KafkaSourceCoordinator | None,
    target: Target | None,
    topic: str | None,
    partition: int | None,
    *,
    errors: bool,
    drop_batch: bool = False,
    partitions: Iterable[str] = (),
) -> Reset:
    """Return the progress to store for these wishes; changes nothing. Raises ConfigError for what cannot be."""
    stored, unfinished = checkpoint.progress()
    if target is not None and stored.source_state is not None:
        msg = "positions in the log of a database cannot be set"
        raise ConfigError(msg, "begin with another --checkpoint, and scan.startup.mode, or `ingest backfill` tables")
    if unfinished is not None and unfinished.prefix is not None and not drop_batch:
        msg = (
            f"batch {unfinished.number} of an exactly-once run is not finished, and only the sink knows how far it came"
        )
        hint = "let the pipeline run with --once first; or with --drop-batch all of the batch is written (again)"
        raise ConfigError(msg, hint)
    number = max(stored.batch, -1 if unfinished is None else unfinished.number) + 1
    progress = replace(stored, batch=number, positions=dict(stored.positions), ids=dict(stored.ids))
    moves: list[Move] = []
    if target is not None:
        for split, new in sorted(_targets(progress, source, target, topic, partition).items()):
            old = progress.positions.get(split)
            if old != new:
                moves.append(Move(*split, old, new))
                progress.positions[split] = new
    forgotten = progress.errors if errors else 0
    progress.errors -= forgotten
    hashed, replaced = checkpoint.partitions(), {}
    for name in partitions:
        if name not in hashed:
            msg = f"the checkpoint hashes no keys over the partitions of topic {name!r}"
            raise ConfigError(msg, "see over which it does: ingest checkpoint show")
        replaced[name] = hashed[name].partitions
    return Reset(progress, moves, forgotten, None if unfinished is None else unfinished.number, replaced)


def _targets(
    progress: Progress, source: KafkaSourceCoordinator | None, target: Target, topic: str | None, partition: int | None
) -> dict[Split, int]:
    splits = {s for s in progress.positions if topic in (None, s[0]) and partition in (None, s[1])}
    if source is not None:
        topics = source.topics({t for t, _ in splits} | ({topic} if topic else set()))
        for name, topic_now in topics.items():
            if name not in progress.ids:
                continue  # not this pipeline's
            if is_another(progress.ids[name], topic_now.id) and partition is not None and topic_now.partitions > 1:
                msg = f"topic {name} was created again, so the positions of all its partitions are those of the old one"
                raise ConfigError(msg, "reset it as a whole: leave out --partition")
            progress.ids[name] = topic_now.id  # a topic that was created again is accepted with its new positions
            splits |= {(name, p) for p in range(topic_now.partitions) if partition in (None, p)}
        for name, p in [s for s in splits if s[0] not in topics or s[1] >= topics[s[0]].partitions]:
            splits.remove((name, p))
            progress.positions.pop((name, p), None)
        for name in {s[0] for s in progress.positions} - topics.keys() if topic is None else ():
            progress.ids.pop(name, None)
    if not splits:
        what = "" if topic is None else f" of topic {topic}" + ("" if partition is None else f", partition {partition}")
        raise ConfigError(f"the checkpoint has no position{what}", "see which there are: ingest checkpoint show")
    kind, value = target
    if kind == "offset":
        if len(splits) > 1:
            msg = f"--to offset:{value or 0} would set {len(splits)} partitions to one offset"
            raise ConfigError(msg, "say which one with --topic and --partition")
        (split,) = splits
        if source is not None:
            first, end = source.resolve(splits, "earliest")[split], source.resolve(splits, "latest")[split]
            if not first <= (value or 0) <= end:
                msg = f"{split[0]}[{split[1]}] holds offsets {first} to {end}, not {value or 0}"
                raise ConfigError(msg, "choose one of those, or --to earliest or latest")
        return {split: value or 0}
    if source is None:
        msg = f"--to {kind} needs the cluster, and a checkpoint does not know how to reach it"
        raise ConfigError(msg, "give the pipeline file instead of the checkpoint's place (with --checkpoint DIR)")
    return source.resolve(splits, (value or 0) if kind == "timestamp" else kind)


def apply_reset(checkpoint: Checkpoint, reset: Reset) -> None:
    """Store it. A run that is under way elsewhere is fenced, as by a newer run."""
    checkpoint.begin()
    if reset.partitions:
        kept = checkpoint.partitions()
        checkpoint.keep_partitions({topic: of for topic, of in kept.items() if topic not in reset.partitions})
    checkpoint.done(reset.progress, {})
