"""The command in this process: it does what it does in a process of its own, without a start of Python."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout

import pytest
from harness import Result
from wording import words_of_python

from ingest.cli.app import main


def called(*arguments: str) -> Result:
    """Return what the command with these arguments leaves: its exit code, and what it has written."""
    written = [io.BytesIO() for _ in range(2)]
    out, err = (io.TextIOWrapper(stream, "utf-8", write_through=True) for stream in written)
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main(arguments)
    said = [stream.getvalue().decode() for stream in written]
    assert words_of_python("\n".join(said)) == [], said
    return Result(int(ended.value.code or 0), said[0], said[1])
