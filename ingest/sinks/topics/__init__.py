"""The sinks `kafka` and `upsert-kafka`: changes and rows in Kafka topics."""
