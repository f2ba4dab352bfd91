"""No mistake in a file makes an output show a value that may be a secret.

Every name of the reference documents' client properties gets a marked text; each kind of mistake is made with it; every
form of output is searched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from marked_files import JAAS, MARK, SECRETS, file, shown

from ingest.config.loader import load_text
from ingest.config.redaction import HIDDEN, may_be_secret
from ingest.kafka.properties import MANAGED, MEANINGLESS, NAMED, RENAMED

if TYPE_CHECKING:
    from collections.abc import Callable

MISTAKES: dict[str, Callable[[str], str]] = {
    "the value is wrong": lambda o: f"  {o}: nonsense {MARK}",
    "a number": lambda o: f"  {o}: 5{MARK}",
    "quoted": lambda o: f'  {o}: "{MARK}"',
    "single-quoted": lambda o: f"  {o}: '{MARK}'",
    "a login module": lambda o: f"  {o}: {JAAS};",
    "a broken login module": lambda o: f"  {o}: {JAAS.replace('required', 'needed')}",
    "a list": lambda o: f"  {o}: [{MARK}, x]",
    "a map": lambda o: f"  {o}: {{{MARK}: x}}",
    "a map of itself": lambda o: f"  {o}: {{{MARK}, {MARK}}}",
    "a nested map": lambda o: f"  {o}:\n    name: {MARK}\n    topic: {MARK}",
    "a block": lambda o: f"  {o}: |\n    one\n    {MARK}\n    topic: {MARK}",
    "a folded text": lambda o: f"  {o}: one\n    {MARK}\n    three",
    "twice": lambda o: f"  {o}: {MARK}\n  {o}: {MARK}2",
    "a comment": lambda o: f"  {o}: [x] # {MARK}",
    "a flow map": lambda o: f"  nested: {{topic: a, {o}: {MARK}, x: y}}",
    "no blank": lambda o: f"  {o}:{MARK}",
    "no blank in a flow map": lambda o: f"  nested: {{{o}:{MARK}}}",
    "an equals sign": lambda o: f"  {o}={MARK}: x",
    "a tag": lambda o: f"  {o}: !{MARK}",
    "a known tag": lambda o: f"  {o}: !!{MARK} x",
    "an alias": lambda o: f"  {o}: *{MARK}",
    "an anchor": lambda o: f"  {o}: &{MARK}",
    "an anchor twice": lambda o: f"  x: &{MARK} a\n  {o}: &{MARK} b",
    "a shared value": lambda o: f"  name: &a {MARK}\n  {o}: *a\n  key.format: x",
    "a quote that is open": lambda o: f'  {o}: "{MARK}',
    "a quote that ends early": lambda o: f'  {o}: "a" {MARK}',
    "a bracket that is open": lambda o: f"  {o}: [{MARK}",
    "a tab": lambda o: f"\t{o}: {MARK}",
    "a tab in a value": lambda o: f"  {o}:\t{MARK}\t: x",
    "two colons": lambda o: f"  {o}: {MARK}: x",
    "deeper": lambda o: f"  x: y\n     {o}: {MARK}",
    "less deep": lambda o: f"  x:\n      y: z\n    {o}: {MARK}",
    "a reserved character": lambda o: f"  {o}: @{MARK}",
    "a block's head": lambda o: f"  {o}: |{MARK}",
    "an escape": lambda o: f'  {o}: "\\{MARK}"',
    "a surrogate": lambda o: f'  {o}: "{MARK}\\ud800"',
    "a control character": lambda o: f"  {o}: {MARK}\x01",
    "a byte order mark": lambda o: f"\ufeff  {o}: \ufeff{MARK}\ufeff x: y",
    "other line breaks": lambda o: f"  {o}: {MARK}\x85  x: [{MARK}]\u2028  y: {MARK}",
    "a placeholder": lambda o: f"  {o}: '${{{MARK} x}}'",
    "a default": lambda o: f"  {o}: [ '${{x:-{MARK}}}' ]",
    "a default of a secret": lambda o: f"  topic-pattern: ${{secret_values.x:-{MARK}}}\n  {o}: [x]",
    "beside an error": lambda o: f"  {o}: {MARK}\n  topicc: x",
    "in the line of an error": lambda o: f"  x: {{topicc: {{}}, {o}: {MARK}}}",
    "a complex key": lambda o: f"  ? [{o}, {MARK}]\n  : x",
    "a merge": lambda o: f"  <<: {{{o}: {MARK}}}",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_no_mistake_shows_a_secret(mistake: str) -> None:
    for i, option in enumerate(SECRETS):
        section = ("source", "sink", "pipeline")[i % 3]
        line = MISTAKES[mistake](option)
        text = shown(file(line, section))
        assert MARK not in text, (option, section, text)
    collector = MISTAKES[mistake]("dirty-data.collector.properties.sasl.jaas.config")
    assert MARK not in shown(file(collector, "pipeline"))


def test_no_client_property_that_is_refused_shows_its_value() -> None:
    for name in sorted({*MANAGED, *MEANINGLESS, *RENAMED, *NAMED}):
        text = shown(file(f"  properties.{name}: {MARK}\n  topicc: x"))
        assert not may_be_secret(f"properties.{name}") or MARK not in text, text


def test_many_errors_show_no_secret_and_are_not_all_shown() -> None:
    lines = "\n".join(f"  x{i}: {MARK}" for i in range(300))
    text = shown(file(f"  properties.sasl.password: {MARK}\n{lines}"))
    assert MARK not in text
    assert "and 100 more errors" in text


def test_a_key_that_is_a_secret_is_not_shown() -> None:
    for line in (f"  properties.sasl.password:\n  {MARK}:", f"  properties.sasl.password.{MARK}: x",
                 f"  properties.sasl.password:\n  {MARK}: x",
                 f"  aliyun.kafka.accessKeySecret:\n  {MARK}:"):  # fmt: skip
        text = shown(file(line))
        assert MARK not in text, text
        assert "error" in text
    assert "topic-pattern" in shown(file("  properties.sasl.password:\n  topic-pattern: '['"))


@pytest.mark.parametrize("given", [f"${{vault:{MARK}}}", f"${{secret_values.{MARK}/x}}", f"${{secret_values.{MARK} }}"])
def test_what_is_no_placeholder_is_a_value(given: str) -> None:
    said = shown(file(f"  properties.sasl.password: {given}"))
    assert "note: this " in said
    assert MARK not in said


def test_a_secret_that_is_a_name_is_not_told_by_asterisks_in_a_list() -> None:
    for name in ("kafka", "topic", "acks", "sink"):
        text = file(f"  properties.sasl.password: {name}\n  topicc: x").replace("upsert-kafka", "upsert-kafkaa")
        loaded = load_text("f", text, "f")
        messages = "\n".join(d.message for d in loaded.diagnostics)
        assert HIDDEN not in messages, messages
        assert "did you mean 'topic'" in messages
        wrong = load_text("f", file(f"  properties.sasl.jaas.config: {name}"), "f")
        assert f"'{name}'" not in repr(wrong.diagnostics)
        assert HIDDEN in wrong.diagnostics[0].source
