"""`properties.*` of a pipeline file, as the client of this tool understands them.

The reference documents speak of the Java client's properties; this tool runs on librdkafka. Same names pass through,
names without meaning here are accepted silently, other Java names are refused with the librdkafka name to use.
Reference: decisions, "The pipeline file" and "Sources". Starts no client and imports none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

BOOTSTRAP: Final = "bootstrap.servers"

MEANINGLESS: Final = frozenset({
    "key.serializer", "value.serializer", "key.deserializer", "value.deserializer", "max.poll.records",
    "client.dns.lookup", "metric.reporters", "metrics.num.samples", "metrics.recording.level",
    "metrics.sample.window.ms", "interceptor.classes", "partition.discovery.interval.ms", "client.id.prefix",
    "register.consumer.metrics", "exclude.internal.topics", "auto.include.jmx.reporter", "enable.metrics.push",
    "max.block.ms", "request.timeout.ms", "default.api.timeout.ms",
})  # fmt: skip
"""Java properties that mean nothing here: pasted pipelines have them."""

RENAMED: Final = {
    "buffer.memory": "queue.buffering.max.kbytes (in KiB)",
    "max.request.size": "message.max.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "metadata.max.idle.ms": "topic.metadata.refresh.interval.ms",
    "ssl.truststore.location": "ssl.ca.location (a PEM file: keytool -exportcert -rfc -keystore STORE -alias ALIAS)",
    "ssl.truststore.password": "ssl.ca.location (a PEM file needs no password)",
    "ssl.truststore.type": "ssl.ca.location (a PEM file)",
    "ssl.keystore.type": "ssl.certificate.location and ssl.key.location (PEM files)",
    "sasl.login.callback.handler.class": "sasl.oauthbearer.method",
    "sasl.client.callback.handler.class": "sasl.oauthbearer.method",
    "partitioner.class": "nothing: this sink partitions by the key's hash, as the Java client does",
    "transactional.id": "sink.transactional-id-prefix",
}
"""Java properties that librdkafka calls otherwise, with what to write."""

MANAGED: Final = frozenset({
    "enable.auto.commit", "enable.auto.offset.store", "partitioner", "delivery.report.only.error",
    "enable.partition.eof", "on_delivery", "error_cb", "stats_cb", "log_cb", "logger", "rebalance_cb",
    "plugin.library.paths", "opaque", "default_topic_conf", "oauth_cb", "socket_cb", "open_cb", "throttle_cb",
})  # fmt: skip
"""Properties that this tool sets itself, or that would load code."""

SECRET: Final = re.compile(r"password|secret|jaas|\.pem$|token|private", re.IGNORECASE)
"""Names whose values are never shown."""

_JAAS_NAME: Final = "sasl.jaas.config"
_JAAS = re.compile(r"^\s*\S*\.(Plain|Scram)LoginModule\s+required\s+(.*?);?\s*$", re.DOTALL)
_JAAS_OPTION = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)')""")


class PropertyError(ValueError):
    """Properties that cannot be used: for each its name, why, and what to do."""

    def __init__(self, *problems: tuple[str, str]) -> None:
        """Keep the names, so that their positions in the file can be found."""
        super().__init__("; ".join(text for _, text in problems))
        self.problems = problems


def check(properties: Mapping[str, str]) -> Mapping[str, str]:
    """The properties, when all of them can be used; raises PropertyError with all that cannot."""
    translate(properties)
    return properties


def translate(properties: Mapping[str, str]) -> dict[str, str]:
    """Librdkafka's configuration for these properties; raises PropertyError."""
    out: dict[str, str] = {}
    problems = [] if BOOTSTRAP in properties else [(BOOTSTRAP, f"option 'properties.{BOOTSTRAP}' is missing")]
    for name, value in properties.items():
        if name in MEANINGLESS:
            continue
        if name in MANAGED:
            problems.append((name, f"{name!r} is set by the tool itself and cannot be changed"))
        elif name in RENAMED:
            problems.append((name, f"{name!r} is known to the Java client only; use {RENAMED[name]}"))
        elif name == _JAAS_NAME:
            out.update(_jaas(value, problems))
        elif name == "ssl.endpoint.identification.algorithm":
            out[name] = value or "none"
        else:
            out[name] = value
    if problems:
        raise PropertyError(*problems)
    return out


def _jaas(value: str, problems: list[tuple[str, str]]) -> dict[str, str]:
    found = _JAAS.match(value)
    options = {n: quoted or single for n, quoted, single in _JAAS_OPTION.findall(found.group(2))} if found else {}
    if found is None:
        problems.append(
            (_JAAS_NAME, "only PlainLoginModule and ScramLoginModule can be translated; use sasl.* properties")
        )
    elif "username" not in options or "password" not in options:
        problems.append((_JAAS_NAME, "username and password are missing; use sasl.username and sasl.password"))
    else:
        return {f"sasl.{n}": re.sub(r"\\(.)", r"\1", options[n]) for n in ("username", "password")}
    return {}
