"""Dead letters as an operator looks at them: which there are, what one holds, and which a replay would take.

In: the dead letters of a pipeline, as a source. Out: values to print. Nothing is written.
"""

from __future__ import annotations

import base64
import time
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from ingest.deadletter.letter import LEFT_OUT, DeadLetter
from ingest.errors import ConfigError, Unavailable
from ingest.model.record import Record, Split, kept_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ingest.deadletter.source import LetterSource

GIVE_UP_S: Final = 30.0
"""The time to wait for the next letter, in seconds: there is one, as the topic has not ended."""


def letters(
    source: LetterSource,
    tell: Callable[[str], None],
    ranges: Mapping[Split, tuple[int, int]] | None = None,
    *,
    whole: bool = False,
) -> Iterator[DeadLetter]:
    """Yield the selected letters up to the topic's present end, or those of `ranges`. Raises IngestError.

    `tell` is called while the cluster does not answer. `whole`: what was left out of a letter is read from its original
    record.
    """
    if ranges is None:
        ranges = extent(source, tell)
    reader = source.reader(source.pipeline) if whole else source.lister()
    since = time.monotonic()
    reading = reader.read({split: span for split, span in ranges.items() if span[0] < span[1]})
    at = {split: start for split, (start, _) in ranges.items()}
    try:
        for chunk in reading:
            now = {split: reader.position(split) for split in ranges if ranges[split][0] < ranges[split][1]}
            if chunk is not None or any(now[split] > at[split] for split in now):
                since, at = time.monotonic(), {**at, **now}
            elif time.monotonic() - since > GIVE_UP_S:
                msg = f"topic {source.letters_topic} could not be read to its end: nothing came for {GIVE_UP_S:.0f} s"
                raise Unavailable(msg, "see whether every partition of it has a leader")
            yield from map(kept_of, chunk.messages) if chunk is not None else ()
    finally:
        reading.close()
        reader.close()


def extent(source: LetterSource, tell: Callable[[str], None]) -> dict[Split, tuple[int, int]]:
    """Return the first position and the end of each partition of the topic; raises ConfigError where there is none."""
    coordinator = source.coordinator(source.pipeline, tell)
    try:
        coordinator.connect()
        starts = coordinator.start()
        ends = coordinator.ends(starts)
    finally:
        coordinator.close()
    return {split: (at, ends[split]) for split, at in starts.items()}


def find(source: LetterSource, tell: Callable[[str], None], partition: int, offset: int) -> DeadLetter:
    """Return the letter at an offset of the topic. Raises ConfigError where it has none of this pipeline."""
    split = (source.letters_topic, partition)
    partitions = extent(source, tell)
    if split not in partitions:
        msg = f"topic {split[0]} has no partition {partition}"
        raise ConfigError(msg, f"it has {len(partitions)}: 0 to {len(partitions) - 1}")
    first, end = partitions[split]
    if first <= offset < end:
        for letter in letters(source, tell, {split: (offset, offset + 1)}, whole=True):
            return letter
    msg = f"there is no dead letter of pipeline {source.pipeline} at offset {offset} of {split[0]}[{partition}]"
    raise ConfigError(msg, f"it holds offsets {first} to {end}; see which there are: ingest letters list")


def about(letter: DeadLetter) -> dict[str, Any]:
    """Return the facts about a letter, without its record. `letter` in them is its PARTITION:OFFSET in the topic."""
    reject = letter.reject
    millis = reject.get("time", "")
    return {
        "letter": f"{letter.partition() or 0}:{letter.offset() or 0}",
        "time": _iso(int(millis)) if millis.isdigit() else None,
        "table": reject.get("table") or None,
        "stage": reject.get("stage", ""),
        "code": reject.get("code", ""),
        "message": reject.get("message", ""),
        "topic": letter.topic(),
        "partition": letter.origin.partition(),
        "offset": letter.origin.offset(),
        **({"left_out": reject[LEFT_OUT].split(",")} if LEFT_OUT in reject else {}),
    }


def whole(letter: DeadLetter) -> dict[str, Any]:
    """Return a letter's facts and its record: see `about` and `contents`."""
    gone = {"gone": True} if letter.missing else {}
    return {**about(letter), **gone, **contents(letter)}


def contents(record: Record) -> dict[str, Any]:
    """Return a record's timestamp, headers, key and value: see `content`."""
    kind, millis = record.timestamp()
    headers = [{"name": name, **content(value, "value")} for name, value in record.headers() or ()]
    return {
        "timestamp": _iso(millis) if kind else None,
        "headers": headers,
        **content(record.key(), "key"),
        **content(record.value(), "value"),
    }


def tally(letters: Iterator[DeadLetter]) -> list[dict[str, Any]]:
    """Count letters by table, code and original topic, most first."""
    counts: Counter[tuple[str | None, str, str, str]] = Counter()
    times: dict[tuple[str | None, str, str, str], list[str]] = {}
    for letter in letters:
        entry = about(letter)
        group = entry["table"], entry["stage"], entry["code"], entry["topic"]
        counts[group] += 1
        at = entry["time"] or ""
        span = times.setdefault(group, [at, at])
        span[:] = [min(span[0], at), max(span[1], at)]
    return [
        {
            "table": table,
            "stage": stage,
            "code": code,
            "topic": topic,
            "count": number,
            "first": times[table, stage, code, topic][0] or None,
            "last": times[table, stage, code, topic][1] or None,
        }
        for (table, stage, code, topic), number in counts.most_common()
    ]


def _iso(millis: int) -> str | None:
    try:
        return datetime.fromtimestamp(millis / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return None


def content(data: bytes | None, name: str) -> dict[str, str | None]:
    """Return bytes as text (invalid UTF-8 is escaped with backslashes) and, exactly, in Base64."""
    if data is None:
        return {name: None, f"{name}_base64": None}
    return {name: data.decode("utf-8", "backslashreplace"), f"{name}_base64": base64.b64encode(data).decode()}
