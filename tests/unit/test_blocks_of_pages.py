"""Each block of YAML in the documentation is taken by what it is for: a pipeline, a test, settings of a program."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from commands import called
from pages import ROOT, Block, blocks, needs_java, walked
from ruamel.yaml import YAML

from ingest.config.diagnostics import render
from ingest.config.loader import load_text
from ingest.formats.avro.table_writer import record_of
from ingest.formats.protobuf.table_writer import schema_text
from ingest.model import types
from ingest.model.schema import Column, TableSchema
from ingest.sinks.delta.tables import delta_type
from ingest.sinks.iceberg.tables import iceberg_type
from ingest.sinks.lake.table import stored_schema
from ingest.sinks.postgres.dialect import POSTGRES, HologresDialect

if TYPE_CHECKING:
    from pathlib import Path

    from ingest.sinks.postgres.dialect import Strategy

LANGUAGES = {"yaml", "sh", "text", "sql", "python", "toml"}
SECTIONS = {"source", "sink", "route", "transform", "pipeline"}
KEYLESS = "no way to say a delete without key.format"
"""The warning that pages may have, whose rows are never deleted."""
BASE: dict[str, Any] = {
    "source": {"type": "kafka", "properties.bootstrap.servers": "localhost:9092", "topic": "t"},
    "sink": {"type": "upsert-kafka", "properties.bootstrap.servers": "localhost:9092"},
}
"""What a block lacks that shows one section, or some options of one."""
ELSEWHERE = {"docs/from-sql.md": "test_from_sql.py", "docs/extending.md": "test_extending.py"}
"""Pages whose blocks another test takes."""
YAMLS = [
    one for one in blocks()
    if one.language == "yaml" and not walked(one) and one.page not in ELSEWHERE and not needs_java(one)
]  # fmt: skip


def test_each_block_says_what_it_is() -> None:
    assert len(blocks()) > 150
    assert {(str(one), one.language) for one in blocks() if one.language not in LANGUAGES} == set()


def test_the_tests_of_other_pages_read_them() -> None:
    for page, test in ELSEWHERE.items():
        texts = [*(ROOT / "tests").rglob(test), ROOT / "tests" / "support" / "from_sql.py"]
        assert any(page.removeprefix("docs/") in path.read_text(encoding="utf-8") for path in texts)


def written(value: dict[str, Any]) -> str:
    out = io.StringIO()
    YAML(typ="safe").dump(value, out)
    return out.getvalue()


def with_modules(block: Block, folder: Path) -> str:
    """A block, with the page's modules of Python beside it: under names that no module of other tests has."""
    text = block.text
    for one in blocks():
        if one.page == block.page and one.language == "python" and one.title:
            name = one.title.removesuffix(".py")
            (folder / f"{name}_of_a_page.py").write_text(one.text)
            text = text.replace(f"{name}:", f"{name}_of_a_page:")
    return text


def filled_up(found: dict[str, Any]) -> dict[str, Any]:
    """A whole pipeline out of what a block shows of one."""
    whole = {**BASE, **found}
    for section in ("source", "sink"):
        if "type" not in whole[section]:
            whole[section] = {**BASE[section], **whole[section]}
    return whole


@pytest.mark.parametrize("block", YAMLS, ids=str)
def test_a_block_of_yaml_is_right(block: Block, tmp_path: Path) -> None:
    found = YAML(typ="safe").load(block.text)
    if found.keys() <= SECTIONS:
        found = YAML(typ="safe").load(with_modules(block, tmp_path))
        loaded = load_text(str(block), written(filled_up(found)), "block", folder=tmp_path)
        told = [one for one in loaded.diagnostics if one.severity != "note" and KEYLESS not in one.message]
        assert not told, render(loaded.diagnostics)
    elif "messages" in found:
        (tmp_path / "pipelines").symlink_to(ROOT / "pipelines")
        (tmp_path / "tests").mkdir()
        (tmp_path / "tests" / "block.yaml").write_text(block.text)
        done = called("test", str(tmp_path / "tests"))
        assert (done.code, done.out.splitlines()[-1]) == (0, "1 test, 0 failed"), done.out
    elif "scrape_configs" in found:
        promtool = shutil.which("promtool")
        if promtool is None and not os.environ.get("CI"):
            pytest.skip("promtool is not installed")
        assert promtool is not None
        (tmp_path / "prometheus.yml").write_text(block.text)
        subprocess.run([promtool, "check", "config", str(tmp_path / "prometheus.yml")], check=True)
    else:
        of_kubernetes(block, found, tmp_path)


def of_kubernetes(block: Block, found: dict[str, Any], folder: Path) -> None:
    """Render manifests with the block as kubernetes.yaml, for the pipelines that it names."""
    (folder / "pipelines").mkdir()
    (folder / "pipelines" / "kubernetes.yaml").write_text(block.text)
    for name in found["pipelines"]:
        (folder / "pipelines" / f"{name}.yaml").write_text(written({**BASE, "pipeline": {"name": name}}))
    done = called("render", "k8s", str(folder / "pipelines"), "--out", str(folder / "k8s"))
    assert done.code == 0, done.err


def test_what_a_declared_row_becomes_in_each_sink_is_as_the_page_about_nested_json_says() -> None:
    declared = types.parse("ROW<city STRING, tags ARRAY<STRING>, more MAP<STRING, INT>>")
    schema = stored_schema(TableSchema((Column("address", declared),), ()), times=True)
    lakes = {str(iceberg_type(schema.columns[0].type)), delta_type(schema.columns[0].type)}
    assert lakes == {"string"}
    assert POSTGRES.types_of(declared, of_key=False) == ("jsonb", "jsonb")
    strategies: tuple[Strategy, ...] = ("STANDARD", "BROADEN", "ONLY_BIGINT_OR_TEXT")
    made = [HologresDialect(strategy=one).types_of(declared, of_key=False) for one in strategies]
    assert [kinds and kinds[0] for kinds in made] == ["jsonb", "jsonb", "text"]
    avro = str(record_of([Column("address", declared)], ("row", "of")))
    assert all(f"'type': '{kind}'" in avro for kind in ("record", "array", "map"))
    text = schema_text({"address": declared}, "Row")
    assert all(part in text for part in ("message Row_address", "repeated string tags", "map<string, int32> more"))
    page = (ROOT / "docs" / "nested-json.md").read_text(encoding="utf-8")
    for row in ("| `iceberg`, `delta` | `string`,", "| `postgres` | `jsonb` |", "| `hologres` | `jsonb` or `text`,"):
        assert row in page
