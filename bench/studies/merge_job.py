"""The peer of merges.py, in a Spark of its own: change messages into a lake by `foreachBatch` and `MERGE INTO`.

Arguments: `iceberg` or `delta`, the brokers' address, the topic, a folder for the table, and the messages of a batch.
Prints a line of JSON at the end of each batch, and one for the rows that the table has then.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Final

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COLUMNS: Final = (
    "id BIGINT, customer_id BIGINT, status STRING, amount DOUBLE, quantity BIGINT, sku STRING, note STRING, "
    "created_at BIGINT, updated_at BIGINT, active BOOLEAN, address STRING"
)
_NAMES: Final = [column.split()[0] for column in _COLUMNS.split(", ")]
_ENVELOPE: Final = f"before STRUCT<id: BIGINT>, after STRUCT<{_COLUMNS}>, op STRING"
_KINDS: Final = {
    "iceberg": (
        {
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
            "spark.sql.catalog.lake.warehouse": "{place}",
        },
        "lake.shop.t0",
        # Positions of rows are noted, as the sink does: faster here than Iceberg's default, which copies files
        "USING iceberg TBLPROPERTIES ('format-version'='2', 'write.merge.mode'='merge-on-read')",
    ),
    "delta": (
        {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            # The default of 50 is for logs of thousands of files: here it takes five times as long
            "spark.databricks.delta.snapshotPartitions": "2",
        },
        "delta.`{place}`",
        "USING delta",
    ),
}
"""Settings of Spark for each lake, the table, and how it is made."""
_LATEST: Final = """
    SELECT op, row.* FROM (
        SELECT change.op AS op,
            IF(change.op = 'd', named_struct({gone}), change.after) AS row,
            row_number() OVER (PARTITION BY coalesce(change.after.id, change.before.id) ORDER BY offset DESC) AS place
        FROM (SELECT from_json(CAST(value AS STRING), '{envelope}') AS change, offset FROM messages)
    ) WHERE place = 1"""
"""The last change of each key. A key is in one partition of the topic, so offsets say which one that is."""
_MERGE: Final = """
    MERGE INTO {table} AS t USING changes AS s ON t.id = s.id
    WHEN MATCHED AND s.op = 'd' THEN DELETE
    WHEN MATCHED THEN UPDATE SET {sets}
    WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT ({names}) VALUES ({values})"""


def main() -> None:
    """Run until the topic is read."""
    kind, bootstrap, topic, place, records = sys.argv[1:]
    settings, table, made = _KINDS[kind]
    table = table.format(place=place)
    # Two slots, so two partitions of a shuffle; Spark's default of 200 would be slower here
    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
    for name, value in settings.items():
        builder = builder.config(name, value.format(place=place))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.sql(f"CREATE TABLE {table} ({_COLUMNS}) {made}")
    gone = ["'id', change.before.id"]
    gone += [f"'{name}', CAST(NULL AS {kind})" for name, kind in map(str.split, _COLUMNS.split(", ")[1:])]
    latest = _LATEST.format(gone=", ".join(gone), envelope=_ENVELOPE)
    merge = _MERGE.format(
        table=table, sets=", ".join(f"t.{name} = s.{name}" for name in _NAMES), names=", ".join(_NAMES),
        values=", ".join(f"s.{name}" for name in _NAMES),
    )  # fmt: skip

    def merge_batch(batch: DataFrame, number: int) -> None:
        session = batch.sparkSession
        batch.createOrReplaceTempView("messages")
        session.sql(latest).createOrReplaceTempView("changes")
        session.sql(merge)
        print(json.dumps({"batch": number, "end": time.time()}), flush=True)

    options = {
        "kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": records,
    }  # fmt: skip
    read = spark.readStream.format("kafka").options(**options).load()
    query = read.writeStream.foreachBatch(merge_batch).option("checkpointLocation", f"{place}-checkpoint")
    query.trigger(availableNow=True).start().awaitTermination()
    count, digest = spark.sql(f"SELECT count(*), sum(updated_at + quantity) FROM {table}").collect()[0]  # noqa: S608
    print(json.dumps({"rows": count, "digest": int(digest)}), flush=True)


if __name__ == "__main__":
    main()
