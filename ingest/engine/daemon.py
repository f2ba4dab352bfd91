"""PySpark's daemon, with what a task needs imported before it forks workers: they start warm.

Imports only: a Kafka client would not survive the fork.
"""

import ingest.engine.task
import ingest.kafka.reader
import ingest.kafka.writer  # noqa: F401  (for the import)
from pyspark.daemon import manager

if __name__ == "__main__":
    manager()
