"""PySpark's daemon, with what a task needs imported before it forks workers: they start warm.

Imports only: a Kafka client would not survive the fork.
"""

import os
import sys


def unpacked(path: list[str]) -> list[str]:
    """The search path with PySpark's own archives behind the folder that holds the same PySpark unpacked.

    Spark puts its `pyspark.zip` and a jar first. Python keeps no bytecode for what it imports from an archive, so every
    start would compile PySpark anew, which takes longer than all else that a worker does to start.
    """
    inside = tuple(f"{entry}/pyspark/" for entry in path)
    archives = [entry for entry in path if entry.startswith(inside) and entry.endswith((".zip", ".jar"))]
    return [entry for entry in path if entry not in archives] + archives


sys.path[:] = unpacked(sys.path)

from pyspark.daemon import manager  # noqa: E402

if "INGEST_STAGE" in os.environ:
    import pandas as pd  # noqa: F401  (pyspark asks for it, whatever a stage uses)
    import pyarrow as pa  # noqa: F401


if __name__ == "__main__":
    manager()
