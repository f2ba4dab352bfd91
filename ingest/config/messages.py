"""Texts of messages about wrong values of a pipeline file, in the words of the file.

In: errors of pydantic and of the validators. Out: for each problem the option, its position, and the message. No
message quotes a value that must not be shown. Names that other engines use, and options in the wrong place, get advice
instead of the nearest word.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias

from ingest.component.options import OptionErrors, Options
from ingest.config.diagnostics import did_you_mean
from ingest.config.document import Document, Mapping, Scalar, Span, Value
from ingest.config.pipeline import PipelineOptions, Route, Transform
from ingest.config.redaction import CONNECTOR, PROPERTIES, always_text, hides_value, redact, shown_key
from ingest.kafka.properties import PropertyError
from ingest.model.text import TextError
from ingest.sinks import SINKS
from ingest.sources import SOURCES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic_core import ErrorDetails


_LONGEST: Final = 100
"""Number of characters of a value that a message quotes at most."""
_NOT_SHOWN: Final = "the value"

Problem: TypeAlias = tuple[str, Span, str]
"""The option that is wrong, its position, and the message."""


def quoted(value: Value | None, key: str) -> str:
    """Return a value quoted for messages, with its placeholders; values that may be secrets are hidden."""
    if not isinstance(value, Scalar) or value.value is None:
        return "this" if value is not None and not isinstance(value, Scalar) else "null"
    text = value.text
    if hides_value(key, text):
        return _NOT_SHOWN
    return repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")


def redacted(message: str, value: Value | None, key: str) -> str:
    """Return a validator's message about a value, without the parts of the value that must not be shown."""
    hidden: list[str] = []
    shown = [key, key.removeprefix(PROPERTIES)] if shown_key(key) == key else []
    for scalar in _scalars(value):
        hidden += scalar.filled
        if scalar.written is None and scalar.filled:  # the value itself came from a secret with several values
            continue
        if hides_value(key, scalar.text):
            hidden += [scalar.text, scalar.value or ""]
        else:
            shown.append(scalar.text)
    return redact(message, hidden, shown)


def problems(document: Document, error: ErrorDetails, where: Mapping, known: list[str], section: str) -> list[Problem]:
    """Return the problems that a pydantic error stands for."""
    path = [str(part) for part in error["loc"]]
    key = path[0] if path else ""
    inner = error.get("ctx", {}).get("error")
    if isinstance(inner, (PropertyError, OptionErrors)):
        prefix = PROPERTIES if isinstance(inner, PropertyError) else ""
        # An option whose value is not a text has an error of its own
        other = {name for name, of in where.items.items() if not isinstance(of, Scalar) or of.value is None}
        return [_together(prefix + n, text, where) for n, text in inner.problems if prefix + n not in other]
    value = where.items.get(key)
    if isinstance(value, Mapping) and len(path) > 1:
        value = value.items.get(path[1], value)
    place = where.keys.get(key, where.span)
    if error["type"] == "extra_forbidden":
        kind = where.items.get("type")
        component = kind.value or "" if isinstance(kind, Scalar) else ""
        advice = (
            _nested(key, value, known)
            or _read_only(key, known)
            or right_place(section, component, key)
            or document.suggest(key, known)
        )
        return [(key, place, f"unknown option {shown_key(key)!r} in {section}{advice}")]
    if error["type"] == "missing":
        return [(key, where.span, f"option {key!r} is missing in {section}")]
    span = value.span if value is not None else place
    if isinstance(inner, TextError) and isinstance(value, Scalar):
        span = document.within(value, inner.at, inner.length)
    said = _say(error, value, key) or redacted(str(error["msg"]).removeprefix("Value error, "), value, key)
    return [(key, span, f"{key}: {said}")]


def _together(key: str, text: str, where: Mapping) -> Problem:
    """Return a problem that a validator found among several options."""
    name = key.removeprefix(PROPERTIES)
    head = f"{name}: " if text.startswith(f"{name}: ") and shown_key(key) == key else ""
    text = head + redacted(text.removeprefix(head), where.items.get(key), key)
    if shown_key(key) != key:
        text = redact(text, [key, name])
    return key, where.keys.get(key, where.span), text


def names(cls: type[Options]) -> list[str]:
    """Return the keys of a model's options, with their synonyms."""
    own = [f.alias or n for n, f in cls.model_fields.items() if f.alias not in {"*format", "properties.*"}]
    return [*own, *cls.synonyms]


def _scalars(value: Value | None) -> Iterator[Scalar]:
    """Yield all texts in a value."""
    if isinstance(value, Scalar):
        yield value
    elif value is not None:
        for item in value.items.values() if isinstance(value, Mapping) else value.items:
            yield from _scalars(item)


def _nested(key: str, value: Value | None, known: list[str]) -> str:
    """Return advice for a nested key that must be written with dots; an empty text for any other key."""
    while isinstance(value, Mapping) and value.items and not always_text(key):
        below, value = next(iter(value.items.items()))
        key = f"{key}.{below}"
        if key in known or (key.startswith(PROPERTIES) and not isinstance(value, Mapping)):
            return f": options are not nested here, write {shown_key(key)}: … in one line"
    return ""


def _read_only(key: str, known: list[str]) -> str:
    """Return advice for an option that is one of a format, but not where the format is written; else an empty text."""
    is_one = key.removeprefix("value.").removeprefix("key.") in known
    return ": it is for sources only, as it says how messages are read" if is_one else ""


def _say(error: ErrorDetails, value: Value | None, key: str) -> str | None:
    """Return pydantic's message in the words of the file, or None where a validator wrote the message."""
    kind, ctx, value_text = error["type"], error.get("ctx", {}), quoted(value, key)
    if kind == "literal_error":
        expected = str(ctx["expected"])
        options = [word.strip(" '\"") for word in expected.replace(" or ", ",").split(",")]
        word = (value.value if isinstance(value, Scalar) else None) or ""
        if key.endswith(".format") and word.lower() in OTHER_FORMATS:
            return f"{value_text} is a format that is not there yet (possible: {expected})"
        names = [name for name in FORMAT_NAMES.get(word.lower(), ()) if name in options]
        if key.endswith(".format") and names:
            return f"{value_text} is called {' or '.join(names)} here (possible: {expected})"
        secret = value_text == _NOT_SHOWN or (isinstance(value, Scalar) and value.filled)
        return (
            f"{value_text} is not possible{'' if secret else did_you_mean(word[:100], options)} (possible: {expected})"
        )
    if kind in {"int_parsing", "int_type", "int_from_float", "int_parsing_size"}:
        return f"{value_text} is not a whole number"
    if kind in {"bool_parsing", "bool_type"}:
        return f"{value_text} is neither true nor false"
    return f"{value_text} is not a text" if kind == "string_type" else None


OTHER_FORMATS: Final = frozenset({
    "bson", "changelog-json", "cbor", "debezium-bson", "debezium-protobuf", "dts-json", "dms-json", "msgpack", "orc",
    "parquet", "proto-debezium-registry", "singlestore-json", "text", "ticdc-json", "ticdc-open-protocol", "xml",
})  # fmt: skip
"""Formats of records in Kafka that this program lacks."""

_JSON_SCHEMA: Final = ("json-confluent", "debezium-json-confluent")
FORMAT_NAMES: Final = {
    "json-schema": _JSON_SCHEMA, "jsonschema": _JSON_SCHEMA, "json_sr": _JSON_SCHEMA, "json-sr": _JSON_SCHEMA,
    "confluent-json": _JSON_SCHEMA, "json-registry": _JSON_SCHEMA, "json-schema-confluent": _JSON_SCHEMA,
    "debezium-json-schema": ("debezium-json-confluent",), "json-debezium-registry": ("debezium-json-confluent",),
    "confluent-avro": ("avro-confluent",), "avro-registry": ("avro-confluent",),
    "debezium-avro": ("debezium-avro-confluent",), "avro-debezium-registry": ("debezium-avro-confluent",),
    "confluent-protobuf": ("protobuf-confluent",), "proto-registry": ("protobuf-confluent",),
}  # fmt: skip
"""Names that formats of this program have elsewhere, with those that they have here: the one of Debezium's envelopes
comes last."""

OTHER_CONNECTORS: Final = frozenset({
    "activemq", "adb", "adbpg", "amqp", "azure-eventhubs", "bigquery", "blackhole", "cassandra", "clickhouse",
    "clickzetta", "databend", "datagen", "datahub", "db2", "delta", "deltalake", "dlf", "doris", "dws", "dynamodb",
    "elasticsearch", "elasticsearch-6", "elasticsearch-7", "elasticsearch-8", "filesystem", "firehose", "fluss",
    "gaussdb", "gbase", "gelly", "greenplum", "hbase", "hbase-1.4", "hbase-2.2", "hdfs", "hive", "hologres", "hudi",
    "iceberg", "influxdb", "jdbc", "kinesis", "kudu", "lindorm", "maxcompute", "mariadb", "milvus", "mongodb",
    "mongodb-cdc", "mqtt", "mysql", "mysql-cdc", "mysqlcdc", "nats", "neo4j", "oceanbase", "oceanbase-cdc", "odps",
    "opensearch", "oracle", "oracle-cdc", "oss", "paimon", "phoenix", "polardbx", "postgres", "postgres-cdc",
    "postgresql", "pulsar", "rabbitmq", "rds", "redis", "redshift", "rocketmq", "s3", "selectdb", "sls", "snowflake",
    "sqlserver", "sqlserver-cdc", "starrocks", "tablestore", "tidb", "tidb-cdc", "vitess", "yugabytedb",
})  # fmt: skip
"""Sources and sinks that this program lacks."""

SINK_NAMES: Final = {
    "postgresql": "postgres",
    "pg": "postgres",
    "deltalake": "delta",
    "delta-lake": "delta",
    "delta_lake": "delta",
    "apache-iceberg": "iceberg",
    "holo": "hologres",
}
"""Names that sinks of this program have elsewhere, with those that they have here."""

_DATABASES: Final = frozenset({
    "cassandra", "cockroachdb", "db2", "informix", "mariadb", "mongo", "mongodb", "mssql", "mysql", "oracle", "pg",
    "postgres", "postgresql", "spanner", "sqlserver", "vitess", "yugabytedb",
})  # fmt: skip
"""Databases of which Debezium has a connector."""

_OWN: Final = {
    ("sink", "upsert-kafka", "topic"): "each table has a topic of its own name: give it another one by `route`, or use "
    "type: kafka",
    ("sink", "upsert-kafka", "sink.partitioner"): "upserts go to the partition of their key, as readers expect; "
    "type: kafka has it",
}
"""Advice for options of one component that another one does not have for a reason: section, type, option."""


def source_advice(kind: str) -> str:
    """Return advice for the type of a source that is a database; an empty text for another one."""
    name = kind.lower().removesuffix("-cdc").removesuffix("cdc")
    if name not in _DATABASES:
        return ""
    if name in {"mysql", "mariadb"}:
        return ": MySQL and MariaDB are read by type: mysql"
    how = "value.format: debezium-json"
    if name in {"mongo", "mongodb"}:
        how = "value.format: json, and in Debezium the transform ExtractNewDocumentState"
    return f": databases are read by way of Kafka, to which Debezium's connector writes: use type: kafka with {how}"


def right_place(section: str, kind: str, option: str) -> str:
    """Return where an option belongs that a section does not have; an empty text for one that is not known.

    `kind`: the type of the section's component, where it has one.
    """
    if own := _OWN.get((section, kind, option)):
        return f": {own}"
    if option == CONNECTOR and section in {"source", "sink"}:
        return ": it is called type here"
    here = [name for name, options in _owners().get(section, {}).items() if name and option in options]
    if here:
        return f": it is an option of {section} type {_listed(here)}"
    places = [place for place, types in _owners().items() if any(option in options for options in types.values())]
    return f": it belongs below {_listed(places)}" if places else ""


@cache
def _owners() -> dict[str, dict[str, frozenset[str]]]:
    """Return the names of the options of each section, by the type of its component; of others below an empty one."""

    def of(cls: type[Options]) -> frozenset[str]:
        aliases = {field.alias for field in cls.model_fields.values() if field.alias is not None}
        return frozenset({*aliases, *cls.synonyms} - {"name", "type"})

    return {
        "source": {name: of(SOURCES[name]) for name in SOURCES},
        "sink": {name: of(SINKS[name]) for name in SINKS},
        "route": {"": of(Route)},
        "transform": {"": of(Transform)},
        "pipeline": {"": of(PipelineOptions)},
    }


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
