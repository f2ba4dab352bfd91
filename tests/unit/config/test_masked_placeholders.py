"""No output shows what a placeholder stands for, whatever option it is in, and whatever is wrong with that.

Every option of the components gets a marked text; every form of output is searched.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from examples import some
from marked_files import LONG, MARK, file, options, parts, shown

from ingest.cli.app import main
from ingest.config.loader import load_text
from ingest.config.redaction import is_secret
from ingest.kafka.properties import KNOWN

if TYPE_CHECKING:
    from pathlib import Path


def test_a_placeholder_shows_nothing_of_what_it_stands_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A variable, a secret or a file in any option whatever: `topic`, an expression, a type."""
    monkeypatch.setenv("INGEST_SECRET_MARK", f"{MARK} {MARK}x")
    monkeypatch.setenv("MARK", f"{MARK}(")
    (tmp_path / "mark").write_text(f"{MARK},{MARK}")
    placeholders = ["${v}", "a ${v}", "${secret_values.mark}", "x(${secret_values.mark}", "${env:MARK}",
                    f"${{file:{tmp_path / 'mark'}}}"]  # fmt: skip
    for section, option in some(sorted(set(options()))):
        for placeholder in placeholders:
            entry = {option: placeholder}
            content: dict[str, Any] = {
                "source": {"type": "kafka", "topic": "t", "properties.bootstrap.servers": "h"},
                "sink": {"type": "upsert-kafka", "properties.bootstrap.servers": "h"},
                "pipeline": {},
                "route": [{"source-table": "a", "sink-table": "b"}],
                "transform": [{"source-table": "a"}],
            }
            target = content[section][0] if section in {"route", "transform"} else content[section]
            target.update(entry)
            text = shown(json.dumps(content, indent=1), variables={"v": f"{MARK} {MARK})"})
            # A checkpoint says what options are; secrets they are only where they come from one, or are called so
            if "secret_values" in placeholder or "error" in text:
                assert MARK not in text, (option, placeholder, text)


def test_variables_show_nowhere() -> None:
    for text in (
        f"pipeline: {{variables: {{v: {MARK}, w: [{MARK}], '{MARK} x': {MARK}}}, topicc: x}}",
        f"pipeline:\n  variables: {MARK}\n", f"pipeline:\n  variables: [{MARK}]\n",
        f"pipeline:\n  variables:\n    v: {MARK}\nsource: {{type: x${{v}}, topic: 1}}\nsink: {{type: '${{v}}'}}\n",
    ):  # fmt: skip
        assert MARK not in shown(text)


def test_what_is_shown_of_a_line() -> None:
    text = shown(file("  properties.acks: [1]  # the Hague"))
    assert "    5 |   properties.acks: [1]  #" not in text
    wrong = shown(file('  scan.startup.mode: early\n  properties.sasl.password: ab\n  x: {topic: y, b: "${z}"}'))
    assert "    5 |   scan.startup.mode: early\n      |                      ^^^^^" in wrong
    assert '    7 |   x: {topic: y, b: "${z}"}\n      |   ^' in wrong


@pytest.mark.parametrize("secret", LONG)
def test_what_is_cut_quoted_or_escaped_is_not_shown(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In each option, written into the file where it always holds secrets, and by a placeholder everywhere."""
    monkeypatch.setenv("INGEST_SECRET_LONG", secret)
    every = [[(section, option)] for section, option in sorted(set(options()))]
    every += [[("sink", option)] for option in ("dew.csms.decrypt.fields", "properties-from-secret")]
    every += [[("source", f"properties.{name}") for name in sorted(KNOWN)]]
    for places in some(every):
        always = all(is_secret(option) for _, option in places)
        for value in ("${secret_values.long}", "x ${v}", *([secret] * always)):
            content: dict[str, Any] = {
                "source": {"type": "kafka", "topic": "t", "value.format": "json", "properties.bootstrap.servers": "h"},
                "sink": {"type": "kafka", "value.format": "debezium-json", "properties.bootstrap.servers": "h"},
                "pipeline": {},
                "route": [{"source-table": "a", "sink-table": "b"}],
                "transform": [{"source-table": "a"}],
            }
            for section, option in places:
                (content[section][0] if section in {"route", "transform"} else content[section])[option] = value
            loaded = load_text("f", json.dumps(content, indent=1), "f", {"v": secret})
            said = "\n".join(d.text() + d.github() + repr(d) for d in loaded.diagnostics)
            for part in parts(secret):
                assert part not in said, (places, value, said)


def test_the_named_ways_out_of_hiding(monkeypatch: pytest.MonkeyPatch) -> None:
    for n, secret in enumerate(LONG):
        monkeypatch.setenv("INGEST_SECRET_P", secret)
        for line in (
            f"sink.custom-header: {json.dumps(secret)}", "properties.security.protocol: ${secret_values.p}",
            "properties.acks: ${secret_values.p}", "scan.startup.specific-offsets: ${secret_values.p}",
            f"scan.header-filter: {json.dumps('token=' + secret)}",
        ):  # fmt: skip
            for section in ("source", "sink"):
                loaded = load_text("f", file(f"  {line}", section).replace("upsert-kafka", "kafka"), "f")
                text = repr(loaded.diagnostics)
                assert not any(part in text for part in parts(secret)), (n, line, text)


def test_the_name_of_a_secret_that_was_filled_in_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGEST_SECRET_P", MARK)
    fields = "properties.sasl.password: a\n  dew.csms.decrypt.fields: properties.sasl.password\n"
    for option in (
        "properties-from-secret: ${secret_values.p}",
        f"{fields}  dew.csms.secretName: ${{secret_values.p}}",
    ):
        text = shown(file(f"  {option}"))
        assert MARK.upper() not in text.upper()
        assert "is the name of no secret" in text


def test_a_path_has_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints keep the names of files."""
    text = "source: {type: file, value.format: json, path: '%s/*'}\nsink: {type: print}\n"
    monkeypatch.delenv("INGEST_SECRET_P", raising=False)
    assert "path: a secret is not allowed here" in shown(text % "${secret_values.p}")
    monkeypatch.setenv("INGEST_SECRET_P", MARK)
    assert "path: a secret is not allowed here" in shown(text % "${secret_values.p}")
    by_variable = text + "pipeline: {variables: {v: '${secret_values.p}'}}"
    assert "path: a secret is not allowed here" in shown(by_variable % "${v}")
    assert "not allowed" not in shown(text % "${v}", variables={"v": "folder"})
    sink = "source: {type: file, value.format: json, path: a}\nsink: {type: file, path: '${secret_values.p}'}\n"
    assert "path: a secret is not allowed here" in shown(sink)


@pytest.mark.parametrize("ddl", ["CREATE TABLE ${x} (", "DROP TABLE ${x}", "ALTER TABLE t ${x}", "GRANT ${x} TO x"])
def test_no_library_logs_the_text_of_an_option(
    ddl: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setenv("INGEST_SECRET_DDL", MARK)
    bad = tmp_path / "bad.yaml"
    bad.write_text(file(f"  scan.value.initial-schemas.ddls: {ddl}".replace("${x}", "${secret_values.ddl}")))
    with pytest.raises(SystemExit) as ended:
        main(["check", str(bad)])
    assert ended.value.code == 78
    assert MARK not in caplog.text
