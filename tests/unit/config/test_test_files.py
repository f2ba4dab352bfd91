"""Files that `ingest test` reads: which are tests, which are none, and what is wrong with those that are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ingest.cli.app import main
from ingest.config.scenario import NoTest, ScenarioError, read

if TYPE_CHECKING:
    from pathlib import Path

GOOD = "messages: [{value: {id: 1}}]\nrejects: [0 decode/malformed]\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("mesages: []\n", "unknown key 'mesages', did you mean 'messages'?"),
        ("title: x\npipeline: p.yaml\nmessage: []\nrecords: []\n", "unknown key 'message', did you mean 'messages'?"),
        ("pipeline: p.yaml\nmsgs: []\nrecords: []\n", "unknown key 'msgs'"),
        ("title: nothing else\n", "at least `messages`"),
        ("messages: {}\n", "messages is a list"),
        ("messages: []\nset: [a]\n", "set is a map"),
        ("messages: []\nlook-ahead: many\n", "look-ahead is a number"),
        ("messages: []\nrecord: []\n", "unknown key 'record', did you mean 'records'?"),
        ("messages: [{partition: x}]\n", "partition is a number"),
        ("messages: [{repeat: [1]}]\n", "repeat is a number"),
        ("messages: [{timestamp: x}]\n", "timestamp is a number"),
        ("messages: [{headers: x}]\n", "headers are a map"),
        ("messages: [{headers: [[a, b, c]]}]\n", "headers are a map"),
        ("messages: [{partition: 99999999999999999999}]\n", "partition is a number from 0 to 2,147,483,647"),
        ("messages: [{repeat: 10000000000}]\n", "repeat is a number from 0 to 1,000,000"),
        ("messages: [{timestamp: -1}]\n", "timestamp is a number from 0"),
        ("messages: [{value: {day: 2020-01-01}}]\n", "message 0: value: JSON has no dates"),
        ("messages: [{value: !!binary aGVsbG8=}]\n", "put what is no text"),
        ("messages: [{key: {[1]: 2}}]\n", "message 0: key: JSON has no dates, and only texts as keys"),
        ("messages: [{value: &a [*a]}]\n", "message 0: value: it is within itself"),
        ('messages: [{value: "\\ud800"}]\n', "half of a surrogate pair"),
        ('messages: [{value: {a: "\\ud800"}}]\n', "half of a surrogate pair"),
        ('messages: [{headers: {a: "\\ud800"}}]\n', "message 0: headers: half of a surrogate pair"),
        ("messages: [{key-base64: \u00e9}]\n", "key-base64 is not base64"),
        ("messages: [{key: a, key-base64: YQ==}]\n", "give either key or key-base64"),
        ("messages: []\nrecords:\n", "records is a list"),
        ("messages: []\nletters: 5\n", "letters is a list"),
        ("messages: []\nschema: [a]\n", "schema is a map"),
        ("messages: []\nskipped: 3\n", "skipped is a map"),
        ("messages: []\nerror: [a]\n", "error is a text"),
        ("messages: []\nlook-ahead: 0\n", "look-ahead is 1 or more"),
        ("messages: []\nmessages: []\n", ":2:1: not YAML: this key is there twice"),
        ('messages: []\npipeline: "a\\0b"\n', "no NUL"),
        ("messages: []\npipeline: &p {source: {x: *p}}\n", "pipeline: it is within itself"),
        ("messages: []\npipeline: {source: {[1]: 2}}\n", "pipeline: JSON has no dates, and only texts as keys"),
        ("messages: []\npipeline: [x]\n", "pipeline: must be a map"),
        ("messages: []\npipeline: {source: x}\n", "pipeline.source: must be a map"),
        ("messages:\n\t- x\n", ":2:1: not YAML: a tab"),
        ("%YAML 1.3\n---\nmessages: []\n", "not YAML"),
        (
            "messages: " + "[" * 20_000 + "]" * 20_000,
            "not YAML: RecursionError",
        ),  # Hypothesis may have raised the limit
    ],
)
def test_a_test_that_is_wrong_says_what(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(text)
    with pytest.raises(ScenarioError) as caught:
        read(file)
    assert why in str(caught.value)
    assert not isinstance(caught.value, NoTest)


@pytest.mark.parametrize(
    "text",
    [
        "source: {type: kafka}\nsink: {type: print}\n",
        "sorce: {type: kafka}\nsink: {type: print}\npipeline: {name: x}\n",
        "apiVersion: v1\nkind: Pod\nmetadata: {}\nspec: {}\n",
        "- a\n",
        "a text",
        "",
    ],
)
def test_other_files_are_no_tests(tmp_path: Path, text: str) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(text)
    with pytest.raises(NoTest):
        read(file)


def test_a_misspelt_test_in_a_directory_fails_and_other_files_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "good.yaml").write_text("messages: []\n")
    (tmp_path / "pod.yaml").write_text("apiVersion: v1\nkind: Pod\n")
    with pytest.raises(SystemExit) as ended:
        main(["test", str(tmp_path)])
    assert ended.value.code == 0
    assert "1 test, 0 failed; no tests: pod.yaml" in capsys.readouterr().out
    (tmp_path / "misspelt.yaml").write_text("mesages: []\nrecords: [x]\n")
    with pytest.raises(SystemExit) as ended:
        main(["test", str(tmp_path)])
    assert ended.value.code == 1
    out = capsys.readouterr().out
    assert f"FAILED {tmp_path / 'misspelt.yaml'}: unknown key 'mesages', did you mean 'messages'?" in out
    assert "2 tests, 1 failed" in out
