"""Reasons why records of a run pass through Python in this worker: those of decoding, and those of all stages.

They are told to the operator. The first function also decides whether a run's messages are decoded natively.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingest import compiled
from ingest.kafka.connection import KafkaConnection
from ingest.model import types
from ingest.model.reject import RowError
from ingest.model.schema import Column, TableSchema
from ingest.native import native
from ingest.schema.evolve import SourceTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.core.broadcast import Broadcast

    from ingest.task.task import Setup

_TRIAL: Final = ("trial",)
_ROW: Final = TableSchema((Column("id", types.BIGINT, nullable=False), Column("text", types.STRING)), ("id",))
"""A table as plain as can be: if its records are made in Python, those of all tables are."""


def decoded_in_python(setup: Setup) -> list[str]:
    """Return why native code decodes no message of a run; nothing if it decodes most of them.

    It is about the run's options: native code encodes what Python has decoded.
    """
    why = []
    if setup.changelog:
        why.append("rows of upsert topics are looked up, for a sink that tells inserts from updates")
    if not native.reads_keys(setup.source.extra):
        why.append("keys are of a format that native code does not read")
    if setup.source.format.form is None:
        why.append("the source's format is none that native code reads")
    return why


def in_python(setup: Setup) -> list[str]:
    """Return why records of a run pass through Python in this worker; nothing if native code has them all the way.

    It is what can be told before there are records. What a single record or table has beyond the common case is done by
    Python in any pipeline.
    """
    source, sink = setup.source, setup.sink
    absent = native.absence()
    why = [absent] if absent else []
    why += [f"messages are decoded by Python: {reason}" for reason in decoded_in_python(setup)]
    if not source.capabilities.native_records:
        why.append("records are not read from Kafka")
    elif source.wanted is not None:
        why.append("every record's headers are looked at (scan.header-filter)")
    if not absent and not _written_natively(setup):
        why.append("the sink's records are made by Python, by its options")
    if not isinstance(sink, KafkaConnection):
        why.append("records are not written to Kafka")
    elif sink.capabilities.holds_back:
        why.append("records are held back by their keys (sink.buffer-flush.max-rows)")
    if not absent and (isinstance(source, KafkaConnection) or isinstance(sink, KafkaConnection)):
        from ingest.kafka.handle import unusable  # noqa: PLC0415  (the client is slow to import)

        if why_not := unusable():
            why.append(why_not)
    return why


def _written_natively(setup: Setup) -> bool:
    """Return whether native code writes the records of a table as plain as can be."""
    source = SourceTable(_ROW, (_TRIAL,), key_from_message=True)
    try:
        return native.writes(setup.sink.encoder(_TRIAL, source, _TRIAL, _ROW, setup.inference))
    except RowError:  # a format with a given schema, or keys of columns that this table lacks
        return False


_REMEDIES: Final = {
    compiled.UNWANTED: "unset it in the workers' environment",
    compiled.NOT_BUILT: "install a C compiler (gcc) and Python's headers, then the package again",
}


def warnings(reasons: Iterable[str]) -> Iterator[str]:
    """Yield what the operator is warned of: workers without any native code, and what to do about it."""
    for reason in reasons:
        if reason in _REMEDIES:
            yield (
                f"workers have no native code: {reason}. Python decodes and encodes every record then, which gives the "
                f"same results, many times slower: {_REMEDIES[reason]} (docs/deployment.md)"
            )


def ask(setups: Iterable[Broadcast[Setup]]) -> Iterator[list[str]]:
    """Yield the reasons of this worker, as Spark maps over a partition."""
    for setup in setups:
        yield in_python(setup.value)
