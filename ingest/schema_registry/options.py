"""Options of formats whose schemas are in a registry, named as Flink names them, behind the format's own name.

In: the options of a pipeline file. Out: the client's configuration. Imports no client.
Rules: docs/spec/avro.md#the-registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, PrivateAttr, ValidationInfo, model_validator

from ingest.component.files import Files, unreadable
from ingest.component.options import OptionErrors, Options, holding, is_written
from ingest.paths import is_remote

if TYPE_CHECKING:
    from ingest.schema_registry.client import RegistryClient

KEYS: Final = {
    "url": "url",
    "subject": "subject",
    "schema_text": "schema",
    "basic_source": "basic-auth.credentials-source",
    "basic_user": "basic-auth.user-info",
    "bearer_source": "bearer-auth.credentials-source",
    "bearer_token": "bearer-auth.token",
    "ssl_truststore": "ssl.truststore.location",
    "ssl_truststore_password": "ssl.truststore.password",
    "ssl_keystore": "ssl.keystore.location",
    "ssl_keystore_password": "ssl.keystore.password",
    "properties": "properties.*",
    "ignore_parse_errors": "ignore-parse-errors",
}
"""The options' keys by their attributes, without the format's name."""
_OLDER: Final = {
    f"schema-registry.{name}": name
    for name in (
        "url",
        "subject",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.truststore.location",
        "ssl.truststore.password",
    )
}
"""Keys of older versions of Flink, and what they are called now."""
PROPERTIES: Final = frozenset({
    "ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.key.password", "basic.auth.user.info",
    "bearer.auth.token", "bearer.auth.logical.cluster", "bearer.auth.identity.pool.id", "proxy", "timeout",
    "max.retries", "retries.wait.ms", "retries.max.wait.ms",
})  # fmt: skip
"""Properties of the client that a pipeline file may set."""
REGISTERS: Final = "auto.register.schemas"
NORMALIZES: Final = "normalize.schemas"
STRATEGY: Final = "subject.name.strategy"
_SWITCHES: Final = frozenset({REGISTERS, NORMALIZES})
_STRATEGIES: Final = {f"{part}.{STRATEGY}": part for part in ("key", "value")}
_OWN: Final = frozenset({*_SWITCHES, *_STRATEGIES})
"""Properties of Java's serializers that are ours, and not the client's."""
STRATEGIES: Final = ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy")
"""Rules for the names of subjects, as Confluent's classes are called."""
_NUMBERS: Final = frozenset({"timeout", "max.retries", "retries.wait.ms", "retries.max.wait.ms"})
_JAVA: Final = "schema.registry."
"""Beginning of the names of Java's properties."""
_PEM: Final = (".pem", ".crt", ".cer", ".cert")
_DEFAULTS: Final = {"timeout": 10.0, "max.retries": 2, "retries.wait.ms": 200, "retries.max.wait.ms": 2000}
"""Patience with a registry that does not answer. Spark tries a task again, and a service its run."""

_NO_ID: Final = 0
"""An id that no schema has."""


def _strategy(value: str) -> str:
    return value.strip().rpartition(".")[2]


def keys_behind(name: str) -> ConfigDict:
    """Return the configuration of a model whose options begin with a format's name."""
    return ConfigDict(alias_generator=lambda attribute: f"{name}.{KEYS.get(attribute, attribute.replace('_', '-'))}")


class RegistryOptions(Options):
    """Options that formats with a registry share."""

    name: ClassVar[str]

    url: str
    """The registry's address, or several separated by commas: `http://host:8081`."""

    subject: str | None = Field(None, min_length=1)
    """The subject under which a sink registers its schemas. Default: the topic with `-value` or `-key`. Without effect
    for a source, whose messages have the ids of their schemas."""

    schema_text: str | None = Field(None, min_length=1)
    """An Avro schema, as JSON text. A sink registers it instead of the one that it derives from the table; a source
    reads every message as one of it, by Avro's rules for schemas that differ."""

    basic_source: Literal["USER_INFO", "URL"] | None = None
    """The place of the user and the password: in the option below, or in the address."""

    basic_user: str | None = None
    """`user:password`."""

    bearer_source: Literal["STATIC_TOKEN"] | None = None
    """`STATIC_TOKEN`: the token is in the option below."""

    bearer_token: str | None = None
    """The token."""

    ssl_truststore: str | None = None
    """A store with the certificates of the authorities that are trusted: JKS, PKCS#12, or a PEM file."""

    ssl_truststore_password: str | None = None
    """The password of the store. Without effect for a PEM file, which has none."""

    ssl_keystore: str | None = None
    """A store with the client's own certificate and key: JKS, PKCS#12, or a PEM file."""

    ssl_keystore_password: str | None = None
    """The password of the store, or of a PEM file's key."""

    properties: dict[str, str] = Field(default_factory=dict)
    """Properties of the registry's client, with Java's names or without `schema.registry.`. For sinks also
    `auto.register.schemas`, `normalize.schemas`, `key.subject.name.strategy` and `value.subject.name.strategy`."""

    ignore_parse_errors: bool = False
    """Skip and count messages that cannot be parsed, without counting them as errors."""

    _contents: Mapping[str, str] = PrivateAttr(default_factory=dict)
    """The contents of the stores that the driver has read, by properties of the registry's client."""

    _written: bool = PrivateAttr(default=False)
    """True if a sink writes the format."""

    @model_validator(mode="before")
    @classmethod
    def _collect(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        begin = f"{cls.name}.properties."
        out: dict[str, Any] = {}
        properties: dict[str, Any] = {}
        for key, value in data.items():
            short = _OLDER.get(key.removeprefix(f"{cls.name}."))
            if key.startswith(begin) and not key.endswith(".*"):
                properties[key.removeprefix(begin)] = value if isinstance(value, str) else str(value)
            elif short is None or f"{cls.name}.{short}" in data:
                out[key] = value
            else:
                out[f"{cls.name}.{short}"] = value
        return {**out, f"{cls.name}.properties.*": properties} if properties else out

    @model_validator(mode="after")
    def _check_registry(self, info: ValidationInfo) -> Self:
        self._written = is_written(info)
        problems = []
        if "${" not in self.url and not all(_is_address(part.strip()) for part in self.url.split(",")):
            problems.append(("url", "is no address of a registry; write http://host:8081"))
        if self.basic_user is not None and ":" not in self.basic_user and "${" not in self.basic_user:
            problems.append(("basic_user", "is not user:password"))
        if self.basic_source == "USER_INFO" and self.basic_user is None:
            problems.append(("basic_source", f"needs {self._key('basic_user')}"))
        if (self.bearer_source is None) != (self.bearer_token is None):
            given, other = (
                ("bearer_token", "bearer_source") if self.bearer_source is None else ("bearer_source", "bearer_token")
            )
            problems.append((given, f"needs {self._key(other)}"))
        wrong = [(f"{self.name}.properties.{name}", why) for name, why in self._unusable()]
        wrong += [(self._key(name), why) for name, why in problems]
        if wrong:
            raise OptionErrors(*((key, f"{key}: {why}") for key, why in wrong))
        return self

    def _key(self, attribute: str) -> str:
        return f"{self.name}.{KEYS[attribute]}"

    def _unusable(self) -> list[tuple[str, str]]:
        """Return the properties that cannot be used, each with the reason."""
        out = []
        for given, value in self.properties.items():
            name = given.removeprefix(_JAVA)
            if name in _SWITCHES:
                if value.lower() not in {"true", "false"} and "${" not in value:
                    out.append((given, "is neither true nor false"))
            elif name in _STRATEGIES:
                if _strategy(value) not in STRATEGIES and "${" not in value:
                    out.append((given, f"is none of {', '.join(STRATEGIES)}"))
            elif name not in PROPERTIES:
                known = ", ".join(sorted({*PROPERTIES, *_OWN}))
                out.append((given, f"the registry's client has no such property (it has {known})"))
            elif name in _NUMBERS and not value.replace(".", "", 1).isdigit() and "${" not in value:
                out.append((given, "is not a number"))
        return out

    def warnings(self) -> list[tuple[str, str]]:
        """Return the options that are accepted but have no effect: for each its key, and why it has none."""
        out = []
        if self._written and "ignore_parse_errors" in self.model_fields_set:
            key = self._key("ignore_parse_errors")
            out.append((key, f"{key} has no effect for a sink"))
        if self.subject is not None and not self._written:
            key = self._key("subject")
            out.append((key, f"{key} has no effect for a source: its messages have the ids of their schemas"))
        if self.ssl_truststore_password is not None and _is_pem(self.ssl_truststore):
            key = self._key("ssl_truststore_password")
            out.append((key, f"{key} has no effect: a PEM file with certificates has no password"))
        if self.basic_user is not None and self.basic_source != "USER_INFO":
            key = self._key("basic_user")
            out.append((key, f"{key} has no effect without {self._key('basic_source')}: USER_INFO"))
        return out

    def notes(self) -> list[tuple[str, str]]:
        """Return the stores that are not on this machine: for each its key, and why a run would stop."""
        out = []
        for name in ("ssl_truststore", "ssl_keystore"):
            place = getattr(self, name)
            if place is not None and _is_read(place) and (why := unreadable(place)):
                out.append((self._key(name), f"{self._key(name)}: {place}: {why}"))
        return out

    def with_files(self, files: Files) -> Self:
        """Return these options with what is in the stores that they name; raises IngestError."""
        contents: dict[str, str] = {}
        trust, own, password = self.ssl_truststore, self.ssl_keystore, self.ssl_keystore_password
        if trust is not None and _is_read(trust):
            key = self._key("ssl_truststore")
            contents["ssl.ca.pem"] = files.trusted(key, trust, "", self.ssl_truststore_password)
        if own is not None and _is_read(own):
            of_key = self.client().get("ssl.key.password")
            chain, private = files.identity(self._key("ssl_keystore"), own, "", password, of_key)
            contents["ssl.certificate.pem"], contents["ssl.key.pem"] = chain, private
        return holding(self, _contents=contents) if contents else self

    def registry(self) -> RegistryClient:
        """Return this process's client of the registry. Raise ConfigError."""
        from ingest.schema_registry.client import client_of

        return client_of(self.client())

    def reach(self) -> None:
        """See that the registry answers, and lets this pipeline in. Raise Unavailable, AccessError or ConfigError."""
        self.registry().schema(_NO_ID)

    def switch(self, name: str, *, default: bool) -> bool:
        """Return one of the properties that are true or false."""
        given = {key.removeprefix(_JAVA): value for key, value in self.properties.items()}
        return given[name].lower() == "true" if name in given else default

    def strategy(self, part: str) -> str:
        """Return the rule for the subjects' names of keys or values, one of STRATEGIES. `part`: `key` or `value`."""
        given = {key.removeprefix(_JAVA): value for key, value in self.properties.items()}
        return _strategy(given.get(f"{part}.{STRATEGY}", STRATEGIES[0]))

    def for_keys(self) -> Self:
        """Return a copy for keys that have no options of their own: a subject and a schema are the values'."""
        return self.model_copy(update={"subject": None, "schema_text": None})

    def client(self) -> dict[str, Any]:
        """Return the configuration of the registry's client, with what was in the stores that have been read."""
        conf: dict[str, Any] = {"url": self.url, **_DEFAULTS}
        for given, value in self.properties.items():
            name = given.removeprefix(_JAVA)
            if name in _OWN:
                continue
            conf[name] = float(value) if name in _NUMBERS else value
        own = {
            "ssl.ca.location": self.ssl_truststore,
            "ssl.certificate.location": self.ssl_keystore,
            "ssl.key.location": self.ssl_keystore,
            "ssl.key.password": self.ssl_keystore_password,
            "basic.auth.user.info": self.basic_user if self.basic_source == "USER_INFO" else None,
            "bearer.auth.token": self.bearer_token,
        }
        conf.update({name: value for name, value in own.items() if value is not None})
        if "bearer.auth.token" in conf:
            conf["bearer.auth.credentials.source"] = "STATIC_TOKEN"
            conf.setdefault("bearer.auth.logical.cluster", "")
            conf.setdefault("bearer.auth.identity.pool.id", "")
        for name, text in self._contents.items():
            del conf[name.replace(".pem", ".location")]
            conf[name] = text
        return conf


def _is_read(place: str) -> bool:
    """Return whether the driver reads a store: all but PEM files on this machine, which the client reads by itself."""
    return is_remote(place) or not _is_pem(place)


def _is_pem(place: str | None) -> bool:
    return place is not None and place.lower().endswith(_PEM)


def _is_address(text: str) -> bool:
    try:
        url = urlsplit(text)
        return url.scheme in {"http", "https"} and bool(url.netloc) and url.port != 0
    except ValueError:  # a bracket without its other one, or a port that is none
        return False
