"""Texts for people have no words of Python: None, True, False, b'', numbers of errors.

What commands print, errors, warnings and rejects are looked at in every test (`_no_words_of_python`, `called`); mypy
looks at what f-strings may show (`tools/mypy_texts.py`). Here: texts that are written down, and what looks at others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.error import URLError

import pytest
from harness import free_port
from mypy import api
from pages import ROOT
from urllib3 import PoolManager
from urllib3.exceptions import MaxRetryError
from wording import words_of_python

from ingest.cli.explanations import entries
from ingest.model.text import reason_and_file, reason_of, yaml_text

if TYPE_CHECKING:
    from pathlib import Path

WRITTEN = sorted((ROOT / "tests" / "errors" / "files").glob("*.txt"))


@pytest.mark.parametrize(("text", "words"), [
    ("topic: None -> x", ["None"]), ("create True, at offset None", ["True", "None"]), ("(False)", ["False"]),
    ("it is b'abc' here", ["b'abc'"]), ("[Errno 111] refused", ["[Errno "]), ("a <class 'int'>", ["<class '"]),
    ("column 'a b' is none", []), ("'None' is no column", []), ("True-blue, None.x", ["None"]),
    ('"True" and $None', []), ("None of them is", []),
    ("select b from t where a = 'b'", []), ("Traceback (most recent call last):\nNone", []),
])  # fmt: skip
def test_words_of_python_are_recognised(text: str, words: list[str]) -> None:
    assert words_of_python(text) == words


@pytest.mark.parametrize("file", WRITTEN, ids=lambda file: file.stem)
def test_what_a_person_sees_of_a_mistake(file: Path) -> None:
    assert words_of_python(file.read_text(encoding="utf-8")) == []


def test_what_is_explained_has_none() -> None:
    assert {name: words for name, text in entries() if (words := words_of_python(text))} == {}


def test_values_are_shown_as_a_file_has_them() -> None:
    shown = {
        None: "null",
        True: "true",
        1.5: "1.5",
        b"\xff": "\\xff",
        "x": "x",
        (True, None, b"b"): '[true, null, "b"]',
    }
    assert {value: yaml_text(value) for value in shown} == shown
    refused = ConnectionRefusedError(111, "Connection refused")
    assert [reason_of(one) for one in (refused, URLError(refused), OSError("why"), URLError("odd"), OSError())] == [
        "Connection refused", "Connection refused", "why", "<urlopen error odd>", "OSError",
    ]  # fmt: skip
    port = free_port()
    with pytest.raises(MaxRetryError) as away:
        PoolManager(retries=1).request("GET", f"http://127.0.0.1:{port}/v1")
    refused_there = f"127.0.0.1:{port}: Failed to establish a new connection: Connection refused"
    assert reason_of(OSError(away.value)) == refused_there, "as requests has it"
    assert reason_and_file(OSError(28, "No space left on device", "/lake/a")) == "No space left on device: /lake/a"


def test_mypy_finds_what_may_be_none_in_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for file in (tmp_path / "ingest" / "said.py", tmp_path / "other" / "told.py"):
        file.parent.mkdir()
        file.write_text(
            "def said(a: int | None, b: bool, c: bytes, d: str) -> str:\n"
            "    return f'{a} {d}' f'{b}' f'{c!r}' f'{d} {1}' + f'{a or 0}' + (\n"
            "    'x{}'.format(a))\n"
        )
    (tmp_path / "mypy.ini").write_text(f"[mypy]\nplugins = {ROOT / 'tools' / 'mypy_texts.py'}\n")
    out, _, _ = api.run(["--config-file", "mypy.ini", "--no-incremental", "ingest/said.py", "other/told.py"])
    found = [line.partition("a value of ")[2].split()[0] for line in out.splitlines() if "as Python writes it" in line]
    assert found == ["None", "bool", "bytes", "None"]
    assert "other" not in out
