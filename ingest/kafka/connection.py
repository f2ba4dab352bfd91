"""Options of every component that connects to Kafka: client properties, and secrets for them.

Rules: docs/spec/configuration.md#client-properties. Starts no client and imports none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Self

from pydantic import Field, PrivateAttr, field_validator, model_validator

from ingest.component.options import OptionErrors, Options
from ingest.kafka import files as files_of
from ingest.kafka.properties import check, idle, uses_msk

if TYPE_CHECKING:
    from ingest.component.files import Files

_CLOUD: Final = "aliyun.kafka."


class KafkaConnection(Options):
    """Options that Kafka sources and sinks share."""

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
            given = "dew.csms.secretName" if self.dew_fields is None else "dew.csms.decrypt.fields"
            other = "dew.csms.decrypt.fields" if self.dew_fields is None else "dew.csms.secretName"
            problems.append((given, f"{given} needs {other}"))
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
        made = super().with_files(files)
        contents = files_of.read(self.properties, files) if self.properties else {}
        return made.holding(_contents=contents) if contents else made

    def packages(self) -> list[tuple[str, str]]:
        """Return the options that need packages which may be missing: for each its key, and the name of the extra."""
        name = "sasl.mechanism" if "sasl.mechanism" in self.properties else "sasl.mechanisms"
        return super().packages() + ([(f"properties.{name}", "aws")] if uses_msk(self.properties) else [])

    def connection(self) -> dict[str, str]:
        """Return librdkafka's configuration for the properties, with what is in the files that they name."""
        return files_of.configuration(self.properties, self._contents)

    def notes(self) -> list[tuple[str, str]]:
        """Return the properties whose files are not on this machine, where the driver would read them."""
        missing = files_of.notes(self.properties) if self.properties else []
        return super().notes() + [(f"properties.{name}", f"properties.{text}") for name, text in missing]

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
        found = super().warnings()
        whose = {"C": "a producer's", "P": "a consumer's"}[self.scope]
        found += [
            (f"properties.{name}", f"properties.{name} has no effect here: it is {whose} property")
            for name in idle(self.properties, self.scope)
        ]
        if self.dew_version is not None and self.dew_secret is None and self.properties_from_secret is None:
            found.append(("dew.csms.version", "dew.csms.version has no effect without the name of a secret"))
        if self.cloud_key is not None:
            found.append(("aliyun.kafka.accessKeyId", f"the {_CLOUD}* options have no effect outside that cloud"))
        if self.dew_endpoint is not None or self.dew_project is not None:
            key = "dew.endpoint" if self.dew_endpoint is not None else "dew.projectId"
            found.append((key, f"{key} has no effect: the provider of secrets has its own configuration"))
        return found
