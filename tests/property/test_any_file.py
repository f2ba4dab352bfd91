"""Any pipeline file whatever: `ingest check` says what is wrong with it, and never fails itself.

Good pipelines are mutated as texts and as values. INGEST_EXAMPLES raises how long this goes on.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from ingest.config.diagnostics import render
from ingest.config.loader import Loaded, load, load_text

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = examples(60)
patiently = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])

FILES = sorted((*ROOT.glob("pipelines/*.yaml"), *ROOT.glob("tests/errors/files/*.yaml")))
BLOCKS = [
    block for page in (*ROOT.glob("docs/*.md"), ROOT / "README.md")
    for block in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
]  # fmt: skip
TEXTS = [file.read_text() for file in FILES if len(file.read_bytes()) < 4000] + BLOCKS
PIECES = [
    ":", ": ", " ", "\n", "\n  ", "\n- ", "\t", "- ", "? ", "#", "'", '"', "[", "]", "{", "}", ",", "&a ", "*a", "!!x ",
    "!x", "|", ">-", "%YAML 1.3\n---\n", "---\n", "...\n", "<<: ", "\ufeff", "\0", "\x85", "\u2028", "\\", "${", "}",
    "$${", "${x}", "${secret_values.x}", "~", "null", "true", "1e999", "0x1F", "2001-01-01", "é", "😀", "=", "@", "`",
    "x" * 300, "(", ")", "\\.", "*", ";", "--", "/*",
]  # fmt: skip
WORDS = [
    "a", "b", " ", " ", " ", "(", ")", ",", "<", ">", "[", "]", "'", '"', "`", ".", "\\.", "*", "+", "?", "{", "}",
    "|", "&",
    "!", ":", ";", "=", "--", "/*", "*/", "\n", "0", "-1", "9" * 30, "²", "\ud800", "\x1b", "é", "$1", "${", "x" * 200,
    "CREATE TABLE ", "PRIMARY KEY ", "NOT ENFORCED", "INT ", "INTERVAL ", "YEAR ", "DECIMAL(", "VARCHAR(", "ARRAY<",
    "ROW<",
    "MAP<", "TIMESTAMP ", "WITH ", "LIKE ", "AS ", "SELECT ", "CASE ", "WHEN ", "END ", "CAST(", "TRY_CAST(",
    "UPPER(", "IN (",
    "NOT ", "NULL ", "BETWEEN ", "EXTRACT(", "OVER (", "LAMBDA ", "-> ", "partition:", "offset:", "topic:", "1e400",
    "UTC", "CAST(" * 300, " AS INT)" * 300, "ARRAY[" * 300, "]" * 300, "NOT " * 300, "GREATEST(a, " * 40, ")" * 40,
]  # fmt: skip
GRAMMARS = [
    ("source", "scan.value.initial-schemas.ddls"), ("source", "json.infer-schema.fixed-types"), ("source", "topic"),
    ("source", "topic-pattern"), ("source", "scan.header-filter"), ("source", "scan.startup.specific-offsets"),
    ("source", "metadata.list"), ("source", "json.decode.parser-table-id.fields"), ("source", "value.format"),
    ("source", "scan.topic-partition-discovery.interval"), ("sink", "sink.tableId-to-topic.mapping"),
    ("sink", "sink.custom-header"), ("sink", "include.schema.changes"), ("sink", "type"), ("sink", "sink.parallelism"),
    ("sink", "sink.transactional-id-prefix"), ("sink", "properties.sasl.jaas.config"), ("route", "source-table"),
    ("route", "sink-table"), ("transform", "source-table"), ("transform", "projection"), ("transform", "filter"),
    ("transform", "primary-keys"), ("pipeline", "name"), ("pipeline", "local-time-zone"), ("pipeline",
    "batch-interval"),
    ("pipeline", "dirty-data.collector.topic"), ("sink", "dew.csms.decrypt.fields"),
]  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.sampled_from(PIECES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def looks_right(loaded: Loaded) -> None:
    """Every finding can be printed in each form, and stands somewhere."""
    assert loaded.pipeline is None or all(d.severity != "error" for d in loaded.diagnostics)
    assert loaded.pipeline is not None or any(d.severity != "warning" for d in loaded.diagnostics)
    for found in loaded.diagnostics:
        assert found.line >= 1
        assert found.column >= 1
        assert found.message
        out = found.text() + found.github() + json.dumps(found.as_json())
        assert "\0" not in out
        assert "\n" not in found.github()
    render(loaded.diagnostics).encode()


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A good pipeline with some of its characters cut out, put in, or put elsewhere."""
    text: str = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, len(text)))
        end = min(len(text), at + draw(st.integers(0, 12)))
        match draw(st.integers(0, 3)):
            case 0:
                text = text[:at] + draw(st.sampled_from(PIECES)) + text[at:]
            case 1:
                text = text[:at] + text[end:]
            case 2:
                text = text[:at] + text[at:end] * 2 + text[end:]
            case _:
                text = text[:at] + draw(st.text(max_size=4)) + text[end:]
    return text


@given(mutated())
@patiently
def test_a_file_with_any_text_is_read_or_refused(text: str) -> None:
    looks_right(load_text("f.yaml", text, "f"))


@given(st.sampled_from(FILES[:24]), st.data())
@patiently
def test_a_file_with_any_values_is_read_or_refused(file: Path, data: st.DataObject) -> None:
    """Any value in the place of another one."""
    try:
        content: Any = YAML(typ="safe", pure=True).load(file.read_text())
    except Exception:  # noqa: BLE001  (those of tests/errors are no YAML)
        content = {}
    sections = [
        value for value in (content if isinstance(content, dict) else {}).values() if isinstance(value, dict | list)
    ]
    section = data.draw(st.sampled_from([*sections, {}]))
    target = section[0] if isinstance(section, list) and section and isinstance(section[0], dict) else section
    if isinstance(target, dict):
        key = data.draw(st.sampled_from(sorted(map(str, target))) | st.text(max_size=12)) if target else "type"
        target[key] = data.draw(VALUES)
    looks_right(load_text("f.yaml", json.dumps(content, default=str, indent=1), "f"))


@given(st.sampled_from(GRAMMARS), st.lists(st.sampled_from(WORDS) | st.text(max_size=3), max_size=10))
@settings(patiently, max_examples=examples(4) * EXAMPLES)
def test_an_option_with_any_text_is_read_or_refused(place: tuple[str, str], words: list[str]) -> None:
    section, option = place
    content: dict[str, Any] = {
        "source": {"type": "kafka", "topic": "t", "properties.bootstrap.servers": "h", "value.format": "json"},
        "sink": {"type": "kafka", "properties.bootstrap.servers": "h", "dew.csms.secretName": "x"},
        "route": [{"source-table": "a", "sink-table": "b"}],
        "transform": [{"source-table": "a"}],
        "pipeline": {"variables": {"x": "".join(words)}},
    }
    target = content[section][0] if isinstance(content[section], list) else content[section]
    target[option] = "".join(words).replace("\ud800", "")
    looks_right(load_text("f.yaml", json.dumps(content, indent=1), "f"))
    target[option] = "${x}"
    looks_right(load_text("f.yaml", json.dumps(content, indent=1), "f"))


@given(st.binary(max_size=200))
@patiently
def test_a_file_with_any_bytes_is_read_or_refused(tmp_path_factory: Any, data: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "bytes.yaml"
    file.write_bytes(data)
    looks_right(load(file))
