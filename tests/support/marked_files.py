"""Pipeline files with a marked text where secrets may stand, and all that is said of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ingest.config.loader import load_text
from ingest.config.pipeline import PipelineOptions, Route, Transform
from ingest.formats import FORMATS
from ingest.sinks import SINKS
from ingest.sources import SOURCES

if TYPE_CHECKING:
    from collections.abc import Iterator

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
SECRETS = [f"properties.{name}" for name in NAMES] + OTHERS
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


def options() -> Iterator[tuple[str, str]]:
    """All options there are, by section."""
    components: list[tuple[str, type[BaseModel]]] = [("source", SOURCES[name]) for name in SOURCES]
    components += [("sink", SINKS[name]) for name in SINKS]
    components += [(section, FORMATS[name]) for name in FORMATS for section in ("source", "sink")]
    components += [("pipeline", PipelineOptions), ("route", Route), ("transform", Transform)]
    for section, model in components:
        for name, info in model.model_fields.items():
            yield section, info.alias or name
