"""Which values may be secrets, and what masks them in messages and outputs of the command."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from marked_files import JAAS, LONG, MARK, NAMES, OTHERS, SECRETS, file, options, parts, shown
from scale import growth

from ingest.cli.app import main
from ingest.config import redaction
from ingest.config.loader import load, load_text
from ingest.config.redaction import HIDDEN, is_secret, mask, masked, may_be_secret, redact
from ingest.errors import InternalError, Unavailable

if TYPE_CHECKING:
    from pathlib import Path

REGISTERED = (
    "avro-confluent", "debezium-avro-confluent", "protobuf-confluent", "json-confluent", "debezium-json-confluent",
)  # fmt: skip
"""Formats with a schema registry."""


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


def test_options_are_described_as_a_file_writes_them() -> None:
    text = "source: {type: file, path: a, ingestion.ignore-errors: true}\nsink: {type: print}\n"
    loaded = load_text("f", text, "f")
    assert loaded.pipeline is not None, loaded.diagnostics
    described = loaded.pipeline.describe()
    assert described["source.ingestion.ignore-errors"] == "true"
    assert not {"None", "True", "False"} & {*described.values()}


def test_names_that_hold_secrets_and_names_that_do_not() -> None:
    for option in SECRETS:
        if option.removeprefix("properties.") in NAMES or option in OTHERS:
            assert may_be_secret(option), option
    quiet = {option for _, option in options() if is_secret(option) or may_be_secret(option)}
    assert quiet == {
        "aliyun.kafka.accessKeyId", "aliyun.kafka.accessKeySecret", "aliyun.kafka.endpoint",
        "aliyun.kafka.instanceId", "aliyun.kafka.regionId", "catalog.properties.*", "metrics.password", "password",
        "sink.custom-header", "ssl.key.password",
        "storage.properties.*", "variables",
        *(f"{name}.{option}" for name in REGISTERED for option in (
            "basic-auth.credentials-source", "basic-auth.user-info", "bearer-auth.credentials-source",
            "bearer-auth.token", "ssl.keystore.password", "ssl.truststore.password", "properties.*")),
    }  # fmt: skip


def test_properties_of_a_lake_are_described_without_their_values() -> None:
    sinks = (
        f"{{type: delta, warehouse: w, storage.properties.aws_x: {MARK}, storage.properties.secret_key: {MARK}2}}",
        f"{{type: iceberg, catalog.properties.warehouse: w, catalog.properties.s3.x: {MARK}}}",
    )
    for sink in sinks:
        text = f"pipeline: {{name: p}}\nsource: {{type: file, path: f, value.format: debezium-json}}\nsink: {sink}\n"
        loaded = load_text("f", text, "f", {})
        assert loaded.pipeline is not None, loaded.diagnostics
        assert MARK not in json.dumps(loaded.pipeline.describe())


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


@pytest.mark.parametrize("secret", LONG)
def test_masks_look_for_every_form_of_a_secret(secret: str) -> None:
    forms = [secret, repr(secret), repr(f"'{secret}\""), json.dumps(secret), json.dumps(secret, ensure_ascii=False)]
    for form in (*forms, *secret.splitlines()):
        said = mask(f"a {form} b", {secret})
        assert MARK not in said, said
        assert said.startswith("a ")


def test_a_message_keeps_names_and_nothing_of_a_value() -> None:
    value = f"{MARK}one twain " + MARK * 9
    for quoted in (
        repr(value[:60]),
        f"'{value[:60]}…'",
        repr(value)[:40],
        value[3:30],
        repr(value.encode()[:50]),
        "twain",
    ):
        said = redact(f"{quoted} is wrong, did you mean 'sasl.password'?", [value])
        assert not any(part in said for part in parts(value)), said
        assert "twain" not in said, said
    said = redact("'a' is wrong, did you mean 'sasl.password'?", [value])
    assert said == f"'{HIDDEN}' is wrong, did you mean 'sasl.password'?"
    assert redact("'a topic' cannot be a topic's name", [value], ["a topic"]) == "'a topic' cannot be a topic's name"


def test_masks_leave_keys_of_outputs_alone() -> None:
    assert masked({"type": "a type", "x": [{"type": 1}]}, {"type"}) == {"type": f"a {HIDDEN}", "x": [{"type": 1}]}


@pytest.mark.parametrize(
    "piece", ["a", "pass", "${", "${pass", ":", "a:", "://", "key ", "token=", "x@", "upper(", "a b "]
)
def test_a_large_file_is_checked_in_time_by_its_length(piece: str) -> None:
    def look(size: int) -> None:
        text = piece * (size // len(piece))
        redaction.hides_value("topic", text)
        list(redaction.secrets_in("properties.sasl.jaas.config", text))

    assert growth(look, 1 << 14, 3) < 3  # what looks again from each character on is 8, or never done


MISTAKEN = """source:
  type: kafka
  topic: t
  value.format: debezium-json
  properties.bootstrap.servers: h:9
  properties.sasl.mechanism: PLAIN
  properties.ssl.truststore.location: /a/b.jks
  properties.ssl.truststore.password: "%s"
  properties.ssl.truststore-location: x
  scan.startup.mode: %s
sink:
  type: upsert-kafka
  properties.bootstrap.servers: h:9
  sink.transactional-id-prefix: x
  sink.delivery-guarantee: "%s"
  properties.sasl.jaas.config: 'a.plain.PlainLoginModule required user="%s";'
"""
"""A file whose mistakes are words of ours in wrong places.

A word that is none of ours (`locaton`) is masked where it contains a secret (`cat`), as any other text of the writer.
"""
OURS = sorted(word for word in redaction.vocabulary() if len(word) >= 3)
STRANGE = "Zq7kXm2pW"
SAID = "username and password are missing; use sasl.username and sasl.password"


def checked(secret: str) -> str:
    """All that `check` says of a file with mistakes, in each form."""
    return shown(MISTAKEN % (secret, "early", "x", secret))


PARTS = st.builds(lambda word, a, b: word[a:b], st.sampled_from(OURS), st.integers(0, 3), st.integers(3, 9))


@given(st.sampled_from(OURS) | PARTS | st.sampled_from(["", "a", "true", " passwor", "and p"]))
def test_what_is_said_does_not_tell_that_a_secret_is_a_word_of_ours(secret: str) -> None:
    expected = checked(STRANGE)
    assert SAID in expected
    assert "did you mean 'ssl.truststore.location'?" in expected
    assert STRANGE not in expected
    assert checked(secret) == expected


@given(st.text("aeiouxz", min_size=3, max_size=9), st.text("0123456789-_.", min_size=1, max_size=2))
def test_a_secret_that_is_no_word_of_ours_is_never_shown(word: str, mark: str) -> None:
    secret = f"{word}{mark}{word}"
    text = MISTAKEN % (secret, secret, secret, secret)
    assert secret not in shown(text)
    assert secret not in mask(f"a {secret} b{secret}c properties.{secret}.password", {secret})


@pytest.mark.parametrize("secret", ["password", "store", "ssl", "truststore.loc"])
def test_names_of_client_properties_are_whole_in_all_other_outputs(secret: str) -> None:
    text = "check properties.ssl.truststore.location, sasl.username and sasl.password."
    assert mask(f"{text} {secret}", {secret}) == f"{text} {HIDDEN}"
