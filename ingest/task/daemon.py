"""PySpark's daemon with early imports: it imports the modules of a task before it forks workers, so these start warm.

It only imports. It creates no Kafka client, because a client does not survive a fork.
"""

import os
import sys


def unpacked(path: list[str]) -> list[str]:
    """Return the search path with PySpark's archives behind the directory that holds the same PySpark unpacked.

    Spark puts its `pyspark.zip` and a jar first. Python keeps no bytecode for imports from an archive, so each start
    would compile PySpark again. That takes longer than all the rest of a worker's start.
    """
    inside = tuple(f"{entry}/pyspark/" for entry in path)
    archives = [entry for entry in path if entry.startswith(inside) and entry.endswith((".zip", ".jar"))]
    return [entry for entry in path if entry not in archives] + archives


if __name__ == "__main__":
    sys.path[:] = unpacked(sys.path)
    # Pydantic would look for plugins in what every installed package says of itself
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

    from pyspark.daemon import manager

    if "INGEST_STAGE" in os.environ:
        import pandas as pd  # noqa: F401  (pyspark imports it for every stage)
        import pyarrow as pa  # noqa: F401
    from ingest.task import native_support, pipeline  # noqa: F401  (what a worker would import at its first task)

    manager()
