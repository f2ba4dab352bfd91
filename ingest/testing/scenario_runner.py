"""The check of a pipeline's test: runs the pipeline and compares the result with the expected one.

In: a scenario. Out: a list of differences, each a text of a few lines for people. The list is empty where the result is
as expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import unified_diff
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ingest.config.diagnostics import render
from ingest.model.table import show
from ingest.model.text import yaml_text
from ingest.testing.in_memory import MemoryRecord
from ingest.testing.in_memory_run import InMemoryRun, run_in_memory

if TYPE_CHECKING:
    from ingest.config.scenario import Scenario
    from ingest.errors import IngestError

_ALWAYS: Final = ("records", "rejects", "lines")


class Difference(NamedTuple):
    """A difference of a scenario's result from the expected one."""

    text: str
    """What differs, for people."""
    key: str | None = None
    """The key of the test file; None where no expectation can be true, as of a pipeline that is not valid."""
    happened: Any = None
    """The value that the key would have to have."""


def differences(scenario: Scenario) -> list[str]:
    """Run the scenario, and return a text for each difference from its expected result."""
    return [difference.text for difference in compared(scenario)]


def compared(scenario: Scenario) -> list[Difference]:
    """Run the scenario, and return each difference from its expected result."""
    expected = scenario.expected
    if scenario.loaded.pipeline is None:
        text = render(scenario.loaded.diagnostics)
        wanted = expected.get("error")
        if wanted is not None and str(wanted) in text:
            return []
        return [Difference(f"the pipeline is not valid:\n{text}")]
    messages = [
        MemoryRecord(i, m.topic, m.key, m.value, m.partition, 0, m.timestamp, m.headers)
        for i, m in enumerate(scenario.messages)
    ]
    ran = run_in_memory(scenario.loaded.pipeline, messages, look_ahead=scenario.look_ahead)
    out = []
    for key in dict.fromkeys([*_ALWAYS, *expected]):
        if key == "error":
            continue
        wanted = expected.get(key, [])
        happened = _HAPPENED[key](ran)
        if isinstance(wanted, str):
            wanted = wanted.splitlines()
        if happened != wanted:
            out.append(Difference(_difference(key, wanted, happened), key, happened))
    wanted = expected.get("error")
    if wanted is None and ran.error is not None:
        text = f"the run stopped with exit code {ran.error.exit_code}: {ran.error}"
        out.append(Difference(text, "error", _first_line(ran.error)))
    elif wanted is not None:
        said = "the run ended well" if ran.error is None else f"{ran.error.exit_code}: {ran.error}"
        if str(wanted) not in said:
            happened = None if ran.error is None else _first_line(ran.error)
            out.append(Difference(f"error: expected {str(wanted)!r}, but: {said}", "error", happened))
    return out


def _first_line(error: IngestError) -> str:
    return f"{error.exit_code}: {error}".split("\n", 1)[0]


def _text(value: bytes | None) -> str:
    return "null" if value is None else value.decode("utf-8", "backslashreplace")


def _records(ran: InMemoryRun) -> list[str]:
    return [
        " ".join(part for part in (topic, "" if key is None else _text(key), _text(value)) if part)
        for topic, key, value in ran.records
    ]


def _letters(ran: InMemoryRun) -> list[dict[str, Any]]:
    return [
        {
            "topic": topic,
            "key": None if key is None else _text(key),
            "value": None if value is None else _text(value),
            **h,
        }
        for topic, key, value, headers in ran.letters
        for h in [{name if name != "topic" else "from": value for name, value in headers.items()}]
    ]


def _schema(ran: InMemoryRun) -> dict[str, list[str]]:
    if ran.schemas is None:  # the run ended before it had any schemas
        return {}
    return {show(table): [str(column) for column in schema.columns] for table, schema in ran.schemas.sinks.items()}


_HAPPENED: Final[dict[str, Callable[[InMemoryRun], Any]]] = {
    "records": _records,
    "lines": lambda ran: ran.lines,
    "rejects": lambda ran: [f"{index} {stage}/{code}" for index, stage, code in ran.rejects],
    "letters": _letters,
    "skipped": lambda ran: ran.skipped,
    "withheld": lambda ran: ran.withheld,
    "cut": lambda ran: ran.cut,
    "unread": lambda ran: ran.unread,
    "rounded": lambda ran: ran.rounded,
    "changes": lambda ran: ran.changes,
    "schema": _schema,
    "warnings": lambda ran: ran.warnings,
}


def _difference(key: str, wanted: object, happened: object) -> str:
    """Return the lines that were expected (-) and those that happened (+), as a diff."""
    lines = unified_diff(_lines(wanted), _lines(happened), lineterm="", n=2)
    return "\n".join([f"{key}: expected (-), happened (+)", *list(lines)[2:]])


def _lines(value: object) -> list[str]:
    if isinstance(value, dict):
        return [f"{name}: {yaml_text(item)}" for name, item in value.items()]
    assert isinstance(value, Iterable)
    return [yaml_text(item) for item in value]
