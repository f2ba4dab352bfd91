"""The messages of Debezium: in JSON, plain or with a schema registry, and in Avro with a schema registry."""
