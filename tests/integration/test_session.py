"""Sessions of Spark, one after the other in one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.engine.session import Session

if TYPE_CHECKING:
    from pathlib import Path


def test_a_session_does_not_look_for_the_java_of_the_one_before(tmp_path: Path) -> None:
    for number, end in enumerate((Session.exit, Session.stop, Session.stop)):
        session = Session("test", "local[1]", {}, lock=None, log=tmp_path / "spark.log")
        assert session.sql().sql(f"SELECT {number} + 1").collect()[0][0] == number + 1
        end(session)
