"""The list of all properties of librdkafka: the kind of client that has each, and its possible values.

`ingest check` uses this list, so that it needs no client. `tests/unit/kafka/test_properties.py` compares it with the
list of the installed client, and rewrites it with UPDATE_GOLDEN=1 (`make golden`).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

LISTING: Final = """\
acks P -1..1000
allow.auto.create.topics * true|false
api.version.fallback.ms * 0..604800000
api.version.request * true|false
api.version.request.timeout.ms * 1..300000
auto.commit.enable C true|false
auto.commit.interval.ms C 0..86400000
auto.offset.reset C smallest|earliest|beginning|largest|latest|end|error
background_event_cb * callback
batch.num.messages P 1..1000000
batch.size P 1..2147483647
bootstrap.servers * text
broker.address.family * any|v4|v6
broker.address.ttl * 0..86400000
broker.version.fallback * text
builtin.features * text
check.crcs C true|false
client.dns.lookup * use_all_dns_ips|resolve_canonical_bootstrap_servers_only
client.id * text
client.rack * text
closesocket_cb * callback
compression.codec P none|gzip|snappy|lz4|zstd
compression.level P -1..12
compression.type P none|gzip|snappy|lz4|zstd
connect_cb * callback
connections.max.idle.ms * 0..2147483647
consume.callback.max.messages C 0..1000000
consume_cb C callback
coordinator.query.interval.ms C 1..3600000
debug * text
default_topic_conf * callback
delivery.report.only.error P true|false
delivery.timeout.ms P 0..2147483647
dr_cb P callback
dr_msg_cb P callback
enable.auto.commit C true|false
enable.auto.offset.store C true|false
enable.gapless.guarantee P true|false
enable.idempotence P true|false
enable.metrics.push * true|false
enable.partition.eof C true|false
enable.random.seed * true|false
enable.sasl.oauthbearer.unsecure.jwt * true|false
enable.ssl.certificate.verification * true|false
enabled_events * 0..2147483647
error_cb * callback
fetch.error.backoff.ms C 0..300000
fetch.max.bytes C 0..2147483135
fetch.message.max.bytes C 1..1000000000
fetch.min.bytes C 0..2147483647
fetch.queue.backoff.ms C 0..300000
fetch.wait.max.ms C 0..300000
group.id C text
group.instance.id C text
group.protocol C classic|consumer
group.protocol.type C text
group.remote.assignor C text
heartbeat.interval.ms C 1..3600000
https.ca.location * text
https.ca.pem * text
interceptors * callback
internal.termination.signal * 0..128
isolation.level C read_uncommitted|read_committed
linger.ms P 0.0..900000.0
log.connection.close * true|false
log.queue * true|false
log.thread.name * true|false
log_cb * callback
log_level * 0..7
max.in.flight * 1..1000000
max.in.flight.requests.per.connection * 1..1000000
max.partition.fetch.bytes C 1..1000000000
max.poll.interval.ms C 1..86400000
max.poll.records C 1..2147483647
message.copy.max.bytes * 0..1000000000
message.max.bytes * 1000..1000000000
message.send.max.retries P 0..2147483647
message.timeout.ms P 0..2147483647
metadata.broker.list * text
metadata.max.age.ms * 1..86400000
metadata.recovery.rebootstrap.trigger.ms * 0..2147483647
metadata.recovery.strategy * none|rebootstrap
msg_order_cmp P callback
oauthbearer_token_refresh_cb * callback
offset.store.method C none|file|broker
offset.store.path C text
offset.store.sync.interval.ms C -1..86400000
offset_commit_cb C callback
opaque * callback
open_cb * callback
partition.assignment.strategy C text
partitioner P text
partitioner_cb P callback
plugin.library.paths * text
produce.offset.report P true|false
queue.buffering.backpressure.threshold P 1..1000000
queue.buffering.max.kbytes P 1..2147483647
queue.buffering.max.messages P 0..2147483647
queue.buffering.max.ms P 0.0..900000.0
queued.max.messages.kbytes C 1..2097151
queued.min.messages C 1..10000000
queuing.strategy P fifo|lifo
rebalance_cb C callback
receive.message.max.bytes * 1000..2147483647
reconnect.backoff.jitter.ms * 0..3600000
reconnect.backoff.max.ms * 0..3600000
reconnect.backoff.ms * 0..3600000
request.required.acks P -1..1000
request.timeout.ms P 1..900000
resolve_cb * callback
retries P 0..2147483647
retry.backoff.max.ms * 1..300000
retry.backoff.ms * 1..300000
sasl.kerberos.keytab * text
sasl.kerberos.kinit.cmd * text
sasl.kerberos.min.time.before.relogin * 0..86400000
sasl.kerberos.principal * text
sasl.kerberos.service.name * text
sasl.mechanism * text
sasl.mechanisms * text
sasl.oauthbearer.assertion.algorithm * RS256|ES256
sasl.oauthbearer.assertion.claim.aud * text
sasl.oauthbearer.assertion.claim.exp.seconds * 1..2147483647
sasl.oauthbearer.assertion.claim.iss * text
sasl.oauthbearer.assertion.claim.jti.include * true|false
sasl.oauthbearer.assertion.claim.nbf.seconds * 0..2147483647
sasl.oauthbearer.assertion.claim.sub * text
sasl.oauthbearer.assertion.file * text
sasl.oauthbearer.assertion.jwt.template.file * text
sasl.oauthbearer.assertion.private.key.file * text
sasl.oauthbearer.assertion.private.key.passphrase * text
sasl.oauthbearer.assertion.private.key.pem * text
sasl.oauthbearer.client.credentials.client.id * text
sasl.oauthbearer.client.credentials.client.secret * text
sasl.oauthbearer.client.id * text
sasl.oauthbearer.client.secret * text
sasl.oauthbearer.config * text
sasl.oauthbearer.extensions * text
sasl.oauthbearer.grant.type * client_credentials|urn:ietf:params:oauth:grant-type:jwt-bearer
sasl.oauthbearer.metadata.authentication.type * none|azure_imds|aws_iam
sasl.oauthbearer.method * default|oidc
sasl.oauthbearer.scope * text
sasl.oauthbearer.sub.claim.name * text
sasl.oauthbearer.token.endpoint.url * text
sasl.password * text
sasl.username * text
security.protocol * plaintext|ssl|sasl_plaintext|sasl_ssl
session.timeout.ms C 1..3600000
share.acknowledgement.mode C text
socket.blocking.max.ms * 1..60000
socket.connection.setup.timeout.ms * 1000..2147483647
socket.keepalive.enable * true|false
socket.max.fails * 0..1000000
socket.nagle.disable * true|false
socket.receive.buffer.bytes * 0..100000000
socket.send.buffer.bytes * 0..100000000
socket.timeout.ms * 10..300000
socket_cb * callback
ssl.ca.certificate.stores * text
ssl.ca.location * text
ssl.ca.pem * text
ssl.certificate.location * text
ssl.certificate.pem * text
ssl.certificate.verify_cb * callback
ssl.cipher.suites * text
ssl.crl.location * text
ssl.curves.list * text
ssl.endpoint.identification.algorithm * none|https
ssl.engine.id * text
ssl.engine.location * text
ssl.key.location * text
ssl.key.password * text
ssl.key.pem * text
ssl.keystore.location * text
ssl.keystore.password * text
ssl.providers * text
ssl.sigalgs.list * text
ssl_ca * callback
ssl_certificate * callback
ssl_engine_callback_data * callback
ssl_key * callback
statistics.interval.ms * 0..86400000
stats_cb * callback
sticky.partitioning.linger.ms P 0..900000
throttle_cb * callback
topic.blacklist * text
topic.metadata.propagation.max.ms * 0..3600000
topic.metadata.refresh.fast.cnt * 0..1000
topic.metadata.refresh.fast.interval.ms * 1..60000
topic.metadata.refresh.interval.ms * -1..3600000
topic.metadata.refresh.sparse * true|false
transaction.timeout.ms P 1000..2147483647
transactional.id P text
"""
"""One property a line: name, scope and values.

The scope is `C` for consumers, `P` for producers, `*` for both. Values are `low..high`, words with `|` between them,
`text`, or `callback` for a property that only a program can set. Where the client has a property twice, for a client
and for a topic, this is the first one.
"""

_SHORT: Final = {"t", "f", "1", "0"}
"""Other words that librdkafka accepts for true and false."""
_PLAIN: Final = re.compile(r"\s*[+-]?\d+(\.\d*)?\s*", re.ASCII)


class Property(NamedTuple):
    """A property of librdkafka."""

    scope: str
    """The kind of client that has it: `C`, `P` or `*`, as in LISTING."""
    values: str
    """The possible values, as in LISTING."""

    def refuse(self, value: str) -> str:
        """Return why the client refuses a value.

        Return an empty text where it accepts the value, or where that is not known.
        """
        low, dots, high = self.values.partition("..")
        if dots:
            return _number(value, low, high)
        words = self.values.split("|")
        taken = {word.lower() for word in words} | (_SHORT if words == ["true", "false"] else set())
        if len(words) > 1 and value.lower() not in taken:
            return f"{value[:60]!r} is not possible (possible: {', '.join(words)})"
        return ""


def _number(value: str, low: str, high: str) -> str:
    kind: type[float]
    kind, what = (float, "number") if "." in low else (int, "whole number")
    try:
        number = kind(value) if _PLAIN.fullmatch(value) else None
    except ValueError:
        number = None
    if number is None:
        return f"{value[:60]!r} is not a {what}"
    return (
        ""
        if kind(low) <= number <= kind(high)
        else f"{value[:60]!r} is outside of {low.removesuffix('.0')} to {high.removesuffix('.0')}"
    )


CLIENT: Final = {
    name: Property(scope, values) for name, scope, values in (line.split(" ", 2) for line in LISTING.splitlines())
}
