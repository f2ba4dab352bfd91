"""Before a client is made: whether the one installed here can do what a configuration wants. And its end."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, KafkaException

from ingest.errors import AccessError, ConfigError
from ingest.kafka.msk import Login
from ingest.kafka.properties import OAUTH_ALLOWED, refuse_endpoint
from ingest.kafka.waiting import in_time

if TYPE_CHECKING:
    from collections.abc import Mapping

_FILES: Final = (
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.crl.location",
    "sasl.kerberos.keytab",
    "https.ca.location",
    "sasl.oauthbearer.assertion.private.key.file",
)
_FEATURES: Final = {"GSSAPI": "sasl_gssapi", "OAUTHBEARER": "sasl_oauthbearer"}
CLOSE_S: Final = 10.0


def close(consumer: Consumer) -> None:
    """Close a consumer. One that does not come back is left as it is, and ends with the process.

    With its broker gone, `close` may wait without end for an answer to what was asked before
    (docs/adr/2026-11-22-the-client-may-hang-when-closed.md). Nothing is lost by leaving it: what was committed is
    known, and sessions of groups are not used.
    """
    with suppress(KafkaException, RuntimeError):
        in_time(CLOSE_S, consumer.close)


def has_feature(name: str) -> bool:
    """Return whether librdkafka was built with a feature, e.g. `sasl_gssapi`."""
    try:
        # Setting this property asks whether these features are there
        Consumer({"group.id": "features", "builtin.features": name, "log_level": 0}).close()
    except KafkaException:
        return False
    return True


def usable(conf: Mapping[str, str]) -> None:
    """Raise ConfigError or AccessError for what cannot work, with what to do about it."""
    for name in _FILES:
        place = conf.get(name)
        if place and place != "probe" and not os.access(place, os.R_OK):
            why = "it cannot be read by this user" if Path(place).exists() else "there is no such file"
            msg = f"cannot use properties.{name}: {place}: {why}"
            raise ConfigError(msg, "files that a pipeline names must be there on every machine that runs it")
    refused = refuse_endpoint(conf, os.environ.get(OAUTH_ALLOWED, ""))
    if refused is not None:
        hint = f"if credentials may be sent there, add it to the environment variable {OAUTH_ALLOWED} of the run"
        raise AccessError(refused, hint)
    if not conf.get("security.protocol", "").upper().startswith("SASL"):
        return
    login = Login.of(conf)
    if login is not None:
        login.token()
    mechanism = (conf.get("sasl.mechanism") or conf.get("sasl.mechanisms") or "GSSAPI").upper()
    feature = _FEATURES.get(mechanism)
    if feature is not None and not has_feature(feature):
        msg = f"the installed Kafka client cannot do sasl.mechanism {mechanism}: librdkafka was built without it"
        hint = "use the project's image, or build a client with Kerberos: docker/kerberos-client.sh (docs/kafka.md)"
        raise ConfigError(msg, hint)
