"""Delta tables that are damaged, and storages that mean nothing: errors for a person, whatever a run does with them."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from delta_lake import DeltaSinkSide
from deltalake.exceptions import DeltaError
from lake_sink import lake_schema

from ingest.errors import AccessError, ConfigError, IngestError, Unavailable
from ingest.sinks.delta.warehouse import DeltaWarehouse, failure_of

if TYPE_CHECKING:
    from collections.abc import Callable

TABLE = ("shop", "t")
SCHEMA = lake_schema("id BIGINT", "n INT")


def row(key: int, n: int) -> tuple[str, str]:
    return f'{{"id":{key}}}', f'{{"id":{key},"n":{n}}}'


def log(sink: DeltaSinkSide) -> list[Path]:
    return sorted((sink.lake.folder / "shop" / "t" / "_delta_log").glob("*.json"))


def each(sink: DeltaSinkSide, act: Callable[[Path], object]) -> None:
    """Do something with each file of rows."""
    for path in sink.lake.active(*TABLE):
        act(sink.lake.folder / "shop" / "t" / path)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def no_checkpoint(sink: DeltaSinkSide) -> None:
    sink.lake.table(*TABLE).create_checkpoint()
    (found,) = (sink.lake.folder / "shop" / "t" / "_delta_log").glob("*.checkpoint.parquet")
    cut(found)


def no_folder(sink: DeltaSinkSide) -> None:
    place = sink.lake.folder / "shop" / "t"
    shutil.rmtree(place)
    place.write_text("")


DAMAGE: dict[str, Callable[[DeltaSinkSide], Any]] = {
    "no version": lambda sink: log(sink)[-1].write_text("{nonsense"),
    "half a version": lambda sink: cut(log(sink)[-1]),
    "an empty version": lambda sink: log(sink)[-1].write_text(""),
    "the first version is gone": lambda sink: log(sink)[0].unlink(),
    "a version between others is gone": lambda sink: log(sink)[2].unlink(),
    "half a checkpoint of the log": no_checkpoint,
    "a file": no_folder,
    "no files of rows": lambda sink: each(sink, Path.unlink),
    "half files of rows": lambda sink: each(sink, cut),
    "empty files of rows": lambda sink: each(sink, lambda path: path.write_bytes(b"")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_tables_stop_the_run(sink: DeltaSinkSide, damage: str) -> None:
    sink.side.declare({TABLE: SCHEMA})
    for number in range(3):
        sink.write(TABLE, SCHEMA, row(1, number), row(number + 10, number))
    files = sink.files(TABLE, SCHEMA, (row(1, 9), row(99, 9)))
    DAMAGE[damage](sink)
    said: list[IngestError] = []
    acts: list[Callable[[], object]] = [
        lambda: sink.driver().undeclared({TABLE: SCHEMA}), lambda: sink.driver().vanished([TABLE]),
        lambda: sink.driver().declare({TABLE: lake_schema("id BIGINT", "n STRING")}),
        lambda: sink.side.add("checkpoint", 4, files), lambda: sink.files(TABLE, SCHEMA, (row(1, 1),)),
    ]  # fmt: skip
    for act in acts:
        try:
            act()
        except IngestError as exc:
            said.append(exc)
    assert len(said) >= 2
    for one in said:
        assert isinstance(one, ConfigError), one
        assert "restore it" in one.hint
        assert str(sink.lake.folder) in one.message
        assert not [text for text in ("<unknown>", "\n", "ParsedLogPath") if text in one.message]


def test_an_empty_version_in_the_middle_of_a_run(sink: DeltaSinkSide) -> None:
    sink.side.declare({TABLE: SCHEMA})
    sink.write(TABLE, SCHEMA, row(1, 1))
    files = sink.files(TABLE, SCHEMA, (row(2, 1),))
    log(sink)[-1].write_text("")
    with pytest.raises(ConfigError, match="is an empty file"):
        sink.side.add("checkpoint", 2, files)


@pytest.mark.parametrize(("text", "kind"), [
    ("Error performing GET http://h:1/403 in 403.3\u00b5s - HTTP error: tcp connect error", Unavailable),
    ("Generic S3 error: Error performing GET http://h in 1ms - returned non-2xx status code: 403 : no", AccessError),
    ("Generic S3 error: Client error with status 401 Unauthorized: <Error>", AccessError),
])  # fmt: skip
def test_a_status_is_told_from_other_numbers(text: str, kind: type[IngestError]) -> None:
    assert type(failure_of(OSError(text), "look for tables", "s3://bucket/403")) is kind


NOWHERE = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "aws_region": "x", "max_retries": "0"}


@pytest.mark.parametrize(("options", "kind", "why"), [
    ({"timeout": "banana"}, ConfigError, "banana"), ({"aws_conditional_put": "wat"}, ConfigError, "wat"),
    ({"max_retries": "x"}, ConfigError, "max_retries"), ({"allow_http": "perhaps"}, ConfigError, "perhaps"),
    ({"aws_endpoint": "http://127.0.0.1:1"}, ConfigError, "builder error"),
    ({"aws_endpoint": "http://127.0.0.1:1", "allow_http": "true"}, Unavailable, "127.0.0.1:1"),
])  # fmt: skip
def test_storages_that_do_not_answer_and_options_that_mean_nothing(
    options: dict[str, str], kind: type[IngestError], why: str
) -> None:
    given = {f"storage.properties.{name}": value for name, value in {**NOWHERE, **options}.items()}
    with pytest.raises(kind) as refused:
        DeltaSinkSide("s3://bucket/lake", **given)
    assert type(refused.value) is kind
    assert why in refused.value.message
    assert "\x1b" not in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize(("raised", "kind"), [
    (PermissionError("no"), AccessError), (OSError(errno.EROFS, "Read-only file system"), AccessError),
    (DeltaError("Generic LocalFileSystem error: Unable to create: Read-only file system (os error 30)"), AccessError),
    (OSError("Generic S3 error: 403 Forbidden"), AccessError),
    (OSError("No space left on device"), Unavailable), (TimeoutError("timed out"), Unavailable),
    (type("PanicException", (BaseException,), {})("slice index"), ConfigError), (EOFError(), ConfigError),
])  # fmt: skip
def test_errors_have_their_class(tmp_path: Path, raised: BaseException, kind: type[IngestError]) -> None:
    with pytest.raises(kind), DeltaWarehouse(str(tmp_path), {}).asking("look"):
        raise raised


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit, Unavailable, AssertionError])
def test_other_errors_are_left_alone(tmp_path: Path, raised: type[BaseException]) -> None:
    with pytest.raises(raised), DeltaWarehouse(str(tmp_path), {}).asking("look"):
        raise raised("x")
