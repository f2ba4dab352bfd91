"""Files that client properties name: those that the driver reads, and a client's configuration with their contents.

The driver reads Java's stores, and every file on one of Hadoop's file systems. What was in them goes to the workers
with the options, and to librdkafka as text. Only what librdkafka and Kerberos take as files alone becomes a private
file of each process. Rules: docs/spec/configuration.md#files-of-properties. Starts no client and imports none.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from ingest.component.files import unreadable
from ingest.errors import InternalError
from ingest.kafka.properties import KRB5, translate
from ingest.kafka.stores import store_of
from ingest.paths import is_remote, private_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ingest.component.files import Files

_TEXTS: Final = {
    "ssl.ca.location": "ssl.ca.pem",
    "ssl.certificate.location": "ssl.certificate.pem",
    "ssl.key.location": "ssl.key.pem",
    "https.ca.location": "https.ca.pem",
    "sasl.oauthbearer.assertion.private.key.file": "sasl.oauthbearer.assertion.private.key.pem",
}
"""Properties of librdkafka that name a file, and those that take its text instead."""
_KEPT: Final = {"sasl.kerberos.keytab": "keytab", "ssl.crl.location": "crl.pem", KRB5: "krb5.conf"}
"""Properties whose file has to be a file, and what it is called."""
_STORES: Final = {
    "ssl.truststore.location": ("ssl.ca.pem",),
    "ssl.keystore.location": ("ssl.certificate.pem", "ssl.key.pem"),
}
"""Properties of Java's stores, and those that take what is in them."""


def notes(properties: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the properties whose files are not here, each with the reason. Only what the driver reads is looked at."""
    return [
        (name, f"{name}: {place}: {why}")
        for name, place in (*_read_by_driver(properties).items(), (KRB5, properties.get(KRB5, "${}")))
        if (why := unreadable(place))
    ]


def read(properties: Mapping[str, str], files: Files) -> dict[str, str | bytes]:
    """Return the contents of the files that the driver reads, by librdkafka's properties; raises IngestError."""
    out: dict[str, str | bytes] = {}
    conf = translate(properties)
    for name, place in _read_by_driver(properties).items():
        option = f"properties.{name}"
        if name in _TEXTS:
            out[_TEXTS[name]] = files.read(option, place).decode("utf-8", "replace")
        elif name in _KEPT:
            out[name] = files.read(option, place)
        elif name == "ssl.truststore.location":
            trust = store_of(properties, "truststore")
            assert trust is not None
            out["ssl.ca.pem"] = files.trusted(option, place, trust.type, trust.password)
        else:
            own = store_of(properties, "keystore")
            assert own is not None
            chain, key = files.identity(option, place, own.type, own.password, conf.get("ssl.key.password"))
            out["ssl.certificate.pem"], out["ssl.key.pem"] = chain, key
    return out


def configuration(properties: Mapping[str, str], contents: Mapping[str, str | bytes]) -> dict[str, str]:
    """Return librdkafka's configuration, with what was in the files that the driver has read.

    Makes the files that Kerberos needs in this process, and names krb5.conf in its environment: before a client is
    made, and for kinit, which librdkafka starts.
    """
    conf = translate(properties)
    if KRB5 in properties:
        conf[KRB5] = properties[KRB5]
    for name in _read_by_driver(properties):
        wanted = _STORES.get(name) or (_TEXTS.get(name, name),)
        if not contents.keys() >= set(wanted):
            msg = f"properties.{name} names a file that was not read before a client was made"
            raise InternalError(msg)
        conf.pop(name, None)
    for name, content in contents.items():
        conf[name] = content if isinstance(content, str) else private_file(_KEPT[name], content)
    krb5 = conf.pop(KRB5, None)
    if krb5 is not None:
        os.environ["KRB5_CONFIG"] = krb5
    return conf


def _read_by_driver(properties: Mapping[str, str]) -> dict[str, str]:
    return dict(_named(properties))


def _named(properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the properties with files that the driver reads, and their places."""
    conf = {**translate(properties), KRB5: properties.get(KRB5, "")}
    for name in (*_TEXTS, *_KEPT):
        if is_remote(conf.get(name, "")):
            yield name, conf[name]
    for store in (store_of(properties, "truststore"), store_of(properties, "keystore")):
        if store is not None and not store.is_pem:
            yield store.option, store.place
