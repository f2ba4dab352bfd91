"""Names of other engines, and options in the wrong place: messages advise on them, and do not guess at a misspelling.

In: names of components and options, as a file has them. Out: advice.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from ingest.config.pipeline import PipelineOptions, Route, Transform
from ingest.config.redaction import CONNECTOR
from ingest.sinks import SINKS
from ingest.sources import SOURCES

if TYPE_CHECKING:
    from ingest.component.options import Options

FORMATS: Final = frozenset({
    "bson", "changelog-json", "cbor", "debezium-bson", "debezium-protobuf", "dts-json", "dms-json", "msgpack", "orc",
    "parquet", "proto-debezium-registry", "singlestore-json", "text", "ticdc-json", "ticdc-open-protocol", "xml",
})  # fmt: skip
"""Formats of records in Kafka that this program lacks."""

_JSON_SCHEMA: Final = ("json-confluent", "debezium-json-confluent")
OTHER_NAMES: Final = {
    "json-schema": _JSON_SCHEMA, "jsonschema": _JSON_SCHEMA, "json_sr": _JSON_SCHEMA, "json-sr": _JSON_SCHEMA,
    "confluent-json": _JSON_SCHEMA, "json-registry": _JSON_SCHEMA, "json-schema-confluent": _JSON_SCHEMA,
    "debezium-json-schema": ("debezium-json-confluent",), "json-debezium-registry": ("debezium-json-confluent",),
    "confluent-avro": ("avro-confluent",), "avro-registry": ("avro-confluent",),
    "debezium-avro": ("debezium-avro-confluent",), "avro-debezium-registry": ("debezium-avro-confluent",),
    "confluent-protobuf": ("protobuf-confluent",), "proto-registry": ("protobuf-confluent",),
}  # fmt: skip
"""Names that formats of this program have elsewhere, with those that they have here: the one of Debezium's envelopes
comes last."""

CONNECTORS: Final = frozenset({
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


def of_source(kind: str) -> str:
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


def advice(section: str, kind: str, option: str) -> str:
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
