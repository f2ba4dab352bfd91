"""Spark's errors as people read them."""

from __future__ import annotations

import pytest

from ingest.errors import AccessError, IngestError, Unavailable
from ingest.model.commit import RowsRefused
from ingest.spark.readable import MOST, kind_given_up, place_of, readable, why_given_up

ZERO = """[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate divisor being 0 and return NULL instead. If \
necessary set "spark.sql.ansi.enabled" to "false" to bypass this error. SQLSTATE: 22012
== SQL (line 1, position 1) ==
l0 / 0
^^^^^^"""
JAVA = """An error occurred while calling o12.collectToPython.
: java.util.regex.PatternSyntaxException: Unclosed group near index 1
(
\tat java.base/java.util.regex.Pattern.error(Pattern.java:2028)
\tat org.apache.spark.X.y(X.scala)"""
TYPES = """[DATATYPE_MISMATCH.BINARY_OP] Cannot resolve "(l0 + s0)": types differ. SQLSTATE: 42K09; line 1 pos 7;
'Project [(l0#1L + s0#2) AS c0#3]
+- LogicalRDD"""


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (ZERO, "Division by zero. TRY_DIVIDE gives NULL instead."),
        (JAVA, "Unclosed group near index 1 ("),
        (TYPES, 'Cannot resolve "(s0 n + l0 x)": types differ.'),
        ("[PARSE_SYNTAX_ERROR] Syntax error at or near 'b'. SQLSTATE: 42601 (line 1, pos 4)", "syntax error at 'b'"),
        ("[PARSE_SYNTAX_ERROR] Syntax error at or near end of input. SQLSTATE: 42601", "syntax error at its end"),
        ("", "ValueError"),
    ],
)
def test_the_message_stays_and_the_rest_goes(said: str, shown: str) -> None:
    assert readable(ValueError(said), {"l0": "s0 n", "s0": "l0 x"}) == shown


def test_what_is_in_a_message_cannot_break_a_line_nor_be_endless() -> None:
    found = readable(ValueError("it is '\x1b[2J\x00" + "x" * 10_000))
    assert "\x1b" not in found
    assert len(found) == MOST + 1


def test_the_parsers_place() -> None:
    assert place_of(ValueError("[PARSE_SYNTAX_ERROR] … (line 1, pos 4)")) == 4
    assert place_of(ValueError("[PARSE_SYNTAX_ERROR] … (line 2, pos 4)")) is None


GIVEN_UP = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent \
failure: Lost task 0.3 in stage 3.0 (TID 9) (worker-1.example executor driver): {reason}
Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.$anonfun$abortStage$3(DAGScheduler.scala:2935)
\tat org.apache.spark.util.SparkErrorUtils.tryOrIOException(SparkErrorUtils.scala:35)
"""
PYTHON = """org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] An exception was thrown from the Python \
worker: Traceback (most recent call last):
  File "/v/site/ingest/sinks/postgres/writer.py", line 151, in commit
    self._commit(positions, metadata, final=final)
psycopg.errors.AdminShutdown: terminating connection due to administrator command

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/v/site/pyspark/worker.py", line 1985, in process
    serializer.dump_stream(out_iter, outfile)
           ^^^^^^^^^^^^^^^^
{said}
 SQLSTATE: 38000
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
\tat org.apache.spark.util.SparkErrorUtils.tryOrIOException(SparkErrorUtils.scala:35)"""


@pytest.mark.parametrize(("said", "shown"), [
    ("ingest.errors.CommitOutcomeUnknown: cannot commit rows: Error at the server (see it)",
     "cannot commit rows: Error at the server (see it)"),
    ("ModuleNotFoundError: No module named 'ingest'", "ModuleNotFoundError: No module named 'ingest'"),
    ("acme.errors.OddError: one line\nand another one", "acme.errors.OddError: one line and another one"),
    ("KeyError", "KeyError"),
])  # fmt: skip
def test_a_task_that_is_given_up_has_its_own_words(said: str, shown: str) -> None:
    assert why_given_up(GIVEN_UP.format(reason=PYTHON.format(said=said))) == shown
    assert why_given_up(PYTHON.format(said=said)) == shown


@pytest.mark.parametrize(("cause", "kind"), [
    ("ingest.errors.AccessError: cannot write: it only reads (see it)", AccessError),
    ("ingest.model.commit.RowsRefused: no", RowsRefused), ("ingest.errors.Unavailable: away", Unavailable),
    ("psycopg.errors.AdminShutdown: terminating connection", Unavailable), ("acme.AccessError: x", Unavailable),
])  # fmt: skip
def test_a_task_that_needs_a_person_ends_the_run_as_that(cause: str, kind: type[IngestError]) -> None:
    said = PYTHON.format(said="ingest.errors.CommitOutcomeUnknown: cannot write: it only reads (see it)")
    text = said.replace("psycopg.errors.AdminShutdown: terminating connection due to administrator command", cause)
    assert kind_given_up(GIVEN_UP.format(reason=text)) is kind


@pytest.mark.parametrize("reason", [
    "java.io.IOException: No space left on device", "java.lang.OutOfMemoryError: Java heap space",
    "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
    "ExecutorLostFailure (executor 4 exited caused by one of the running tasks) Reason: Command exited with code 137",
])  # fmt: skip
def test_a_task_that_java_lost_has_javas_words(reason: str) -> None:
    frames = "\n\tat org.apache.spark.util.SparkErrorUtils.tryOrIOException(SparkErrorUtils.scala:35)"
    assert why_given_up(GIVEN_UP.format(reason=reason + frames)) == reason


@pytest.mark.parametrize(("text", "shown"), [
    ("", ""), ("Answer from Java side is empty", "Answer from Java side is empty"),
    ("An error occurred while calling o31.collect.\n: org.apache.spark.SparkException: Job 3 cancelled\n\tat x(Z.java)",
     "Job 3 cancelled"),
])  # fmt: skip
def test_what_else_spark_says_is_its_first_line(text: str, shown: str) -> None:
    assert why_given_up(text) == shown
