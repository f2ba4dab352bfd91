"""Sessions of Spark, one after the other in one process."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ingest.spark.session import huge_pages

if TYPE_CHECKING:
    from pathlib import Path

_PROGRAM = """\
import sys
from pathlib import Path

from ingest.spark.session import Session


def main():
    for number, end in enumerate((Session.exit, Session.stop, Session.stop)):
        session = Session("test", "local[1]", {}, lock=None, log=Path(sys.argv[1]) / "spark.log")
        print(session.sql().sql(f"SELECT {number} + 1").collect()[0][0])
        if number == 1:
            try:
                Session("second", "local[1]", {}, lock=None, log=Path(sys.argv[1]) / "second.log")
            except ValueError as exc:
                print(str(exc).partition(";")[0])
            print(session.sql().sql("SELECT 'still here'").collect()[0][0])
        end(session)


if __name__ == "__main__":
    main()
"""


@pytest.mark.usefixtures("java")
def test_a_session_does_not_look_for_the_java_of_the_one_before(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    command = [sys.executable, "-W", "error::ResourceWarning", str(program), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout.splitlines() == ["1", "2", "Cannot run multiple SparkContexts at once", "still here", "3"]
    assert "ResourceWarning" not in done.stderr


_ONE_JOB = """\
import os
import sys
from pathlib import Path

from ingest.spark.session import Session

if __name__ == "__main__":
    session = Session("test", "local[1]", {}, lock=None, log=Path(sys.argv[1]) / "spark.log")
    print(session.run(iter, [1, 2]), "pandas" in sys.modules)
    print(session.run(lambda _: iter([os.environ.get("GLIBC_TUNABLES")]), [1]))
    end, ended = session._end, []
    session._end = lambda gateway: ended.append(end(gateway))
    session.stop()
    session.stop()
    print(len(ended))
"""


@pytest.mark.usefixtures("java")
def test_a_session_starts_without_pandas_and_is_ended_once(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_ONE_JOB)
    command = [sys.executable, str(program), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout == "[1, 2] False\n['glibc.malloc.hugetlb=1']\n1\n"


def test_workers_get_no_huge_pages_where_the_environment_says_how_to_allocate() -> None:
    assert huge_pages({}) == {"spark.executorEnv.GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
    assert huge_pages({"GLIBC_TUNABLES": "glibc.malloc.arena_max=1"}) == {}
