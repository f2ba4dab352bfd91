"""Options of every component that connects to Kafka: client properties, the files that they name, and secrets.

The driver reads Java's stores, and every file on one of Hadoop's file systems. What was in them goes to the workers
with the options, and to librdkafka as text. Only what librdkafka and Kerberos take as files alone becomes a private
file of each process. Rules: docs/spec/configuration.md#client-properties, #files-of-properties. Starts no client and
imports none.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import ClassVar, Final, Literal, Self

from pydantic import BaseModel, Field, PrivateAttr, field_validator, model_validator

from ingest.component.files import Files, unreadable
from ingest.component.options import OPTIONS, OptionErrors, holding
from ingest.errors import InternalError
from ingest.kafka.properties import KRB5, check, idle, store_of, translate, uses_msk
from ingest.paths import is_remote, private_file

_CLOUD: Final = "aliyun.kafka."
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


class KafkaConnection(BaseModel):
    """Options that Kafka sources and sinks share."""

    model_config = OPTIONS

    scope: ClassVar[Literal["C", "P"]]
    """The client whose properties have an effect: a consumer (C) or a producer (P)."""

    properties: dict[str, str] = Field(alias="properties.*")
    """Options of the Kafka client, `properties.bootstrap.servers` among them."""

    properties_from_secret: str | None = Field(None, alias="properties-from-secret")
    """The name of a secret that holds a whole set of client properties, as a JSON object or as `key=value` lines; they
    are added to those that the file gives."""

    dew_secret: str | None = Field(None, alias="dew.csms.secretName")
    """The name of a secret with several values, a JSON object, for `dew.csms.decrypt.fields`."""

    dew_fields: str | None = Field(None, alias="dew.csms.decrypt.fields")
    """Options, separated by `,` or `;`, whose values are keys in the secret and are replaced by what it has there."""

    dew_version: str | None = Field(None, alias="dew.csms.version")
    """The secret's version, for providers that keep several."""

    dew_endpoint: str | None = Field(None, alias="dew.endpoint")
    """Without effect: where a provider of secrets finds its service is its own configuration."""

    dew_project: str | None = Field(None, alias="dew.projectId")
    """Without effect, as `dew.endpoint`."""

    cloud_key: str | None = Field(None, alias="aliyun.kafka.accessKeyId")
    """Without effect outside that cloud, where topics can only be made with it. Needs the four below."""

    cloud_secret: str | None = Field(None, alias="aliyun.kafka.accessKeySecret")
    """See `aliyun.kafka.accessKeyId`."""

    cloud_instance: str | None = Field(None, alias="aliyun.kafka.instanceId")
    """See `aliyun.kafka.accessKeyId`."""

    cloud_endpoint: str | None = Field(None, alias="aliyun.kafka.endpoint")
    """See `aliyun.kafka.accessKeyId`."""

    cloud_region: str | None = Field(None, alias="aliyun.kafka.regionId")
    """See `aliyun.kafka.accessKeyId`."""

    @field_validator("properties")
    @classmethod
    def _check_properties(cls, value: dict[str, str]) -> dict[str, str]:
        # Only where a cluster may be left out is there a default
        return value if not value and not cls.model_fields["properties"].is_required() else dict(check(value))

    @model_validator(mode="after")
    def _check_connection(self) -> KafkaConnection:
        problems = []
        if (self.dew_secret is None) != (self.dew_fields is None):
            present = "dew.csms.secretName" if self.dew_fields is None else "dew.csms.decrypt.fields"
            other = "dew.csms.decrypt.fields" if self.dew_fields is None else "dew.csms.secretName"
            problems.append((present, f"{present} needs {other}"))
        given_keys = [key for key, value in self._cloud().items() if value is not None]
        if given_keys and len(given_keys) < len(self._cloud()):
            missing = ", ".join(key for key, value in self._cloud().items() if value is None)
            problems.append((given_keys[0], f"the {_CLOUD}* options belong together; missing: {missing}"))
        if problems:
            raise OptionErrors(*problems)
        return self

    _contents: Mapping[str, str | bytes] = PrivateAttr(default_factory=dict)
    """The contents of the files that the driver has read, by librdkafka's properties. No checkpoint and no event has
    them."""

    def with_files(self, files: Files) -> Self:
        """Return these options with what is in the files that their properties name; raises IngestError."""
        contents = read_files(self.properties, files) if self.properties else {}
        return holding(self, _contents=contents) if contents else self

    def packages(self) -> list[tuple[str, str]]:
        """Return the options that need packages which may be missing: for each its key, and the name of the extra."""
        name = "sasl.mechanism" if "sasl.mechanism" in self.properties else "sasl.mechanisms"
        return [(f"properties.{name}", "aws")] if uses_msk(self.properties) else []

    def connection(self) -> dict[str, str]:
        """Return librdkafka's configuration for the properties, with what is in the files that they name."""
        return configuration(self.properties, self._contents)

    def notes(self) -> list[tuple[str, str]]:
        """Return the properties whose files are not on this machine, where the driver would read them."""
        missing = missing_files(self.properties) if self.properties else []
        return [(f"properties.{name}", f"properties.{text}") for name, text in missing]

    def _cloud(self) -> dict[str, str | None]:
        return {
            "aliyun.kafka.accessKeyId": self.cloud_key,
            "aliyun.kafka.accessKeySecret": self.cloud_secret,
            "aliyun.kafka.instanceId": self.cloud_instance,
            "aliyun.kafka.endpoint": self.cloud_endpoint,
            "aliyun.kafka.regionId": self.cloud_region,
        }

    def warnings(self) -> list[tuple[str, str]]:
        """Return options that are understood and do nothing: the key to point at, and why."""
        whose = {"C": "a producer's", "P": "a consumer's"}[self.scope]
        out = [
            (f"properties.{name}", f"properties.{name} has no effect here: it is {whose} property")
            for name in idle(self.properties, self.scope)
        ]
        if self.dew_version is not None and self.dew_secret is None and self.properties_from_secret is None:
            out.append(("dew.csms.version", "dew.csms.version has no effect without the name of a secret"))
        if self.cloud_key is not None:
            out.append(("aliyun.kafka.accessKeyId", f"the {_CLOUD}* options have no effect outside that cloud"))
        if self.dew_endpoint is not None or self.dew_project is not None:
            key = "dew.endpoint" if self.dew_endpoint is not None else "dew.projectId"
            out.append((key, f"{key} has no effect: the provider of secrets has its own configuration"))
        return out


def missing_files(properties: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the properties whose files are not here, each with the reason. Only what the driver reads is looked at."""
    return [
        (name, f"{name}: {place}: {why}")
        for name, place in (*_read_by_driver(properties).items(), (KRB5, properties.get(KRB5, "${}")))
        if (why := unreadable(place))
    ]


def read_files(properties: Mapping[str, str], files: Files) -> dict[str, str | bytes]:
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
            raise InternalError(f"properties.{name} names a file that was not read before a client was made")
        conf.pop(name, None)
    for name, content in contents.items():
        conf[name] = content if isinstance(content, str) else private_file(_KEPT[name], content)
    krb5 = conf.pop(KRB5, None)
    if krb5 is not None:
        os.environ["KRB5_CONFIG"] = krb5
    return conf


def _read_by_driver(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the places of the files that the driver reads, by their properties."""
    return dict(_named(properties))


def _named(properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    conf = {**translate(properties), KRB5: properties.get(KRB5, "")}
    for name in (*_TEXTS, *_KEPT):
        if is_remote(conf.get(name, "")):
            yield name, conf[name]
    for store in (store_of(properties, "truststore"), store_of(properties, "keystore")):
        if store is not None and not store.is_pem:
            yield store.option, store.place
