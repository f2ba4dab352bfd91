"""`ingest explain`: each option, component and code has a text, also where nothing but the package is installed."""

from __future__ import annotations

import subprocess
from functools import cache
from typing import TYPE_CHECKING

import pytest
from harness import INGEST

from ingest.formats import FORMATS
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
    assert {"0", "1", "2", "65", "75", "78", "130"} <= names


@pytest.mark.parametrize(("word", "texts"), [
    ("scan.startup.mode", ["option of source type kafka", "Default: group-offsets"]),
    ("metrics.port", ["option of section pipeline:", "/readyz"]),
    ("sink-table", ["option of section route:", "It has to be given."]),
    ("malformed", ["code of rejects"]),
    ("75", ["exit code", "Worth retrying"]),
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
