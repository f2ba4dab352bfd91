"""`ingest explain`: each option, component and code has a text, also where nothing but the package is installed."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from typing import TYPE_CHECKING

import pytest
from harness import INGEST
from pages import ROOT

from ingest.cli.explanations import explanations
from ingest.config.scenario import ScenarioError
from ingest.errors import ConfigError, IngestError, kinds_of_errors
from ingest.formats import FORMATS
from ingest.model.commit import RowsRefused
from ingest.model.reject import CODES
from ingest.sinks import SINKS
from ingest.sources import SOURCES

if TYPE_CHECKING:
    from pathlib import Path


@cache
def explained(*words: str, folder: Path | None = None) -> tuple[int, str, str]:
    """In a process of its own: models have texts only where they are loaded for this."""
    done = subprocess.run([INGEST, "explain", *words], capture_output=True, text=True, check=False, cwd=folder)
    return done.returncode, done.stdout, done.stderr


def test_every_word_of_the_list_has_a_text() -> None:
    code, listed, _ = explained()
    assert code == 0
    words = listed.splitlines()
    code, out, err = explained(*sorted({word.rpartition(" ")[2] for word in words}))
    assert (code, err) == (0, "")
    for word in words:
        kind, _, name = word.rpartition(" ")
        assert name in out, word
        assert kind
    options = [block for block in out.split("\n\n") if " (option of " in block.split("\n")[0]]
    assert len(options) > 150
    assert not [block for block in options if not block.partition("\n")[2].strip()]


def test_all_components_and_codes_are_words() -> None:
    names = {word.rpartition(" ")[2] for word in explained()[1].splitlines()}
    assert {*SOURCES.names(), *SINKS.names(), *FORMATS.names(), *CODES} <= names
    assert {"0", "1", "2", "65", "73", "75", "78", "130"} <= names


def test_the_page_of_errors_has_each_code_with_cause_and_remedy() -> None:
    components = {code for registry in (FORMATS, SINKS, SOURCES) for code in registry.codes()}
    said = explanations()
    assert {*CODES, *components, *kinds_of_errors()} - {Unknown.code} == {*said}
    assert {RowsRefused.code, ScenarioError.code} <= {*said}
    for code, text in said.items():
        assert re.search(r"(^|\n\n)Cause: [A-Z`].+?\n\nRemedy: [A-Z`]", text, re.DOTALL), code


def test_an_error_says_its_code_and_the_code_is_explained(tmp_path: Path) -> None:
    done = subprocess.run([INGEST, "explain", "nonsense"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stderr.splitlines()[-1] == "  more: ingest explain configuration"
    code, out, _ = explained("configuration", folder=tmp_path)
    assert (code, out.splitlines()[0]) == (0, "configuration (error that ends a command)")
    assert "Cause: An option, an argument" in out
    assert "**" not in out


class Unknown(ConfigError):
    """An error of another package: the page does not know its code."""

    code = "of-another-package"


def test_codes_are_those_of_their_classes() -> None:
    found = kinds_of_errors()
    assert found[Unknown.code] is Unknown
    assert found["configuration"] is ConfigError
    assert found["failed"] is IngestError


@pytest.mark.parametrize(("word", "texts"), [
    ("scan.startup.mode", ["option of source type kafka", "Default: group-offsets"]),
    ("metrics.port", ["option of section pipeline:", "/readyz"]),
    ("sink-table", ["option of section route:", "It has to be given."]),
    ("malformed", ["code of rejects"]),
    ("75", ["exit code", "Worth a retry"]),
    ("delta", ["delta (sink)", "warehouse"]),
])  # fmt: skip
def test_a_word_is_explained(word: str, texts: list[str], tmp_path: Path) -> None:
    code, out, err = explained(word, folder=tmp_path)
    assert (code, err) == (0, "")
    assert all(text in out for text in texts), out


def test_a_word_that_is_nothing_is_an_error_with_those_that_are_near() -> None:
    code, out, err = explained("startup")
    assert (code, out) == (78, "")
    assert "scan.startup.mode" in err
    assert "Traceback" not in err


PAGES = ("errors", "dirty-data", "delivery", "metrics", "checkpoints", "transforms", "sinks", "from-flink-cdc")
NO_OPTIONS = re.compile(
    r"(properties|catalog|spark|shop|ods|k8s|ingest|sasl|bench|message)\..*|.*\.(ya?ml|jsonl?|md|py|txt|html|jks)"
    r"|retention\.ms|transaction\.timeout\.ms|offsets\.retention\.minutes|min\.insync\.replicas|isolation\.level"
)
"""Files, properties of Kafka's clients and topics, and names of tables."""


def inline(page: str) -> list[str]:
    """What a page of docs/ has between backticks."""
    text = re.sub(r"^```.*?^```", "", (ROOT / "docs" / f"{page}.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"`([^`\n]+)`", text)


@pytest.mark.parametrize("page", PAGES)
def test_options_that_pages_name_are_there(page: str) -> None:
    known = {word.rpartition(" ")[2] for word in explained()[1].splitlines()}
    unknown = set()
    for text in inline(page):
        key = text.partition(":")[0].strip()
        if re.fullmatch(r"[a-z][\w-]*(\.[a-z][\w-]*)+", key) and not NO_OPTIONS.fullmatch(key):
            short = re.sub(r"^(pipeline|source|sink|key|value)\.", "", key)
            if not {key, short} & known:
                unknown.add(key)
    assert unknown == set()


def test_a_section_in_front_of_an_option_and_all_its_owners(tmp_path: Path) -> None:
    for word in ("pipeline.max-tables", "key.json.ignore-parse-errors", "pipeline.schema.change.behavior"):
        code, out, err = explained(word, folder=tmp_path)
        assert (code, err) == (0, ""), word
        assert word.partition(".")[2] in out.splitlines()[0]
    head = explained("sink.sequence-by", folder=tmp_path)[1].splitlines()[0]
    assert all(name in head for name in ("iceberg", "delta", "postgres"))
