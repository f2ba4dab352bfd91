"""The sources `kafka` and `upsert-kafka`: records of Kafka topics."""
