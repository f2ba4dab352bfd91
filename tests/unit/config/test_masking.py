"""No output shows a value that may be a secret, whatever is wrong with a file.

Every option of the components, and every name of the reference documents' client properties, gets a marked text;
each kind of mistake is made with it; every form of output is searched.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from examples import some
from scale import growth

from ingest.cli.app import main
from ingest.config import masking, visible
from ingest.config.loader import load, load_text
from ingest.config.masking import HIDDEN, concealed, mask, masked, sensitive
from ingest.config.pipeline import PipelineOptions, Route, Transform
from ingest.config.visible import conceal
from ingest.errors import InternalError, Unavailable
from ingest.formats import FORMATS
from ingest.kafka.properties import KNOWN, MANAGED, MEANINGLESS, NAMED, RENAMED
from ingest.sinks import SINKS
from ingest.sources import SOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pydantic import BaseModel

MARK = "Zq7Xv9Kw"
"""What must not be shown; no other text has it."""

NAMES = [
    "sasl.jaas.config", "sasl.password", "ssl.key.password", "ssl.keystore.password", "ssl.truststore.password",
    "ssl.key.pem", "ssl.keystore.key", "ssl.ca.pem", "ssl.certificate.pem", "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.config", "sasl.oauthbearer.extensions", "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.assertion.private.key.pem", "sasl.oauthbearer.client.credentials.client.secret",
    "connector.kerberos.password", "ssl.keystore.certificate.chain", "delegation.token.secret",
    # misspelt
    "sasl.jaas.confg", "sasl.pasword", "sasl.jas.config", "ssl.key.pwd", "sasl.passwort", "sals.password", "secret",
]  # fmt: skip
OTHERS = ["aliyun.kafka.accessKeyId", "aliyun.kafka.accessKeySecret", "sink.custom-header", "aliyun.kafka.accesskeyId"]
REGISTERED = ("avro-confluent", "debezium-avro-confluent", "protobuf-confluent")
"""Formats with a schema registry."""
SECRETS = [f"properties.{name}" for name in NAMES] + OTHERS


def shown(text: str, **more: Any) -> str:
    """All that a file's errors look like, in each form."""
    loaded = load_text("f.yaml", text, "f", **more)
    out = [d.text() + d.github() + json.dumps(d.as_json()) + repr(d) for d in loaded.diagnostics]
    if loaded.pipeline is not None:
        out.append(json.dumps(loaded.pipeline.describe()))
        assert all(MARK not in warning for warning in loaded.pipeline.warnings)
    return "\n".join(out)


def file(line: str, at: str = "source") -> str:
    """A pipeline with a line more in one of its sections; the line is written as it is."""
    sections = {
        "source": ["  type: kafka", "  topic: t", "  properties.bootstrap.servers: h"],
        "sink": ["  type: upsert-kafka", "  properties.bootstrap.servers: h"],
        "pipeline": ["  parallelism: 1"],
    }
    sections[at].append(line)
    return "\n".join(f"{name}:\n" + "\n".join(lines) for name, lines in sections.items()) + "\n"


JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{MARK}"'
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
        assert name in masking.HARMLESS or MARK not in text, text


def test_many_errors_show_no_secret_and_are_not_all_shown() -> None:
    lines = "\n".join(f"  x{i}: {MARK}" for i in range(300))
    text = shown(file(f"  properties.sasl.password: {MARK}\n{lines}"))
    assert MARK not in text
    assert "and 100 more errors" in text


def options() -> Iterator[tuple[str, str]]:
    """All options there are, by section."""
    components: list[tuple[str, type[BaseModel]]] = [("source", SOURCES[name]) for name in SOURCES]
    components += [("sink", SINKS[name]) for name in SINKS]
    components += [(section, FORMATS[name]) for name in FORMATS for section in ("source", "sink")]
    components += [("pipeline", PipelineOptions), ("route", Route), ("transform", Transform)]
    for section, model in components:
        for name, info in model.model_fields.items():
            yield section, info.alias or name


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
    assert '    7 |   x: {topic: ********, b: "${z}"}\n      |             ^^^' not in wrong
    assert "    7 |   x: {topic: ********, b: " in wrong


def test_secrets_are_learned_wherever_they_stand() -> None:
    loaded = load_text(
        "f", file(f"  properties.sasl.jaas.config: {JAAS};\n  properties.ssl.key.password: other-secret"), "f",
        {"db_password": "third-secret", "topic": "t"},
    )  # fmt: skip
    assert loaded.pipeline is not None, loaded.diagnostics
    assert {MARK, "other-secret", "third-secret"} <= loaded.pipeline.secrets
    url = load_text(
        "f", file("  topic-pattern: a").replace("  topic: t\n", "").replace(": h", f": 'SSL://u:{MARK}@h'"), "f"
    )
    assert MARK in url.pipeline.secrets if url.pipeline else MARK not in str(url.diagnostics)
    assert "t" not in loaded.pipeline.secrets
    described = json.dumps(loaded.pipeline.describe())
    assert MARK not in described
    assert "other-secret" not in described
    assert '"source.topic": "t"' in described


def test_names_that_hold_secrets_and_names_that_do_not() -> None:
    for option in SECRETS:
        if option.removeprefix("properties.") in NAMES or option in OTHERS:
            assert concealed(option), option
    quiet = {option for _, option in options() if sensitive(option) or concealed(option)}
    assert quiet == {
        "aliyun.kafka.accessKeyId", "aliyun.kafka.accessKeySecret", "aliyun.kafka.endpoint",
        "aliyun.kafka.instanceId", "aliyun.kafka.regionId", "sink.custom-header", "variables",
        *(f"{name}.{option}" for name in REGISTERED for option in (
            "basic-auth.credentials-source", "basic-auth.user-info", "bearer-auth.credentials-source",
            "bearer-auth.token", "ssl.keystore.password", "ssl.truststore.password", "properties.*")),
    }  # fmt: skip


def test_the_command_shows_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`check` in each form, a run that is refused, and any exception that ends a command."""
    bad = tmp_path / "bad.yaml"
    bad.write_text(
        file(f"  properties.sasl.jaas.config: nonsense {MARK}\n  properties.sasl.confg: {MARK}\n  x: {MARK}")
    )
    calls = [["check", "--format", form, str(bad)] for form in ("text", "json", "github")]
    calls += [["run", str(bad)], ["plan", str(bad)], ["check", "--set", f"password:{MARK}", str(bad)],
              ["run", "--conf", MARK, str(bad)]]  # fmt: skip
    for arguments in calls:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        captured = capsys.readouterr()
        said = captured.out + captured.err
        assert ended.value.code in {2, 78}, arguments
        assert said
        assert MARK not in said, arguments
    for raised in (ValueError(f"no {MARK}"), Unavailable(f"no {MARK}", f"give {MARK}"), InternalError(MARK)):

        def fail(*_: object, raised: Exception = raised, **__: object) -> None:
            raise raised

        monkeypatch.setattr("ingest.cli.check.parse_variables", fail)
        good = tmp_path / "good.yaml"
        good.write_text(file(f"  properties.sasl.password: {MARK}"))
        load(good)
        with pytest.raises(SystemExit) as ended:
            main(["check", str(good)])
        captured = capsys.readouterr()
        assert ended.value.code in {1, 75}
        assert HIDDEN in captured.err
        assert MARK not in captured.out + captured.err
    assert HIDDEN in load(bad).diagnostics[-1].source


LONG = [
    f"Authorization={MARK}" + MARK * 10,
    f'{{"u":"app","endpoint":"broker.internal","password":"{MARK}{MARK * 10}"}}',
    f"-----BEGIN PRIVATE KEY-----\n{MARK}\n{MARK * 8}\n-----END PRIVATE KEY-----\n",
    f"{MARK[:4]}\\{MARK}'{MARK}\"{MARK}" * 3,
    f"{MARK} '{MARK}\\n{MARK}\" é\t{MARK}",
]
"""Secrets that messages cut, quote and escape."""


def parts(secret: str) -> set[str]:
    """What of a secret nobody may see: five characters of it in a row, where they hold some of the mark."""
    return {MARK[i : i + 5] for i in range(len(MARK) - 4)} if secret else set()


@pytest.mark.parametrize("secret", LONG)
def test_what_is_cut_quoted_or_escaped_is_not_shown(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In each option, written into the file where it always holds secrets, and by a placeholder everywhere."""
    monkeypatch.setenv("INGEST_SECRET_LONG", secret)
    every = [[(section, option)] for section, option in sorted(set(options()))]
    every += [[("sink", option)] for option in ("dew.csms.decrypt.fields", "properties-from-secret")]
    every += [[("source", f"properties.{name}") for name in sorted(KNOWN)]]
    for places in some(every):
        always = all(sensitive(option) for _, option in places)
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


@pytest.mark.parametrize("secret", LONG)
def test_masks_look_for_every_form_of_a_secret(secret: str) -> None:
    forms = [secret, repr(secret), repr(f"'{secret}\""), json.dumps(secret), json.dumps(secret, ensure_ascii=False)]
    for form in (*forms, *secret.splitlines()):
        said = mask(f"a {form} b", {secret})
        assert MARK not in said, said
        assert said.startswith("a ")


def test_a_message_keeps_names_and_nothing_of_a_value() -> None:
    value = f"{MARK}one two " + MARK * 9
    for quoted in (
        repr(value[:60]),
        f"'{value[:60]}…'",
        repr(value)[:40],
        value[3:30],
        repr(value.encode()[:50]),
        "two",
    ):
        said = conceal(f"{quoted} is wrong, did you mean 'sasl.password'?", [value])
        assert not any(part in said for part in parts(value)), said
        assert "two" not in said, said
    said = conceal("'a' is wrong, did you mean 'sasl.password'?", [value])
    assert said == f"'{HIDDEN}' is wrong, did you mean 'sasl.password'?"
    assert conceal("'a topic' cannot be a topic's name", [value], ["a topic"]) == "'a topic' cannot be a topic's name"


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


@pytest.mark.parametrize("given", [f"${{vault:{MARK}}}", f"${{secret_values.{MARK}/x}}", f"${{secret_values.{MARK} }}"])
def test_what_is_no_placeholder_is_a_value(given: str) -> None:
    said = shown(file(f"  properties.sasl.password: {given}"))
    assert "note: this " in said
    assert MARK not in said


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


def test_a_key_that_is_a_secret_is_not_shown() -> None:
    for line in (f"  properties.sasl.password:\n  {MARK}:", f"  properties.sasl.password.{MARK}: x",
                 f"  properties.sasl.password:\n  {MARK}: x",
                 f"  aliyun.kafka.accessKeySecret:\n  {MARK}:"):  # fmt: skip
        text = shown(file(line))
        assert MARK not in text, text
        assert "error" in text
    assert "topic-pattern" in shown(file("  properties.sasl.password:\n  topic-pattern: '['"))


def test_masks_leave_keys_of_outputs_alone() -> None:
    assert masked({"type": "a type", "x": [{"type": 1}]}, {"type"}) == {"type": f"a {HIDDEN}", "x": [{"type": 1}]}


@pytest.mark.parametrize(
    "piece", ["a", "pass", "${", "${pass", ":", "a:", "://", "key ", "token=", "x@", "upper(", "a b "]
)
def test_a_large_file_is_checked_in_time_by_its_length(piece: str) -> None:
    def look(size: int) -> None:
        text = piece * (size // len(piece))
        visible.Visible().value("source", "topic", text)
        list(masking.secrets_in("properties.sasl.jaas.config", text))

    assert growth(look, 1 << 14, 3) < 3  # what looks again from each character on is 8, or never done


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
