"""A command-line tool that turns change messages in Kafka into upserts, as Spark jobs described by one YAML file."""

__version__ = "0.1.0"
