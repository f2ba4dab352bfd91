"""On a cluster, directories of a pipeline are seen by the driver and all executors, or refused at the start."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from commands import called
from driverparts import Told
from inmemory import pipeline

from ingest.component.options import said
from ingest.driver.context import RunContext, Settings
from ingest.driver.engine import MARK, seen_by_all
from ingest.errors import ConfigError
from ingest.paths import SharedMark, unseen
from ingest.spark.session import SUBMITTED, is_local
from ingest.task import worker
from ingest.task.task import Setup

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ingest.driver.engine import SparkEngine

KAFKA = {"type": "kafka", "topic": "t", "properties.bootstrap.servers": "memory:1"}
CLUSTER = "spark://nobody:7077"
CATALOG = "catalog.properties."


def written(tmp_path: Path, source: dict[str, str], sink: dict[str, str]) -> Path:
    file = tmp_path / "pipe.yaml"
    sections = {"source": source, "sink": sink}
    text = "".join(f"{name}: {{{', '.join(f'{k}: {v!r}' for k, v in of.items())}}}\n" for name, of in sections.items())
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("source", "sink", "option"),
    [
        (KAFKA, {"type": "file", "path": "out"}, "sink.path: out"),
        (KAFKA, {"type": "delta", "warehouse": "lake"}, "warehouse: lake"),
        (KAFKA, {"type": "delta", "warehouse": "file://lake"}, "warehouse: lake"),
        (KAFKA, {"type": "iceberg", f"{CATALOG}warehouse": "./lake"}, f"{CATALOG}warehouse: ./lake"),
        (
            KAFKA,
            {
                "type": "iceberg",
                f"{CATALOG}type": "sql",
                f"{CATALOG}uri": "sqlite:///c.db",
                f"{CATALOG}warehouse": "/lake",
            },
            f"{CATALOG}uri: c.db",
        ),
        (
            KAFKA,
            {"type": "iceberg", f"{CATALOG}uri": "postgresql://h/c", f"{CATALOG}warehouse": "file:lake"},
            f"{CATALOG}warehouse: lake",
        ),
        ({"type": "file", "path": "in/*.jsonl"}, KAFKA, "source.path: in/*.jsonl"),
    ],
)
def test_a_relative_path_is_refused_before_java_starts(
    tmp_path: Path, source: dict[str, str], sink: dict[str, str], option: str
) -> None:
    sink = {**sink, "type": "upsert-kafka"} if sink is KAFKA else sink
    sink.pop("topic", None)
    file = written(tmp_path, source, sink)
    done = called("run", str(file), "--once", "--checkpoint", str(tmp_path / "c"), "--master", CLUSTER)
    assert done.code == 78
    assert f"{option} is a relative path, and tasks run on {CLUSTER}" in done.err
    assert "write the whole path of a directory that the driver and every executor have" in done.err


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"type": "delta", "warehouse": "s3://lake/shop"}, []),
        ({"type": "delta", "warehouse": "file:///lake"}, ["/lake"]),
        ({"type": "iceberg", f"{CATALOG}type": "rest", f"{CATALOG}uri": "http://h", f"{CATALOG}warehouse": "shop"}, []),
        (
            {"type": "iceberg", f"{CATALOG}type": "rest", f"{CATALOG}uri": "http://h", f"{CATALOG}warehouse": "/l"},
            ["/l"],
        ),
        ({"type": "iceberg", f"{CATALOG}type": "glue", f"{CATALOG}warehouse": "s3a://lake"}, []),
        ({"type": "iceberg", f"{CATALOG}uri": "sqlite://", f"{CATALOG}warehouse": "file:/lake"}, ["/lake"]),
        ({"type": "print"}, []),
    ],
)
def test_what_is_no_directory_of_this_machine_is_not_shared(options: dict[str, Any], found: list[str]) -> None:
    assert [place.path for place in said(pipeline(sink=options).sink, "shared_places")] == found


class Cluster:
    """A Spark of two executors, each in a directory of its own; the real one is in test_cluster.py."""

    speculates = False

    def __init__(self, folders: Sequence[Path], master: str = CLUSTER) -> None:
        self.folders, self.master, self.driver_is_placed = folders, master, False
        self.slots = self.executors = len(folders)
        self.jobs = 0

    def start(self, _lock: int | None) -> Cluster:
        return self

    def run(self, function: Callable[..., Any], tasks: Sequence[Any]) -> list[Any]:
        self.jobs += 1
        here, out = Path.cwd(), []
        for folder, task in zip(self.folders, tasks, strict=True):
            os.chdir(folder)
            out += [*function([task])]
            os.chdir(here)
        return out


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr("ingest.paths.WAIT_S", 0.0)
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    return Cluster(folders)


def entered(cluster: Cluster, tmp_path: Path, path: str, master: str = CLUSTER, checkpoint: str = "/c") -> RunContext:
    """The context of a run that has begun, and in which the directory was left alone afterwards."""
    made = pipeline(sink={"type": "file", "path": path})
    context = RunContext(made, Settings(checkpoint, tmp_path, master), Told())
    with seen_by_all(context, cast("SparkEngine", cluster), None):
        assert [Path(mark.path).exists() for mark in context.marks] == [True] * len(context.marks)
    return context


def test_executors_look_for_a_mark_which_goes_with_the_run(tmp_path: Path, cluster: Cluster) -> None:
    context = entered(cluster, tmp_path, str(tmp_path / "out"))
    (mark,) = context.marks
    assert cluster.jobs == 1, "both have looked"
    assert Path(mark.path).name.startswith(MARK)
    assert [*(tmp_path / "out").iterdir()] == []


def test_a_host_that_does_not_see_the_directory_is_named(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "worker-7")
    with pytest.raises(ConfigError, match=r"executor on host worker-7 does not see /proc/self/cwd/out \(sink.path\)"):
        entered(cluster, tmp_path, "/proc/self/cwd/out")
    assert not [*Path("out").glob(f"{MARK}*")]
    Path("out").rmdir()


def test_spark_submit_has_chosen_the_master(tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SUBMITTED, "1")
    with pytest.raises(ConfigError, match=f"sink.path: out is a relative path, and tasks run on {CLUSTER}"):
        entered(cluster, tmp_path, "out", "local[*]")
    cluster.driver_is_placed = True
    with pytest.raises(ConfigError, match=r"checkpoint \.ingest/p is a relative path, and the cluster chooses where"):
        entered(cluster, tmp_path, str(tmp_path), "local[*]", ".ingest/p")
    assert entered(cluster, tmp_path, str(tmp_path), "local[*]", "s3a://b/p").marks
    cluster.master = "local[2]"
    assert entered(cluster, tmp_path, "out", "spark://somebody", ".ingest/p").marks == ()


def test_nothing_is_looked_for_beside_the_driver(tmp_path: Path, cluster: Cluster) -> None:
    assert entered(cluster, tmp_path, "out", "local[4]").marks == ()
    assert cluster.jobs == 0
    assert [is_local(one) for one in ("local", "local[*,4]", "local-cluster[1,1,512]", "yarn")] == [
        True, True, False, False,
    ]  # fmt: skip


def test_a_directory_that_nobody_can_make_is_said(tmp_path: Path, cluster: Cluster) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=rf"cannot leave a mark for the executors in {tmp_path}/file/out"):
        entered(cluster, tmp_path, str(tmp_path / "file" / "out"))


def test_of_files_that_are_read_one_is_looked_for_or_their_directory(tmp_path: Path, cluster: Cluster) -> None:
    made = pipeline(source={"type": "file", "path": str(tmp_path / "in" / "*.jsonl")})
    (tmp_path / "in").mkdir()
    context = RunContext(made, Settings("/c", tmp_path, CLUSTER), Told())
    for expected in (tmp_path / "in", tmp_path / "in" / "a.jsonl"):
        with seen_by_all(context, cast("SparkEngine", cluster), None):
            assert context.marks == (SharedMark("source.path", str(expected), ""),)
        (tmp_path / "in" / "a.jsonl").touch()


class Broadcast:
    """What a worker sees of a broadcast."""

    def __init__(self, value: Any) -> None:
        self.value = value


def test_an_executor_that_comes_later_looks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    made = pipeline()
    monkeypatch.setattr("ingest.paths.WAIT_S", 0.0)
    monkeypatch.setattr("socket.gethostname", lambda: "worker-8")
    marks = (SharedMark("sink.path", f"/proc/self/cwd/{MARK}0", "/proc/self/cwd"),)
    setup = Setup("late", 1, "p", made.source, made.sink, None, made.source.inference(9), 9, made.rules, marks=marks)
    task: Any = type("Task", (), {"setup": Broadcast(setup)})
    with pytest.raises(ConfigError, match=r"executor on host worker-8 does not see /proc/self/cwd \(sink.path\)"):
        worker.state_for(task)


def test_a_directory_that_is_seen_and_not_written_to_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    marks = [SharedMark("warehouse", str(tmp_path), str(tmp_path)), SharedMark("source.path", str(tmp_path), "")]
    assert unseen(marks) == [f"may not write to {tmp_path} (warehouse)"]
