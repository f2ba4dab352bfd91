"""The pipelines of docs/from-sql.md that ask for Kerberos, by the command, with a real KDC and broker."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from from_sql import BLOCKS, KERBEROS
from harness import Kafka, Pipeline, free_port
from key_stores import PASSWORD, trust_store

from ingest.sandbox import broker as sandbox
from ingest.sandbox.secure import Secure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdc import Kdc

LINES = {
    "secured": ["secured> CREATE TABLE (id BIGINT)", "secured> +I[1]"],
    "KafkaTopic": [
        "KafkaTopic> CREATE TABLE (order_id STRING NOT NULL, n BIGINT, PRIMARY KEY (order_id))",
        "KafkaTopic> +I[a, 1]",
    ],
}
"""What is printed, by topic."""


@pytest.fixture(scope="module")
def secure(kdc: Kdc) -> Iterator[Secure]:
    folder = kdc.folder / "secured"
    extra = kdc.listener("sasl_ssl") + kdc.listener("sasl_plaintext")
    running = sandbox.up(folder, free_port(), heap="384m", secure=True, extra=extra)
    assert running.secure is not None
    trust_store(folder / "trust.jks", "JKS", (folder / "secure" / "ca.pem").read_bytes())
    yield Secure(running.secure, str(folder / "secure"))
    sandbox.down(folder, wipe=True)


@pytest.mark.parametrize("title", KERBEROS)
def test_pipeline_of_the_page(title: str, kdc: Kdc, secure: Secure, tmp_path: Path) -> None:
    folder = Path(secure.folder).parent
    running = sandbox.status(folder)
    assert running is not None
    kafka = Kafka(running.bootstrap)
    kafka.clear()
    topic, user = (re.findall(rf"{option}: (.*)", BLOCKS[title])[0] for option in ("  topic", "kerberos.principal"))
    kafka.create(topic)
    # Messages are sent before it runs
    block = BLOCKS[title].replace("latest-offset", "earliest-offset")
    if topic == "secured":
        kafka.send(topic, (None, b'{"id":1}'))
    else:
        kafka.send(topic, (b"a", b'{"order_id":"a","n":1}'))
    variables = {
        **{name.lower(): address for name, address in secure.listeners.items()}, "krb5": str(kdc.krb5),
        "keytab": str(kdc.keytab(user)), "truststore": str(folder / "trust.jks"),
    }  # fmt: skip
    pipeline = Pipeline(tmp_path, kafka, topic)
    pipeline.file.write_text(block)
    used = [f"--set={name}={value}" for name, value in variables.items() if f"${{{name}:-" in block]
    nothing = {"KRB5_CONFIG": "/no-such-folder/krb5.conf", "KRB5CCNAME": f"FILE:{tmp_path}/cache"}
    done = pipeline.run(*used, env={**nothing, "INGEST_SECRET_DMS": json.dumps({"store": PASSWORD})})
    assert done.code == 0, done.err
    assert [line for line in done.out.splitlines() if line.startswith(f"{topic}> ")] == LINES[topic]
