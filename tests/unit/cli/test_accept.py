"""`ingest test --accept`: expectations that are written into a test, and the rest of the file, which stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from commands import called

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """\
# why this test is there
title: Orders
pipeline: {source: {value.format: json, key.format: json}}
messages:                          # the second one is broken
  - {key: '{"id":1}', value: '{"id":1,"name":"it''s"}'}
  - {key: '{"id":2}', value: '{'}
"""
RECORDS = """records:
  - 'topic {"id":1} {"id":1,"name":"it''s"}'
"""
REJECTS = "rejects:\n  - 1 decode/malformed\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", RECORDS + REJECTS),
        (
            "records: [old]\n\n# about rejects\n" + REJECTS + "# the end",
            RECORDS + "\n# about rejects\n" + REJECTS + "# the end\n",
        ),
        ("records: |\n  old\n  older\nrejects:\n- 7 x/y", RECORDS + REJECTS),
        (REJECTS + "changes: []\n" + RECORDS, None),
    ],
    ids=["nothing", "comments", "other styles", "schema changes"],
)
def test_what_happens_becomes_what_is_expected(tmp_path: Path, before: str, after: str | None) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(HEAD + before)
    assert called("test", str(file)).code == 1
    assert file.read_text() == HEAD + before, "only --accept writes"
    done = called("test", "--accept", str(file))
    assert (done.code, done.out.startswith(f"accepted {file}: Orders\n")) == (0, True), done.out
    text = file.read_text()
    assert text.startswith(HEAD)
    if after is not None:
        assert text == HEAD + after
    else:
        assert "changes:\n  - '" in text
    again = called("test", "--accept", str(file))
    assert (again.code, again.out.splitlines()[0]) == (0, f"ok     {file}: Orders")
    assert file.read_text() == text


def test_an_error_that_ends_the_run_is_accepted_and_leaves_again(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    strict = HEAD.replace("key.format: json}", "key.format: json, ingestion.ignore-errors: false}")
    file.write_text(strict)
    assert called("test", "--accept", str(file)).code == 0
    assert "\nerror: '65: " in file.read_text()
    file.write_text(file.read_text().replace(strict, HEAD))
    assert called("test", "--accept", str(file)).code == 0
    assert "error:" not in file.read_text()


def test_characters_of_all_planes_are_accepted(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(HEAD.replace("it''s", "\\n\U0001f600\u00e9\\u0007\U000e0001"))
    assert called("test", "--accept", str(file)).code == 0
    assert called("test", str(file)).code == 0


def test_what_cannot_be_accepted(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text("pipeline: {source: {value.format: jsn}}\nmessages: []\n")
    text = file.read_text()
    wrong = called("test", "--accept", str(file))
    assert (wrong.code, "the pipeline is not valid" in wrong.out, file.read_text()) == (1, True, text)
    file.write_text("{messages: [{value: '{'}]}\n")
    braces = called("test", "--accept", str(file))
    assert (braces.code, "it is in braces" in braces.err) == (78, True)
