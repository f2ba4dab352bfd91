"""`ingest graph`: what is drawn, and that no name in a file or a message is more than a text there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.cli.app import main
from ingest.cli.graph import drawn, label
from ingest.config.loader import load_text

if TYPE_CHECKING:
    from ingest.config.pipeline import Pipeline

FILE = """\
source: {type: kafka, properties.bootstrap.servers: b:9092, topic: shop.a;shop.b}
sink: {type: upsert-kafka, properties.bootstrap.servers: b:9092}
transform:
  - {source-table: shop.orders, projection: '*, a + 1 AS b', filter: a > 1}
route:
  - {source-table: shop.orders, sink-table: ods.orders}
  - {source-table: 'shop.\\.*', sink-table: ods.all}
"""


def pipeline(text: str = FILE) -> Pipeline:
    found = load_text("p.yaml", text, "p", {}, Path()).pipeline
    assert found is not None
    return found


def test_rules_stand_for_tables_that_are_not_known() -> None:
    assert drawn(pipeline(), []).splitlines() == [
        "flowchart LR",
        '    n0{{"p"}}',
        '    n1[("kafka: shop.a")]',
        "    n1 --> n0",
        '    n2[("kafka: shop.b")]',
        "    n2 --> n0",
        '    n3["tables like shop.orders"]',
        "    n0 --> n3",
        '    n4[("upsert-kafka: tables as their routes say")]',
        '    n3 -- "projection, where a #62; 1" --> n4',
        '    n5[("upsert-kafka: ods.orders")]',
        "    n3 --> n5",
        '    n6["tables like shop.#92;.*"]',
        "    n0 --> n6",
        '    n7[("upsert-kafka: ods.all")]',
        "    n6 --> n7",
    ]


def test_tables_that_are_known_go_where_their_routes_say() -> None:
    lines = drawn(pipeline(), [("shop", "orders"), ("shop", "users"), ("other",)]).splitlines()
    names = {text: name for line in lines for name, text in re.findall(r'(n\d+)[\[{(]+"([^"]*)"', line)}
    arrows = {tuple(re.findall(r"n\d+", line)) for line in lines if "-->" in line}
    sink = "upsert-kafka: "
    for source, target in (
        ("shop.orders", "ods.orders"), ("shop.orders", "ods.all"), ("shop.users", "ods.all"), ("other", "other"),
    ):  # fmt: skip
        assert (names[source], names[sink + target]) in arrows
    assert len([line for line in lines if "projection" in line]) == 2
    assert sum("ods.all" in line for line in lines) == 1


def test_a_drawing_has_an_end() -> None:
    lines = drawn(pipeline(), [("shop", f"t{n}") for n in range(5000)]).splitlines()
    assert len(lines) < 1000
    assert any("4800 more tables" in line for line in lines)


def test_without_rules_tables_keep_their_names_and_files_are_sources(tmp_path: Path) -> None:
    text = f"source: {{type: file, path: '{tmp_path}/*.json', format: debezium-json}}\nsink: {{type: print}}\n"
    lines = drawn(pipeline(text), []).splitlines()
    assert '    n3[("print: tables of the same names")]' in lines
    assert any(".json" in line and "file: " in line for line in lines)


@given(st.text(max_size=200))
def test_a_label_is_a_text_whatever_it_holds(text: str) -> None:
    made = label(text)
    assert not set(made) & set('"<>&`\\[]{}()|\n')
    assert re.sub(r"#\d+;", "", made).count("#") == 0
    assert made.isprintable()


def test_the_command_masks_secrets_and_says_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "p.yaml"
    file.write_text(FILE.replace("shop.a;shop.b", "topic-pa55word") + "pipeline: {variables: {password: pa55word}}\n")
    with pytest.raises(SystemExit) as ended:
        main(["graph", str(file)])
    assert not ended.value.code
    assert "pa55word" not in capsys.readouterr().out
    file.write_text("source: {type: nothing}\n")
    with pytest.raises(SystemExit) as ended:
        main(["graph", str(file)])
    assert ended.value.code == 78
    assert "unknown source type 'nothing'" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["graph", str(file), "--checkpoint", str(tmp_path / "none")])
    assert ended.value.code == 78


@pytest.mark.parametrize("secret", ["pa55word;<#1>", "pa55word" * 20])
def test_a_secret_is_masked_also_where_a_label_spells_or_cuts_it(secret: str) -> None:
    rules = FILE.replace("a > 1}", f"\"a > '{secret}'\"}}")
    text = rules + f"pipeline: {{variables: {{password: '{secret}'}}}}\n"
    assert "where a" in drawn(pipeline(text), [])
    assert "pa55word" not in drawn(pipeline(text), [])
