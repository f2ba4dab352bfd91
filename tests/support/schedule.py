"""Which worker of pytest-xdist runs which tests, and in what order.

Tests of a file stay together, as they share what the file starts: a broker, a Java, a process that has loaded all
packages. What takes longest is begun first, so that the workers end at about the same time.

Groups by marks, which pytest-xdist has for this, have no effect: it appends the group's name to a private attribute
(`Item._nodeid`) that pytest does not have any more since 9.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    import pytest

TOGETHER: Final = ("tests/integration/security",)
"""Folders whose files share a broker: all tests in them stay together."""
LONGEST: Final = (
    "tests/integration/test_chaos.py",
    "tests/integration/test_exactly_once.py",
    "tests/integration/test_transforms.py",
    "tests/integration/security",
    "tests/integration/test_partitions_and_keys.py",
    "tests/integration/test_avro_sinks.py",
    "tests/integration/test_main_job.py",
    "tests/integration/test_failures.py",
    "tests/integration/test_lost_data.py",
    "tests/integration/test_restarts.py",
    "tests/integration/test_kept_running.py",
    "tests/integration/test_scenarios_on_a_broker.py",
    "tests/integration/test_cluster.py",
    "tests/integration/test_checkpoint.py",
    "tests/integration/test_files.py",
    "tests/integration/test_dirty_data.py",
    "tests/integration/test_from_sql.py",
    "tests/integration/test_full_disk.py",
    "tests/integration/postgres/test_runs.py",
    "tests/integration/test_sinks.py",
    "tests/integration/test_extending.py",
    "tests/integration/test_plan.py",
    "tests/integration/test_source.py",
    "tests/integration/iceberg/test_tables.py",
    "tests/integration/iceberg/test_partitions.py",
    "tests/integration/delta/test_tables.py",
    "tests/integration/delta/test_partitions.py",
    "tests/integration/lake/test_widening.py",
    "tests/integration/lake/test_sequence.py",
    "tests/integration/test_lakes_in_a_store.py",
    "tests/property/test_native.py",
    "tests/property/test_native_changes.py",
    "tests/property/test_lake_rows.py",
    "tests/property/test_extra_columns.py",
    "tests/property/test_copy_rows.py",
    "tests/property/test_native_csv.py",
    "tests/property/test_native_flattening.py",
    "tests/unit/config/test_options.py",
    "tests/unit/test_layers.py",
)
"""What takes longest, the longest first. Where this is not true any more, time is lost and nothing else."""


def unit(nodeid: str) -> str:
    """What stays together with a test: its file, or its folder."""
    file = nodeid.partition("::")[0]
    return next((folder for folder in TOGETHER if file.startswith(f"{folder}/")), file)


def turn(nodeid: str) -> int:
    """When a test is to begin: a lower number is earlier."""
    name = unit(nodeid)
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)


def longest_first(config: pytest.Config, log: Any) -> Any:
    """A scheduler that hands units out in the order of the tests, which workers have put in order by their turn."""
    scheduler = LoadFileScheduling(config, log)
    scheduler._split_scope = unit
    config.option.loadscopereorder = False  # the order would be that of the number of tests
    return scheduler
