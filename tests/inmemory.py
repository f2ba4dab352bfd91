"""A pipeline without Kafka and Spark: the pure stages, driven as a task and the driver drive them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ingest.errors import ConfigError
from ingest.flow.encode import encode_upserts
from ingest.flow.evolve import Schemas, evolve
from ingest.flow.infer import observe
from ingest.flow.plan import KeyChanged
from ingest.flow.plans import Plans
from ingest.flow.route import Rules
from ingest.formats.debezium_json import DebeziumJson
from ingest.model.reject import RowError
from ingest.model.table import TableId, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.model.schema import TableSchema

MAX_STEPS = 1000


@dataclass
class Ran:
    """What became of the messages."""

    records: list[tuple[str, bytes, bytes | None]] = field(default_factory=list)
    rejects: list[tuple[int, str, str]] = field(default_factory=list)
    """Index of the message, stage and code."""
    skipped: dict[str, int] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)
    schemas: Schemas = field(default_factory=Schemas)

    def table(self, name: str) -> TableSchema:
        """The sink's schema of a table."""
        return self.schemas.sinks[tuple(name.split("."))]


def run(
    messages: Sequence[tuple[bytes | None, bytes | None]],
    rules: Rules | None = None,
    options: DebeziumJson | None = None,
    *,
    look_ahead: int = 1,
    **caps: Any,
) -> Ran:
    """Run messages (key, value) of one split; the schema grows by `look_ahead` messages at a time."""
    rules = rules or Rules()
    out = Ran()
    plans = Plans(_destination)
    decoder = (options or DebeziumJson()).decoder()
    changes = decoder.decode([value for _, value in messages])
    keys = [key for key, _ in messages]
    at = 0
    for _ in range(MAX_STEPS):
        if at >= len(messages):
            return out
        encoded = encode_upserts(changes[at:], keys[at:], plans, 1 << 62)
        out.records += [(topic, key, None if v is None else bytes(v)) for topic, key, v in encoded.records]
        out.rejects += [(at + i, stage, bad.code) for i, stage, bad in encoded.rejects]
        for reason, count in encoded.skipped.items():
            out.skipped[reason] = out.skipped.get(reason, 0) + count
        at += encoded.stop
        if at >= len(messages):
            return out
        if isinstance(encoded.why, KeyChanged):
            raise ConfigError(f"key changed from {encoded.why.known} to {encoded.why.names}")
        observed: dict[TableId, TableSchema] = {}
        for i in range(at, min(len(messages), at + look_ahead)):
            change = changes[i]
            if not isinstance(change, tuple):
                continue
            known = observed.get(change[0]) or (s.schema if (s := out.schemas.sources.get(change[0])) else None)
            try:
                seen = observe(change, keys[i], known, caps.get("max_columns", 2000))
            except RowError as exc:
                if i == at:
                    out.rejects.append((i, "conform", exc.code))
                    at += 1
                    break
                continue
            observed[change[0]] = seen if known is None else known.merge(seen)
        evolution = evolve(
            out.schemas, sorted(observed.items()), rules,
            behavior=caps.get("behavior", "lenient"), max_tables=caps.get("max_tables", 10_000),
        )  # fmt: skip
        out.changes += [f"{show(event.table)}> {event}" for event in evolution.events]
        out.schemas = evolution.schemas
        plans.renew(out.schemas, {*evolution.sources, *evolution.sinks})
    raise AssertionError("the schemas grow without end")


def _destination(table: TableId) -> str:
    if "bad topic" in show(table):
        raise RowError("bad-topic-name", "cannot be a topic's name")
    return show(table)
