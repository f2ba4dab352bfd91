"""Spark's errors as people read them."""

from __future__ import annotations

import pytest

from ingest.spark.readable import MOST, place_of, readable

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
