"""PySpark's daemon, with what a task needs imported before it forks workers: they start warm.

Imports only: a Kafka client would not survive the fork.
"""

from pyspark.daemon import manager

import ingest.engine.task
import ingest.kafka.reader
import ingest.kafka.writer  # noqa: F401  (for the import)

if __name__ == "__main__":
    manager()
