"""ingest: change messages of many tables out of Kafka, to upserts, as Spark jobs, from one YAML file."""

__version__ = "0.1.0"
