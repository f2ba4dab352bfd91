"""Names of formats and connectors that other engines have and this one lacks.

Messages say that they are missing, and not that they are misspelt.
"""

from __future__ import annotations

from typing import Final

FORMATS: Final = frozenset({
    "avro", "avro-confluent", "bson", "changelog-json", "confluent-json", "cbor", "debezium-avro",
    "debezium-avro-confluent", "debezium-bson", "debezium-protobuf", "dts-json", "dms-json", "json-schema",
    "json_sr", "msgpack", "orc", "parquet",
    "singlestore-json", "text", "ticdc-json", "ticdc-open-protocol", "xml",
})  # fmt: skip
"""Formats of records in Kafka that this program lacks."""

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
