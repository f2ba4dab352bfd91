"""Places of Delta tables: what is made when, directories with odd names, and options that are refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from delta_lake import DeltaSinkSide
from lake_sink import lake_schema
from pydantic import ValidationError

from ingest.errors import ConfigError
from ingest.sinks.delta.options import DeltaSink

TABLE = ("shop", "t")
SCHEMA = lake_schema("id INT", "n INT")


def test_nothing_is_made_before_the_first_table(tmp_path: Path) -> None:
    sink = DeltaSinkSide(tmp_path / "lake")
    assert len(sink.side.undeclared({TABLE: SCHEMA})) == 1
    assert sink.side.vanished([TABLE]) == {"table shop.t"}
    assert not (tmp_path / "lake").exists()
    (tmp_path / "lake").mkdir()
    assert len(sink.driver().undeclared({TABLE: SCHEMA})) == 1
    assert sink.driver().vanished([TABLE]) == {"table shop.t"}
    assert list((tmp_path / "lake").rglob("*")) == []


@pytest.mark.parametrize("place", ["file", "file/lake"])
def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written to"):
        DeltaSinkSide(tmp_path / place)


@pytest.mark.parametrize("name", ["lake", "lake#1", "lake?x=1", "la ke", "lak\u00e9", "a:b", "x/../y", "'"])
def test_directories_of_any_name_have_their_tables(tmp_path: Path, name: str) -> None:
    sink = DeltaSinkSide(tmp_path / name)
    sink.side.declare({TABLE: SCHEMA})
    for number in range(2):
        sink.write(TABLE, SCHEMA, ('{"id":1}', f'{{"id":1,"n":{number}}}'))
    assert sink.lake.rows(*TABLE) == [(1, 1)]
    assert Path(os.path.normpath(tmp_path / name), "shop", "t", "_delta_log").is_dir()
    assert len(list(tmp_path.iterdir())) == 1


def test_a_directory_may_be_named_as_a_url(tmp_path: Path) -> None:
    options = DeltaSink.model_validate({"type": "delta", "warehouse": f"file://{tmp_path}/lake/"})
    assert options.warehouse.name == str(tmp_path / "lake")


@pytest.mark.parametrize(("given", "why"), [
    ({"warehouse": ""}, "at least 1 character"), ({"warehouse": "lake%20x"}, "beginning of an escape"),
    ({"warehouse": "la\\\\ke"}, "takes for a /"),
    ({"warehouse": "memory://x"}, "is in none of s3://"), ({"warehouse": "ftp://x/y"}, "is in none of s3://"),
    ({"warehouse": "uc://a.b"}, "is in none of"), ({"warehouse": "s3://"}, "names no bucket"),
    ({"warehouse": "s3:///x"}, "names no bucket"), ({"warehouse": "s3://b/x?y"}, "after which no URL has a path"),
    ({"warehouse": "gs://b/x#y"}, "after which no URL has a path"),
    ({"warehouse": "az://b", "storage.properties.azure_use_azure_cli": "true"}, "runs a program"),
    ({"warehouse": "az://b", "storage.properties.USE_AZURE_CLI": True}, "runs a program"),
    ({"warehouse": "s3://b", "storage.properties.AWS_S3_ALLOW_UNSAFE_RENAME": "true"}, "changes would be lost"),
    ({"warehouse": "l", "storage.properties.allow_unsafe_rename": "1"}, "changes would be lost"),
    ({"warehouse": "s3://b", "storage.properties.aws_conditional_put": "disabled"}, "changes would be lost"),
    ({"warehouse": "l", "sink.default-namespace": "a.b"}, "two namespaces"),
])  # fmt: skip
def test_places_and_options_that_cannot_be_are_refused(given: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        DeltaSink.model_validate({"type": "delta", **given})


@pytest.mark.parametrize("given", [
    {"warehouse": "s3://b/x"}, {"warehouse": "abfss://c@a.dfs.core.windows.net/x"}, {"warehouse": "${env:PLACE}"},
    {"warehouse": "s3://b", "storage.properties.aws_conditional_put": "etag"},
    {"warehouse": "az://b", "storage.properties.use_azure_cli": "false"},
])  # fmt: skip
def test_places_that_can_be(given: dict[str, object]) -> None:
    DeltaSink.model_validate({"type": "delta", **given})
